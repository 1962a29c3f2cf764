"""Runs inside a kernel under test, as the module `suite_state`: the state of the process, to look at and to put back.

What is put back is read and written here on its own, not by the product's way of it.
"""

import contextlib
import copy
import decimal
import gc
import locale
import logging
import os
import random
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from IPython import get_ipython


class Aspect(NamedTuple):
    read: Callable[[], Any]
    write: Callable[[Any], object]
    module: str = "sys"  # must be loaded


def _refill(holder: Any, name: str) -> Callable[[list[Any]], None]:
    """The list that others may hold, in its old place."""
    original = getattr(holder, name)

    def write(items: list[Any]) -> None:
        original[:] = items
        setattr(holder, name, original)

    return write


def _write_filters(before: list[Any]) -> None:
    warnings.resetwarnings()  # also tells the interpreter that its caches are out of date
    warnings.filters[:] = before


def _write_environment(before: dict[str, str]) -> None:
    for name in os.environ.keys() - before.keys():
        del os.environ[name]
    os.environ.update(before)


def _read_umask() -> int:
    os.umask(found := os.umask(0))
    return found


def _read_logging() -> dict[str, Any]:
    root = logging.getLogger()
    named = {name: each for name, each in root.manager.loggerDict.items() if isinstance(each, logging.Logger)}
    return {
        "levels": {"": root.level, **{name: each.level for name, each in named.items() if each.level}},
        "handlers": [_handler(each) for each in root.handlers],
        "named": {
            name: ([_handler(handler) for handler in each.handlers], each.propagate)
            for name, each in named.items()
            if name not in _named and (each.handlers or not each.propagate) and not _is_of_library(name)
        },
        "disabled": root.manager.disable,
    }


def _handler(handler: logging.Handler) -> tuple[Any, ...]:
    stream = getattr(handler, "stream", None)
    where = next((name for name in ("stdout", "stderr") if stream is getattr(sys, name)), type(stream).__name__)
    form = handler.formatter
    return type(handler), where, handler.level, None if form is None else (form._fmt, form.datefmt)


def _is_of_library(logger: str) -> bool:
    return logger.partition(".")[0] in sys.modules


_named = set(logging.getLogger().manager.loggerDict)  # ipykernel's own, and of what was loaded at first
_handlers = list(logging.getLogger().handlers)


def _write_logging(before: dict[str, Any]) -> None:
    root = logging.getLogger()
    for each in [root, *root.manager.loggerDict.values()]:
        if isinstance(each, logging.Logger):
            each.setLevel(before["levels"].get("" if each is root else each.name, logging.NOTSET))
            if each is not root and each.name not in _named and not _is_of_library(each.name):
                each.handlers.clear()
                each.propagate = True
    root.handlers[:] = _handlers
    logging.disable(before["disabled"])


def _numpy() -> Any:
    return sys.modules["numpy"]


def _read_numpy_random() -> Any:
    return _numpy().random.get_state()


def _write_numpy_random(before: Any) -> None:
    _numpy().random.set_state(before)


def _write_print_options(before: dict[str, Any]) -> None:
    _numpy().set_printoptions(**{name: value for name, value in before.items() if name != "override_repr"})


def _pandas_config() -> Any:
    return sys.modules["pandas"]._config.config


def _read_pandas() -> dict[str, Any]:
    config, pandas = _pandas_config(), sys.modules["pandas"]
    return {
        key: pandas.get_option(key)
        for key in sorted(config._registered_options)
        if key not in config._deprecated_options
    }


def _write_pandas(before: dict[str, Any]) -> None:
    pandas: Any = sys.modules["pandas"]
    for key, value in before.items():
        if pandas.get_option(key) is not value:
            pandas.set_option(key, value)


def _read_matplotlib() -> dict[str, Any]:
    return {
        key: value for key, value in dict.items(sys.modules["matplotlib"].rcParams) if not key.startswith("backend")
    }


def _write_matplotlib(before: dict[str, Any]) -> None:
    dict.update(sys.modules["matplotlib"].rcParams, before)


def _read_context() -> dict[str, Any]:
    context = decimal.getcontext()
    names = ("prec", "rounding", "Emin", "Emax", "capitals", "clamp")
    traps = {str(signal_.__name__): on for signal_, on in context.traps.items()}
    return {name: getattr(context, name) for name in names} | {"traps": traps}


_context = decimal.getcontext().copy()


def _read_signals() -> dict[str, Any]:
    """SIGINT is the kernel's own business while a cell runs."""
    return {each.name: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGALRM, signal.SIGUSR1)}


def _write_signals(before: dict[str, Any]) -> None:
    for name, handler in before.items():
        signal.signal(signal.Signals[name], handler)


def _shell_options() -> dict[str, Any]:
    shell = get_ipython()
    names = ("ast_node_interactivity", "autoawait", "automagic", "autocall")
    return {name: getattr(shell, name) for name in names} | {"xmode": shell.InteractiveTB.mode}


def _write_shell_options(before: dict[str, Any]) -> None:
    shell = get_ipython()
    shell.InteractiveTB.set_mode(before["xmode"])
    for name, value in before.items():
        if name != "xmode":
            setattr(shell, name, value)


def _drop_new(mapping: dict[str, Any]) -> Callable[[Any], None]:
    before = dict(mapping)

    def write(_: Any) -> None:
        mapping.update(before)  # first, and nothing is cleared: the kernel's other threads live on what is there
        for name in mapping.keys() - before.keys():
            del mapping[name]

    return write


def _own_magics() -> dict[str, list[str]]:
    """Those that the notebook has registered."""
    magics = get_ipython().magics_manager.magics
    return {kind: sorted(n for n, f in found.items() if f.__module__ == "__main__") for kind, found in magics.items()}


def _drop_own_magics(_: Any) -> None:
    for kind, names in _own_magics().items():
        for name in names:
            del get_ipython().magics_manager.magics[kind][name]


def _own_options() -> dict[str, Any]:
    """Of the product: `%config Wool`."""
    magics = get_ipython().magics_manager.registry.get("Wool")
    return {} if magics is None else {name: getattr(magics, name) for name in magics.trait_names(config=True)}


def _write_own_options(before: dict[str, Any]) -> None:
    get_ipython().config.pop("Wool", None)
    magics = get_ipython().magics_manager.registry.get("Wool")
    for name, value in before.items():
        if magics is not None:
            setattr(magics, name, value)


_streams = sys.stdout, sys.stderr


def _read_streams() -> list[bool]:
    return [sys.stdout is _streams[0], sys.stderr is _streams[1]]


def _write_streams(_: Any) -> None:
    sys.stdout, sys.stderr = _streams


def _drop_own_printers() -> None:
    for formatter in get_ipython().display_formatter.formatters.values():
        for printers in (formatter.type_printers, formatter.singleton_printers):
            for key in [key for key, how in printers.items() if getattr(how, "__module__", "") == "__main__"]:
                del printers[key]


_builtins: dict[str, Any] = vars(sys.modules["builtins"])


def _user_builtins() -> dict[str, Any]:
    """What IPython puts there while a cell runs is not the cell's."""
    own = {"get_ipython", "display", "exit", "quit", "_", "input", "_pydev_stop_at_break"}
    return {name: value for name, value in _builtins.items() if name not in own}


ASPECTS = {
    "cwd": Aspect(os.getcwd, os.chdir),
    "environ": Aspect(lambda: dict(os.environ), _write_environment),
    "sys.path": Aspect(lambda: list(sys.path), _refill(sys, "path")),
    "sys.argv": Aspect(lambda: list(sys.argv), _refill(sys, "argv")),
    "umask": Aspect(_read_umask, os.umask),
    "recursion limit": Aspect(sys.getrecursionlimit, sys.setrecursionlimit),
    "digits of an int": Aspect(sys.get_int_max_str_digits, sys.set_int_max_str_digits),
    "switch interval": Aspect(sys.getswitchinterval, sys.setswitchinterval),
    "garbage collector": Aspect(gc.get_threshold, lambda before: gc.set_threshold(*before)),
    "warnings filters": Aspect(lambda: list(warnings.filters), _write_filters),
    "logging": Aspect(_read_logging, _write_logging),
    "locale": Aspect(lambda: locale.setlocale(locale.LC_ALL), lambda before: locale.setlocale(locale.LC_ALL, before)),
    "socket timeout": Aspect(socket.getdefaulttimeout, socket.setdefaulttimeout),
    "signals": Aspect(_read_signals, _write_signals),
    "decimal": Aspect(_read_context, lambda _: decimal.setcontext(_context.copy())),
    "builtins": Aspect(_user_builtins, _drop_new(_builtins)),
    "threading.excepthook": Aspect(
        lambda: threading.excepthook, lambda before: setattr(threading, "excepthook", before)
    ),
    "shell": Aspect(_shell_options, _write_shell_options),
    "magics": Aspect(_own_magics, _drop_own_magics),
    "options": Aspect(_own_options, _write_own_options, "wool_jupyter.notebook.magics"),
    "streams": Aspect(_read_streams, _write_streams),
    "random": Aspect(random.getstate, random.setstate),
    "numpy.random": Aspect(_read_numpy_random, _write_numpy_random, "numpy.random"),
    "numpy print options": Aspect(lambda: _numpy().get_printoptions(), _write_print_options, "numpy"),
    "numpy errors": Aspect(lambda: _numpy().geterr(), lambda before: _numpy().seterr(**before), "numpy"),
    "pandas options": Aspect(_read_pandas, _write_pandas, "pandas"),
    "rcParams": Aspect(_read_matplotlib, _write_matplotlib, "matplotlib"),
}

_beginning: dict[str, Any] = {}


def read() -> dict[str, Any]:
    """Of what is loaded, by aspect."""
    found = {}
    for name, aspect in ASPECTS.items():
        if aspect.module in sys.modules:
            with contextlib.suppress(FileNotFoundError):  # the working directory is gone
                found[name] = aspect.read()
                _beginning.setdefault(name, copy.copy(found[name]))
    return found


def remember() -> None:
    """That this is what `reset` goes back to. A reset collects garbage: what is here by now is no part of it."""
    gc.collect()
    gc.freeze()
    _beginning.clear()
    read()


def reset() -> None:
    """To what is remembered, and a library's state to how it was when it was first read; modules stay loaded."""
    for name, before in _beginning.items():
        ASPECTS[name].write(copy.copy(before))
    for name in ("last_type", "last_value", "last_traceback", "last_exc"):
        vars(sys).pop(name, None)
    _drop_own_printers()
    pyplot: Any = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close("all")
        get_ipython().magics_manager.registry["ExecutionMagics"].default_runner = None  # `%run` would draw a figure
    shell = get_ipython()
    shell.config.pop("InlineBackend", None)  # `%config` waits there until pyplot is imported
    if "matplotlib_inline.config" in sys.modules:
        shell.run_line_magic("config", "InlineBackend.figure_format = 'png'")
    if "autoreload" in shell.magics_manager.magics["line"]:
        shell.run_line_magic("autoreload", "0")
    shell.compile.reset_compiler_flags()
    shell.reset(new_session=True)
    read()


remember()
