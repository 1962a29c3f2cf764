"""Signs that nothing of a process's state was set anew as long as they are equal (`aspects`), each had in a microsecond or two."""

import locale
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any


class Unchanged:
    """Gives one and the same object as long as what is read equals its copy, which is a matter of a microsecond in most cases."""

    def __init__(self, read: Callable[[], Any]) -> None:
        self._read = read
        self._copy: Any = None
        self._sign = object()

    def __call__(self) -> object:
        found = self._read()
        try:
            is_same = bool(found == self._copy)
        except Exception:  # noqa: BLE001 (of arrays, or a user's own)
            is_same = False
        if not is_same:
            self._copy, self._sign = _copied(found), object()
        return self._sign


def _copied(value: Any) -> Any:
    """Of what holds others; these are the same ones, which compare soonest."""
    if type(value) is dict:
        return {name: _copied(each) for name, each in value.items()}
    return [_copied(each) for each in value] if type(value) is list else value


def place() -> tuple[int, int] | None:
    try:
        found = os.stat(".")  # noqa: PTH116
    except OSError:
        return None
    return found.st_dev, found.st_ino


def path() -> list[str]:
    return list(sys.path)


def argv() -> list[str]:
    return list(sys.argv)


def filters() -> list[object]:
    return list(warnings.filters)


def locales() -> str:
    return locale.setlocale(locale.LC_ALL)


@Unchanged
def pandas() -> Any:
    return sys.modules["pandas"]._config.config._global_config


@Unchanged
def matplotlib() -> list[Any]:
    return list(dict.values(sys.modules["matplotlib"].rcParams))
