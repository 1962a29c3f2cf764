"""Workers that there are too many of: each takes no more calls, ends when those that it has are over, or stays after all."""

from collections.abc import Callable
from uuid import UUID

from wool_jupyter.aio.owned_tasks import OwnedTasks
from wool_jupyter.dispatch.proxy import WorkerProxy
from wool_jupyter.pool import events, supervisor
from wool_jupyter.pool.announcer import Announcer
from wool_jupyter.pool.ends import Ends
from wool_jupyter.pool.members import Member
from wool_jupyter.pool.roster import Roster


class Surplus:
    """On one loop, by tasks of whoever has it."""

    def __init__(
        self,
        roster: Roster,
        *,
        proxy: WorkerProxy,
        announcer: Announcer,
        ends: Ends,
        pinned: Callable[[UUID], bool],
        tell: events.Tell,
        tasks: OwnedTasks,
    ) -> None:
        """`pinned`: whether a worker must not be let go."""
        self._roster = roster
        self._proxy = proxy
        self._announcer = announcer
        self._ends = ends
        self._pins = pinned
        self._tell = tell
        self._tasks = tasks

    def let_go(self, *, beyond: int) -> None:
        """Of those that stay, all but that many; the busy ones when they are free."""
        if self._roster.staying <= beyond:
            return
        present = [
            supervisor.Candidate(m.metadata.uid, self._is_busy(m), self._pins(m.metadata.uid), m.last_used, m.started)
            for m in self._roster
            if not m.drains
        ]
        for uid in supervisor.workers_to_part(present, beyond):
            member = self._roster.member(uid)
            assert member is not None
            is_busy = self._is_busy(member)
            self._roster.drains(member, is_busy=is_busy)
            self._tell(events.Drains(uid, drains=True))
            self._proxy.evict(uid)
            if not is_busy:
                self._leaves(member)

    def _is_busy(self, member: Member) -> bool:
        """Also with a call that is on its way there and holds the slot."""
        if member.calls > 0 or member.care is not None:
            return member.calls > 0
        found = self._proxy.workers.workers.get(member.metadata.uid)
        return found is not None and found.connection.load > 0

    def is_free(self, member: Member, *, most: int) -> None:
        """One that drains, and has no call any more."""
        if self._pins(member.metadata.uid) or self._roster.staying < most:
            self.stays(member)
        else:
            self._leaves(member)

    def lost_its_call(self, member: Member) -> None:
        """One that drains could not be asked. A call that was on its way there gives the slot back."""
        if member.calls == 0 and not member.leaves:
            self._roster.slots.remove()
            self._leaves(member)

    def recall(self, *, up_to: int) -> None:
        """As many of those that drain stay, the last used first, as have not left yet."""
        for member in sorted(self._roster, key=lambda member: member.last_used, reverse=True):
            if up_to > 0 and member.drains and not member.leaves:
                self.stays(member)
                up_to -= 1

    def stays(self, member: Member) -> None:
        """After all."""
        self._tell(events.Drains(member.metadata.uid, drains=False))
        self._proxy.readmit(member.metadata.uid)
        self._roster.stays(member)

    def _leaves(self, member: Member) -> None:
        member.leaves = True
        member.ended_by_us = member.ended_by_us or "as the pool became smaller"
        self._tasks.start(self._let_go(member), f"farewell to {member.metadata.uid}")

    async def _let_go(self, member: Member) -> None:
        await self._announcer.dropped(member.metadata)
        await self._ends.drain(member)
