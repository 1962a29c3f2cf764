"""Names that IPython and Python put into a namespace by themselves: no variables of the user's, unless he has bound them anew."""

import types
from collections.abc import Iterable, Mapping
from typing import Any

_USABLE = frozenset("get_ipython exit quit open".split())
SHELL = _USABLE | frozenset("_sh __builtin__ __builtins__".split())
HISTORY = frozenset("In Out _ih _oh _dh _i _ii _iii".split())
MODULE = frozenset("__name__ __doc__ __package__ __loader__ __spec__".split())
ALL = SHELL | HISTORY | MODULE
_FUNCTIONS = types.FunctionType | types.MethodType | types.BuiltinFunctionType
_MAKERS = frozenset({"IPython", "ipykernel", "io", "_io"})


def are_users(names: Iterable[str], namespace: Mapping[str, Any]) -> set[str]:
    """Those of the shell's that stand for something else in this namespace: `open, high, low, close = ...`."""
    return {name for name in _USABLE.intersection(names) if name in namespace and not _is_shells(namespace[name])}


def _is_shells(value: Any) -> bool:
    """As each shell has one, it does not travel."""
    maker = value.__module__ if isinstance(value, _FUNCTIONS) else type(value).__module__
    return str(maker).partition(".")[0] in _MAKERS
