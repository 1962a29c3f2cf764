"""What a cell has done, in one pickle for the kernel: changed inputs, changed classes, bound names, last value, error.

A part is one `dump`, so that a failing one is known by name. What can't travel stays here, under its name.
"""

import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from wool_jupyter import host
from wool_jupyter.errors import in_words
from wool_jupyter.wire import buffers, pickling, returning, shell_names, type_facts, views
from wool_jupyter.wire.cells import PartKey
from wool_jupyter.wire.unhindered import unhindered
from wool_jupyter.worker.cell.changes import Arrival

_NOT_BOUND = shell_names.SHELL | shell_names.HISTORY - {"In", "Out"}  # which the shell itself never binds again


@dataclass(frozen=True, slots=True)
class Stays:
    obj: Any
    size_bytes: int = 0  # above the budget; 0: it can't travel
    lacks_memory: bool = False  # it might travel if there were room to pack it


@dataclass
class Reply:
    stream: bytes
    buffers: list[memoryview]
    deleted: list[str]
    missing: list[str]  # of the results asked for
    kept: dict[str, Stays]  # by name; "" is the last value


@dataclass
class _PartFailed(Exception):
    key: PartKey
    cause: Exception | None = None
    size_bytes: int = 0


class _Parts:
    """The parts of a reply, in their order; what turned out not to travel is taken out."""

    def __init__(
        self, arrival: Arrival, changed: list[int], bound: Mapping[str, Any], *, value: Any, error: BaseException | None
    ) -> None:
        self._arrival = arrival
        self._apart: list[str] = []
        self._makers: dict[PartKey, Callable[[], Any]] = {}
        orders = {name: type_facts.load_order(made) for name, made in bound.items()}
        early = sorted((name for name in bound if orders[name] < type_facts.DATA), key=orders.__getitem__)
        for name in early:
            self._makers["name", name] = partial(_itself, bound[name])
        for k in changed:
            self._makers["contents", arrival.name(k)] = partial(arrival.contents, k)
        self._makers["classes", ""] = arrival.class_changes
        for name in (name for name in bound if orders[name] == type_facts.DATA):
            self._makers["name", name] = partial(_itself, bound[name])
        if value is not None:
            self._makers["value", ""] = partial(_itself, value)
        if error is not None:
            self._makers["error", ""] = partial(_itself, error)

    def __iter__(self) -> Iterator[tuple[PartKey, Callable[[], Any]]]:
        return iter(list(self._makers.items()))

    def without(self, failed: _PartFailed) -> dict[str, Any]:
        """Takes it out, or puts something in its place. What is to be kept on the worker, by name."""
        key, (kind, name) = failed.key, failed.key
        make = self._makers.pop(key)
        match kind:
            case "contents":
                return self._send_apart(name)
            case "apart":
                return {each: self._arrival.values[each] for each in self._apart}
            case "classes":
                return {}  # the classes are the kernel's own: they stay as they were
            case "error":
                error = make()
                told = f"{in_words(error)} (it could not be sent itself: {failed.cause})"
                self._makers[key] = partial(_itself, RuntimeError(told))
                return {}
            case "name" | "value":
                return {name: make()}

    def _send_apart(self, name: str) -> dict[str, Any]:
        """A changed input that can't be taken to its parts goes as a whole, and is a new object for the kernel. All such inputs
        go together, so that they share what they share."""
        value = self._arrival.values[name]
        if not pickling.NotebookPickler(io.BytesIO(), buffers.OutOfBand()).pickles(value):
            return {name: value}
        self._apart.append(name)
        together = {each: self._arrival.values[each] for each in self._apart}
        self._makers["apart", ""] = partial(returning.Apart, together)
        return {}


def _itself(made: Any) -> Any:
    return made


def pack(
    arrival: Arrival,
    namespace: Mapping[str, Any],
    before: Mapping[str, Any],
    *,
    value: Any,
    error: BaseException | None,
    budget_bytes: int | None = None,
    results: tuple[str, ...] | None = None,
) -> Reply:
    """`before`: the namespace when the body began. `results` is None, or the only names that are to travel; if one of them is not
    there, all that the cell bound does. On the main thread; afterwards the cell's objects may go."""
    not_bound = _NOT_BOUND - shell_names.are_users(_NOT_BOUND, namespace)
    bound = {n: v for n, v in namespace.items() if n not in not_bound and (n not in before or before[n] is not v)}
    not_deleted = _NOT_BOUND - shell_names.are_users(_NOT_BOUND, before)
    deleted = [n for n in before if n not in namespace and n not in not_deleted]
    asked_for = {n: namespace[n] for n in results or () if n in namespace}
    missing = [n for n in results or () if n not in namespace]
    if results is not None:
        bound, deleted = (bound | asked_for, deleted) if missing else (asked_for, [])
    changed, stuck = arrival.changed()
    kept = {name: Stays(arrival.values[name]) for name in stuck if name not in bound}
    parts = _Parts(arrival, changed, bound, value=value, error=error)
    while True:
        try:
            stream, out_of_band = _dump(parts, arrival, budget_bytes=budget_bytes, at_any_size=asked_for)
        except _PartFailed as failed:  # the memo is spoiled: begin again without it
            lacks_memory = isinstance(failed.cause, MemoryError)
            kept |= {name: Stays(obj, failed.size_bytes, lacks_memory) for name, obj in parts.without(failed).items()}
        else:
            return Reply(stream, out_of_band, deleted, missing, kept)


_ALWAYS_BYTES = 64 << 20  # below this the free memory is not looked up: that takes 0.2 ms


def _is_over(size: int, budget_bytes: int | None) -> bool:
    if budget_bytes is not None:
        return size > budget_bytes
    if size < _ALWAYS_BYTES:
        return False
    available = host.available_memory_bytes()
    return available is not None and size > available // 4  # room for the kernel's copy, and to work with it


def _dump(
    parts: _Parts, arrival: Arrival, *, budget_bytes: int | None, at_any_size: Mapping[str, Any]
) -> tuple[bytes, list[memoryview]]:
    def dump(bases: views.Bases | None) -> tuple[returning.ReturnPickler, bytes, list[memoryview]]:
        return _dump_with(parts, arrival, bases=bases, budget_bytes=budget_bytes, at_any_size=at_any_size)

    pickler, stream, out_of_band = dump(None)
    if bases := views.overlapping(pickler.arrays):
        _, stream, out_of_band = dump(bases)
    return stream, out_of_band


def _dump_with(
    parts: _Parts,
    arrival: Arrival,
    *,
    bases: views.Bases | None,
    budget_bytes: int | None,
    at_any_size: Mapping[str, Any],
) -> tuple[returning.ReturnPickler, bytes, list[memoryview]]:
    file, out_of_band = io.BytesIO(), buffers.OutOfBand()
    pickler = returning.ReturnPickler(
        file,
        out_of_band,
        numbers=arrival.numbers_but_of(at_any_size.values()),
        known_classes=arrival.class_ids,
        bases=bases,
        view_bases=arrival.view_bases,
    )
    with unhindered():
        for key, make in parts:
            before = file.tell() + out_of_band.nbytes
            try:
                pickler.root = make()
                pickler.dump((key, pickler.root))
            except Exception as error:
                raise _PartFailed(key, error) from error
            size = file.tell() + out_of_band.nbytes - before
            kind, name = key
            if kind in ("name", "value") and name not in at_any_size and _is_over(size, budget_bytes):
                raise _PartFailed(key, size_bytes=size)
    return pickler, file.getvalue(), out_of_band.buffers
