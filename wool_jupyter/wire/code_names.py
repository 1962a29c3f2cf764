"""Which names does compiled code use? The compiler has already settled every question of scope."""

from __future__ import annotations

import dis
import re
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from keyword import iskeyword
from types import CodeType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_IDENTIFIER = re.compile(r"\b[^\W\d]\w*")
_READS = frozenset({"LOAD_NAME", "LOAD_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS"})
_STORES = frozenset({"STORE_NAME", "STORE_GLOBAL"})
_DELETES = frozenset({"DELETE_NAME", "DELETE_GLOBAL"})
_ATTRIBUTES = frozenset({"LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR", "DELETE_ATTR", "LOAD_SUPER_ATTR"})
_CONSTANTS = frozenset({"LOAD_CONST", "RETURN_CONST"})
_JUMPS = frozenset(dis.hasjrel) | frozenset(dis.hasjabs)
_CALL_PREPARATION = frozenset({"PUSH_NULL", "PRECALL", "CACHE"})  # 3.11 spreads a call over several instructions


class Names(NamedTuple):
    """`reads` leaves out what the code surely stored before."""

    reads: frozenset[str]
    stores: frozenset[str]
    deletes: frozenset[str]


class OwnNames(NamedTuple):
    """`class_body` is filled for the code of a class only: names that are the class's own, or else global."""

    module: Names
    class_body: Names

    @property
    def reads(self) -> frozenset[str]:
        return self.module.reads | self.class_body.reads


class FunctionReads(NamedTuple):
    """`text`: identifiers in string constants that are not in `names`; the docstring does not count."""

    names: frozenset[str]
    attributes: frozenset[str]
    text: frozenset[str]
    whole_namespace: bool


def identifiers(text: str) -> frozenset[str]:
    return frozenset(word for word in _IDENTIFIER.findall(text) if not iskeyword(word))


def nested_codes(code: CodeType) -> Iterator[CodeType]:
    """`code` first, then the functions, classes and comprehensions inside it, at any depth."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from nested_codes(constant)


def own_names(code: CodeType) -> OwnNames:
    """Names of `code` itself, without the code nested in it."""
    module, class_body = _Tally(), _Tally()
    named = module if code.co_name == "<module>" else class_body
    # What happens before the first jump happens before everything else, unless a handler can be entered halfway.
    straight = not code.co_exceptiontable
    for step in dis.get_instructions(code):
        tally = named if step.opname.endswith("_NAME") else module
        if step.opname in _READS:
            tally.read(step.argval)
        elif step.opname in _STORES:
            tally.store(step.argval, certain=straight)
        elif step.opname in _DELETES:
            tally.delete(step.argval)
        elif step.opcode in _JUMPS:
            straight = False
    return OwnNames(module.names(), class_body.names())


@lru_cache(maxsize=4096)
def function_reads(code: CodeType) -> FunctionReads:
    """What a function that is already an object needs from its globals, nested code included."""
    names: set[str] = set()
    attributes: set[str] = set()
    text: set[str] = set()
    evaluates = False
    for each in nested_codes(code):
        own, steps = own_names(each), list(dis.get_instructions(each))
        names |= own.reads | own.module.deletes
        attributes.update(step.argval for step in steps if step.opname in _ATTRIBUTES)
        text.update(word for constant in _strings(steps) for word in identifiers(constant))
        evaluates = evaluates or _evaluates_unknown_code(steps)
    return FunctionReads(
        frozenset(names),
        frozenset(attributes),
        frozenset(text - names),
        whole_namespace=evaluates or "globals" in names,
    )


@dataclass(slots=True)
class _Tally:
    reads: set[str] = field(default_factory=set)
    stores: set[str] = field(default_factory=set)
    deletes: set[str] = field(default_factory=set)
    surely_stored: set[str] = field(default_factory=set)

    def read(self, name: str) -> None:
        if name not in self.surely_stored:
            self.reads.add(name)

    def store(self, name: str, *, certain: bool) -> None:
        self.stores.add(name)
        if certain:
            self.surely_stored.add(name)

    def delete(self, name: str) -> None:
        self.deletes.add(name)
        self.surely_stored.discard(name)

    def names(self) -> Names:
        return Names(frozenset(self.reads), frozenset(self.stores), frozenset(self.deletes))


def _strings(steps: list[dis.Instruction]) -> Iterator[str]:
    """A function's docstring is never loaded; a class's is, and so are names that the compiler passes as strings."""
    for step, after in pairwise([*steps, steps[-1]]):
        if step.opname in _CONSTANTS and not _is_bookkeeping(after):
            yield from _flat_strings(step.argval)


def _is_bookkeeping(consumer: dis.Instruction) -> bool:
    if consumer.opname == "STORE_NAME":
        return str(consumer.argval).startswith("__")
    return consumer.opname in {"IMPORT_NAME", "CALL_KW"}


def _flat_strings(constant: Any) -> Iterator[str]:
    """The compiler folds displays of constants into tuples and frozensets."""
    if isinstance(constant, str):
        yield constant
    elif isinstance(constant, tuple | frozenset):
        for item in constant:
            yield from _flat_strings(item)


def _evaluates_unknown_code(steps: list[dis.Instruction]) -> bool:
    steps = [step for step in steps if step.opname not in _CALL_PREPARATION]
    return any(
        step.opname in _READS and step.argval in {"exec", "eval"} and not _is_call_of_one_string(steps[at + 1 : at + 3])
        for at, step in enumerate(steps)
    )


def _is_call_of_one_string(steps: list[dis.Instruction]) -> bool:
    match steps:
        case [dis.Instruction(opname="LOAD_CONST", argval=str()), dis.Instruction(opname="CALL", arg=1)]:
            return True
    return False
