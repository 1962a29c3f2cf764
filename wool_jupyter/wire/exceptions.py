"""Exceptions that cross: rebuilt without their __init__, with frames that show the lines of the notebook.

The traceback of a rebuilt exception runs through frames of stub code that has the original's file, names, lines and
positions, because traceback, pdb and IPython read those and nothing else.
"""

import ast
import contextlib
import inspect
import itertools
import reprlib
import sys
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType, FunctionType, GetSetDescriptorType, MemberDescriptorType, TracebackType
from typing import Any

FRAMES_MAX = 2000
FRAMES_WITH_LOCALS_MAX = 100
LOCALS_MAX = 30
REPR_CHARS_MAX = 200
REPRS_MAX_S = 1.0

_PACKAGE = str(Path(__file__).parent.parent) + "/"


class ReprOnly:
    """In place of an object that did not travel."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


# ---- the exception


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


# ---- frames out


@dataclass(frozen=True, slots=True)
class ParameterCounts:
    positional_only: int
    positional: int
    keyword_only: int
    star: bool
    double_star: bool


@dataclass(frozen=True, slots=True)
class FrameRecord:
    """Equal records have the same stub code; what the locals held is not part of that."""

    file: str
    name: str
    qualname: str
    first_line: int
    positions: tuple[int, int, int, int]  # line, end line, column, end column; columns in UTF-8 bytes, -1: unknown
    module: str
    is_function: bool
    parameters: tuple[str, ...]  # in the order of co_varnames
    counts: ParameterCounts
    local_names: tuple[str, ...]
    local_reprs: tuple[str, ...] = field(compare=False)


def frames_of(traceback: TracebackType | None) -> tuple[FrameRecord, ...]:
    """Outermost first, without what ran the cell. Of a deep recursion both ends."""
    entries = _without_runner(list(entries_of(traceback)))
    if len(entries) > FRAMES_MAX:
        entries = entries[: FRAMES_MAX // 2] + entries[-FRAMES_MAX // 2 :]
    deadline = time.monotonic() + REPRS_MAX_S
    shown_from = len(entries) - FRAMES_WITH_LOCALS_MAX
    innermost_first = [
        _record(entry, deadline=deadline if index >= shown_from else 0.0)
        for index, entry in reversed(list(enumerate(entries)))
    ]
    return tuple(reversed(innermost_first))


def entries_of(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _without_runner(entries: list[TracebackType]) -> list[TracebackType]:
    first = next((index for index, entry in enumerate(entries) if _is_notebook(entry.tb_frame)), None)
    if first is None:
        return [entry for entry in entries if not is_ours(entry.tb_frame)]
    if any(is_ours(entry.tb_frame) or is_ipython(entry.tb_frame) for entry in entries[:first]):
        entries = entries[first:]  # else caught inside a library that had called back into the notebook
    return [entry for entry in entries if not is_ours(entry.tb_frame)]  # `input` and its like lead back to us


def is_ours(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(_PACKAGE) and not is_rebuilt(frame)


def is_ipython(frame: FrameType) -> bool:
    return _module_of(frame).partition(".")[0] == "IPython"


def _is_notebook(frame: FrameType) -> bool:
    return _module_of(frame) == "__main__" and not is_ours(frame)  # the worker's own __main__.py is ours


def _module_of(frame: FrameType) -> str:
    name = frame.f_globals.get("__name__")
    return name if isinstance(name, str) else ""


def _record(entry: TracebackType, *, deadline: float) -> FrameRecord:
    frame, code = entry.tb_frame, entry.tb_frame.f_code
    is_function = bool(code.co_flags & inspect.CO_OPTIMIZED)
    counts = ParameterCounts(
        positional_only=code.co_posonlyargcount,
        positional=code.co_argcount - code.co_posonlyargcount,
        keyword_only=code.co_kwonlyargcount,
        star=bool(code.co_flags & inspect.CO_VARARGS),
        double_star=bool(code.co_flags & inspect.CO_VARKEYWORDS),
    )
    parameters = code.co_argcount + code.co_kwonlyargcount + counts.star + counts.double_star
    shown = _local_reprs(frame, deadline=deadline) if is_function else {}
    return FrameRecord(
        file=code.co_filename,
        name=code.co_name,
        qualname=code.co_qualname,
        first_line=code.co_firstlineno,
        positions=_positions(entry),
        module=_module_of(frame),
        is_function=is_function,
        parameters=code.co_varnames[:parameters],
        counts=counts,
        local_names=tuple(shown),
        local_reprs=tuple(shown.values()),
    )


def _positions(entry: TracebackType) -> tuple[int, int, int, int]:
    instruction = entry.tb_lasti // 2
    found = next(itertools.islice(entry.tb_frame.f_code.co_positions(), instruction, None), (None,) * 4)
    line, end_line, column, end_column = found
    if line != entry.tb_lineno or line is None or end_line is None or column is None or end_column is None:
        return entry.tb_lineno, entry.tb_lineno, -1, -1
    return line, end_line, column, end_column


def _local_reprs(frame: FrameType, *, deadline: float) -> dict[str, str]:
    """Empty once `deadline` has passed: a repr may be slow, and the user waits for the error."""
    shown = {}
    for name, value in itertools.islice(frame.f_locals.items(), LOCALS_MAX):
        if time.monotonic() > deadline:
            break
        shown[name] = short_repr(value)
    return shown


_reprs = reprlib.Repr()
_reprs.maxstring = _reprs.maxother = REPR_CHARS_MAX


def short_repr(value: Any) -> str:
    try:
        return _reprs.repr(value)[:REPR_CHARS_MAX]
    except Exception as broken:  # noqa: BLE001 - a user's __repr__
        return f"<{type(value).__name__}: its repr raised {type(broken).__name__}>"


# ---- frames in


_MARK = "frame rebuilt by wool_jupyter"


def is_rebuilt(frame: FrameType) -> bool:
    return _MARK in frame.f_code.co_consts


def traceback_from(records: tuple[FrameRecord, ...]) -> TracebackType | None:
    traceback = None
    for record in reversed(records):
        raised = _run(record)
        traceback = TracebackType(traceback, raised.tb_frame, raised.tb_lasti, record.positions[0])
    return traceback


def _run(record: FrameRecord) -> TracebackType:
    values = {_slot(name): ReprOnly(text) for name, text in zip(record.local_names, record.local_reprs, strict=True)}
    stub = _stub(record)
    code = stub.replace(co_consts=tuple(values.get(c, c) if isinstance(c, str) else c for c in stub.co_consts))
    module = sys.modules.get(record.module)
    scope = {"__name__": record.module} if module is None else vars(module)
    try:
        if record.is_function:
            _call(code, scope, counts=record.counts, parameters=record.parameters)
        else:
            exec(code, scope, scope if record.name == "<module>" else {})
    except TypeError as raised:
        *_, last = entries_of(raised.__traceback__)
        if is_rebuilt(last.tb_frame):
            return last
        raise
    raise AssertionError(record)


def _call(code: CodeType, scope: dict[str, Any], *, counts: ParameterCounts, parameters: tuple[str, ...]) -> None:
    positional = counts.positional_only + counts.positional
    keywords = parameters[positional : positional + counts.keyword_only]
    FunctionType(code, scope)(*[None] * positional, **dict.fromkeys(keywords))


def _slot(name: str) -> str:
    """The constant in the stub that is exchanged for the local's repr."""
    return f"{_MARK}: {name}"


@lru_cache(maxsize=1000)
def _stub(record: FrameRecord) -> CodeType:
    """Code that assigns the locals and then fails at the original's positions."""
    at = _at(*record.positions)
    first = _at(record.first_line, record.first_line, 0, 0)
    fails = ast.Expr(ast.BinOp(ast.Constant(_MARK, **at), ast.Div(), ast.Constant(0, **at), **at), **at)
    body: list[ast.stmt] = [*(_assignment(name, first) for name in record.local_names), fails]
    if record.is_function:
        body = [_function(record, body, first=first)]
    elif record.name != "<module>":
        body = [ast.ClassDef("stub", [], [], body, [], **_no_type_params(), **first)]
    code = compile(ast.Module(body, []), record.file, "exec", dont_inherit=True)
    if record.name != "<module>":
        code = next(constant for constant in code.co_consts if isinstance(constant, CodeType))
    return code.replace(co_name=record.name, co_qualname=record.qualname)


def _at(line: int, end_line: int, column: int, end_column: int) -> dict[str, Any]:
    return {"lineno": line, "end_lineno": end_line, "col_offset": column, "end_col_offset": end_column}


def _assignment(name: str, first: dict[str, Any]) -> ast.stmt:
    return ast.Assign([ast.Name(name, ast.Store(), **first)], ast.Constant(_slot(name), **first), **first)


def _function(record: FrameRecord, body: list[ast.stmt], *, first: dict[str, Any]) -> ast.stmt:
    counts = record.counts
    names = iter([ast.arg(name, **first) for name in record.parameters])
    positional_only = list(itertools.islice(names, counts.positional_only))
    positional = list(itertools.islice(names, counts.positional))
    keyword_only = list(itertools.islice(names, counts.keyword_only))
    arguments = ast.arguments(
        posonlyargs=positional_only,
        args=positional,
        vararg=next(names) if counts.star else None,
        kwonlyargs=keyword_only,
        kw_defaults=[None] * counts.keyword_only,
        kwarg=next(names) if counts.double_star else None,
        defaults=[],
    )
    return ast.FunctionDef("stub", arguments, body, [], **_no_type_params(), **first)


def _no_type_params() -> dict[str, Any]:
    return {"type_params": []} if sys.version_info >= (3, 12) else {}
