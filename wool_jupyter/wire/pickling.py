"""Pickling the objects of a notebook so that functions, classes and shared objects stay what they are.

cloudpickle does what is not named here. Notebook functions bind to the receiver's `__main__`, classes travel under an id
(`classes`), code keeps its file name and lines. One stream with one memo carries all names of a cell: the pickler's memo and the
unpickler's number the same objects the same way, so a number names an object on both sides.

A failed `dump` spoils the memo: never go on with that pickler.
"""

import functools
import io
import itertools
import pickle
import sys
import threading
import types
import typing
from collections.abc import Callable, Container, Mapping
from types import MappingProxyType
from typing import IO, Any

import cloudpickle

from wool_jupyter.wire import (
    arrays,
    classes,
    closed_files,
    code_names,
    columns,
    exceptions,
    finished,
    generators,
    memmaps,
    rebuilding,
    standins,
    tensors,
    type_facts,
    type_objects,
    views,
)

PROTOCOL = 5
_LOCK, _RLOCK = type(threading.Lock()), type(threading.RLock())

Reducer = Callable[["NotebookPickler", Any], Any]


class NotebookPickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Gathers what the pickled functions need beyond themselves, for whoever fills the receiver's `__main__`.

    `known_classes` are ids that the receiver has: referred to, never described. `left_behind` says by id which objects go as
    stand-ins, and what these say when they are used.
    """

    def __init__(
        self,
        file: IO[bytes],
        buffer_callback: Callable[[pickle.PickleBuffer], Any] | None = None,
        *,
        known_classes: Container[str] = (),
        bases: views.Bases | None = None,
        left_behind: Mapping[int, str] = MappingProxyType({}),
    ) -> None:
        super().__init__(file, PROTOCOL, buffer_callback)
        self.bases = bases or {}
        self.left_behind = left_behind
        self.arrays: list[Any] = []
        self.known_classes = known_classes
        self.names: set[str] = set()  # global names that the functions read
        self.text: set[str] = set()  # identifiers inside their strings
        self.attributes: set[str] = set()
        self.whole_namespace = False
        self.files: set[str] = set()  # code objects' file names
        self.described: dict[str, type] = {}
        self.kept: list[standins.Kept] = []  # what only one worker has
        self.lost: list[str] = []  # parts of exceptions
        self.root: object = None  # the value that is being dumped; set by the caller
        self._reducers: dict[type, Reducer | None] = dict(_BY_TYPE)  # not the process's: it would hold notebook classes

    def reducer_override(self, obj: Any) -> Any:
        if self.left_behind and id(obj) in self.left_behind:
            return standins.Absent, (self.left_behind[id(obj)],)
        t = type(obj)
        try:
            reducer = self._reducers[t]
        except KeyError:
            reducer = self._reducers[t] = _reducer(t)
        return NotImplemented if reducer is None else reducer(self, obj)

    def pickles(self, obj: Any) -> bool:
        return self.failure(obj) is None

    def failure(self, obj: Any) -> Exception | None:
        """Why it does not pickle. Tried with another pickler, because a failure spoils the memo."""
        try:
            tried = NotebookPickler(
                io.BytesIO(), lambda _: None, known_classes=self.known_classes, left_behind=self.left_behind
            )
            tried.dump(obj)
        except Exception as error:  # noqa: BLE001 (whatever a user's __reduce__ raises)
            return error
        return None

    def _class(self, cls: type) -> Any:
        found = super().reducer_override(cls)
        if not isinstance(found, tuple) or len(found) < 6:
            return found  # importable, or a builtin
        ident = classes.class_id(cls)
        if ident in self.known_classes:
            return classes.class_by_id, (ident,)
        self.described[ident] = cls
        self._ship_name_of(cls)
        maker, args = classes.described(cls)
        return classes.make_class, (ident, maker, args), classes.parts_of(cls), None, None, classes.set_class_state

    def _function(self, f: types.FunctionType) -> Any:
        if f.__globals__ is not rebuilding.main_globals():
            return self._foreign_function(f)
        owner = self._owner(f)
        if owner is not None:
            return getattr, (owner, f.__name__)
        self._ship_name_of(f)
        reads = code_names.function_reads(f.__code__)
        self.names |= reads.names
        self.text |= reads.text
        self.attributes |= reads.attributes
        self.whole_namespace |= reads.whole_namespace
        state = rebuilding.function_state(f)
        return rebuilding.make_function, (f.__code__, f.__closure__), state, None, None, rebuilding.set_function_state

    def _foreign_function(self, f: types.FunctionType) -> Any:
        if f.__globals__ is vars(rebuilding):
            return NotImplemented  # by name; cloudpickle looks long for what stands in each function's pickle
        if rebuilding.is_dispatcher(f):
            return rebuilding.make_singledispatch, rebuilding.dispatcher_state(f)
        return super().reducer_override(f)

    def _code(self, code: types.CodeType) -> Any:
        self.files.add(code.co_filename)
        return rebuilding.load_code, (rebuilding.dump_code(code),)

    def _cell(self, cell: types.CellType) -> Any:
        return rebuilding.make_cell, (), rebuilding.cell_state(cell), None, None, rebuilding.set_cell

    def _method(self, method: types.MethodType) -> Any:
        name = method.__func__.__name__
        owner = method.__self__
        # A class may hold its own class methods (pydantic): while it is being described they can't be found on it.
        half_described = isinstance(owner, type) and owner in self.described.values()
        if not half_described and getattr(owner, name, None) == method:
            return getattr, (owner, name)
        return NotImplemented

    def _exception(self, error: BaseException) -> Any:
        return exceptions.reduce_exception(error, portable=self.pickles, lost=self.lost.append)

    def _lru(self, f: Any) -> Any:
        self._ship_name_of(f)
        attributes = {k: v for k, v in vars(f).items() if k != "cache_parameters"}
        return rebuilding.make_lru, (f.__wrapped__, f.cache_parameters(), attributes)

    def _cached_property(self, p: Any) -> Any:
        return rebuilding.make_cached_property, (p.func, p.attrname)

    def _frame(self, frame: Any) -> Any:
        """A leaf: arrays inside a pandas object are no objects of the notebook, and must get no number of their own."""
        inner_file, buffers = io.BytesIO(), []  # type: ignore[var-annotated]
        inner = _LeafPickler(inner_file, buffers.append, known_classes=self.known_classes, left_behind=self.left_behind)
        inner.dump(frame)
        self._take_over(inner)
        return rebuilding.load_leaf, (inner_file.getvalue(), *buffers)

    def _array(self, array: Any) -> Any:
        self.arrays.append(array)
        found = self.bases.get(id(array))
        if found is not None:
            return views.as_view(array, *found)
        return arrays.reduced(array) or NotImplemented

    def _polars(self, held: Any) -> Any:
        return columns.reduced(held) or NotImplemented

    def _callbacks(self, registry: Any) -> Any:
        """Each figure has some: they draw a number for each pickle (matplotlib 3.8 to 3.11), so that a second one differs."""
        reduced = registry.__reduce_ex__(PROTOCOL)
        registry._cid_gen = itertools.count(reduced[2]["_cid_gen"])
        return reduced

    def _tensor(self, tensor: Any) -> Any:
        return tensors.reduced(tensor) or NotImplemented

    def _storage(self, storage: Any) -> Any:
        return tensors.reduced_storage(storage) or NotImplemented

    def _memmap(self, array: Any) -> Any:
        found = memmaps.place_of(array)
        return NotImplemented if found is None else (memmaps.opened, found)

    def _delegating(self, obj: Any) -> Any:
        """The unpickler looks for a `__setstate__` on the empty object, where a `__getattr__` that reads attributes never ends."""
        return rebuilding.NEW_OBJECT, (type(obj),), vars(obj), None, None, rebuilding.set_attributes

    def _made_by_itself(self, obj: Any) -> Any:
        """`def __new__(cls, value, unit)`: its own pickling would call that with less than it wants. What it has made of the object
        is in the object."""
        reduced = obj.__reduce_ex__(PROTOCOL)
        if reduced[0] is not rebuilding.NEW_OBJECT or rebuilding.takes(type(obj).__new__, reduced[1]):
            return NotImplemented
        return rebuilding.new_by_base, *reduced[1:]

    def _take_over(self, inner: "NotebookPickler") -> None:
        for gathered in ("names", "text", "attributes", "files"):
            getattr(self, gathered).update(getattr(inner, gathered))
        self.whole_namespace |= inner.whole_namespace

    def _kept(self, kept: standins.Kept) -> Any:
        self.kept.append(kept)
        return standins.kept_object, (kept.key,)

    def _lock(self, lock: Any) -> Any:
        """A lock inside an object is that object's business and travels as a new one, as most `__setstate__`s do it."""
        if lock is self.root or not lock.acquire(blocking=False):
            return self._refuse(lock)
        lock.release()
        return rebuilding.make_lock, (type(lock) is _RLOCK,)

    def _file(self, file: Any) -> Any:
        """`with open(...) as f` leaves a closed one. cloudpickle would turn an open one into a `StringIO` without a word."""
        return closed_files.in_c(file) if file.closed else self._refuse(file)

    def _file_in_memory(self, file: Any) -> Any:
        return closed_files.in_memory(file) or NotImplemented

    def _stream(self, stream: Any) -> Any:
        if (standard := standard_stream(stream)) is not None:
            return standard
        return self._file(stream) if type(stream) is io.TextIOWrapper else NotImplemented

    def _over(self, obj: Any) -> Any:
        return finished.reduced(obj) or NotImplemented

    def _generator(self, generator: Any) -> Any:
        return generators.reduced(generator) or NotImplemented

    def _progress_bar(self, bar: Any) -> Any:
        """A copy of one that goes on would print a last time when it is let go."""
        return NotImplemented if getattr(bar, "disable", False) else self._refuse(bar)

    def _child(self, child: Any) -> Any:
        """A copy would hear nothing of its end, and take it for ended with success."""
        return self._refuse(child) if child.returncode is None else NotImplemented

    def _directory(self, _directory: Any) -> Any:
        """One that goes out stays its maker's, who removes it: the copy is a name for it."""
        return NotImplemented

    def _refuse(self, obj: Any) -> Any:
        raise pickle.PicklingError(f"cannot pickle {type(obj).__name__!r} object")

    def _ship_name_of(self, obj: Any) -> None:
        """It also arrives under its own name, where the standard pickle looks it up."""
        name = getattr(obj, "__qualname__", "")
        if rebuilding.main_globals().get(name) is obj:
            self.names.add(name)

    def _owner(self, f: types.FunctionType) -> type | None:
        """The notebook class that has `f` as a method, unless that class is being described right now."""
        *path, name = f.__qualname__.split(".")
        if not path or "<locals>" in path:
            return None
        owner: Any = rebuilding.main_globals().get(path[0])
        for part in path[1:]:
            owner = getattr(owner, part, None)
        if not isinstance(owner, type) or vars(owner).get(name) is not f:
            return None
        return None if classes.class_id(owner) in self.described else owner


class _LeafPickler(NotebookPickler):
    """Pandas objects by their own reduction."""

    def reducer_override(self, obj: Any) -> Any:
        return NotImplemented if type_facts.is_frame(type(obj)) else super().reducer_override(obj)


class ArgumentsPickler(NotebookPickler):
    """Of arguments, for who has had the function. What that reads is not sent again, and is the same object there."""

    def __init__(
        self,
        file: IO[bytes],
        buffer_callback: Callable[[pickle.PickleBuffer], Any],
        *,
        known_classes: Container[str],
        known_functions: Mapping[int, tuple[str, Callable[[], object]]],
    ) -> None:
        """`known_functions`: by id, under which global name the receiver has it, and a weak reference."""
        super().__init__(file, buffer_callback, known_classes=known_classes)
        self._known_functions = known_functions

    def reducer_override(self, obj: Any) -> Any:
        found = self._known_functions.get(id(obj))
        if found is not None and found[1]() is obj:
            return rebuilding.global_named, (found[0],)
        return super().reducer_override(obj)


_BY_TYPE: dict[type, Reducer | None] = {
    types.FunctionType: NotebookPickler._function,
    types.CodeType: NotebookPickler._code,
    types.CellType: NotebookPickler._cell,
    types.MethodType: NotebookPickler._method,
    functools._lru_cache_wrapper: NotebookPickler._lru,
    functools.cached_property: NotebookPickler._cached_property,
    types.BuiltinFunctionType: None,
    types.GeneratorType: NotebookPickler._over,
    io.TextIOWrapper: NotebookPickler._stream,
    io.BufferedReader: NotebookPickler._file,
    io.BufferedWriter: NotebookPickler._file,
    io.BufferedRandom: NotebookPickler._file,
    io.StringIO: NotebookPickler._file_in_memory,
    io.BytesIO: NotebookPickler._file_in_memory,
    memoryview: NotebookPickler._refuse,
    standins.Kept: NotebookPickler._kept,
    _LOCK: NotebookPickler._lock,
    _RLOCK: NotebookPickler._lock,
}


def _reducer(t: type) -> Reducer | None:
    """Ways that a `ReturnPickler` overrides are looked up by name, when an object comes."""
    if issubclass(t, type):
        return NotebookPickler._class
    if issubclass(t, BaseException):
        return NotebookPickler._exception
    if type_facts.is_frame(t):
        return NotebookPickler._frame
    if "__wool_reduce__" in vars(t):  # what travels with calls, and is not to be stored
        return lambda _, obj: obj.__wool_reduce__()
    if type_facts.is_array(t):
        return lambda pickler, array: pickler._array(array)
    if t.__name__ == "NewType" and t.__module__ == "typing":
        return lambda _, newtype: type_objects.newtype(newtype)
    if t is typing.TypeVar:
        return lambda _, variable: type_objects.type_variable(variable)
    if t.__name__ in ("ParamSpec", "TypeVarTuple") and t.__module__ in ("typing", "typing_extensions"):
        return lambda _, parameter: type_objects.type_parameter(parameter)
    if memmaps.is_memmap(t):
        return NotebookPickler._memmap
    if type_facts.is_child(t):
        return NotebookPickler._child
    if type_facts.is_temporary_directory(t):
        return lambda pickler, directory: pickler._directory(directory)
    if type_facts.is_callback_registry(t):
        return NotebookPickler._callbacks
    if tensors.is_tensor(t):
        return NotebookPickler._tensor
    if tensors.is_storage(t):
        return NotebookPickler._storage
    if columns.is_polars(t):
        return NotebookPickler._polars
    if t in _BY_TYPE:
        return _BY_TYPE[t]
    if type_facts.is_progress_bar(t):
        return NotebookPickler._progress_bar
    if type_facts.is_kernel_stream(t):
        return NotebookPickler._stream
    if finished.may_be(t):
        return lambda pickler, obj: pickler._over(obj)
    if generators.may_be(t):
        return NotebookPickler._generator
    if names := type_facts.sentinels(t):
        return lambda _, obj: (
            NotImplemented if id(obj) not in names or getattr(obj, "__dict__", None) else names[id(obj)]
        )
    if type_facts.makes_itself(t):
        return NotebookPickler._made_by_itself
    return NotebookPickler._delegating if hasattr(t, "__getattr__") and type_facts.is_its_dict(t) else None


def standard_stream(stream: Any) -> tuple[Any, ...] | None:
    """`sys.stdout` and `sys.stderr` are those of whoever receives them. None for another one."""
    name = next((name for name in ("stdout", "stderr") if stream is getattr(sys, name)), None)
    return None if name is None else (getattr, (sys, name))


def has_plain_reduction(t: type) -> bool:
    return _reducer(t) in _PLAIN


_PLAIN = (
    None,
    NotebookPickler._polars,
    NotebookPickler._callbacks,
    NotebookPickler._generator,
    NotebookPickler._file_in_memory,
    NotebookPickler._made_by_itself,
)


def dumps(obj: Any) -> bytes:
    file = io.BytesIO()
    NotebookPickler(file).dump(obj)
    return file.getvalue()


loads = pickle.loads
