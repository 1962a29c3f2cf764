"""A worker of our own that could not be asked: looked at until it answers, and ended if it does not.

One that is stopped is let be as long as it would take something along: values that nobody else has, or calls.
"""

import asyncio
from collections.abc import Callable
from contextlib import closing
from uuid import UUID

from wool_jupyter import host
from wool_jupyter.aio.owned_tasks import OwnedTasks
from wool_jupyter.dispatch.connection import WorkerConnection
from wool_jupyter.dispatch.proxy import WorkerProxy
from wool_jupyter.errors import RpcError
from wool_jupyter.pool import supervisor
from wool_jupyter.pool.announcer import Announcer
from wool_jupyter.pool.ends import Ends
from wool_jupyter.pool.members import Member
from wool_jupyter.pool.roster import Roster


class Care:
    """On one loop, by tasks of whoever has it."""

    def __init__(
        self,
        roster: Roster,
        *,
        proxy: WorkerProxy,
        announcer: Announcer,
        ends: Ends,
        pinned: Callable[[UUID], bool],
        tasks: OwnedTasks,
    ) -> None:
        """`pinned`: whether a value lives there alone."""
        self._roster = roster
        self._proxy = proxy
        self._announcer = announcer
        self._ends = ends
        self._pins = pinned
        self._tasks = tasks

    def begin(self, member: Member) -> None:
        """Unless it has begun. There is no main thread of it until it answers; if it never does, it is killed."""
        if member.care is None:
            self._roster.falls_ill(
                member, care=self._tasks.start(self._heal(member), f"care for {member.metadata.uid}")
            )

    async def _heal(self, member: Member) -> None:
        uid, failed = member.metadata.uid, 0
        while (pause_s := supervisor.pause_before_probe(failed)) is not None:
            await asyncio.wait({member.child.exited}, timeout=pause_s)
            if self._roster.member(uid) is None:
                return
            if host.is_stopped(member.child.pid) and self._has_something(member):
                await asyncio.wait({member.child.exited}, timeout=supervisor.STOPPED_S)
                continue
            if not await self._answers(member):
                failed += 1
                continue
            if member.drains:
                return
            if self._proxy.readmit(uid):
                self._roster.recovers(member)
                return
            # It is well: another has its place, or somebody else has dropped it.
            await self._announcer.added_again(member.metadata)
            await asyncio.wait({member.child.exited}, timeout=supervisor.ROOM_S)
        await self._ends.kill(member, "as it did not answer any more")

    def _has_something(self, member: Member) -> bool:
        return self._pins(member.metadata.uid) or WorkerConnection(member.metadata).load > 0

    async def _answers(self, member: Member) -> bool:
        try:
            with closing(WorkerConnection(member.metadata)) as connection:
                await connection.probe()
        except RpcError:
            return False
        return True
