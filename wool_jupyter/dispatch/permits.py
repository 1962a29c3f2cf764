"""How many calls one worker is given at a time, by one client: first come, first served."""

import asyncio
from collections import deque


class Permits:
    """On one loop. Whoever has one gives it back once."""

    def __init__(self, most: int) -> None:
        self._free = most
        self._line: deque[asyncio.Future[None]] = deque()

    @property
    def free(self) -> int:
        """Below zero, as many too many are out."""
        return self._free

    async def take(self) -> None:
        """Waits for one. Cancelled, it leaves the line; one that came at the same moment goes to the next."""
        if self._free > 0 and not self._line:
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give_back()
            raise

    def take_at_once(self) -> None:
        """Whether there is one or not."""
        self._free -= 1

    def give_back(self) -> None:
        self._free += 1
        while self._line and self._free > 0:
            turn = self._line.popleft()
            if not turn.done():
                self._free -= 1
                turn.set_result(None)
