"""Large data that many calls read: written once, and mapped by each of them. Known by content, whatever object holds it."""

import threading
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import xxhash

from wool_jupyter.errors import NoRoom
from wool_jupyter.wire import buffers

SHARED_BYTES = 1 << 20  # below, writing it again costs less than a file of its own
SAMPLED_BYTES = (
    16 << 20
)  # from here on the same array is looked at here and there: reading all of it would take 1 ms or more
_SAMPLES, _SAMPLE_BYTES = 256, 4 << 10

_Content = tuple[int, bytes]  # size and digest


class SharedBuffers:
    """Used from any thread. A file that only one call has had goes with that call, the others with `close`, or with the last call
    that has them."""

    def __init__(self, places: tuple[str, ...]) -> None:
        """`places` as in `buffers.pack`."""
        self._places = places
        self._lock = threading.Lock()
        self._known: dict[_Content, _Shared] = {}
        self._arrays: dict[tuple[int, int], _Seen] = {}  # by address and size
        self._closed = False

    def lease(self, views: Sequence[memoryview]) -> "Lease":
        """Of those that are large. One that finds no room is left out."""
        leased: dict[int, _Shared] = {}
        for number, view in enumerate(views):
            if view.nbytes >= SHARED_BYTES and (shared := self._take(view)) is not None:
                leased[number] = shared
        return Lease(self, leased)

    def _take(self, view: memoryview) -> "_Shared | None":
        with self._lock:
            shared = self._known.setdefault(self._content(view), _Shared())
            if not shared.file:
                try:
                    shared.file = buffers.pack(b"", [view], places=self._places, name=uuid4().hex).file
                except NoRoom:
                    return None
            shared.calls += 1
            shared.running += 1
        return shared

    def _content(self, view: memoryview) -> _Content:
        """One that is still there, and looks as it did, is taken for what it was."""
        memory = _memory_of(view) if view.nbytes >= SAMPLED_BYTES else None
        if memory is None:
            return view.nbytes, xxhash.xxh3_128_digest(view)
        owner, address = memory
        place, sample = (address, view.nbytes), _sample(view)
        seen = self._arrays.get(place)
        if seen is None or seen.owner() is not owner or seen.sample != sample:
            content = view.nbytes, xxhash.xxh3_128_digest(view)
            seen = self._arrays[place] = _Seen(weakref.ref(owner), sample, content)
        return seen.content

    def give_back(self, leased: "Sequence[_Shared]") -> None:
        with self._lock:
            for shared in leased:
                shared.running -= 1
                self._clear(shared)

    def close(self) -> None:
        """Idempotent."""
        with self._lock:
            self._closed = True
            for shared in self._known.values():
                self._clear(shared)

    def _clear(self, shared: "_Shared") -> None:
        if shared.file and not shared.running and (self._closed or shared.calls == 1):
            Path(shared.file).unlink(missing_ok=True)
            shared.file = ""


class _Seen(NamedTuple):
    owner: "weakref.ref[Any]"  # of the memory
    sample: bytes
    content: _Content


def _memory_of(view: memoryview) -> tuple[Any, int] | None:
    """The array that owns it, and its address; None if it is of something else."""
    owner = view.obj
    interface = getattr(owner, "__array_interface__", None)
    if interface is None:
        return None
    while hasattr(getattr(owner, "base", None), "__array_interface__"):
        owner = owner.base  # type: ignore[attr-defined]
    return owner, interface["data"][0]


def _sample(view: memoryview) -> bytes:
    digest, step = xxhash.xxh3_128(), view.nbytes // _SAMPLES
    for begin in range(0, view.nbytes, step):
        digest.update(view[begin : begin + _SAMPLE_BYTES])
    return digest.digest()


class _Shared:
    def __init__(self) -> None:
        self.file = ""  # none: it was seen, and will be written when it is seen again
        self.calls = 0  # that have had it
        self.running = 0  # of these


class Lease:
    """What one call has of the shared data, until `release`, which is idempotent."""

    def __init__(self, owner: SharedBuffers, leased: "dict[int, _Shared]") -> None:
        self._owner = owner
        self._leased = leased
        self.files = tuple((number, shared.file) for number, shared in leased.items())  # as a `Parcel` has them

    def others(self, views: Sequence[memoryview]) -> list[memoryview]:
        return [view for number, view in enumerate(views) if number not in self._leased]

    def release(self) -> None:
        leased, self._leased = self._leased, {}
        self._owner.give_back(list(leased.values()))
