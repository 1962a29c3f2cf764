"""Workers of others that were evicted, as each had refused a call: asked again after a while, and back if they answer.

Nobody tells a client that a worker is well again: its record has not changed. Who looks after workers of its own need not wait.
"""

import asyncio
from collections import Counter
from contextlib import closing
from uuid import UUID

from wool_jupyter.aio.owned_tasks import OwnedTasks
from wool_jupyter.dispatch.membership import Membership
from wool_jupyter.errors import RpcError

_MOST = 5


def pause_before(refusals: int) -> float | None:
    """Seconds until one is asked again that has refused so often since it last took a call. None: only if it is announced anew."""
    return 4.0**refusals if refusals < _MOST else None


class Readmission:
    """On the loop of the membership. Ended by `clear`."""

    def __init__(self, members: Membership) -> None:
        self._members = members
        self._refusals: Counter[UUID] = Counter()
        self._waiting: dict[UUID, asyncio.Task[None]] = {}
        self._tasks = OwnedTasks("readmission")

    def refused(self, uid: UUID) -> None:
        """It has been evicted for that."""
        if uid not in self._waiting or self._waiting[uid].done():
            self._waiting[uid] = self._tasks.start(self._ask_again(uid), str(uid))

    def took_a_call(self, uid: UUID) -> None:
        self._refusals.pop(uid, None)

    def left(self, uid: UUID) -> None:
        self._refusals.pop(uid, None)
        if (task := self._waiting.pop(uid, None)) is not None:
            task.cancel()

    async def clear(self) -> None:
        for task in self._waiting.values():
            task.cancel()
        await self._tasks.wait()
        self._waiting.clear()
        self._refusals.clear()

    async def _ask_again(self, uid: UUID) -> None:
        while (pause_s := pause_before(self._refusals[uid])) is not None:
            self._refusals[uid] += 1
            await asyncio.sleep(pause_s)
            if uid in self._members or (await self._answers(uid) and self._members.readmit(uid)):
                return

    async def _answers(self, uid: UUID) -> bool:
        metadata = self._members.announced(uid)
        if metadata is None:
            return False
        try:
            with closing(self._members.connected(metadata)) as connection:
                await connection.probe()
        except RpcError:
            return False
        return True
