"""Something to be done when a library is imported, and not before: it may never be."""

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def when_imported(name: str, act: Callable[[ModuleType], object]) -> Callable[[], None]:
    """`act` gets the module once it is there: now, or at the end of its import, on the thread that imports it. What `act` raises
    is raised by that import. The function that comes back calls this off."""
    module = sys.modules.get(name)
    if module is not None and not getattr(module.__spec__, "_initializing", False):
        act(module)
        return lambda: None
    finder = _Finder(name, act)
    sys.meta_path.insert(0, finder)
    return finder.leave


class _Finder:
    """Finds nothing by itself: it has those behind it find the module, and leaves."""

    def __init__(self, name: str, act: Callable[[ModuleType], object]) -> None:
        self._name = name
        self._act = act

    def leave(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != self._name or self not in sys.meta_path:
            return None
        behind = sys.meta_path[sys.meta_path.index(self) + 1 :]
        found = (finder.find_spec(name, path, target) for finder in behind if hasattr(finder, "find_spec"))
        spec = next((spec for spec in found if spec is not None), None)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self, self._act)  # type: ignore[assignment]
        return spec


class _Loader:
    """The module's own loader, which takes its place again as soon as there is a module."""

    def __init__(self, loader: Any, finder: _Finder, act: Callable[[ModuleType], object]) -> None:
        self._loader = loader
        self._finder = finder
        self._act = act

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._finder.leave()  # not before: an import that fails may be tried again
        self._act(module)
