"""How one worker is ended: told to stop, then SIGTERM, then SIGKILL."""

import asyncio
import os
import signal
import warnings
from contextlib import closing, suppress

from wool_jupyter.dispatch.connection import WorkerConnection
from wool_jupyter.errors import RpcError
from wool_jupyter.nursery.client import Nursery
from wool_jupyter.pool.members import Member
from wool_jupyter.settings import EXIT_REPORT_S, SHUTDOWN_NOTICE_S, SIGNAL_S, TERMINATE_S


class Ends:
    """By the nursery, which has to be told; and past it, when it does not do so in time. On one loop."""

    def __init__(self, nursery: Nursery) -> None:
        self._nursery = nursery
        self._patience: set[asyncio.Timeout] = set()
        self._hurried = False

    async def signal(self, member: Member, number: int) -> None:
        """To the worker and its children. Returns once it is sent."""
        try:
            await asyncio.wait_for(self._nursery.signal(member.child.uid, number), SIGNAL_S)
        except TimeoutError:
            _signal_group(member, number)

    async def end(self, member: Member, why: str) -> None:
        """SIGTERM, then SIGKILL. Returns when the worker has ended."""
        await self.signal(member, signal.SIGTERM)
        await asyncio.wait({member.child.exited}, timeout=TERMINATE_S)
        await self.kill(member, why)

    async def kill(self, member: Member, why: str) -> None:
        """Returns when the worker has ended."""
        member.ended_by_us = member.ended_by_us or why
        self._nursery.kill(member.child.uid)
        done, _ = await asyncio.wait({member.child.exited}, timeout=SIGNAL_S)
        if not done:
            _signal_group(member, signal.SIGKILL)
            await asyncio.wait({member.child.exited}, timeout=EXIT_REPORT_S)

    async def drain(self, member: Member) -> None:
        """It has no call of ours, and takes none; those of other processes go on to their end. Returns when it has ended."""
        with suppress(RpcError), closing(WorkerConnection(member.metadata)) as connection:
            await connection.stop(-1)
            await asyncio.wait({member.child.exited}, timeout=TERMINATE_S)
        await self.end(member, "as it was let go")

    async def persuade(self, member: Member, by: float | None) -> None:
        """It is told to stop, and its routines are cancelled; then comes SIGTERM. Returns when it has ended, or at that time of the
        loop (None: never), or in a hurry."""
        loop = asyncio.get_running_loop()
        if self._hurried or (by is not None and by <= loop.time()):
            return
        left = "" if by is None else f": it is killed in {by - loop.time() - SHUTDOWN_NOTICE_S:,.0f} s, or by Ctrl-C"
        words = f"the pool waits for a routine on worker pid {member.child.pid}, which does not end{left}"
        notice = loop.call_later(SHUTDOWN_NOTICE_S, warnings.warn, words, RuntimeWarning)
        with suppress(TimeoutError):
            async with asyncio.timeout_at(by) as patience:
                self._patience.add(patience)
                try:
                    with suppress(TimeoutError, RpcError):
                        async with asyncio.timeout_at(None if by is None else by - _reserved_s(by)):
                            with closing(WorkerConnection(member.metadata)) as connection:
                                await connection.stop(0)
                            await asyncio.wait({member.child.exited}, timeout=TERMINATE_S)
                    if not member.child.exited.done():
                        await self.signal(member, signal.SIGTERM)
                        await asyncio.wait({member.child.exited}, timeout=TERMINATE_S)
                finally:
                    notice.cancel()
                    self._patience.discard(patience)

    def hurry(self) -> None:
        """Nobody is persuaded any more."""
        self._hurried = True
        for patience in self._patience:
            if not patience.expired():
                patience.reschedule(0)


def _reserved_s(by: float) -> float:
    """Of the time until then, for SIGTERM to show its effect."""
    return min(TERMINATE_S, (by - asyncio.get_running_loop().time()) / 2)


def _signal_group(member: Member, number: int) -> None:
    """Past a nursery that is stopped: it has not reaped the worker, so the number is still the worker's."""
    with suppress(ProcessLookupError):
        os.killpg(member.child.pid, number)
