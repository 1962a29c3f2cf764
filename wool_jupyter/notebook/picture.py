"""What is told of a pool, folded into what is shown of it.

discovery ─ joined, left ─┐
pool ─ events ────────────┼─▶ Picture ─▶ Snapshot
system ─ usage ───────────┘
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from wool_jupyter import host
from wool_jupyter.notebook import snapshot as shown
from wool_jupyter.pool import events
from wool_jupyter.records import DiscoveryEvent

DEAD_SHOWN_S = 10.0  # that a dead worker stays in the picture: people look up when something has changed
_CELLS = 100


class _Usage(NamedTuple):
    cpu: float | None
    rss: int
    peak: int


@dataclass(slots=True)
class _Worker:
    uid: UUID
    own: bool
    since: float
    pid: int | None = None
    tags: frozenset[str] = frozenset()
    serves: bool = False
    drains: bool = False
    died: float | None = None
    why: str = ""
    running: dict[events.About, float] = field(default_factory=dict)
    done: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    usage: _Usage | None = None

    @property
    def state(self) -> shown.WorkerState:
        if self.died is not None:
            return "dead"
        if not self.serves:
            return "starting"
        if self.drains:
            return "draining"
        return "busy" if self.running else "idle"


@dataclass(slots=True)
class _Cell:
    call: events.About
    since: float
    state: shown.CellState = "waiting"
    worker: UUID | None = None
    ended: float | None = None
    bytes_out: int = 0


class Picture:
    """Knows no clock and no loop: `now` is in seconds since the epoch. Used on one thread."""

    def __init__(self) -> None:
        self._state: shown.PoolState = "none"
        self._why = ""
        self._namespace = ""
        self._since: float | None = None
        self._most = 0
        self._workers: dict[UUID, _Worker] = {}
        self._own: set[UUID] = set()  # also of those that are not shown any more
        self._waiting: set[events.About] = set()
        self._cells: dict[str, _Cell] = {}
        self._keeps: Mapping[UUID, int] = {}

    # The pool.

    def pool_starts(self, namespace: str, since: float) -> None:
        self._state, self._why, self._namespace, self._since = "starting", "", namespace, since

    def pool_runs(self) -> None:
        self._state = "running"

    def pool_ended(self, why: str = "") -> None:
        """`why`: it could not start."""
        self._state, self._why, self._namespace, self._since, self._most = "none", why, "", None, 0
        self._workers.clear()
        self._own.clear()
        self._waiting.clear()

    # Its members.

    def announced(self, event: DiscoveryEvent, now: float) -> None:
        metadata = event.metadata
        uid = metadata.uid
        worker = self._workers.get(uid)
        if event.type == "worker-dropped":
            if worker is not None and not worker.own:  # of our own the pool says how they end
                self._dies(worker, "was taken away by its owner", now)
            return
        if worker is None:
            if uid in self._own or event.type != "worker-added":
                return
            worker = self._workers[uid] = _Worker(uid, own=False, since=now)
        if not worker.own:
            worker.died = None
        worker.pid, worker.tags, worker.serves = metadata.pid, metadata.tags, True

    def _dies(self, worker: _Worker, why: str, now: float) -> None:
        if worker.died is None:
            worker.died, worker.why = now, why
            worker.running.clear()
            if worker.usage is not None:
                worker.usage = worker.usage._replace(cpu=None)

    # What happens in it.

    def see(self, event: events.PoolEvent, now: float) -> None:
        match event:
            case events.MostChanged(most):
                self._most = most
            case events.Starting(uid):
                self._own.add(uid)
                self._workers[uid] = _Worker(uid, own=True, since=now)
            case events.NotStarted(uid, why):
                self._own_ended(uid, why and f"did not start: {why}", now)
            case events.Ended(uid, why):
                self._own_ended(uid, why, now)
            case events.Drains(uid, drains):
                if (worker := self._workers.get(uid)) is not None:
                    worker.drains = drains
            case events.Lost(why):
                if self._state != "none":
                    self._state, self._why = "lost", why
            case events.Waits(call):
                self._waits(call, now)
            case events.Placed(call, uid):
                self._placed(call, uid, now)
            case events.Over(call, uid):
                self._over(call, uid)
            case events.Brought():
                self._brought(event, now)

    def _own_ended(self, uid: UUID, why: str, now: float) -> None:
        worker = self._workers.get(uid)
        if worker is not None and why:
            self._dies(worker, why, now)
        else:  # as was wanted
            self._workers.pop(uid, None)

    def _waits(self, call: events.About, now: float) -> None:
        self._waiting.add(call)
        if call.cell:
            self._cells.pop(call.cell, None)  # the last run of a cell is the youngest of all
            self._cells[call.cell] = _Cell(call, now)
            if len(self._cells) > _CELLS:
                del self._cells[next(iter(self._cells))]

    def _placed(self, call: events.About, uid: UUID, now: float) -> None:
        self._waiting.discard(call)
        if (worker := self._workers.get(uid)) is not None and worker.died is None:
            worker.running[call] = now
            worker.bytes_in += call.bytes_in
        if (cell := self._cell_of(call)) is not None:
            cell.state, cell.worker, cell.since = "running", uid, now

    def _over(self, call: events.About, uid: UUID | None) -> None:
        self._waiting.discard(call)
        worker = None if uid is None else self._workers.get(uid)
        if worker is not None:
            worker.running.pop(call, None)
            worker.done += 1

    def _brought(self, event: events.Brought, now: float) -> None:
        worker = None if event.worker is None else self._workers.get(event.worker)
        if worker is not None:
            worker.bytes_out += event.bytes_out
        if (cell := self._cell_of(event.call)) is not None:
            cell.state, cell.ended, cell.bytes_out = event.end, now, event.bytes_out

    def _cell_of(self, call: events.About) -> _Cell | None:
        cell = self._cells.get(call.cell)
        return cell if cell is not None and cell.call is call else None

    def keeps(self, kept: Mapping[UUID, int]) -> None:
        """How many values of the notebook live on each worker alone."""
        self._keeps = kept

    # What only the system knows.

    def processes(self) -> dict[UUID, int]:
        """Pids of those that serve."""
        return {uid: w.pid for uid, w in self._workers.items() if w.serves and w.died is None and w.pid is not None}

    def used(self, uid: UUID, usage: host.Usage | None, cpu: float | None) -> bool:
        """Whether that is news. `cpu` of one core."""
        worker = self._workers.get(uid)
        if worker is None or worker.died is not None:
            return False
        rounded = None if cpu is None else round(cpu, 2)
        found = None if usage is None else _Usage(rounded, usage.rss_bytes, usage.peak_rss_bytes)
        before, worker.usage = worker.usage, found
        return found != before

    def forget_usage(self) -> None:
        for worker in self._workers.values():
            worker.usage = None

    # What is shown.

    @property
    def is_busy(self) -> bool:
        return bool(self._waiting) or any(worker.running for worker in self._workers.values())

    @property
    def blocks_the_kernel(self) -> bool:
        """A cell is under way for which its main thread waits."""
        calls = [*self._waiting, *(call for worker in self._workers.values() for call in worker.running)]
        return any(call.kind == "cell" for call in calls)

    def clear_away(self, now: float) -> float | None:
        """The dead that were shown long enough. Seconds until the next will have been, or None."""
        left_s = {w.uid: w.died + DEAD_SHOWN_S - now for w in self._workers.values() if w.died is not None}
        for uid in [uid for uid, left in left_s.items() if left <= 0]:
            del self._workers[uid]
        return min((left for left in left_s.values() if left > 0), default=None)

    def snapshot(self, now: float) -> shown.Snapshot:
        workers = self._workers.values()
        size = sum(worker.own and worker.died is None and not worker.drains for worker in workers)
        pool = shown.Pool(self._state, self._why, self._namespace, self._since, size, self._most, len(self._waiting))
        return shown.Snapshot(
            now,
            pool if self._state != "none" or self._why else shown.EMPTY_POOL,
            tuple(self._worker_shown(worker) for worker in workers),
            tuple(_cell_shown(cell) for cell in self._cells.values()),
        )

    def _worker_shown(self, worker: _Worker) -> shown.Worker:
        usage = worker.usage
        return shown.Worker(
            uid=worker.uid.hex,
            pid=worker.pid,
            own=worker.own,
            tags=tuple(sorted(worker.tags)),
            state=worker.state,
            why=worker.why,
            since=worker.since if worker.died is None else worker.died,
            running=next((_running_shown(call, since) for call, since in worker.running.items()), None),
            done=worker.done,
            keeps=self._keeps.get(worker.uid, 0) if worker.died is None else 0,
            bytes_in=worker.bytes_in,
            bytes_out=worker.bytes_out,
            cpu=None if usage is None else usage.cpu,
            rss=None if usage is None or worker.died is not None else usage.rss,
            peak=None if usage is None else usage.peak,
        )


def _running_shown(call: events.About, since: float) -> shown.Running:
    return shown.Running(call.kind, call.label, call.cell, since)


def _cell_shown(cell: _Cell) -> shown.Cell:
    return shown.Cell(
        cell=cell.call.cell,
        label=cell.call.label,
        worker="" if cell.worker is None else cell.worker.hex,
        state=cell.state,
        since=cell.since,
        ended=cell.ended,
        bytes_in=cell.call.bytes_in,
        bytes_out=cell.bytes_out,
    )
