"""One sign for what holds other things, had in a microsecond or two."""

from collections.abc import Callable
from typing import Any


class Unchanged:
    """Gives one and the same object as long as what is read equals its copy."""

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
