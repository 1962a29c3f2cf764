"""One identity for a notebook class on both sides: it has an id; a class that arrives under a known id is that class.

A description makes a class only where the id is new, and gives state only to what it made: an instance that comes home never
rolls its class back. On a worker the ids are forgotten before each cell, so that methods are bound to that cell's `__main__`.
"""

import abc
import enum
import types
import uuid
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

_ids: "weakref.WeakKeyDictionary[type, str]" = weakref.WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Registry:
    classes: "weakref.WeakValueDictionary[str, type]" = field(default_factory=weakref.WeakValueDictionary)  # by id
    without_state: set[str] = field(default_factory=set)  # made by a description whose state has not arrived yet


_of_process = Registry()
registry: ContextVar[Registry | None] = ContextVar("registry", default=None)  # of a context with its own (`wire.homes`)


def _here() -> Registry:
    return registry.get() or _of_process


# Written by the interpreter and by copyreg, never by a user.
_INTERPRETERS = frozenset(
    "__dict__ __weakref__ __module__ __qualname__ _abc_impl __abstractmethods__ __firstlineno__ __static_attributes__ "
    "__annotate_func__ __annotations_cache__ __slotnames__".split()
)
# Made by the metaclass of an enum, of the class and of a member.
_ENUMS_OWN = frozenset({"_member_names_", "_member_map_", "_member_type_", "_value2member_map_", "__new_member__"})
_MEMBERS_OWN = frozenset({"_name_", "_value_", "__objclass__", "_sort_order_"})

Parts = dict[str, dict[str, Any]]  # "" is the class itself, the others are members of an enum, by name


def class_id(cls: type) -> str:
    found = _ids.get(cls)
    if found is None:
        found = _ids[cls] = uuid.uuid4().hex
        _here().classes[found] = cls
    return found


def class_by_id(ident: str) -> type:
    return _here().classes[ident]


def known_ids() -> frozenset[str]:
    """Of the classes that have arrived, and live."""
    return frozenset(_here().classes)


def forget() -> None:
    """Later descriptions make new classes; objects that live on keep their old class, and its id."""
    _of_process.classes.clear()
    _of_process.without_state.clear()


def make_class(ident: str, maker: Callable[..., type], args: tuple[Any, ...]) -> type:
    here = _here()
    cls = here.classes.get(ident)
    if cls is None:
        cls = maker(*args)
        _ids[cls], here.classes[ident] = ident, cls
        here.without_state.add(ident)
    return cls


def described(cls: type) -> tuple[Callable[..., type], tuple[Any, ...]]:
    """What makes it, without its state."""
    namespace = {name: vars(cls)[name] for name in ("__module__", "__slots__", "__orig_bases__") if name in vars(cls)}
    namespace["__qualname__"] = cls.__qualname__  # else a nested class would lose its path
    if isinstance(cls, enum.EnumMeta):
        return enum_skeleton, (type(cls), cls.__name__, cls.__bases__, namespace, _members_of(cls))
    return skeleton, (type(cls), cls.__name__, cls.__bases__, namespace)


def skeleton(meta: type, name: str, bases: tuple[Any, ...], namespace: dict[str, Any]) -> type:
    """An empty class. Metaclasses and `__init_subclass__` of the notebook have run where the class statement ran: not again."""
    with _hooks_muted(bases):
        if _of_notebook(meta):
            made: type = _importable(meta).__new__(meta, name, bases, dict(namespace))
            return made
        if meta.__name__ == "_TypedDictMeta":  # takes only what is written, and makes of it what is here
            return type.__new__(meta, name, bases, dict(namespace))
        return types.new_class(name, bases, {"metaclass": meta}, lambda body: body.update(namespace))


Member = tuple[str, Any, tuple[Any, ...]]  # name, value, arguments of the `__new__` of the type that is mixed in


def enum_skeleton(
    meta: Any, name: str, bases: tuple[Any, ...], namespace: dict[str, Any], members: list[Member]
) -> type:
    """With its members, aliases too; what their `__new__` and `__init__` gave them is state that follows."""
    rows = iter(members)

    def new_member(cls: Any, *_given: Any) -> Any:
        _, value, args = next(rows)
        member = _importable(cls._member_type_).__new__(cls, *args)
        member._value_ = value
        return member

    importable = _importable(meta)
    body = importable.__prepare__(name, bases)
    for key, value in namespace.items():
        body[key] = value
    body["__new__"], body["__init__"] = new_member, lambda *_: None  # a dataclass that is mixed in has one
    for each, value, _ in members:
        body[each] = enum.member(value)  # also where it looks like a method
    with _hooks_muted(bases):
        made: type = importable.__new__(meta, name, bases, body)
    for ours in ("__new_member__", "__init__"):
        if ours in vars(made):
            type.__delattr__(made, ours)
    return made


def _members_of(cls: Any) -> list[Member]:
    of_library = _importable(cls._member_type_)  # the `__new__` of a notebook class has run where the enum was made
    return [(name, each.value, _raw(of_library, each)) for name, each in cls.__members__.items()]


_RAW: dict[type, Callable[[Any], Any]] = {
    int: int.__int__, float: float.__float__, str: str.__str__, bytes: lambda m: bytes(memoryview(m)),
    tuple: lambda m: tuple.__getitem__(m, slice(None)),
}  # fmt: skip


def _raw(mixed_in: type, member: Any) -> tuple[Any, ...]:
    if mixed_in is object:
        return ()
    if mixed_in in _RAW:
        return (_RAW[mixed_in](member),)
    return member.value if isinstance(member.value, tuple) else (member.value,)


@contextmanager
def _hooks_muted(bases: tuple[Any, ...]) -> Iterator[None]:
    """The `__init_subclass__` of a notebook class does not run again."""
    hook = next((c for base in bases for c in base.__mro__ if "__init_subclass__" in vars(c)), object)
    if not _of_notebook(hook):
        yield
        return
    muted = vars(hook)["__init_subclass__"]
    type.__setattr__(hook, "__init_subclass__", classmethod(lambda _cls, **_: None))
    try:
        yield
    finally:
        type.__setattr__(hook, "__init_subclass__", muted)


def _importable(cls: Any) -> Any:
    """The class itself, or its first base that a library has."""
    return next(c for c in cls.__mro__ if not _of_notebook(c))


def _of_notebook(cls: type) -> bool:
    return cls.__module__ == "__main__"


def set_class_state(cls: type, state: Parts) -> None:
    ident, unfinished = _ids[cls], _here().without_state
    if ident not in unfinished:
        return
    unfinished.discard(ident)
    for part, attributes in state.items():
        _set_attributes(cls, part, attributes)
    for name, value in state.get("", {}).items():
        if type(value) is property:
            value.__set_name__(cls, name)  # type: ignore[attr-defined]  # no pickle tells it, and errors do
    if isinstance(cls, abc.ABCMeta):
        abc.update_abstractmethods(cls)  # type: ignore[arg-type]


def _set_attributes(cls: Any, part: str, attributes: Mapping[str, Any]) -> None:
    if part:
        vars(cls.__members__[part]).update(attributes)
        return
    for name, value in attributes.items():
        if name == _REGISTERED:
            for each in value:
                cls.register(each)
        elif name != "__name__":  # a property of that name would have to be there when the class is made
            type.__setattr__(cls, name, value)


_REGISTERED = "(registered)"  # with an abstract class, beside the names of its attributes


def _registered(cls: type) -> frozenset[type]:
    alive = (ref() for ref in abc._get_dump(cls)[0])  # type: ignore[attr-defined]
    return frozenset(each for each in alive if each is not None)


def parts_of(cls: type) -> Parts:
    """What a user may have put there; the values are the class's own objects."""
    own, members = _INTERPRETERS, dict[str, Any]()
    if isinstance(cls, enum.EnumMeta):
        own, members = own | _ENUMS_OWN | cls.__members__.keys(), dict(cls.__members__)
    parts = {"": {name: value for name, value in vars(cls).items() if name not in own and not _is_slot(cls, value)}}
    if isinstance(cls, abc.ABCMeta):
        parts[""][_REGISTERED] = _registered(cls)
    for name, member in members.items():
        if name == member._name_:  # not an alias
            parts[name] = {key: value for key, value in vars(member).items() if key not in _MEMBERS_OWN}
    return parts


def _is_slot(cls: type, value: Any) -> bool:
    return type(value) is types.MemberDescriptorType and value.__objclass__ is cls


Change = tuple[str, str, dict[str, Any], list[str]]  # id, part, attributes rebound, and deleted


def changes(cls: type, before: Parts) -> list[Change]:
    """Since `before` was taken by `parts_of`."""
    found: list[Change] = []
    for part, now in parts_of(cls).items():
        old = before.get(part, {})
        rebound = {
            name: value for name, value in now.items() if name not in old or not _unchanged(name, old[name], value)
        }
        if rebound.get("__annotations__") == {}:  # made when somebody looks
            del rebound["__annotations__"]
        deleted = [name for name in old if name not in now]
        if rebound or deleted:
            found.append((class_id(cls), part, rebound, deleted))
    return found


def _unchanged(name: str, old: Any, new: Any) -> bool:
    return bool(old == new) if name == _REGISTERED else old is new


def apply_change(change: Change) -> None:
    ident, part, rebound, deleted = change
    cls: Any = class_by_id(ident)
    _set_attributes(cls, part, rebound)
    for name in deleted:
        if part:
            vars(cls.__members__[part]).pop(name, None)
        elif name in vars(cls):
            type.__delattr__(cls, name)
