"""What the process and the standard library keep."""

import locale
import os
import random
import sys
import time
import warnings
from collections.abc import Mapping
from typing import Any

from wool_jupyter import host
from wool_jupyter.wire.aspects.aspect import Aspect, Generator


def _place() -> tuple[int, int]:
    found = os.stat(".")
    return found.st_dev, found.st_ino


def _read_cwd() -> tuple[str, int, int]:
    """Which directory it is, beside its name: one that was made anew is another. One that is gone is still to be had on Linux."""
    place = _place()
    try:
        path = os.getcwd()
    except FileNotFoundError:
        if not os.path.lexists("/proc/self/cwd"):
            raise
        path = f"/proc/{os.getpid()}/cwd"
    return path, *place


def _write_cwd(_before: Any, after: tuple[str, int, int]) -> None:
    os.chdir(after[0])


def _raw_environment() -> Any:
    """A copy. Not `dict(os.environ)`, which decodes each (3.11)."""
    return getattr(os.environ, "_data", os.environ).copy()


def _write_environment(before: Mapping[str, str] | None, after: Mapping[str, str]) -> None:
    before = before or {}
    for name in before.keys() - after.keys():
        os.environ.pop(name, None)
    for name, value in after.items():
        if before.get(name) != value:
            os.environ[name] = value
    if before.get("TZ") != after.get("TZ"):
        time.tzset()


def _read_path() -> list[str]:
    return list(sys.path)


def _write_path(_before: list[str], after: list[str]) -> None:
    sys.path = _refilled(sys.path, after)


def _refilled(current: Any, after: list[str]) -> list[str]:
    """The list that others may hold, unless a cell has put something else in its place."""
    if not isinstance(current, list):
        return after
    current[:] = after
    return current


def _read_argv() -> list[str]:
    return list(sys.argv)


def _write_argv(_before: list[str] | None, after: list[str]) -> None:
    sys.argv = _refilled(sys.argv, after)


def _read_umask() -> int:
    """By asking the system: to ask the process means to change it, for its other threads, too."""
    found = host.umask()
    if found is None:
        raise FileNotFoundError
    return found


def _read_locale() -> str:
    return locale.setlocale(locale.LC_ALL)


def _read_filters() -> list[Any]:
    return list(warnings.filters)


_steady_filters: list[Any] = []  # as they were seen last


def _key_of_filters() -> list[Any] | None:
    """A category of the notebook travels as it is now."""
    global _steady_filters
    found = _read_filters()
    if found != _steady_filters:
        if any(getattr(part, "__module__", "") == "__main__" for each in found for part in each):
            return None
        _steady_filters = found
    return found


def _write_filters(_before: Any, after: list[Any]) -> None:
    warnings.resetwarnings()  # also tells the interpreter that its caches are out of date
    warnings.filters.extend(after)  # type: ignore[attr-defined]


def _read_socket_timeout() -> float | None:
    import socket

    return socket.getdefaulttimeout()


def _write_socket_timeout(_before: Any, after: float | None) -> None:
    import socket

    socket.setdefaulttimeout(after)


def _read_decimal() -> dict[str, Any]:
    context = sys.modules["decimal"].getcontext()
    names = ("prec", "rounding", "Emin", "Emax", "capitals", "clamp")
    traps = {signal.__name__: traps for signal, traps in context.traps.items()}
    return {name: getattr(context, name) for name in names} | {"traps": traps}


def _key_of_decimal() -> str:
    """With flags that calculations set."""
    return repr(sys.modules["decimal"].getcontext())


def _write_decimal(_before: Any, after: dict[str, Any]) -> None:
    import decimal

    context = decimal.getcontext()
    for name, value in after.items():
        if name == "traps":
            context.traps.update({signal: value[signal.__name__] for signal in context.traps})
        else:
            setattr(context, name, value)


ASPECTS = {
    "cwd": Aspect(_read_cwd, _write_cwd, key=_read_cwd, glance=_place),
    "environment": Aspect(lambda: dict(os.environ), _write_environment, key=_raw_environment, glance=_raw_environment),
    "path": Aspect(_read_path, _write_path, glance=_read_path),
    "argv": Aspect(_read_argv, _write_argv, glance=_read_argv),
    "recursion limit": Aspect(
        sys.getrecursionlimit, lambda _, after: sys.setrecursionlimit(after), glance=sys.getrecursionlimit
    ),
    "digits of an int": Aspect(
        sys.get_int_max_str_digits,
        lambda _, after: sys.set_int_max_str_digits(after),
        glance=sys.get_int_max_str_digits,
    ),
    "umask": Aspect(_read_umask, lambda _, after: os.umask(after), slow=True),
    "locale": Aspect(
        _read_locale, lambda _, after: locale.setlocale(locale.LC_ALL, after), late=True, glance=_read_locale
    ),
    "socket timeout": Aspect(_read_socket_timeout, _write_socket_timeout, "socket", glance=_read_socket_timeout),
    "decimal": Aspect(_read_decimal, _write_decimal, "decimal", imports=True, of_context=True, key=_key_of_decimal),
    "warnings": Aspect(_read_filters, _write_filters, late=True, key=_key_of_filters, glance=_read_filters),
    "random": Generator(random.getstate, lambda _, after: random.setstate(after), late=True, key=random.getstate),
}
