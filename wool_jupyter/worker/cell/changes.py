"""The inputs of a cell on the worker: loading them, and telling afterwards which have changed.

An input is pickled again, with the memo that the kernel's pickler had at its start: equal bytes and equal buffers are an
unchanged input, of which nothing travels back. Numbers name objects as the memo does (`wire.pickling`).
"""

import contextlib
import functools
import importlib
import io
import linecache
import pickle
import sys
import types
from collections.abc import Iterable, Mapping
from typing import Any

from wool_jupyter.errors import CannotLoad, in_words
from wool_jupyter.wire import (
    buffers,
    classes,
    contents,
    mappings,
    own_memory,
    pages,
    patching,
    pickling,
    rebuilding,
    returning,
    standins,
    type_facts,
    views,
)
from wool_jupyter.wire.cells import Names
from wool_jupyter.wire.unhindered import unhindered

_SMALL_BYTES = 1 << 20  # up to here the baseline is dumped anew: exact where interning or set order make other bytes
_NO_STATE = frozenset({str, bytes, int, float, complex, bool, type(None), list, tuple, dict, set, frozenset, bytearray})
_BY_VALUE = (
    str, bytes, int, float, complex, bool, type(None), type, frozenset,
    types.ModuleType, types.CodeType, types.BuiltinFunctionType,
)  # fmt: skip


class _Gone:
    """In place of an object that died with the load."""


class Arrival:
    """Loads on construction, on the main thread, into `__main__`; `CannotLoad` names the variable.

    Holds every loaded object until it is dropped, so that `del big` in a cell frees nothing before the cell's end.
    """

    def __init__(self, names: Names) -> None:
        for module in names.submodules:
            with contextlib.suppress(ImportError):  # reached through a package perhaps; who needs it, says so
                importlib.import_module(module)
        self._names = names
        stream, self._buffers = buffers.unpack(names.parcel)
        self._stream = memoryview(stream)
        self.values: dict[str, Any] = {}
        self._roots: list[Any] = []
        self._objects = self._load()
        met = set(map(type, self._objects.values()))
        if met - _NO_STATE:
            _drop_temporaries(self._objects)
        self._kinds: dict[type, str | None] = {t: patching.kind_of(t) for t in met}
        self._kinds[_Gone] = self._kinds[standins.Absent] = None  # what stands for an object says nothing of it
        by_value = {t for t in met if issubclass(t, _BY_VALUE) and not type_facts.is_value_with_attributes(t)}
        with_identity = {t for t in met - by_value if not t.__module__.startswith("numpy.dtypes")}
        array_types, class_types = set(filter(type_facts.is_array, met)), {t for t in met if issubclass(t, type)}
        wanted = with_identity | array_types | class_types  # a million strings are looked at once
        held = [(n, o) for n, o in self._objects.items() if type(o) in wanted]
        self.numbers = {id(o): n for n, o in held if type(o) in with_identity and _is_ours(o)}
        arrays = [o for _, o in held if type(o) in array_types]
        self.view_bases = views.by_root(arrays)
        found = ((id(array), views.inside(array, self.view_bases)) for array in arrays)
        self._bases: views.Bases = {ident: base for ident, base in found if base is not None}
        loaded = {id(o): o for _, o in held if type(o) in class_types and o.__module__ == "__main__"}
        kept = standins.keys_by_id()
        self._kept = {ident: key for ident, key in kept.items() if ident in self.numbers or ident in loaded}
        self._ends = [self.numbers[id(root)] for root in self._roots]
        # One that is kept here the kernel does not know: its instances can't go there.
        self._classes = {cls: classes.parts_of(cls) for ident, cls in loaded.items() if ident not in kept}
        known = {ref.number: ref.digest for ref in names.parcel.refs}
        self._arrived = [_Arrived(b, known.get(number, b"")) for number, b in enumerate(self._buffers)]
        self._by_address = {(each.address, each.nbytes): each for each in self._arrived}
        self._writable = {id(array): _form(array) for array in arrays if self._is_in_a_mapping(array)}
        self._before = self._baseline(sets=bool(met & {set, frozenset}))

    def _load(self) -> dict[int, Any]:
        unpickler = pickle.Unpickler(io.BytesIO(self._stream), buffers=iter(self._buffers))
        with unhindered():
            for name, _, _ in self._names.segments:
                try:
                    root = unpickler.load()
                except Exception as error:
                    reason = f"`{name}` could not be loaded on the worker: {in_words(error)}"
                    raise CannotLoad(reason, name) from error
                self._roots.append(root)
                self.values[name] = rebuilding.main_globals()[name] = root[0]  # what follows may need it to be loaded
            return dict(unpickler.memo.copy())

    def _baseline(self, *, sets: bool) -> list[bytes | memoryview | None]:
        """None: it came, and does not pickle here; whether it changes can't be told."""
        before: list[bytes | memoryview | None] = []
        repickler = self._repickler()
        at = 0
        for k, (_, length, _) in enumerate(self._names.segments):
            arrived = self._stream[at : at + length]
            at += length
            if length >= _SMALL_BYTES and not sets and not self._kept:
                before.append(arrived)
                continue
            try:
                before.append(repickler.dump(k)[0])
            except Exception:  # noqa: BLE001 (whatever a user's __reduce__ raises)
                before.append(None)
        return before

    def _repickler(self) -> "_Repickler":
        return _Repickler(
            self._objects, self._roots, [self._first(k) for k in range(len(self._roots))], self._kept, self._bases
        )

    def _first(self, k: int) -> int:
        return self._ends[k - 1] + 1 if k else 0

    def changed(self) -> tuple[list[int], list[str]]:
        """Indices of the changed inputs, and names of those that no longer pickle."""
        changed, stuck, seen = [], [], 0
        repickler = self._repickler()
        with unhindered():
            for k, (name, _, count) in enumerate(self._names.segments):
                arrived = self._arrived[seen : seen + count]
                seen += count
                if self._before[k] is None:
                    changed.append(k)  # its contents may travel even if it does not pickle as a whole
                    continue
                try:
                    stream, out_of_band = repickler.dump(k)
                except Exception:  # noqa: BLE001 (whatever a user's __reduce__ raises)
                    stuck.append(name)
                    continue
                if stream != self._before[k]:
                    repickler.differs()
                    changed.append(k)
                elif len(out_of_band) != count or not all(map(_Arrived.is_still, arrived, out_of_band)):
                    changed.append(k)
        return changed, stuck

    def numbers_but_of(self, wanted: Iterable[Any]) -> Mapping[int, int]:
        """For a reply in which these travel as they are, also those that the kernel knows as kept here."""
        kept = {id(each) for each in wanted} & self._kept.keys()
        return {ident: n for ident, n in self.numbers.items() if ident not in kept} if kept else self.numbers

    def name(self, k: int) -> str:
        return self._names.segments[k][0]

    def contents(self, k: int) -> patching.Contents:
        found: patching.Contents = {}
        for n in range(self._first(k), self._ends[k] + 1):
            obj = self._objects[n]
            if obj is self._roots[k]:
                continue
            kind = self._kinds[type(obj)] if type(obj) in self._kinds else patching.kind_of(type(obj))
            if (
                kind is None
                or id(obj) in self._kept
                or id(obj) in self._parts_of_others
                or id(obj) in self._bases  # the content is its base's
                or not _is_ours(obj)
                or (kind == "array" and self._is_untouched(obj))
            ):
                continue
            key = patching.key_of(kind, obj)
            numbers, bodies = found.setdefault(key, ([], []))
            numbers.append(n)
            bodies.append((self._pages(obj) if kind == "array" else None) or patching.CONTENT[key[0]](obj))
        return found

    @functools.cached_property
    def _parts_of_others(self) -> set[int]:
        """Dicts that are an object's `__dict__` or a copied function's globals here, and there belonged to the pickling alone:
        a `__setstate__` may keep the dict that it is given, cloudpickle makes one for each function that it copies."""
        with_state = {t for t, kind in self._kinds.items() if kind in patching.WITH_STATE}
        parts = {id(o.__globals__) for o in self._objects.values() if isinstance(o, types.FunctionType)}
        parts.update(id(o.__dict__) for o in self._objects.values() if type(o) in with_state and hasattr(o, "__dict__"))
        return parts

    def _pages(self, array: Any) -> pages.Pages | None:
        """What was written into it, if nothing else of it has changed and the kernel's can be written into as it is."""
        is_as_it_came = self._writable.get(id(array)) == _form(array)
        return pages.written(array) if is_as_it_came else None

    def _is_in_a_mapping(self, array: Any) -> bool:
        came = self._came_as(array)
        return came is not None and came.is_mapped

    def _is_untouched(self, array: Any) -> bool:
        came = self._came_as(array)
        return came is not None and came.is_still(memoryview(array.reshape(-1, order="A").view("u1")))

    def _came_as(self, array: Any) -> "_Arrived | None":
        """The buffer that it is all of, in the same order, so that a place in it is one in the kernel's array."""
        flags = array.flags
        if array.dtype.hasobject or not flags.writeable or not (flags.c_contiguous or flags.f_contiguous):
            return None
        return self._by_address.get((views.address(array), array.nbytes))

    def class_changes(self) -> list[classes.Change]:
        return [change for cls, before in self._classes.items() for change in classes.changes(cls, before)]

    @property
    def class_ids(self) -> set[str]:
        return {classes.class_id(cls) for cls in self._classes}


class _Arrived:
    """A buffer as it was when it came. One that is mapped tells by its pages whether it was written into: reading it would take
    ten times as long."""

    def __init__(self, buffer: memoryview, digest: bytes) -> None:
        """`digest` is b"" if nobody has told it."""
        self.address = own_memory.address(buffer)
        self.nbytes = buffer.nbytes
        mapping = mappings.of(buffer)
        self._mapping = mapping if mapping is not None and self._is_of_the_file() else None
        self._digest = digest if self._mapping is not None else contents.digest(buffer)  # loading may have changed it

    def is_still(self, view: memoryview) -> bool:
        if view.nbytes != self.nbytes:
            return False
        if self._mapping is not None and own_memory.address(view) == self.address and self._is_of_the_file():
            return True
        if self._mapping is not None and not self._digest:
            try:
                self._digest = contents.digest(self._in_the_file(self._mapping))
            except FileNotFoundError:  # somebody has swept it away: then it can't be told
                return False
        return contents.digest(view) == self._digest

    @property
    def is_mapped(self) -> bool:
        return self._mapping is not None

    def _is_of_the_file(self) -> bool:
        return own_memory.has_own_pages(self.address, self.nbytes) is False

    def _in_the_file(self, mapping: mappings.Mapping) -> memoryview:
        """The file is there as long as the cell runs."""
        return mappings.mapped(mapping.file, mapping.offset + self.address - mapping.address, self.nbytes)


class _Repickler:
    """Pickles the inputs again, as the kernel did: in their order, with one memo. After one that comes out otherwise, the memo is
    made what the kernel's was."""

    def __init__(
        self, objects: dict[int, Any], roots: list[Any], firsts: list[int], kept: dict[int, str], bases: views.Bases
    ) -> None:
        self._objects, self._roots, self._firsts, self._kept, self._bases = objects, roots, firsts, kept, bases
        self._next = -1  # the input that the memo is right for
        self._file = io.BytesIO()
        self._pickler: Any = None

    def dump(self, k: int) -> tuple[bytes, list[memoryview]]:
        # What is kept takes no number here, so that after it a memo that goes on is not the kernel's.
        if self._next != k or self._kept:
            self._begin(k)
        self._next = -1
        self._out_of_band.buffers = []
        self._pickler.dump(self._roots[k])
        stream = self._file.getvalue()
        self._file.seek(0)
        self._file.truncate()
        self._next = k + 1
        return stream, self._out_of_band.buffers

    def differs(self) -> None:
        self._next = -1

    def _begin(self, k: int) -> None:
        self._file, self._out_of_band = io.BytesIO(), buffers.OutOfBand()
        self._pickler = pickling.NotebookPickler(self._file, self._out_of_band, bases=self._bases)
        if self._kept:  # an object that does not pickle must not be tried
            self._pickler = returning.ReturnPickler(
                self._file, self._out_of_band, numbers=self._kept, bases=self._bases
            )
        if start := self._firsts[k]:
            memo = {id(self._objects[n]): (n, self._objects[n]) for n in range(start)}
            fillers = [object() for _ in range(start - len(memo))]  # numbers go on from the memo's size
            self._pickler.memo = memo | {id(filler): (0, filler) for filler in fillers}


def _form(array: Any) -> tuple[Any, ...]:
    """All of it but what is in its memory."""
    return array.__array_interface__["data"], array.dtype, array.shape, array.strides


def _is_ours(obj: Any) -> bool:
    """A function with other globals is cloudpickle's copy, not the kernel's object."""
    if not isinstance(obj, types.FunctionType):
        return True
    return obj.__globals__ is rebuilding.main_globals() or rebuilding.is_dispatcher(obj)


def _drop_temporaries(objects: dict[int, Any]) -> None:
    """State dicts that only the load held. Their number is that of the kernel's real `__dict__`: writing a dead copy of it back
    would roll the instance back."""
    probe = -1
    objects[probe] = {}
    alone = sys.getrefcount(objects[probe])
    del objects[probe]
    for n in objects:  # noqa: PLC0206 (a second name would be a second reference)
        if type(objects[n]) in (dict, list) and sys.getrefcount(objects[n]) == alone:
            objects[n] = _Gone()


def register_sources(sources: Mapping[str, tuple[int | None, list[str]]], cell_numbers: dict[str, int]) -> None:
    """Lines of notebook functions, for tracebacks and `inspect.getsource`."""
    for filename, (number, lines) in sources.items():
        linecache.cache[filename] = (sum(map(len, lines)), None, lines, filename)
        if number is not None:
            cell_numbers[filename] = number
