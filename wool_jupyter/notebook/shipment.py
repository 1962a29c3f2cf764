"""Variables on their way out of the kernel's namespace, and which object has which number for the way home (`homecoming`)."""

import contextlib
import functools
import importlib
import linecache
import pickle
import types
from collections import ChainMap
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from wool_jupyter.errors import CannotShip, KeptOnWorker
from wool_jupyter.notebook.capture import Capture
from wool_jupyter.wire import culprits, shell_names, standins, type_facts, views
from wool_jupyter.wire.cells import Names
from wool_jupyter.wire.rows import Failed, Row
from wool_jupyter.wire.store import Lease, Store
from wool_jupyter.wire.unhindered import unhindered

# Made anew by the worker's shell. The history is shipped when the cell names a part of it: Out may be large.
_OWN = shell_names.SHELL | shell_names.MODULE
_PARTS_LEFT = 20  # of all inputs: the search for each takes a pass over them
_OF_TESTS = frozenset({"unittest", "doctest", "ipytest"})
_LOOK_FOR_TESTS = frozenset("testmod DocTestSuite loadTestsFromModule loadTestsFromName loadTestsFromNames".split())
_LOADERS = frozenset({"load", "loads", "read_pickle", "Unpickler"})


@dataclass(frozen=True, slots=True)
class Route:
    """What the user says of the ways in and out, new name -> name; None: nothing."""

    inputs: Mapping[str, str] | None = None  # the cell's name -> the notebook's: these alone go in, with what they need
    outputs: Mapping[str, str] | None = None  # the notebook's name -> the cell's: these alone are bound

    def homes(self, name: str) -> list[str]:
        """Where the cell's `name` is bound in the notebook."""
        return [home for home, source in (self.outputs or {}).items() if source == name] or [name]

    def leaves_out(self, name: str | None) -> bool:
        return self.inputs is not None and name not in self.inputs

    @property
    def results(self) -> tuple[str, ...] | None:
        return None if self.outputs is None else tuple(dict.fromkeys(self.outputs.values()))


AS_CAPTURED = Route()


class Shipment:
    """Pickles on construction, on the calling thread. Remembers which object has which number, for the way home."""

    def __init__(
        self,
        namespace: dict[str, Any],
        capture: Capture,
        *,
        route: Route = AS_CAPTURED,
        workers: Callable[[], Container[UUID]] = lambda: (),
    ) -> None:
        """`workers`: those that live; asked only if the cell may read what is kept on one."""
        self.namespace = namespace
        self.route = route
        self._source: Mapping[str, Any] = namespace
        if route.inputs is not None:
            self._source = ChainMap({name: namespace[source] for name, source in route.inputs.items()}, namespace)
            nothing: frozenset[str] = frozenset()
            capture = replace(
                capture,
                hard=frozenset(route.inputs),
                soft=nothing,
                text=nothing,
                deletes=nothing,
                whole_namespace=False,
            )
        # What is to come home, and is there already, has to be there for it: a value that was kept on a worker.
        self._capture = replace(
            capture, soft=capture.soft | (set(route.results or ()) & namespace.keys() - capture.hard)
        )
        self._workers = workers
        self._absent: dict[str, str] = {}  # soft names that stay -> what to say when they are used
        self._left_out: set[str] = set()  # names that stood in text only
        self._left_behind: dict[int, str] = {}  # ids of parts that stay -> what to say when they are used
        self._incomplete: dict[str, str] = {}  # names that the cell surely reads -> why a part of them stays
        self._bases: views.Bases = {}  # of arrays that share memory, once a first pass has met them
        self._needed: set[str] = set()  # names that a first pass has met
        self._attempt()

    def do_without(self, name: str) -> bool:
        """After the worker could not load it: True if the cell did not name it, and now goes without."""
        if name in self._incomplete:
            raise CannotShip(self._incomplete[name])
        if not name or name in self._named():
            return False
        self._left_out.add(name)
        self._attempt()
        return True

    def _attempt(self) -> None:
        while True:
            try:
                self._pack()
            except Exception:
                if self._row.failed is None:
                    raise
                self._without(self._row.failed)  # the memo is spoiled: begin again
                continue
            if self._bases or not (bases := views.overlapping(self._pickler.arrays)):
                return
            self._bases = bases

    def _without(self, failed: Failed) -> None:
        name = failed.name
        is_read = name in self._pickler.names or name in self._capture.soft
        if not is_read and name not in self._capture.hard:
            self._left_out.add(name)
            return
        trail = culprits.trail(self._source[name], name, left_behind=self._left_behind)
        part = next((each for each in trail if not each.is_plain), trail[-1])
        if part is not trail[0] and id(part.obj) not in self._left_behind and len(self._left_behind) < _PARTS_LEFT:
            for itself in (each for each in self._capture.hard if self._source.get(each) is part.obj):
                raise CannotShip(_stays(replace(part, path=itself))) from failed.cause
            self._left_behind[id(part.obj)] = _stays(part)
            if name in self._capture.hard:
                self._incomplete.setdefault(name, _stays(part))
        elif name in self._capture.hard:
            raise CannotShip(_stays(trail[-1])) from failed.cause
        else:
            self._absent[name] = _stays(trail[-1])

    @property
    def notices(self) -> list[str]:
        """What to tell the user before the cell runs: parts of what it surely reads that are not there."""
        return list(self._incomplete.values())

    def _pack(self) -> None:
        self._row = Row(bases=self._bases, left_behind=self._left_behind)
        self._pickler = self._row.pickler
        self._stood_for: dict[int, Any] = {}  # id of a stand-in -> what stayed
        with unhindered():
            too_late = self._row.dump_all(
                lambda: self._wanted() | self._needed, self._source.__getitem__, self._dump, order=self._order
            )
        if too_late and self._pickler.described:
            # A `__setstate__` or `__hash__` of the notebook may run while its objects are loaded, and read what came after them.
            self._needed = self._row.names
            self._pack()

    def _named(self) -> set[str]:
        return {*self._capture.hard, *self._capture.soft, *self._capture.deletes, *self._pickler.names}

    def _wanted(self) -> set[str]:
        pickler, capture, named = self._pickler, self._capture, self._named()
        hinted = capture.text | pickler.text
        if capture.whole_namespace or pickler.whole_namespace or self._looks_for_tests(named):
            hinted |= self._source.keys()
        if "__main__" in named | hinted | capture.binds:  # `__main__.x`
            hinted |= capture.attributes
        if capture.attributes & _LOADERS:  # an unpickler looks classes up by name
            hinted |= {
                name
                for name, value in self._source.items()
                if isinstance(value, type | types.FunctionType) and value.__module__ == "__main__"
            }
        asked_for = named | (hinted - shell_names.HISTORY)
        names = asked_for - _OWN | shell_names.are_users(asked_for, self._source)
        found = {name for name in names if name in self._source and name not in self._left_out}
        classes_of_them = {type(self._source[name]) for name in found}
        found |= {cls.__name__ for cls in classes_of_them if self._source.get(cls.__name__) is cls} - self._left_out
        return found - self._gone(found, named)

    def _looks_for_tests(self, named: Container[str]) -> bool:
        """Among all that the notebook has, as `unittest.main` and `doctest.testmod` do."""
        capture = self._capture
        if capture.attributes & _LOOK_FOR_TESTS or "testmod" in capture.binds or "testmod" in named:
            return True
        return bool(capture.attributes & {"main", "run"}) and (
            any(name in named or name in capture.binds for name in _OF_TESTS)
            or any(getattr(self._source.get(name), "__name__", "") in _OF_TESTS for name in capture.hard)
        )

    def _gone(self, names: set[str], named: Container[str]) -> set[str]:
        """Values whose worker is gone: an error where the cell names one."""
        kept = {name: self._source[name] for name in names if type(self._source[name]) is standins.Kept}
        alive = self._workers() if kept else ()
        gone = {name: value for name, value in kept.items() if value.worker not in alive}
        for name, value in gone.items():
            if name in named:
                raise KeptOnWorker(value.obituary())
        return set(gone)

    def _order(self, name: str) -> tuple[int, int, str]:
        """What the others may need first. Then small ones first: a failing dump of one throws away all before it."""
        return type_facts.load_order(self._source[name]), *self._weight(name)

    def _weight(self, name: str) -> tuple[int, str]:
        """Nobody's own `__len__` is asked: it may compute."""
        value = self._source[name]
        kind = type(value)
        if type_facts.is_array(kind):
            return int(value.nbytes), name
        if type_facts.is_frame(kind):
            return int(value.size), name
        return (len(value) if kind in (list, dict, tuple, set, frozenset, str, bytes, bytearray) else 0), name

    def _dump(self, name: str) -> None:
        root = (self._source[name],)
        if name in self._absent:
            root = (standins.Absent(self._absent[name]),)
            self._stood_for[id(root[0])] = self._source[name]
        self._row.dump(name, root, value=root[0])

    def names(self, *, places: tuple[str, ...], store: Store, cell_numbers: Mapping[str, int]) -> tuple[Names, Lease]:
        """Writes large buffers, on the calling thread; `NoRoom` when they fit nowhere. The lease is to be released when no worker
        needs them."""
        row = self._row
        parcel, lease = store.pack(row.stream, row.buffers, places=places, name="names")
        submodules = row.submodules(self._capture.attributes)
        cells = ((file, _cell_lines(file)) for file in self._pickler.files)
        sources = {file: (cell_numbers.get(file), lines) for file, lines in cells if lines is not None}
        return Names(parcel, tuple(row.dumps), submodules, pickle.dumps(sources)), lease

    def digests(self) -> dict[str, bytes]:
        """Of each variable as it was shipped."""
        return dict(self._row.digests())

    def digests_now(self) -> dict[str, bytes]:
        """Of the same objects as they are now. Raises what pickling them raises."""
        now = Row(bases=self._bases, left_behind=self._left_behind)
        with unhindered():
            for dump, root in zip(self._row.dumps, self._row.roots, strict=True):
                now.dump(dump.name, root, value=root[0])
        return dict(now.digests())

    def load_submodules(self) -> None:
        """Of packages that the notebook has: a cell's `import a.b` makes `a.b` of an `a` that may have been there before."""
        for name in self._capture.submodules:
            if isinstance(self.namespace.get(name.partition(".")[0]), types.ModuleType):
                with contextlib.suppress(ImportError):  # in a branch that was not taken
                    importlib.import_module(name)

    @functools.cached_property
    def originals(self) -> dict[int, Any]:
        """By number. 0.4 s per million objects: made when the reply refers to one."""
        return {number: self._stood_for.get(id(obj), obj) for number, obj in self._pickler.memo.copy().values()}

    def worker(self) -> UUID | None:
        """The only one that can run the cell, if it reads what is kept on a worker."""
        holders = {kept.worker: kept for kept in self._pickler.kept}
        alive = self._workers() if holders else ()
        for worker, kept in holders.items():
            if worker not in alive:
                raise KeptOnWorker(kept.obituary())
        if len(holders) > 1:
            one, other, *_ = holders.values()
            raise KeptOnWorker(
                f"`{one.name}` of In[{one.cell}] and `{other.name}` of In[{other.cell}] live on two workers: "
                "a cell can use one of them at a time"
            )
        return next(iter(holders), None)


def _stays(part: culprits.Culprit) -> str:
    return f"{part} stays in the kernel, it can't be shipped{part.reason}: {part.advice()}"


def _cell_lines(file: str) -> list[str] | None:
    """Of a cell: files on disk are there for the worker, too."""
    entry: tuple[Any, ...] = linecache.cache.get(file, ())
    return entry[2] if len(entry) == 4 and entry[1] is None else None
