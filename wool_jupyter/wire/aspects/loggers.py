"""What loggers are set to and print, as one process tells another."""

import logging
import sys
from itertools import filterfalse, zip_longest
from typing import Any

from wool_jupyter.wire import pickling
from wool_jupyter.wire.aspects.aspect import Aspect


def _printing(logger: logging.Logger) -> "list[logging.StreamHandler[Any]]":
    """Handlers as `basicConfig` makes them. Those of files and services stay where they are."""
    return [h for h in logger.handlers if type(h) is logging.StreamHandler and h.stream in (sys.stdout, sys.stderr)]


# A formatter or filter as bytes, but for a plain formatter: style, format, dates.
_Format = tuple[str, Any, Any] | bytes | None
# stream, level, formatter, filters, what ends a line
_Handler = tuple[str, int, _Format, list[bytes], str]
# propagate, filters, handlers
_Printing = tuple[bool, list[bytes], list[_Handler]]
_SILENT: _Printing = (True, [], [])
_STYLES: dict[Any, str] = {cls: style for style, (cls, _) in logging._STYLES.items()}


def _read() -> dict[str, Any]:
    root = logging.getLogger()
    loggers = {"": root, **{n: each for n, each in root.manager.loggerDict.items() if isinstance(each, logging.Logger)}}
    return {
        "disabled": root.manager.disable,
        "captures warnings": _captures_warnings(),
        "names of levels": dict(logging._levelToName),
        "off": [name for name, each in loggers.items() if each.disabled],
        "levels": {name: each.level for name, each in loggers.items() if each.level},
        "printing": {
            name: state
            for name, each in loggers.items()
            if not _is_of_library(name) and (state := _read_printing(each)) != _SILENT
        },
    }


def _glance() -> object:
    """Another object once any level has been set: that empties the caches of all loggers (of Python 3.7 and later)."""
    cache: dict[Any, Any] = logging.root._cache  # type: ignore[attr-defined]
    return cache.setdefault(__name__, object())


def _is_of_library(name: str) -> bool:
    """It gives its logger a handler when it is loaded, on each side."""
    package = name.partition(".")[0]
    return package != "__main__" and package in sys.modules


def _captures_warnings() -> bool:
    return getattr(logging, "_warnings_showwarning", None) is not None


def _read_printing(logger: logging.Logger) -> _Printing:
    return logger.propagate, _read_filters(logger), list(map(_read_handler, _printing(logger)))


def _read_handler(handler: "logging.StreamHandler[Any]") -> _Handler:
    stream = "stdout" if handler.stream is sys.stdout else "stderr"
    return stream, handler.level, _read_format(handler.formatter), _read_filters(handler), handler.terminator


def _read_format(form: logging.Formatter | None) -> _Format:
    if form is None:
        return None
    style = _STYLES.get(type(form._style), "%")
    told = style, form._fmt, form.datefmt
    is_plain = type(form) is logging.Formatter and vars(form).keys() == _PLAIN and not form._style._defaults  # type: ignore[attr-defined]
    return told if is_plain else _pickled(form) or told


_PLAIN = vars(logging.Formatter()).keys()


def _read_filters(of: logging.Filterer) -> list[bytes]:
    return list(filter(None, map(_pickled, of.filters)))


def _pickled(obj: Any) -> bytes:
    """Nothing for what stays in its process, as it holds a file, say."""
    try:
        return pickling.dumps(obj)
    except Exception:  # noqa: BLE001 (whatever a user's object raises)
        return b""


def _write(before: dict[str, Any] | None, after: dict[str, Any]) -> None:
    logging.disable(after["disabled"])
    for level, level_name in after["names of levels"].items():
        logging.addLevelName(level, level_name)
    if after["captures warnings"] != _captures_warnings():
        logging.captureWarnings(after["captures warnings"])
    levels, printing = after["levels"], after["printing"]
    were = before or {"levels": {}, "printing": {}, "off": []}
    for name in {*were["off"], *after["off"]}:
        logging.getLogger(name).disabled = name in after["off"]
    for name in {**dict.fromkeys(filterfalse(_is_of_library, ["", *were["levels"]])), **levels}:
        logging.getLogger(name).setLevel(levels.get(name, logging.NOTSET))
    for name in {**were["printing"], **printing}:
        _write_printing(logging.getLogger(name), printing.get(name, _SILENT))


def _write_printing(logger: logging.Logger, wanted: _Printing) -> None:
    if _read_printing(logger) == wanted:
        return
    logger.propagate, filters, handlers = wanted
    _write_filters(logger, filters)
    olds = _printing(logger)
    for old, handler in zip_longest(olds, handlers):
        if handler is None:
            logger.removeHandler(old)
        elif old is None:
            logger.addHandler(_write_handler(logging.StreamHandler(), handler))
        elif _read_handler(old) != handler:
            _write_handler(old, handler)


def _write_handler(handler: "logging.StreamHandler[Any]", wanted: _Handler) -> logging.Handler:
    stream, level, form, filters, handler.terminator = wanted
    handler.setStream(getattr(sys, stream))
    handler.setLevel(level)
    if form != _read_format(handler.formatter):
        handler.setFormatter(_formatter(form))
    _write_filters(handler, filters)
    return handler


def _formatter(form: _Format) -> logging.Formatter | None:
    if isinstance(form, bytes):
        found: logging.Formatter = pickling.loads(form)
        return found
    return None if form is None else logging.Formatter(form[1], form[2], form[0])  # type: ignore[arg-type]


def _write_filters(of: logging.Filterer, wanted: list[bytes]) -> None:
    """Those that do not travel stay."""
    mine = [(each, _pickled(each)) for each in of.filters]
    if [pickled for _, pickled in mine if pickled] == wanted:
        return
    known = {pickled: each for each, pickled in mine if pickled}
    stays = [each for each, pickled in mine if not pickled]
    of.filters = [*stays, *(known[each] if each in known else pickling.loads(each) for each in wanted)]


ASPECTS = {"logging": Aspect(_read, _write, slow=True, late=True, glance=_glance)}
