"""One identity for a notebook class on both sides: it has an id; a class that arrives under a known id is that class.

A description makes a class only where the id is new, and gives state only to what it made: an instance that comes home never
rolls its class back. On a worker the ids are forgotten before each cell, so that methods are bound to that cell's `__main__`.
"""

import abc
import types
import uuid
import weakref
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

_ids: "weakref.WeakKeyDictionary[type, str]" = weakref.WeakKeyDictionary()
_classes: "weakref.WeakValueDictionary[str, type]" = weakref.WeakValueDictionary()
_without_state: set[str] = set()  # made by a description whose state has not arrived yet


@dataclass(frozen=True, slots=True)
class Registry:
    """The same, of a context whose classes live apart from the process's (`wire.homes`)."""

    classes: "weakref.WeakValueDictionary[str, type]" = field(default_factory=weakref.WeakValueDictionary)
    without_state: set[str] = field(default_factory=set)


registry: ContextVar[Registry | None] = ContextVar("registry", default=None)


def _known() -> "weakref.WeakValueDictionary[str, type]":
    own = registry.get()
    return _classes if own is None else own.classes


def _unfinished() -> set[str]:
    own = registry.get()
    return _without_state if own is None else own.without_state


# Written by the interpreter and by copyreg, never by a user.
_INTERPRETERS = frozenset(
    "__dict__ __weakref__ __module__ __qualname__ _abc_impl __abstractmethods__ __firstlineno__ __static_attributes__ "
    "__annotate_func__ __annotations_cache__ __slotnames__".split()
)


def class_id(cls: type) -> str:
    found = _ids.get(cls)
    if found is None:
        found = _ids[cls] = uuid.uuid4().hex
        _known()[found] = cls
    return found


def class_by_id(ident: str) -> type:
    return _known()[ident]


def known_ids() -> frozenset[str]:
    """Of the classes that have arrived, and live."""
    return frozenset(_known())


def forget() -> None:
    """Later descriptions make new classes; objects that live on keep their old class, and its id."""
    _classes.clear()
    _without_state.clear()


def make_class(ident: str, maker: Callable[..., type], args: tuple[Any, ...]) -> type:
    cls = _known().get(ident)
    if cls is None:
        cls = maker(*args)
        _ids[cls], _known()[ident] = ident, cls
        _unfinished().add(ident)
    return cls


def skeleton(meta: type, name: str, bases: tuple[Any, ...], namespace: dict[str, Any]) -> type:
    """An empty class. Metaclasses and `__init_subclass__` of the notebook have run where the class statement ran: not again."""
    resolved = types.resolve_bases(bases)
    if resolved is not bases:  # Generic[T] and its like
        namespace = {**namespace, "__orig_bases__": bases}
    if _of_notebook(meta):
        importable = next(m for m in meta.__mro__ if not _of_notebook(m))
        make: Callable[[], type] = lambda: importable.__new__(meta, name, resolved, dict(namespace))  # noqa: E731
    else:
        make = lambda: types.new_class(name, bases, {"metaclass": meta}, lambda ns: ns.update(namespace))  # noqa: E731
    hook = next((c for base in resolved for c in base.__mro__ if "__init_subclass__" in vars(c)), object)
    if not _of_notebook(hook):
        return make()
    muted = vars(hook)["__init_subclass__"]
    type.__setattr__(hook, "__init_subclass__", classmethod(lambda _cls, **_: None))
    try:
        return make()
    finally:
        type.__setattr__(hook, "__init_subclass__", muted)


def _of_notebook(cls: type) -> bool:
    return cls.__module__ == "__main__"


def set_class_state(cls: type, attributes: Mapping[str, Any]) -> None:
    ident = _ids[cls]
    if ident not in _unfinished():
        return
    _unfinished().discard(ident)
    attributes = dict(attributes)
    for registered in attributes.pop("_abc_impl", None) or ():
        cls.register(registered)  # type: ignore[attr-defined]
    for name, value in attributes.items():
        type.__setattr__(cls, name, value)
    if isinstance(cls, abc.ABCMeta):
        abc.update_abstractmethods(cls)  # type: ignore[arg-type]


def attributes_of(cls: type) -> dict[str, Any]:
    """What a user may have put there; the values are the class's own objects."""
    return {name: value for name, value in vars(cls).items() if name not in _INTERPRETERS}


def differences(cls: type, before: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Attributes rebound, and deleted, since `before` was taken by `attributes_of`."""
    now = attributes_of(cls)
    rebound = {name: value for name, value in now.items() if name not in before or before[name] is not value}
    if rebound.get("__annotations__") == {}:  # made when somebody looks
        del rebound["__annotations__"]
    return rebound, [name for name in before if name not in now]


def apply_differences(cls: type, rebound: Mapping[str, Any], deleted: list[str]) -> None:
    for name, value in rebound.items():
        type.__setattr__(cls, name, value)
    for name in deleted:
        if name in vars(cls):
            type.__delattr__(cls, name)
