"""Text of threads and children that outlive their cell, shown under that cell whatever runs now."""

import asyncio
from collections import deque
from collections.abc import Callable, Container
from uuid import UUID

from wool_jupyter.notebook.flow import Flow

Show = Callable[[str, str], object]  # (stream's name, text); called on the loop's thread

_EVERY_S = 0.2
_CELLS = 32  # followed at a time; the oldest gives way


class LateText:
    """Lives on one loop. Owns the flows that it is given."""

    def __init__(self) -> None:
        self._followed: deque[tuple[Flow, UUID, Show]] = deque()
        self._is_watching = False

    async def follow(self, flow: Flow, worker: UUID, show: Show, *, alive: Callable[[], Container[UUID]]) -> None:
        """Until its worker is gone. `alive` says which are there."""
        flow.no_more_events()
        self._followed.append((flow, worker, show))
        while len(self._followed) > _CELLS:
            self._end(self._followed.popleft())
        if self._is_watching:
            return
        self._is_watching = True
        try:
            while self._followed:
                await asyncio.sleep(_EVERY_S)
                self._look(alive())
        finally:
            self._is_watching = False

    def _look(self, alive: Container[UUID]) -> None:
        for followed in list(self._followed):
            flow, worker, show = followed
            for name, text in flow.ready():
                show(name, text)
            if worker not in alive:
                self._followed.remove(followed)
                self._end(followed)

    @staticmethod
    def _end(followed: tuple[Flow, UUID, Show]) -> None:
        flow, _, show = followed
        for name, text in flow.rest():
            show(name, text)
        flow.close()
