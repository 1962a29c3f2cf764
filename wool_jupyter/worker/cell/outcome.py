"""What a cell has done, in one pickle for the kernel: changed inputs, changed classes, bound names, last value, error.

A part is one `dump`, so that a failing one is known by name. What can't travel stays here, under its name.
"""

import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from wool_jupyter.wire import buffers, pickling
from wool_jupyter.worker.cell.changes import Arrival

# IPython puts these into a namespace by itself.
_SHELLS = frozenset("In Out get_ipython exit quit open _ih _oh _dh _i _ii _iii _sh __builtin__ __builtins__".split())


@dataclass
class Reply:
    stream: bytes
    buffers: list[memoryview]
    deleted: list[str]
    kept: dict[str, tuple[Any, str]] = field(
        default_factory=dict
    )  # name -> the object, and why it stays; "" is the last value


@dataclass
class _PartFailed(Exception):
    key: tuple[str, str]
    cause: Exception


class _Parts:
    """The parts of a reply, in their order; what turned out not to travel is taken out."""

    def __init__(
        self, arrival: Arrival, changed: list[int], bound: Mapping[str, Any], *, value: Any, error: BaseException | None
    ) -> None:
        self._makers: dict[tuple[str, str], Callable[[], Any]] = {}
        for k in changed:
            self._add("contents", arrival.name(k), partial(arrival.contents, k))
        self._add("classes", "", arrival.class_changes)
        for name, made in bound.items():
            self._add("name", name, partial(_itself, made))
        if value is not None:
            self._add("value", "", lambda: value)
        if error is not None:
            self._add("error", "", lambda: error)

    def _add(self, kind: str, name: str, make: Callable[[], Any]) -> None:
        self._makers[kind, name] = make

    def __iter__(self) -> Iterator[tuple[tuple[str, str], Any]]:
        for key, make in self._makers.items():
            yield key, make()

    def drop(self, key: tuple[str, str]) -> None:
        del self._makers[key]

    def replace(self, key: tuple[str, str], made: Any) -> None:
        self._makers[key] = lambda: made


def _itself(made: Any) -> Any:
    return made


def pack(
    arrival: Arrival,
    namespace: Mapping[str, Any],
    before: Mapping[str, Any],
    *,
    value: Any,
    error: BaseException | None,
) -> Reply:
    """`before`: the namespace when the body began. On the main thread; afterwards the cell's objects may go."""
    bound = {n: v for n, v in namespace.items() if n not in _SHELLS and (n not in before or before[n] is not v)}
    deleted = [n for n in before if n not in namespace and n not in _SHELLS]
    changed, stuck = arrival.changed()
    kept = {
        name: (arrival.values[name], f"it can no longer be pickled: {why}")
        for name, why in stuck.items()
        if name not in bound
    }
    parts = _Parts(arrival, changed, bound, value=value, error=error)
    while True:
        try:
            stream, out_of_band = _dump(parts, arrival)
        except _PartFailed as failed:  # the memo is spoiled: leave the part out and begin again
            kind, name = failed.key
            why = str(failed.cause)
            if kind == "error":
                parts.replace(
                    failed.key, RuntimeError(f"{type(error).__name__}: {error} (it could not be sent itself: {why})")
                )
                continue
            parts.drop(failed.key)
            if kind == "value":
                kept[""] = value, why
            elif kind == "contents":
                kept[name] = arrival.values[name], why
            elif kind == "name":
                kept[name] = bound[name], why
        else:
            return Reply(stream, out_of_band, deleted, kept)


def _dump(parts: _Parts, arrival: Arrival) -> tuple[bytes, list[memoryview]]:
    file, out_of_band = io.BytesIO(), buffers.OutOfBand()
    pickler = pickling.ReturnPickler(file, out_of_band, numbers=arrival.numbers, known_classes=arrival.class_ids)
    with pickling.no_gc():
        for key, made in parts:
            pickler.root = made
            try:
                pickler.dump((key, made))
            except Exception as error:
                raise _PartFailed(key, error) from error
    return file.getvalue(), out_of_band.buffers
