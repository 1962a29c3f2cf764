"""What a type says of its objects to whoever makes them travel."""

import copyreg
import enum
import sys
import types
from typing import Any

import cloudpickle


def is_frame(t: type) -> bool:
    """Of pandas, or a class that is made from one (a GeoDataFrame)."""
    return any(c.__name__ == "NDFrame" and c.__module__ == "pandas.core.generic" for c in t.__mro__)


def is_array(t: type) -> bool:
    return t.__name__ == "ndarray" and t.__module__ == "numpy"


def is_child(t: type) -> bool:
    return any(c.__name__ == "Popen" and c.__module__ == "subprocess" for c in t.__mro__)


def is_temporary_directory(t: type) -> bool:
    return t.__name__ == "TemporaryDirectory" and t.__module__ == "tempfile"


def is_callback_registry(t: type) -> bool:
    return t.__name__ == "CallbackRegistry" and t.__module__ == "matplotlib.cbook"


def is_kernel_stream(t: type) -> bool:
    """What a kernel has in place of a file, and is nothing to a user but where to print."""
    return t.__name__ == "OutStream" and t.__module__ == "ipykernel.iostream"


def is_progress_bar(t: type) -> bool:
    return any(c.__name__ == "tqdm" and c.__module__ == "tqdm.std" for c in t.__mro__)


# By which a class says how it is pickled.
HOOKS = frozenset(
    {"__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__getnewargs__", "__getnewargs_ex__"}
)


class _Plain:
    pass


def is_its_dict(t: type) -> bool:
    """A Python class whose objects are nothing but their `__dict__`, pickled the default way."""
    same_layout = t.__basicsize__ == _Plain.__basicsize__ and t.__itemsize__ == 0
    slotted = any("__slots__" in vars(c) and vars(c)["__slots__"] for c in t.__mro__)
    by_hook = t in copyreg.dispatch_table or t in cloudpickle.Pickler.dispatch_table
    default = all(getattr(t, hook, None) is getattr(object, hook, None) for hook in HOOKS)
    return same_layout and not slotted and not by_hook and default


def is_value_with_attributes(t: type) -> bool:
    """A class of the notebook like `class Word(str)`, whose objects may get attributes."""
    is_value = issubclass(t, str | bytes | int | float | complex | tuple | frozenset) and not issubclass(t, enum.Enum)
    return is_value and t.__module__ == "__main__" and t.__dictoffset__ != 0


def makes_itself(t: type) -> bool:
    """A class of the notebook that has a `__new__` in Python, and says nothing of what to give it again."""
    if t.__module__ != "__main__":
        return False
    says = "__reduce__", "__reduce_ex__", "__getnewargs_ex__"
    default = all(getattr(t, hook, None) is getattr(object, hook, None) for hook in says)
    by_hand = any("__getnewargs__" in vars(c) for c in t.__mro__ if isinstance(c.__new__, types.FunctionType))
    return isinstance(t.__new__, types.FunctionType) and default and not by_hand and t not in copyreg.dispatch_table


def sentinels(t: type) -> dict[int, tuple[Any, ...]]:
    """Objects without content that a module keeps to be known by identity (`dataclasses.MISSING`): reductions by name."""
    if t is object:
        modules = [module for name, module in list(sys.modules.items()) if name != "__main__"]
    elif t.__module__ not in ("__main__", "builtins") and t.__module__ in sys.modules and is_its_dict(t):
        modules = [sys.modules[t.__module__]]
    else:
        return {}
    named = (
        (module, name, value) for module in modules for name, value in list(getattr(module, "__dict__", {}).items())
    )
    return {id(value): (getattr, (module, name)) for module, name, value in named if type(value) is t}


MODULES, DEFINITIONS, CONSTANTS, DATA = range(4)


def load_order(obj: Any) -> int:
    """Methods of a class run when its objects are loaded, and read modules, functions and constants of the notebook."""
    if isinstance(obj, types.ModuleType):
        return MODULES
    if isinstance(obj, types.FunctionType | type):
        return DEFINITIONS
    return CONSTANTS if type(obj) in (int, float, complex, bool, str, bytes, type(None)) else DATA
