"""Whether it makes sense to start workers that nobody waits for: not right after one has ended that had run nothing."""

import asyncio
from collections.abc import Callable

from wool_jupyter.pool import supervisor
from wool_jupyter.pool.members import Member


class Doubt:
    """On one loop. It passes after a pause, a longer one each time, and for good when a worker has served."""

    def __init__(self, passed: Callable[[], object]) -> None:
        self._passed = passed
        self._retried = 0
        self._retry: asyncio.TimerHandle | None = None
        self._closed = False
        self.is_there = False

    def ended(self, member: Member) -> None:
        says_something = not (member.last_used or member.asked_to_end or member.leaves)
        if says_something and member.age_s <= supervisor.PROVEN_S:
            self.start_failed()

    def start_failed(self) -> None:
        if self.is_there or self._closed:
            return
        self.is_there = True
        if (pause_s := supervisor.pause_in_doubt(self._retried)) is not None:
            self._retry = asyncio.get_running_loop().call_later(pause_s, self._pass)

    def _pass(self) -> None:
        self._retried += 1
        self.is_there = False
        self._passed()

    def settle(self) -> bool:
        """Workers do start. Whether that was in doubt."""
        if self._retry is not None:
            self._retry.cancel()
        was_there, self.is_there, self._retried = self.is_there, False, 0
        return was_there

    def close(self) -> None:
        self._closed = True
        self.settle()
