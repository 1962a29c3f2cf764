"""The `__main__` of one cell: new each time, so that a thread left by an earlier cell keeps the globals that it knows."""

import builtins
import sys
import types


def enter_new_main() -> types.ModuleType:
    """Made `sys.modules["__main__"]`, as notebook functions, the standard pickle and `inspect` look for it there."""
    module = types.ModuleType("__main__")
    module.__dict__["__builtins__"] = builtins
    module.__dict__["__builtin__"] = builtins
    sys.modules["__main__"] = module
    return module
