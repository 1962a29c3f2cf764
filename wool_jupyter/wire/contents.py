"""What some memory holds, in a few bytes."""

import _thread
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import xxhash

SAMPLED_BYTES = 16 << 20  # from here on reading all of it takes 1 ms or more
_SAMPLES, _SAMPLE_BYTES = 256, 4 << 10

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


def owner_of(view: memoryview) -> tuple[Any, int] | None:
    """The array that owns the memory, and the view's address; None if it is of something else."""
    owner = view.obj
    interface = getattr(owner, "__array_interface__", None)
    if interface is None:
        return None
    while hasattr(getattr(owner, "base", None), "__array_interface__"):
        owner = owner.base  # type: ignore[attr-defined]
    return owner, interface["data"][0]


def begun(make: Callable[[memoryview], bytes], view: memoryview) -> Callable[[], bytes]:
    """`make(view)`, on another thread from now on; what is returned waits for it. Not by `threading`, whose threads somebody may
    trace or count."""
    made: list[bytes] = []
    ended = _thread.allocate_lock()
    ended.acquire()

    def run() -> None:
        try:
            made.append(make(view))
        finally:
            ended.release()

    def result() -> bytes:
        with ended:
            return made[0] if made else make(view)

    try:
        _thread.start_new_thread(run, ())
    except RuntimeError:  # there are too many
        ended.release()
    return result


def sample(view: memoryview) -> bytes:
    """Of memory of at least `SAMPLED_BYTES`. Another one is of other data, and the same says little."""
    sampled, step = xxhash.xxh3_128(), view.nbytes // _SAMPLES
    for begin in range(0, view.nbytes, step):
        sampled.update(view[begin : begin + _SAMPLE_BYTES])
    return sampled.digest()
