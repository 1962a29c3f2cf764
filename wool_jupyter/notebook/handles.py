"""Values that live on workers: made when a result can't travel, released when the kernel lets go of them."""

import weakref
from collections import deque
from uuid import UUID

from wool_jupyter.wire.cells import KeptResult
from wool_jupyter.wire.standins import Kept

_AT_ONCE = 1000


class Handles:
    """Keys of dead handles go with a request to whichever worker runs it, and are dropped here once their own has had them."""

    def __init__(self) -> None:
        self._dead: deque[tuple[UUID, str]] = deque(
            maxlen=10_000
        )  # filled by finalizers, at any moment and on any thread

    def make(self, result: KeptResult, worker: UUID, *, cell: int) -> Kept:
        kept = Kept(result.key, worker, name=result.name or "_", kind=result.kind, cell=cell)
        weakref.finalize(kept, self._dead.append, (worker, result.key))
        return kept

    def released(self) -> tuple[str, ...]:
        return tuple(key for _, key in list(self._dead)[:_AT_ONCE])

    def were_released(self, worker: UUID, keys: tuple[str, ...]) -> None:
        for dead in [dead for dead in list(self._dead) if dead[0] == worker and dead[1] in keys]:
            self._dead.remove(dead)
