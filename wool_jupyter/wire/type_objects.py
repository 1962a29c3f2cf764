"""What a notebook names types by: `NewType`, and the variables of generic functions and classes."""

import sys
from typing import Any

import cloudpickle

Reduced = tuple[Any, ...]

_GIVEN = ("bound", "covariant", "contravariant", "infer_variance")


def newtype(t: Any) -> Reduced:
    return make_newtype, (t.__name__, t.__supertype__, t.__module__, t.__qualname__)


def make_newtype(name: str, supertype: Any, module: str, qualname: str) -> Any:
    import typing

    make: Any = typing.NewType
    made = make(name, supertype)
    made.__module__, made.__qualname__ = module, qualname
    return made


def type_variable(t: Any) -> Reduced:
    """As cloudpickle does it, whose module it would be of."""
    found: Reduced = cloudpickle.Pickler.dispatch_table[type(t)](t)
    if found[0] is getattr:
        return found
    return *found, t.__module__, None, None, set_module


def set_module(obj: Any, module: str) -> None:
    obj.__module__ = module


def type_parameter(p: Any) -> Any:
    """A `ParamSpec` or `TypeVarTuple`: its own pickling is its name. One of the notebook, or of a function's or class's own, is not
    to be had under it."""
    if p.__module__ != "__main__" and getattr(sys.modules.get(p.__module__), p.__name__, None) is p:
        return NotImplemented
    given = {name: value for name in _GIVEN if (value := getattr(p, f"__{name}__", None))}
    return make_type_parameter, (type(p), p.__name__, p.__module__, given)


def make_type_parameter(cls: Any, name: str, module: str, given: dict[str, Any]) -> Any:
    made = cls(name, **given)
    made.__module__ = module
    return made
