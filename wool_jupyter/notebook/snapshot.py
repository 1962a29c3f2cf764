"""What a pool looks like at one moment: the one schema of panel, widget, table and text.

Times are seconds since the epoch by the kernel's clock, sizes bytes. `tests/golden/snapshots` has the schema as files.
"""

from typing import Any, Literal, TypeAlias

import msgspec

SCHEMA = 1

PoolState: TypeAlias = Literal["none", "starting", "running", "lost"]
WorkerState: TypeAlias = Literal["starting", "idle", "busy", "draining", "dead"]
CellState: TypeAlias = Literal["waiting", "running", "ok", "error", "interrupted", "died"]


class _Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class Pool(_Record, frozen=True):
    state: PoolState
    why: str  # it is lost, or did not start; in words
    namespace: str  # "" without a pool
    since: float | None  # its generation began; None without a pool
    size: int  # own workers that stay, there or on their way: what "one more" counts from
    most: int  # own workers that it may have
    waiting: int  # bodies in the line for a free main thread


class Running(_Record, frozen=True):
    kind: Literal["cell", "call", "job"]
    label: str  # `In[5]`, or the name of what is called
    cell: str  # the notebook's id of it, or ""
    since: float


class Worker(_Record, frozen=True):
    uid: str  # 32 hexadecimal digits
    pid: int | None  # None until it is known
    own: bool  # started by this pool; another owner's is borrowed
    tags: tuple[str, ...]
    state: WorkerState
    why: str  # how it ended; completes a sentence that begins with the worker
    since: float  # it began, or died
    running: Running | None
    done: int  # cells and calls that have ended here
    keeps: int  # values of the notebook that live here alone, and pin it
    bytes_in: int  # to the worker, with cells and calls
    bytes_out: int
    cpu: float | None  # of one core, children apart; None: nobody looks, or the system does not say
    rss: int | None
    peak: int | None

    @property
    def name(self) -> str:
        """For people: the beginning of its uid."""
        return self.uid[:8]


class Cell(_Record, frozen=True):
    """A run of a cell; the notebook's last one of each cell."""

    cell: str
    label: str
    worker: str  # uid, or "" while it waits
    state: CellState
    since: float  # it began to wait, or to run
    ended: float | None
    bytes_in: int
    bytes_out: int


class Snapshot(_Record, frozen=True):
    time: float  # when it was taken
    pool: Pool
    workers: tuple[Worker, ...]  # by when they began, the oldest first; a dead one for some seconds
    cells: tuple[Cell, ...]  # oldest first, the last hundred
    schema: int = SCHEMA


EMPTY_POOL = Pool(state="none", why="", namespace="", since=None, size=0, most=0, waiting=0)


def as_builtins(snapshot: Snapshot) -> dict[str, Any]:
    """For JSON and for front ends."""
    plain: dict[str, Any] = msgspec.to_builtins(snapshot)
    return plain


decode = msgspec.json.Decoder(Snapshot).decode
