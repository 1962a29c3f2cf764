"""A namespace and class ids of their own, for notebook objects that are not those of the process's `__main__`.

They belong to a `contextvars.Context`: what is pickled and unpickled in it, and in the tasks and threads that inherit it, binds to
them. So a call on a worker never meets the cell that runs beside it.
"""

import builtins
import io
import pickle
import types
from collections.abc import Iterable
from functools import reduce
from typing import Any

from wool_jupyter.wire import classes, rebuilding


def enter_new_home() -> dict[str, Any]:
    """For the rest of the current context. Its namespace."""
    namespace = vars(types.ModuleType("__main__"))
    namespace["__builtins__"] = builtins
    rebuilding.namespace.set(namespace)
    classes.registry.set(classes.Registry())
    return namespace


class Unpickler(pickle.Unpickler):
    """Finds by name in the home what a `__reduce__` refers to by name."""

    def __init__(self, stream: bytes | memoryview, buffers: Iterable[Any]) -> None:
        super().__init__(io.BytesIO(stream), buffers=buffers)

    def find_class(self, module: str, name: str, /) -> Any:
        if module != "__main__":
            return super().find_class(module, name)
        first, *path = name.split(".")
        try:
            found = rebuilding.main_globals()[first]
        except KeyError:
            raise AttributeError(f"the notebook's `{first}` has not come along") from None
        return reduce(getattr, path, found)
