"""Changed objects: what a worker says about one, and how the kernel's original takes it over.

Said in bulk, by kind: `{kind: ([number, ...], [content, ...])}`. One record per object is fifty times slower with 200,000 of them.
A content is shallow and in a new container, for the pickler would turn the object itself into its number.
"""

import copyreg
import enum
import pickle
import types
from collections.abc import Callable, Mapping
from typing import Any

from wool_jupyter.wire import pickling, rebuilding

Contents = dict[str, tuple[list[int], list[Any]]]

_WITHOUT_CONTENT = (
    str, bytes, int, float, complex, type(None), type(...), type(NotImplemented), tuple, frozenset, range, slice, type, enum.Enum,
    types.ModuleType, types.CodeType, types.BuiltinFunctionType, types.MethodType, types.MethodDescriptorType,
    types.MappingProxyType, types.WrapperDescriptorType,
    types.GetSetDescriptorType, types.MemberDescriptorType, property, staticmethod, classmethod,
)  # fmt: skip


class _Moved:
    """Carries a whole object past the pickler's numbers: it reduces as the object does, under another identity."""

    def __init__(self, reduction: tuple[Any, ...]) -> None:
        self._reduction = reduction

    def __reduce__(self) -> tuple[Any, ...]:
        return self._reduction


def _new_object(cls: type, *args: Any) -> Any:
    return cls.__new__(cls, *args)


def _new_object_ex(cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return cls.__new__(cls, *args, **kwargs)


# The C pickler checks that the object it reduces has the class that these two are given.
_UNCHECKED = {getattr(copyreg, "__newobj__"): _new_object, getattr(copyreg, "__newobj_ex__"): _new_object_ex}  # noqa: B009


def _reduction(obj: Any) -> tuple[Any, ...]:
    by_table = copyreg.dispatch_table.get(type(obj)) or pickling.NotebookPickler.dispatch_table.get(type(obj))
    made = by_table(obj) if by_table else obj.__reduce_ex__(pickling.PROTOCOL)
    if isinstance(made, str):
        raise pickle.PicklingError(f"{made} is pickled by name")
    maker, *rest = made
    return _UNCHECKED.get(maker, maker), *rest


def _state(obj: Any) -> Any:
    reduction = _reduction(obj)
    state = reduction[2] if len(reduction) > 2 else None
    return dict(state) if type(state) is dict else state


CONTENT: dict[str, Callable[[Any], Any]] = {
    "list": list.copy,
    "dict": dict.copy,
    "set": set.copy,
    "bytearray": bytes,
    "instance": lambda o: dict(vars(o)),
    "stateful": _state,
    "array": lambda a: a.view(),
    "frame": lambda f: f.copy(deep=False),
    "cell": rebuilding.cell_state,
    "function": lambda f: (f.__code__, rebuilding.function_state(f)),
    "replacement": lambda o: _Moved(_reduction(o)),
}


def kind_of(t: type) -> str | None:
    """How objects of this type are brought up to date; None: there is nothing in them that could change."""
    if t in (list, dict, set, bytearray):
        return t.__name__
    if issubclass(t, _WITHOUT_CONTENT):
        return None
    if issubclass(t, BaseException):
        return "instance"
    if pickling.is_array(t):
        return "array"
    if pickling.is_frame(t):
        return "frame"
    if t is types.CellType:
        return "cell"
    if t is types.FunctionType:
        return "function"
    if not pickling.has_plain_reduction(t):
        return None
    if _is_its_dict(t):
        return (
            "instance"
            if all(getattr(t, hook, None) is getattr(object, hook, None) for hook in _STATE_HOOKS)
            else "stateful"
        )
    if t.__module__ != "__main__" and t.__hash__ not in (None, object.__hash__):
        return None  # hashed by value: datetime, Decimal, Path ... are not changed, by convention
    return "replacement"


_REDUCE_HOOKS = ("__reduce__", "__reduce_ex__", "__getnewargs__", "__getnewargs_ex__")
_STATE_HOOKS = ("__getstate__", "__setstate__")


class _Plain:
    pass


def _is_its_dict(t: type) -> bool:
    """A Python class whose objects are nothing but their `__dict__`, whatever they make of it when pickled."""
    same_layout = t.__basicsize__ == _Plain.__basicsize__ and t.__itemsize__ == 0
    slotted = any("__slots__" in vars(c) and vars(c)["__slots__"] for c in t.__mro__)
    by_hook = t in copyreg.dispatch_table or t in pickling.NotebookPickler.dispatch_table
    default = all(getattr(t, hook, None) is getattr(object, hook, None) for hook in _REDUCE_HOOKS)
    return same_layout and not slotted and not by_hook and default


class Patch:
    """Pours contents into the originals on construction. `replaced` is what could not be filled in place."""

    def __init__(self, contents: list[tuple[str, Contents]], originals: Mapping[int, Any]) -> None:
        self.replaced: dict[int, tuple[Any, Any]] = {}  # id(original) -> (original, its replacement)
        self.inside: dict[int, str] = {}  # id(original) -> the variable that it was found in
        flat = [
            (kind, originals[number], content, name)
            for name, part in contents
            for kind, (numbers, bodies) in part.items()
            for number, content in zip(numbers, bodies, strict=True)
        ]
        # Replacements first, since containers need to know them; instances last, since a `__dict__` may have a number of its own
        # that is out of date by now.
        for kind, original, content, name in flat:
            if kind == "replacement" or (kind == "array" and not self._fits(original, content)):
                self.replaced[id(original)] = original, content
                self.inside[id(original)] = name
        for kind, original, content, _ in sorted(flat, key=lambda entry: entry[0] in ("instance", "stateful")):
            if id(original) not in self.replaced:
                getattr(self, f"_{kind}")(original, content)

    def current(self, obj: Any) -> Any:
        found = self.replaced.get(id(obj))
        return obj if found is None else found[1]

    @staticmethod
    def _fits(original: Any, new: Any) -> bool:
        same = original.dtype == new.dtype and original.shape == new.shape
        return same and bool(original.flags.writeable)

    def _list(self, original: list[Any], new: list[Any]) -> None:
        original[:] = map(self.current, new) if self.replaced else new

    def _dict(self, original: dict[Any, Any], new: dict[Any, Any]) -> None:
        if self.replaced:
            new = {key: self.current(value) for key, value in new.items()}
        if list(original) != list(new):
            original.clear()
        original.update(new)

    def _set(self, original: set[Any], new: set[Any]) -> None:
        original.clear()
        original.update(new)

    def _bytearray(self, original: bytearray, new: bytes) -> None:
        original[:] = new

    def _instance(self, original: Any, state: dict[str, Any]) -> None:
        self._dict(vars(original), state)

    def _stateful(self, original: Any, state: Any) -> None:
        """As unpickling would set it up, in the object that is there."""
        before = dict(vars(original))
        vars(original).clear()
        try:
            if hasattr(original, "__setstate__"):
                original.__setstate__(state)
            elif state is not None:
                vars(original).update(state)
        except BaseException:
            vars(original).clear()
            vars(original).update(before)
            raise

    def _array(self, original: Any, new: Any) -> None:
        original[...] = new

    def _frame(self, original: Any, new: Any) -> None:
        original._update_inplace(new)
        original.attrs = new.attrs

    def _cell(self, original: types.CellType, state: tuple[Any, ...]) -> None:
        rebuilding.set_cell(original, tuple(map(self.current, state)))

    def _function(self, original: types.FunctionType, content: tuple[types.CodeType, rebuilding.FunctionState]) -> None:
        original.__code__, state = content
        rebuilding.set_function_state(original, state)
