"""Which part of an object can't be pickled: looked for only after a failure."""

import functools
import io
import pickle
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from wool_jupyter.errors import in_words
from wool_jupyter.wire import classes, pickling, rebuilding

_MAKE = "make it inside {}"
_ADVICE = {  # {}: the cell, or the function that is called
    "module": "import it inside {}",
    "generator": "make it inside {}, or ship a list of what it yields",
    "coroutine": _MAKE,
    "Connection": "connect inside {}",
    "Thread": "start it inside {}",
    "Popen": "start it inside {}",
    "memoryview": "ship the bytes, or the array behind it",
    "TextIOWrapper": "open it inside {}",
    "BufferedReader": "open it inside {}",
    "BufferedWriter": "open it inside {}",
}
_ADVICE_OF_RESULT = {
    "generator": "return a list of what it yields",
    "coroutine": "return what it returns, by `asyncio.run`",
    "memoryview": "return the bytes, or the array behind it",
    "TextIOWrapper": "return its name, or what stands in it",
    "BufferedReader": "return its name, or what stands in it",
    "BufferedWriter": "return its name",
}
_STEPS = 6  # a longer path tells a user nothing
_PARTS = 10_000  # of one object
_REASON_CHARS = 200
_REFUSALS = (TypeError, pickle.PicklingError, AttributeError, NotImplementedError)  # what is usual to raise
_PLAIN_MODULES = frozenset({"__main__", "builtins", "collections", "types"})


@dataclass(frozen=True, slots=True)
class Culprit:
    """As text: where it stands and what it is."""

    path: str
    obj: Any

    def __str__(self) -> str:
        return f"`{self.path}` ({self.kind})"

    @property
    def kind(self) -> str:
        kind = type(self.obj)
        module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
        return f"{module}{kind.__qualname__}"

    def advice(self, inside: str = "the cell") -> str:
        """`inside`: what runs on the worker."""
        return _ADVICE.get(type(self.obj).__name__, _MAKE).format(inside)

    @property
    def advice_of_result(self) -> str:
        return _ADVICE_OF_RESULT.get(type(self.obj).__name__, "return what is needed of it")

    @property
    def reason(self) -> str:
        """As `reason_in` gives it."""
        failure = pickling.NotebookPickler(io.BytesIO(), lambda _: None).failure(self.obj)
        return "" if failure is None else reason_in(failure)

    @property
    def is_plain(self) -> bool:
        """A container, or made of what the notebook defines: it holds its parts for the user and not for a library, and is of use
        without one of them."""
        of = self.obj if isinstance(self.obj, type | types.FunctionType) else type(self.obj)
        return of.__module__ in _PLAIN_MODULES


def reason_in(failure: Exception) -> str:
    """In brackets: what a user's `__getstate__` or the like has raised. That something does not pickle is no news."""
    words = in_words(failure, at_most=_REASON_CHARS)
    return "" if isinstance(failure, _REFUSALS) and "pickl" in words.lower() else f" ({words})"


def find(value: Any, name: str) -> Culprit:
    """The innermost part of the variable that does not pickle by itself."""
    return trail(value, name)[-1]


def trail(value: Any, name: str, *, left_behind: Mapping[int, str] = MappingProxyType({})) -> list[Culprit]:
    """From the variable to the innermost part that does not pickle by itself, beside what is left behind."""
    found = [Culprit(name, value)]
    while len(found) <= _STEPS:
        at = found[-1]
        if type(at.obj).__name__ in _ADVICE:
            return found
        parts = (Culprit(at.path + step, part) for step, part in _parts(at.obj))
        failing = next((part for part in parts if not _pickles(part.obj, left_behind)), None)
        if failing is None:
            return found
        found.append(failing)
    return found[:1]


def _pickles(value: Any, left_behind: Mapping[int, str]) -> bool:
    return pickling.NotebookPickler(io.BytesIO(), lambda _: None, left_behind=left_behind).pickles(value)


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from ((f"[{key!r}]", part) for key, part in list(value.items())[:_PARTS])
    elif isinstance(value, list | tuple):
        yield from ((f"[{i}]", part) for i, part in enumerate(value[:_PARTS]))
    elif isinstance(value, set | frozenset):
        yield from ((f"{{{part!r}}}", part) for part in list(value)[:_PARTS])
    if isinstance(value, types.MethodType):
        yield ".__self__", value.__self__
    elif isinstance(value, functools.partial):
        yield from ((f".{name}", getattr(value, name)) for name in ("func", "args", "keywords"))
    elif isinstance(value, types.FunctionType):
        for variable, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
            yield from ((f".<closure {variable}>", part) for part in rebuilding.cell_state(cell))
        yield from ((f".<default {i}>", part) for i, part in enumerate(value.__defaults__ or ()))
    elif isinstance(value, type):
        yield from ((f".{name}", part) for name, part in classes.parts_of(value)[""].items())
    elif hasattr(value, "__dict__"):
        yield from ((f".{name}", part) for name, part in list(vars(value).items())[:_PARTS])
    for cls in type(value).__mro__:
        slots = vars(cls).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(value, name):
                yield f".{name}", getattr(value, name)
