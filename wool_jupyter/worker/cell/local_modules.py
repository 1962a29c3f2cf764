"""Modules of the user's own that were edited since this worker imported them: forgotten before a cell, which imports them anew.

Forgotten rather than reloaded: the new module is what a fresh process would have, and objects of the old one live on as they were.
"""

import contextlib
import importlib
import importlib.util
import os
import sys
import time
import types
import warnings
from dataclasses import dataclass
from typing import Any, TypeGuard

from wool_jupyter import host
from wool_jupyter.wire import loaded


@dataclass(frozen=True, slots=True)
class _Source:
    file: str
    stamp: tuple[int, int] | None  # mtime in ns and size; None: it may have been written after it was read

    def is_current(self) -> bool:
        return self.stamp is not None and _stamp(self.file) == self.stamp


class LocalModules:
    """Main thread only. Modules that are there when it is made are none of the user's."""

    def __init__(self) -> None:
        self._seen = set(sys.modules)
        self._sources: dict[str, _Source] = {}
        self._began_ns = time.time_ns()  # the cell, or this: what is imported before the first one stays, too
        self._looked_at = loaded.glance()

    def cell_begins(self) -> None:
        self.cell_ended()  # calls may have run since the last one
        self._began_ns = time.time_ns()
        edited = {name for name, source in self._sources.items() if name in sys.modules and not source.is_current()}
        if not edited:
            return
        while dependent := {n for n in self._sources.keys() - edited if _refers(sys.modules.get(n), edited)}:
            edited |= dependent
        for name in edited:
            self._forget(name)
        self._looked_at = _NEVER  # a module that comes back as the last one leaves the table as it was
        importlib.invalidate_caches()

    def cell_ended(self) -> None:
        """One pass over a thousand modules takes 0.1 ms, when few are new; none is made when nothing was imported since."""
        before, self._looked_at = self._looked_at, loaded.glance()
        if before == self._looked_at:
            return
        installed = host.installed()
        for name in sys.modules.keys() - self._seen:
            self._seen.add(name)
            file = getattr(sys.modules[name], "__file__", None)
            if not _is_source(file) or os.path.realpath(file).startswith(installed):
                continue
            stamp = _stamp(file)
            if stamp is not None:
                self._sources[name] = _Source(file, stamp if stamp[0] < self._began_ns else None)

    def _forget(self, name: str) -> None:
        # A .pyc is taken for current by whole seconds and size: an edit of the same length within a second would be missed.
        with contextlib.suppress(OSError, NotImplementedError):
            os.unlink(importlib.util.cache_from_source(self._sources.pop(name).file))  # noqa: PTH108
        sys.modules.pop(name, None)
        self._seen.discard(name)
        package, _, child = name.rpartition(".")
        if package in sys.modules:
            vars(sys.modules[package]).pop(child, None)


_NEVER = (0, "")


def _is_source(file: object) -> TypeGuard[str]:
    """A module that a library makes itself may have any name there (`torch.ops`): import gives a whole path."""
    return isinstance(file, str) and file.endswith(".py") and os.path.isabs(file)  # noqa: PTH117 (before every cell)


def _stamp(file: str) -> tuple[int, int] | None:
    try:
        status = os.stat(file)  # noqa: PTH116 (before every cell)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def _refers(module: types.ModuleType | None, edited: set[str]) -> bool:
    values = list(vars(module).values()) if module is not None else []
    return any((v.__name__ if isinstance(v, types.ModuleType) else _module_of(v)) in edited for v in values)


def _module_of(value: object) -> Any:
    """Some objects warn when they are asked for anything (torch's `reduce_op`), or fail."""
    with warnings.catch_warnings(action="ignore"):
        try:
            return getattr(value, "__module__", None)
        except Exception:  # noqa: BLE001 (of whatever library it is)
            return None
