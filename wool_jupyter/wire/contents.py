"""What some memory holds, in a few bytes."""

import sys
import threading
import weakref
from collections import OrderedDict
from typing import Any, NamedTuple

import xxhash

from wool_jupyter.wire import own_memory, watching

SAMPLED_BYTES = 16 << 20  # from here on reading all of it takes 1 ms or more
_SAMPLES, _SAMPLE_BYTES = 256, 4 << 10
_PATIENCE = 3  # times that memory is the same again before it is watched
_SIGHTS_MAX = 256

digest = xxhash.xxh3_128_digest


class Remembered:
    """Digests for the batches of one parallel call: a large array that is still there, and looks here and there as it did, is taken
    for what it was. Who changes one between two tasks can't rely on what either gets, as joblib 1.5 takes several at a time
    before it pickles the first. Used from one thread at a time."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, int], _Seen] = {}  # by address and size

    def __call__(self, view: memoryview) -> bytes:
        memory = owner_of(view) if view.nbytes >= SAMPLED_BYTES else None
        if memory is None:
            return digest(view)
        owner, address = memory
        place, sampled = (address, view.nbytes), sample(view)
        seen = self._seen.get(place)
        if seen is None or seen.owner() is not owner or seen.sample != sampled:
            seen = self._seen[place] = _Seen(weakref.ref(owner), sampled, digest(view))
        return seen.digest


class _Seen(NamedTuple):
    owner: "weakref.ref[Any]"  # of the memory
    sample: bytes
    digest: bytes


class Watched:
    """Digests of memory that has been the same several times: then it is watched, and read again only when somebody has written
    into it. That has a price, for the first write into each page is a fault then, all of them four times what reading costs. So
    memory that is written between is read more often before it is watched again. On any thread; one for all of a process, as it
    forgets which pages were written before it watches anew."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sights: OrderedDict[tuple[int, int], _Sight] = OrderedDict()  # by address and size

    def __call__(self, view: memoryview) -> bytes:
        if view.nbytes < SAMPLED_BYTES:
            return digest(view)
        with self._lock:
            sight = self._sight(own_memory.address(view), view.nbytes)
            if sight.is_still(view):
                return sight.digest
            watch = self._watch(sight)
        sampled, made = sample(view), digest(view)
        with self._lock:
            sight.saw(sampled, made, watch)
        return made

    def _sight(self, address: int, nbytes: int) -> "_Sight":
        place = address, nbytes
        self._sights[place] = sight = self._sights.pop(place, None) or _Sight(watching.Span(address, nbytes))
        if len(self._sights) > _SIGHTS_MAX:
            self._sights.popitem(last=False)
        return sight

    def _watch(self, sight: "_Sight") -> object:
        """None if it is not watched."""
        if sight.times < sight.patience:
            return None
        for other in self._sights.values():
            if other.span.meets(sight.span):  # what was written into pages of both is forgotten
                other.watch = None
        return sight.begin()


class _Sight:
    """Some memory as it was seen last."""

    def __init__(self, span: watching.Span) -> None:
        self.span = span
        self.digest = self._sample = b""
        self.times = 0  # that it was the same again
        self.patience = _PATIENCE
        self.watch: object = None  # the last that has begun, unless it is broken
        self._seen_by: object = None  # the watch that had begun before it was read

    def is_still(self, view: memoryview) -> bool:
        """For sure."""
        if self.watch is None or self._seen_by is not self.watch:
            return False
        if self.span.is_untouched() and sample(view) == self._sample:  # a device may write unseen
            return True
        self.span.release()
        self.watch = None
        self.times, self.patience = 0, 2 * self.patience
        return False

    def begin(self) -> object:
        self.watch = object() if self.span.watch() else None
        if self.watch is None:
            self.patience = sys.maxsize
        return self.watch

    def saw(self, sampled: bytes, made: bytes, watch: object) -> None:
        self.times = self.times + 1 if made == self.digest else 0
        self.digest, self._sample, self._seen_by = made, sampled, watch


watched = Watched()


def owner_of(view: memoryview) -> tuple[Any, int] | None:
    """The array that owns the memory, and the view's address; None if it is of something else."""
    owner = view.obj
    interface = getattr(owner, "__array_interface__", None)
    if interface is None:
        return None
    while hasattr(getattr(owner, "base", None), "__array_interface__"):
        owner = owner.base  # type: ignore[attr-defined]
    return owner, interface["data"][0]


def sample(view: memoryview) -> bytes:
    """Of memory of at least `SAMPLED_BYTES`. Another one is of other data, and the same says little."""
    sampled, step = xxhash.xxh3_128(), view.nbytes // _SAMPLES
    for begin in range(0, view.nbytes, step):
        sampled.update(view[begin : begin + _SAMPLE_BYTES])
    return sampled.digest()
