"""Values that live on workers: made when a result can't travel, released when the kernel lets go of them."""

import weakref
from collections import deque
from uuid import UUID

from wool_jupyter.wire.standins import Kept


class Handles:
    """`released` hands out keys of dead handles; a key that reaches the wrong worker does nothing there, and is sent again."""

    def __init__(self) -> None:
        self._dead: deque[str] = deque(maxlen=10_000)  # filled by finalizers, at any moment and on any thread

    def make(self, key: str, worker: UUID, *, name: str, kind: str, cell: int) -> Kept:
        kept = Kept(key, worker, name=name, kind=kind, cell=cell)
        weakref.finalize(kept, self._dead.append, key)
        return kept

    def released(self) -> tuple[str, ...]:
        return tuple(self._dead)
