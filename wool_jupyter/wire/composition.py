"""What a notebook function consists of, where none of it can change unseen: as long as it is the same, it ships as it did."""

import sys
import types
from abc import ABCMeta
from typing import Any, NamedTuple

import cloudpickle

from wool_jupyter.wire import code_names, loaded, rebuilding, shell_names
from wool_jupyter.wire.identical import Identical

_CONSTANTS = frozenset({int, float, complex, bool, str, bytes, type(None), type(...)})
_BY_NAME = frozenset({types.FunctionType, types.BuiltinFunctionType, type, ABCMeta})
_NOT_THERE, _NUMBER = object(), object()


class _MayChange(Exception):
    """Only a packing tells what has become of it."""


class Composition(NamedTuple):
    parts: Identical
    numbers: tuple[int, ...]  # in their order, each where the parts have a place for one
    modules: loaded.Glance  # a submodule that came since may be reached through a package


def of(function: types.FunctionType) -> Composition | None:
    """None if something in it may change and stay the same object: a list, a class of the notebook. Runs nothing of a user's that
    packing it would not run."""
    gathering = _Gathering()
    try:
        gathering.function(function)
    except (_MayChange, RecursionError):  # a long chain of functions: packing goes through it one by one
        return None
    return Composition(Identical(gathering.parts), tuple(gathering.numbers), loaded.glance())


class _Gathering:
    """Of what holds no function: the composition of one may be kept for as long as the function lives, and no longer."""

    def __init__(self) -> None:
        self.parts: list[Any] = []
        self.numbers: list[int] = []
        self._globals = rebuilding.main_globals()
        self._seen: dict[int, int] = {}  # functions, cells and tuples, by id: the how manieth
        if cloudpickle.list_registry_pickle_by_value():
            raise _MayChange

    def _is_new(self, obj: object) -> bool:
        many = len(self._seen)
        number = self._seen.setdefault(id(obj), many)
        self._number(number)
        return number == many

    def _number(self, number: int) -> None:
        self.parts.append(_NUMBER)
        self.numbers.append(number)

    def function(self, f: types.FunctionType) -> None:
        if not self._is_new(f):
            return
        reads = code_names.function_reads(f.__code__)
        is_method = "." in f.__qualname__ and "<locals>" not in f.__qualname__
        if f.__globals__ is not self._globals or reads.whole_namespace or is_method or vars(f):
            raise _MayChange
        self.parts += (f.__code__, self._globals.get(f.__qualname__) is f)
        for each in (f.__name__, f.__qualname__, f.__module__, f.__doc__, f.__defaults__):
            self.value(each)
        for held in (f.__kwdefaults__ or {}, self._annotations(f)):
            for name, value in held.items():
                self.parts.append(name)
                self.value(value)
        for cell in f.__closure__ or ():
            if self._is_new(cell):
                self._values(rebuilding.cell_state(cell))
        read = reads.names | reads.text
        for name in (read - shell_names.ALL) | shell_names.are_users(read, self._globals):
            self.value(self._globals.get(name, _NOT_THERE))

    def value(self, value: Any) -> None:
        kind = type(value)
        if kind is types.FunctionType and value.__globals__ is self._globals:
            self.function(value)
        elif kind is tuple:
            if self._is_new(value):
                self._values(value)
        elif kind in _CONSTANTS or value is _NOT_THERE or self._is_named(kind, value):
            self.parts.append(value)
        else:
            raise _MayChange

    def _values(self, values: tuple[Any, ...]) -> None:
        self._number(len(values))
        for each in values:
            self.value(each)

    def _is_named(self, kind: type, value: Any) -> bool:
        """It travels by its name, and is to be found there."""
        if kind is types.ModuleType:
            return value.__name__ != "__main__" and sys.modules.get(value.__name__) is value
        if kind not in _BY_NAME or value.__module__ == "__main__":
            return False
        if kind is types.FunctionType and rebuilding.is_dispatcher(value):
            return False  # a notebook may register more with it
        return getattr(sys.modules.get(value.__module__), "__dict__", {}).get(value.__qualname__) is value

    def _annotations(self, f: types.FunctionType) -> dict[str, Any]:
        try:
            return f.__annotations__
        except Exception:  # noqa: BLE001 (evaluated when they are asked for, from Python 3.14 on)
            raise _MayChange from None
