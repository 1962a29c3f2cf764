"""Exceptions that cross: rebuilt without their __init__, with the traceback that they had."""

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any

from wool_jupyter.wire.tracebacks import REPR_CHARS_MAX, FrameRecord, ReprOnly, frames_of, short_repr, traceback_from

Portable = Callable[[Any], bool]
Lost = Callable[[str], object]
Reduced = tuple[Callable[..., BaseException], tuple[Any, ...], "_State", None, None, Callable[..., None]]

_ATOMS = {bool, bytes, complex, float, int, str, type(None)}
_FOR_SHOWING = "_render_traceback_"  # how one kernel shows it
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE

_put = BaseException.__setattr__  # a frozen dataclass refuses the statement

_being_asked: ContextVar[frozenset[int]] = ContextVar("being_asked", default=frozenset())


@dataclass(frozen=True, slots=True)
class _State:
    fields: dict[str, Any]
    attributes: dict[str, Any]
    cause: BaseException | None = None
    context: BaseException | None = None
    suppress_context: bool = False
    frames: "tuple[FrameRecord, ...]" = ()


def reduce_exception(error: BaseException, *, portable: Portable, lost: Lost = lambda _: None) -> Reduced:
    """For `reducer_override` of a pickler. `portable(value)` tells whether `value` pickles, with whatever is inside; `lost` is told
    of each part that does not travel."""
    if id(error) in _being_asked.get():
        # An attribute leads back to its owner, so its answer is what we are computing.
        return _make_exception, (_builtin_base(type(error)), ()), _State({}, {}), None, None, _set_state
    token = _being_asked.set(_being_asked.get() | {id(error)})
    try:
        make, arguments, cls = _construction(error, portable, lost)
        state = _State(
            fields={name: _sendable(value, name, portable, lost) for name, value in _fields_of(error)}
            | _list_of_group(error),
            attributes={name: _sendable(value, name, portable, lost) for name, value in _attributes_of(error)},
            cause=error.__cause__,
            context=error.__context__,
            suppress_context=error.__suppress_context__,
            frames=frames_of(error.__traceback__),
        )
    finally:
        _being_asked.reset(token)
    if cls is not type(error):
        _note_class(state.attributes, error)
        lost(f"the class of {type(error).__qualname__}")
    return make, arguments, state, None, None, _set_state


def _list_of_group(error: BaseException) -> dict[str, Any]:
    """It is made from a tuple: the list that it was made from may be filled later than that."""
    return {"args": error.args} if isinstance(error, BaseExceptionGroup) else {}


def _construction(
    error: BaseException, portable: Portable, lost: Lost
) -> tuple[Callable[..., BaseException], tuple[Any, ...], type[BaseException]]:
    cls = type(error) if portable(type(error)) else _builtin_base(type(error))
    if isinstance(error, BaseExceptionGroup):
        return _make_group, (cls, error.message, error.exceptions), cls
    try:
        _builtin_base(cls).__new__(cls)
    except TypeError:  # an extension's own __new__ (pydantic_core 2): only its own __reduce__ knows how
        reduced = error.__reduce__()
        if isinstance(reduced, tuple) and portable(reduced[:2]):
            return reduced[0], reduced[1], cls
        cls = _builtin_base(cls)
    args = tuple(_sendable(value, f"args[{n}]", portable, lost) for n, value in enumerate(error.args))
    return _make_exception, (cls, args), cls


def _builtin_base(cls: Any) -> type[BaseException]:
    """The one whose `__new__` makes `cls`: of (KeyError, AttributeError) the second, which has the C fields."""
    while cls.__module__ != "builtins" or cls.__flags__ & _HEAP_TYPE:
        cls = cls.__base__
    return cls  # type: ignore[no-any-return]


def _field_descriptors(cls: type) -> Iterator[tuple[str, Any]]:
    """C fields (errno, filename, start, value, code …) and slots. AttributeError's is `obj`: it may be 10 GB."""
    for base in cls.__mro__:
        if base in {object, BaseException, BaseExceptionGroup}:
            continue
        for name, descriptor in vars(base).items():
            is_field = isinstance(descriptor, MemberDescriptorType | GetSetDescriptorType) and name[:2] != "__"
            if is_field and (base, name) != (AttributeError, "obj"):
                yield name, descriptor


def _fields_of(error: BaseException) -> Iterator[tuple[str, Any]]:
    for name, descriptor in _field_descriptors(type(error)):
        with contextlib.suppress(AttributeError, TypeError):  # not set
            value = descriptor.__get__(error)
            if value is not None or _is_slot(descriptor):
                yield name, value


def _is_slot(descriptor: Any) -> bool:
    """Of a Python class, where None is a value like others: a C field that reads None may be one that has none."""
    return isinstance(descriptor, MemberDescriptorType) and bool(descriptor.__objclass__.__flags__ & _HEAP_TYPE)


def _attributes_of(error: BaseException) -> Iterator[tuple[str, Any]]:
    return ((name, value) for name, value in vars(error).items() if name != _FOR_SHOWING)


def _sendable(value: Any, name: str, portable: Portable, lost: Lost) -> Any:
    if isinstance(value, BaseException) or type(value) in _ATOMS or portable(value):
        return value
    lost(f"`{name}` ({type(value).__name__})")
    return ReprOnly(short_repr(value))


def _note_class(attributes: dict[str, Any], error: BaseException) -> None:
    cls = type(error)
    try:
        message = f"{cls.__qualname__}: {error}"
    except Exception:  # noqa: BLE001 - a user's __str__
        message = cls.__qualname__
    notes = attributes.get("__notes__")
    before = notes if isinstance(notes, list) else []
    note = f"(raised as {cls.__module__}.{message[:REPR_CHARS_MAX]}; its class can't travel)"
    attributes["__notes__"] = [*before, note]


def bare(error: BaseException, *, causes: int) -> BaseException:
    """Anew from its class and `args`, with as many causes."""
    made = _make_exception(type(error), error.args)
    if causes and error.__cause__ is not None:
        _put(made, "__cause__", bare(error.__cause__, causes=causes - 1))
    return made


def _make_exception(cls: type[BaseException], args: tuple[Any, ...]) -> BaseException:
    error = _builtin_base(cls).__new__(cls)
    _put(error, "args", args)
    return error


def _make_group(
    cls: type[BaseExceptionGroup[BaseException]], message: str, exceptions: tuple[BaseException, ...]
) -> BaseException:
    return BaseExceptionGroup.__new__(cls, message, exceptions)


def _set_state(error: BaseException, state: _State) -> None:
    for name, descriptor in _field_descriptors(type(error)):
        if name in state.fields:
            with contextlib.suppress(AttributeError, TypeError):  # read-only, or a typed field that holds a ReprOnly
                descriptor.__set__(error, state.fields[name])
    if "args" in state.fields:
        _put(error, "args", state.fields["args"])
    vars(error).update(state.attributes)
    _put(error, "__cause__", state.cause)
    _put(error, "__context__", state.context)
    _put(error, "__suppress_context__", state.suppress_context)
    error.with_traceback(traceback_from(state.frames))
