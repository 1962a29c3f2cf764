"""A kernel and a worker in one process: each side has its own `__main__`, its own class ids and its own cache of code."""

import builtins
import io
import linecache
import pickle
import sys
import textwrap
import types
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from wool_jupyter.notebook import capture, homecoming
from wool_jupyter.notebook.shipment import Shipment
from wool_jupyter.wire import buffers, classes, layout, pickling, rebuilding
from wool_jupyter.wire.buffers import Parcel
from wool_jupyter.wire.store import Store
from wool_jupyter.worker.cell import changes, outcome


class Side:
    """`with side:` makes it the process that is running."""

    def __init__(self) -> None:
        self.main = types.ModuleType("__main__")
        self.main.__dict__["__builtins__"] = builtins
        self._mine = {
            (classes, "_ids"): weakref.WeakKeyDictionary(),
            (classes, "_of_process"): classes.Registry(),
            (rebuilding, "_code_bytes"): {},
        }
        self._outside: list[tuple[Any, dict[Any, Any]]] = []
        self._cells = 0

    @property
    def names(self) -> dict[str, Any]:
        return vars(self.main)

    def __enter__(self) -> Self:
        found = {(module, name): getattr(module, name) for module, name in self._mine}
        self._outside.append((sys.modules["__main__"], found))
        sys.modules["__main__"] = self.main
        for (module, name), value in self._mine.items():
            setattr(module, name, value)
        return self

    def __exit__(self, *_: object) -> None:
        sys.modules["__main__"], found = self._outside.pop()
        for (module, name), value in found.items():
            setattr(module, name, value)

    def run(self, source: str, filename: str = "") -> None:
        source = textwrap.dedent(source)
        self._cells += 1
        filename = filename or f"<cell {self._cells} of {id(self)}>"
        linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
        with self:
            exec(compile(source, filename, "exec"), self.names)

    def __call__(self, expression: str) -> Any:
        with self:
            return eval(expression, self.names)

    def dump(self, *values: Any, **options: Any) -> bytes:
        return self.pickler(*values, **options)[1]

    def pickler(self, *values: Any, **options: Any) -> tuple[pickling.NotebookPickler, bytes]:
        file = io.BytesIO()
        with self:
            pickler = pickling.NotebookPickler(file, **options)
            for value in values:
                pickler.root = value
                pickler.dump(value)
        return pickler, file.getvalue()

    def load(self, data: bytes) -> Any:
        with self:
            return pickle.loads(data)


@dataclass
class Ran:
    """What a cell left on both sides."""

    shipment: Shipment
    arrival: changes.Arrival
    reply: outcome.Reply
    parcel: Parcel
    arrived: homecoming.Arrived
    notices: list[str]

    @property
    def changed(self) -> set[str]:
        return {name for name, _ in self.arrived.contents}


def ship(kernel: Side, source: str, place: Path) -> tuple[Shipment, Any]:
    with kernel:
        shipment = Shipment(kernel.names, capture.analyze(textwrap.dedent(source)))
        names, _ = shipment.names(places=(str(place / "in"),), store=store_in(place), cell_numbers={})
        return shipment, names


def store_in(place: Path) -> Store:
    """Of large data; `place` is a pool's directory for it."""
    for folder in (layout.data(place), layout.idle(place)):
        folder.mkdir(exist_ok=True)
    return Store([place])


def run_cell(kernel: Side, source: str, place: Path, *, worker: Side | None = None) -> Ran:
    """As `%%wool`, without a process, a shell and output. An error of the body is a test's error."""
    worker = worker or Side()
    (place / "in" / "names").unlink(missing_ok=True)
    (place / "out" / "reply").unlink(missing_ok=True)
    shipment, names = ship(kernel, source, place)
    with worker:
        arrival = changes.Arrival(names)
        worker.names.update(arrival.values)
        before = dict(worker.names)
    worker.run(source)
    with worker:
        reply = outcome.pack(arrival, worker.names, before, value=None, error=None)
        parcel = buffers.pack(reply.stream, reply.buffers, places=(str(place / "out"),), name="reply")
    with kernel:
        arrived = homecoming.load(parcel, shipment)
        notices = homecoming.come_home(arrived, shipment, deleted=tuple(reply.deleted))
    return Ran(shipment, arrival, reply, parcel, arrived, notices)
