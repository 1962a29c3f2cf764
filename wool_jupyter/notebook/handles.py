"""Values that live on workers: made when a result can't travel, released when the kernel lets go of them."""

import weakref
from collections import Counter, deque
from collections.abc import Callable, Mapping
from uuid import UUID

from wool_jupyter.notebook import tracebacks
from wool_jupyter.wire.cells import KeptResult
from wool_jupyter.wire.standins import Kept

_AT_ONCE = 1000


class Handles:
    """Keys of dead handles go with a request to whichever worker runs it, and are dropped here once their own has had them."""

    def __init__(self, *, changed: Callable[[], object] = lambda: None) -> None:
        """`changed` is called when a handle was made or has died: at any moment and on any thread."""
        self._changed = changed
        self._alive: dict[str, tuple[UUID, weakref.ref[Kept]]] = {}
        # Filled by finalizers, at any moment and on any thread.
        self._dead: deque[tuple[UUID, str]] = deque(maxlen=10_000)

    def make(self, result: KeptResult, worker: UUID, *, cell: int) -> Kept:
        kept = Kept(
            *(result.key, worker),
            name=result.name or "_",
            kind=result.kind,
            cell=cell,
            refused=tracebacks.show_users_frames,
        )
        self._alive[result.key] = worker, weakref.ref(kept)
        weakref.finalize(kept, self._died, worker, result.key)
        self._changed()
        return kept

    def _died(self, worker: UUID, key: str) -> None:
        if self._alive.pop(key, None) is not None:
            self._dead.append((worker, key))
            self._changed()

    def on(self, worker: UUID | None = None) -> list[Kept]:
        """What lives on that worker, or on any; in the order of the cells that made it."""
        here = [ref() for holder, ref in list(self._alive.values()) if worker in (None, holder)]
        found = [kept for kept in here if kept is not None]
        return sorted(found, key=lambda kept: kept.cell)

    def worker_ended(self, worker: UUID | None = None) -> None:
        """That one, or all: what lived there is gone. On any thread."""
        lost = self.on(worker)
        for kept in lost:
            kept.gone()
            self._alive.pop(kept.key, None)
        if lost:
            self._changed()

    def pins(self, worker: UUID) -> bool:
        """Whether a value that the notebook knows lives there alone. On any thread."""
        return any(holder == worker for holder, _ in list(self._alive.values()))

    def by_worker(self) -> Mapping[UUID, int]:
        return Counter(holder for holder, _ in list(self._alive.values()))

    def released(self) -> tuple[str, ...]:
        return tuple(key for _, key in list(self._dead)[:_AT_ONCE])

    def were_released(self, worker: UUID, keys: tuple[str, ...]) -> None:
        for dead in [dead for dead in list(self._dead) if dead[0] == worker and dead[1] in keys]:
            self._dead.remove(dead)
