"""The `__main__` of one cell: new each time, so that a thread left by an earlier cell keeps the globals that it knows."""

import builtins
import sys
import types
from typing import Any

# Of modules that have done `import __main__`. IPython's completer is one: it would keep all that the first cell had, for ever.
_namespaces_with_main: list[dict[str, Any]] = []
_looked_at = 0  # modules


def enter_new_main() -> types.ModuleType:
    """Made `sys.modules["__main__"]`, as notebook functions, the standard pickle and `inspect` look for it there."""
    module = types.ModuleType("__main__")
    module.__dict__["__builtins__"] = builtins
    module.__dict__["__builtin__"] = builtins
    sys.modules["__main__"] = module
    for namespace in _namespaces_with_main:
        namespace["__main__"] = module
    return module


def leave_main() -> types.ModuleType:
    """An empty one takes its place, also in modules that were imported meanwhile."""
    global _looked_at
    if len(sys.modules) != _looked_at:
        before, modules = sys.modules["__main__"], list(sys.modules.values())
        namespaces = (getattr(each, "__dict__", {}) for each in modules)
        _namespaces_with_main[:] = [each for each in namespaces if each.get("__main__") is before]
        _looked_at = len(modules)
    return enter_new_main()
