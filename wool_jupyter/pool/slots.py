"""First come, first served, over the free main threads of a pool's workers."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple


class _Turn(NamedTuple):
    comes: "asyncio.Future[None]"
    who: object


class Slots:
    """A count that members change as they come, go and fall idle; `take` waits for its turn. One loop only."""

    def __init__(self, *, wanted: Callable[[], object] = lambda: None) -> None:
        """`wanted` is called when somebody has to wait."""
        self._wanted = wanted
        self._free = 0
        self._line: deque[_Turn] = deque()
        self._closed: Exception | None = None

    @property
    def free(self) -> int:
        return max(self._free, 0)

    @property
    def waiting(self) -> int:
        return sum(not turn.comes.done() for turn in self._line)

    def waits_beside(self, who: object) -> bool:
        """Whether anybody stands in the line but `who`."""
        return any(turn.who is not who and not turn.comes.done() for turn in self._line)

    def is_last(self, who: object) -> bool:
        """Whether `who` is the last in the line."""
        last = next((turn for turn in reversed(self._line) if not turn.comes.done()), None)
        return last is not None and last.who is who

    def add(self) -> None:
        """A main thread is free: its worker joined, or its body ended."""
        self._free += 1
        while self._line and self._free > 0:
            turn = self._line.popleft()
            if not turn.comes.done():
                self._free -= 1
                turn.comes.set_result(None)

    def remove(self) -> None:
        """A worker left while its main thread was free. Below zero, somebody holds a slot whose worker is gone, and will give
        it back."""
        self._free -= 1

    def fail(self, error: Exception) -> None:
        """Nobody will come: everyone in the line gets the error."""
        while self._line:
            turn = self._line.popleft()
            if not turn.comes.done():
                turn.comes.set_exception(error)

    def close(self, error: Exception) -> None:
        """Nobody will come any more: as `fail`, also for whoever asks later. The first error stays."""
        self._closed = self._closed or error
        self.fail(self._closed)

    @property
    def closed(self) -> bool:
        return self._closed is not None

    def take_at_once(self) -> bool:
        """Unless somebody stands in the line."""
        if self._closed is not None or self._free <= 0 or self.waiting:
            return False
        self._free -= 1
        return True

    async def take(self, who: object = None) -> None:
        """`who` may stand in the line more than once. Cancelled while it waits, it leaves the line; a turn that came at the same
        moment goes to the next."""
        if self._closed is not None:
            raise self._closed
        if self.take_at_once():
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.append(_Turn(turn, who))
        self._wanted()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self.add()
            raise
