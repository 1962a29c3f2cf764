"""Which calls a worker takes, and how many of them are under way, whoever its clients are."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from wool_jupyter.balance.protocol import Task
from wool_jupyter.errors import in_words


class Refusal(NamedTuple):
    reason: str
    transient: bool


class Admission:
    """Lives on one loop. Every call that `enter` lets in must `leave` once, when nothing of it runs any more."""

    def __init__(
        self,
        ask: Callable[[int, Task], Awaitable[bool]] | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`ask`: a `dispatch.setups.Backpressure`, brought to its loop."""
        self._ask = ask
        self._clock = clock
        self._active = 0
        self._asking = 0
        self._stopping = False
        self._emptied = asyncio.Event()
        self._emptied.set()
        self._emptied_at = clock()

    @property
    def active(self) -> int:
        return self._active

    @property
    def idle_s(self) -> float:
        """Since the last call left, or since the beginning; 0 while one is under way."""
        return 0.0 if self._active else self._clock() - self._emptied_at

    async def enter(self, routine: str) -> Refusal | None:
        """None lets the call in. Those that the hook is being asked for count as under way, so that a burst can't pass it."""
        refusal = self._stops()
        if refusal is None and self._ask is not None:
            self._asking += 1
            try:
                refusal = await self._asked(self._ask, routine) or self._stops()  # it may stop meanwhile
            finally:
                self._asking -= 1
        if refusal is None:
            self._active += 1
            self._emptied.clear()
        return refusal

    async def _asked(self, ask: Callable[[int, Task], Awaitable[bool]], routine: str) -> Refusal | None:
        try:
            full = await ask(self._active + self._asking - 1, Task(routine))
        except Exception as error:  # noqa: BLE001 (a user's hook)
            return Refusal(f"the worker's backpressure hook failed: {in_words(error)}", transient=False)
        return Refusal("the worker has enough to do", transient=True) if full else None

    def _stops(self) -> Refusal | None:
        return Refusal("the worker is stopping", transient=True) if self._stopping else None

    def leave(self) -> None:
        self._active -= 1
        if not self._active:
            self._emptied_at = self._clock()
            self._emptied.set()

    def stop(self) -> None:
        """Lets nobody in any more."""
        self._stopping = True

    async def emptied(self) -> None:
        """Returns when no call is under way."""
        await self._emptied.wait()
