"""Where the callers of a worker's routines find their modules: behind the worker's own, so that nothing is shadowed.

Not in `sys.path`: that is the running cell's, which takes it home.
"""

import os
import sys
from collections.abc import Iterable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any


class _CallersPath:
    """One for the process, at the end of `sys.meta_path`."""

    def __init__(self) -> None:
        self.path: list[str] = []

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:
        return PathFinder.find_spec(name, self.path, target) if path is None else None

    def find_distributions(self, context: Any) -> Iterable[Any]:
        """For `importlib.metadata`."""
        return PathFinder.find_distributions(type(context)(name=context.name, path=self.path))


_finder = _CallersPath()


def path() -> tuple[str, ...]:
    """Where this process finds its modules."""
    return tuple(dict.fromkeys(map(os.path.abspath, [*sys.path, *_finder.path])))


def follow(path: Sequence[str]) -> None:
    """Of a caller: its modules can be imported from now on."""
    _finder.path += [place for place in path if place not in _finder.path]
    if _finder not in sys.meta_path:
        sys.meta_path.append(_finder)
