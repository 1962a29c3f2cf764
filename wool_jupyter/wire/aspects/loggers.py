"""What loggers are set to and print, as one process tells another."""

import logging
import sys
from itertools import filterfalse
from typing import Any

from wool_jupyter.wire.aspects.aspect import Aspect


def _printing(logger: logging.Logger) -> "list[logging.StreamHandler[Any]]":
    """Handlers as `basicConfig` makes them. Those of files and services stay where they are."""
    return [h for h in logger.handlers if type(h) is logging.StreamHandler and h.stream in (sys.stdout, sys.stderr)]


# propagate, (stream, level, (format, dates)) of handlers
_Printing = tuple[bool, list[tuple[str, int, tuple[Any, Any] | None]]]
_SILENT: _Printing = (True, [])


def _read() -> dict[str, Any]:
    root = logging.getLogger()
    loggers = {"": root, **{n: each for n, each in root.manager.loggerDict.items() if isinstance(each, logging.Logger)}}
    return {
        "disabled": root.manager.disable,
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


def _read_printing(logger: logging.Logger) -> _Printing:
    return logger.propagate, [
        (
            "stdout" if handler.stream is sys.stdout else "stderr",
            handler.level,
            None if (form := handler.formatter) is None else (form._fmt, form.datefmt),
        )
        for handler in _printing(logger)
    ]


def _write(before: dict[str, Any] | None, after: dict[str, Any]) -> None:
    logging.disable(after["disabled"])
    levels, printing = after["levels"], after["printing"]
    were = before or {"levels": {}, "printing": {}}
    for name in {**dict.fromkeys(filterfalse(_is_of_library, ["", *were["levels"]])), **levels}:
        logging.getLogger(name).setLevel(levels.get(name, logging.NOTSET))
    for name in {**were["printing"], **printing}:
        _write_printing(logging.getLogger(name), printing.get(name, _SILENT))


def _write_printing(logger: logging.Logger, wanted: _Printing) -> None:
    if _read_printing(logger) == wanted:
        return
    logger.propagate, handlers = wanted
    for old in _printing(logger):
        logger.removeHandler(old)
    for stream, level, form in handlers:
        handler = logging.StreamHandler(getattr(sys, stream))
        handler.setLevel(level)
        handler.setFormatter(None if form is None else logging.Formatter(*form))
        logger.addHandler(handler)


ASPECTS = {"logging": Aspect(_read, _write, slow=True, glance=_glance)}
