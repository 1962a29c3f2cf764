"""Changed objects: what a worker says about one, and how the kernel's original takes it over.

Said in bulk, by kind: `{(kind, class): ([number, ...], [content, ...])}`. One record per object is fifty times slower with 200,000
of them. The class is that of instances, which a cell may have changed; None with the other kinds.
A content is shallow and in a new container, for the pickler would turn the object itself into its number.
"""

import contextlib
import enum
import pickle
import types
from collections.abc import Callable, Mapping
from typing import Any

from wool_jupyter.errors import in_words
from wool_jupyter.wire import finished, memmaps, pages, pickling, rebuilding, returning, tensors, type_facts
from wool_jupyter.wire.reduction import Reduction, can_refill, rebuilt, reduction_of, refill, set_state

Contents = dict[tuple[str, type | None], tuple[list[int], list[Any]]]

_WITHOUT_CONTENT = (
    str, bytes, int, float, complex, type(None), type(...), type(NotImplemented), tuple, frozenset, range, slice, type, enum.Enum,
    types.ModuleType, types.CodeType, types.BuiltinFunctionType, types.MethodType, types.MethodDescriptorType,
    types.MappingProxyType, types.WrapperDescriptorType,
    types.GetSetDescriptorType, types.MemberDescriptorType, property, staticmethod, classmethod,
)  # fmt: skip


CONTENT: dict[str, Callable[[Any], Any]] = {
    "list": list.copy,
    "dict": dict.copy,
    "set": set.copy,
    "bytearray": bytes,
    "instance": lambda o: dict(vars(o)),
    "exception": lambda e: (e.args, dict(vars(e))),
    "array": returning.Data,
    "tensor": lambda t: tensors.content_of(t) or reduction_of(t),
    "frame": lambda f: f.copy(deep=False),
    "cell": rebuilding.cell_state,
    "function": lambda f: (f.__code__, rebuilding.function_state(f)),
    "dispatcher": rebuilding.dispatcher_state,
    "reduced": reduction_of,
    "mapped": lambda m: None if memmaps.place_of(m) else reduction_of(m),
}


WITH_STATE = ("instance", "exception", "reduced")


def key_of(kind: str, obj: Any) -> tuple[str, type | None]:
    """Under which its content is said."""
    if kind == "function" and rebuilding.is_dispatcher(obj):
        return "dispatcher", None
    return kind, type(obj) if kind == "instance" else None


def kind_of(t: type) -> str | None:
    """How objects of this type are brought up to date; None: there is nothing in them that could change."""
    if t in (list, dict, set, bytearray):
        return t.__name__
    if type_facts.is_value_with_attributes(t):
        return "instance"
    if issubclass(t, _WITHOUT_CONTENT):
        return None
    if issubclass(t, BaseException):
        return "exception"
    if type_facts.is_array(t):
        return "array"
    if type_facts.is_frame(t):
        return "frame"
    if tensors.is_tensor(t):
        return "tensor"
    if t is types.CellType:
        return "cell"
    if t is types.FunctionType:
        return "function"
    if memmaps.is_memmap(t):
        return "mapped"
    if finished.may_be(t):
        return None
    if type_facts.is_its_dict(t):
        return "instance"
    if not pickling.has_plain_reduction(t):
        return None
    if t.__module__ != "__main__" and t.__hash__ not in (None, object.__hash__):
        return None  # hashed by value: datetime, Decimal, Path ... are not changed, by convention
    return "reduced"


class Patch:
    """Pours contents into the originals on construction. `replaced` is what could not be filled in place."""

    def __init__(self, contents: list[tuple[str, Contents]], originals: Mapping[int, Any]) -> None:
        self.replaced: dict[int, tuple[Any, Any]] = {}  # id(original) -> (original, its replacement)
        self.inside: dict[int, str] = {}  # id(original) -> the variable that it was found in
        self.failed: dict[str, str] = {}  # variable -> what its own `__setstate__` or the like raised
        flat = [
            (kind, cls, originals[number], content, name)
            for name, part in contents
            for (kind, cls), (numbers, bodies) in part.items()
            for number, content in zip(numbers, bodies, strict=True)
            # A small buffer travels as a bytearray; here it is part of the object that exported it.
            if type(originals[number]) is not pickle.PickleBuffer
        ]
        # Instances last: a `__dict__` may have a number of its own, whose content is out of date by now.
        flat.sort(key=lambda entry: entry[0] in WITH_STATE)
        for kind, cls, original, content, name in flat:
            try:
                if cls is not None and type(original) is not cls:
                    original.__class__ = cls
                replacement = getattr(self, f"_{kind}")(original, content)
            except Exception as error:  # noqa: BLE001 (a user's method: the others are to be brought up to date all the same)
                self.failed[name] = in_words(error)
                continue
            if replacement is not None:
                self.replaced[id(original)] = original, replacement
                self.inside[id(original)] = name
        if self.replaced:
            for original in list(originals.values()):
                self._hand_over(original)

    def current(self, obj: Any) -> Any:
        found = self.replaced.get(id(obj))
        return obj if found is None else found[1]

    def _hand_over(self, holder: Any) -> None:
        """To whoever holds an object that was replaced, among those that the cell had."""
        if type(holder) is list:
            holder[:] = map(self.current, holder)
        elif type(holder) is set:
            if any(id(obj) in self.replaced for obj in holder):
                self._set(holder, set(map(self.current, holder)))
        elif isinstance(holder, types.CellType):
            rebuilding.set_cell(holder, tuple(map(self.current, rebuilding.cell_state(holder))))
        elif not isinstance(holder, _WITHOUT_CONTENT):
            attributes: dict[Any, Any] = holder if isinstance(holder, dict) else getattr(holder, "__dict__", {})
            for key, value in list(attributes.items()):
                if id(value) in self.replaced:
                    attributes[key] = self.current(value)

    # Each puts a content into the original, or returns what takes the original's place.

    def _list(self, original: list[Any], new: list[Any]) -> None:
        original[:] = new

    def _dict(self, original: dict[Any, Any], new: dict[Any, Any]) -> None:
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

    def _exception(self, original: BaseException, content: tuple[tuple[Any, ...], dict[str, Any]]) -> None:
        args, state = content
        original.args = tuple(map(self.current, args))
        self._dict(vars(original), state)

    def _mapped(self, original: Any, content: Reduction | None) -> Any:
        return self._reduced(original, content)

    def _reduced(self, original: Any, content: Reduction | None) -> Any:
        if content is None:
            return None
        args = tuple(map(self.current, content.args))
        if any(arg is not given for arg, given in zip(args, content.args, strict=True)):
            return rebuilt(content._replace(args=args))  # an iterator over one that was replaced
        if isinstance(content.state, tuple):
            content = content._replace(state=tuple(map(self.current, content.state)))
        if can_refill(original, content):
            refill(original, content)
            return None
        fresh = rebuilt(content)
        if not isinstance(original, dict | list | set):
            return fresh
        original.clear()  # a Counter, say, is made from its contents
        original.extend(fresh) if isinstance(original, list) else original.update(fresh)
        set_state(original, content._replace(items=None, pairs=None))
        return None

    def _dispatcher(self, original: Any, state: rebuilding.DispatcherState) -> None:
        registry, attributes = state
        for cls, function in registry.items():
            if original.registry.get(cls) is not function:
                original.register(cls, function)
        vars(original).update(attributes)

    def _array(self, original: Any, new: Any) -> Any:
        if isinstance(new, pages.Pages):
            new.write_into(original)
            return None
        if original.shape != new.shape and original.size == new.size:
            with contextlib.suppress(AttributeError):  # its memory has no room for that shape
                original.shape = new.shape
        if new.flags.writeable and original.flags.owndata:
            original.flags.writeable = True
        if not _fits(original, new):
            return new
        original[...] = new
        if not new.flags.writeable:
            original.flags.writeable = False
        return None

    def _tensor(self, original: Any, new: tensors.Content | Reduction) -> None:
        if isinstance(new, Reduction):
            original.data = rebuilt(new).data
        else:
            tensors.pour(original, new)

    def _frame(self, original: Any, new: Any) -> None:
        original._update_inplace(new)
        original.attrs = new.attrs
        for name in original._metadata:
            object.__setattr__(original, name, getattr(new, name, None))

    def _cell(self, original: types.CellType, state: tuple[Any, ...]) -> None:
        rebuilding.set_cell(original, state)

    def _function(self, original: types.FunctionType, content: tuple[types.CodeType, rebuilding.FunctionState]) -> None:
        original.__code__, state = content
        rebuilding.set_function_state(original, state)


def _fits(original: Any, new: Any) -> bool:
    return bool(original.dtype == new.dtype and original.shape == new.shape and original.flags.writeable)
