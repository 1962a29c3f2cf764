"""Tracebacks that cross: frames as records, and rebuilt from these with lines of the notebook.

A rebuilt traceback runs through frames of stub code that has the original's file, names, lines and positions, because traceback,
pdb and IPython read those and nothing else.
"""

import ast
import inspect
import itertools
import reprlib
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType, FunctionType, TracebackType
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


# ---- out


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
    first = next((index for index, entry in enumerate(entries) if is_notebook(entry.tb_frame)), None)
    if first is None:
        return [entry for entry in entries if not is_ours(entry.tb_frame)]
    if any(is_ours(entry.tb_frame) or is_ipython(entry.tb_frame) for entry in entries[:first]):
        entries = entries[first:]  # else caught inside a library that had called back into the notebook
    return [entry for entry in entries if not is_ours(entry.tb_frame)]  # `input` and its like lead back to us


def is_ours(frame: FrameType) -> bool:
    return is_our_file(frame.f_code.co_filename) and not is_rebuilt(frame)


def is_our_file(filename: str) -> bool:
    return filename.startswith(_PACKAGE)


def is_ipython(frame: FrameType) -> bool:
    return _module_of(frame).partition(".")[0] == "IPython"


def is_notebook(frame: FrameType) -> bool:
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


# ---- in


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
