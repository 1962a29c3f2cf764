"""What a pool's own workers need: decided here from numbers, done elsewhere (`crew`)."""

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Standing:
    keep: int  # workers that shall be there without work
    most: int
    present: int  # they serve, or are being looked after
    starting: int
    free: int  # main threads
    waiting: int  # bodies in the line
    in_doubt: bool  # a worker has ended before it had run anything, a moment ago or too often


def workers_to_start(standing: Standing) -> int:
    """Those that are kept, and one for each body that neither a free main thread nor a worker on its way will run.

    While the start itself is in doubt only work calls for workers.
    """
    coming = standing.present + standing.starting
    for_the_line = standing.waiting - standing.free - standing.starting
    kept = 0 if standing.in_doubt else standing.keep - coming
    return max(0, min(max(for_the_line, kept), standing.most - coming))


@dataclass(frozen=True, slots=True)
class Candidate:
    """A worker that serves, where there are too many."""

    uid: UUID
    busy: bool
    pinned: bool  # a value lives there alone
    last_used: float
    started: float


def workers_to_part(present: Iterable[Candidate], most: int) -> list[UUID]:
    """The least use first: idle ones, the one used longest ago, the youngest. Pinned ones stay, however many there are."""
    candidates = list(present)
    movable = [each for each in candidates if not each.pinned]
    movable.sort(key=lambda each: (each.busy, each.last_used, -each.started))
    return [each.uid for each in movable[: max(0, len(candidates) - most)]]


PROVEN_S = 10.0  # that a worker has served, after which its end says nothing about the start of others
RETRIES = 4
PROBES = 4
STOPPED_S = 1.0  # between two looks at a worker that is stopped and must not be lost
ROOM_S = 1.0  # between two looks whether the lease has room again for a worker that answers


def pause_in_doubt(retried: int) -> float | None:
    """Seconds until those that are kept are started again without work, after so many times that this came to nothing. None: only
    work calls for workers from now on, as what dies of its own start would be replaced for ever."""
    return 4.0**retried if retried < RETRIES else None


def pause_before_probe(failed: int) -> float | None:
    """Seconds until a worker that has failed a call and still runs is asked whether it serves, after so many times that it
    did not. None: it never will, and is replaced."""
    return 0.05 * 4**failed if failed < PROBES else None
