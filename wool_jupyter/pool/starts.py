"""How one worker comes to be: its files, its process, its announcement; and how its files go."""

import time
from collections.abc import Awaitable, Callable
from uuid import UUID, uuid4

from wool_jupyter import host
from wool_jupyter.aio.owned_tasks import OwnedTasks
from wool_jupyter.pool import events
from wool_jupyter.pool.announcer import Announcer
from wool_jupyter.pool.home import Home
from wool_jupyter.pool.members import Member
from wool_jupyter.pool.obituary import has_crashed
from wool_jupyter.pool.processes import Ordered, Processes
from wool_jupyter.records import ChannelOptions, WorkerMetadata
from wool_jupyter.settings import EXIT_REPORT_S
from wool_jupyter.wire import layout
from wool_jupyter.wire.protocol import package_version

_DEFAULTS = ChannelOptions()


class Starts:
    """Of the workers of one home, on one loop."""

    def __init__(
        self,
        home: Home,
        processes: Processes,
        announcer: Announcer,
        *,
        admitted: Callable[[UUID], Awaitable[object]] | None,
        timeout_s: float,
        tags: frozenset[str] = frozenset(),
        options: ChannelOptions = _DEFAULTS,
    ) -> None:
        """`admitted`: what a worker has to wait for, once it is announced. `timeout_s`: of one start."""
        self._home = home
        self._nursery = processes.nursery
        self._announcer = announcer
        self._admitted = admitted
        self._processes = processes
        self._timeout_s = timeout_s
        self._tags = tags
        self._options = options
        self._tidying = OwnedTasks("starts")

    async def worker(self, tell: events.Tell, *, at_once: bool) -> Member:
        """Serves, and is announced. `StartFailed`, or what the announcement raises, leaves no process; its files go when it has
        ended. `at_once`: as for `Processes.ordered`."""
        first = self._processes.take_first()
        uid = uuid4() if first is None else first.uid
        tell(events.Starting(uid))
        try:
            ordered = first or await self._processes.ordered(uid, at_once=at_once)
            return await self._announced(ordered)
        except BaseException as error:
            self._nursery.kill(str(uid))
            self._tidying.start(self._tidy_late(uid), f"files of {uid}")
            tell(events.NotStarted(uid, str(error)))
            raise

    async def _announced(self, ordered: Ordered) -> Member:
        uid, member = ordered.uid, await self._serving(ordered)
        try:
            await self._announcer.added(member.metadata)
            if self._admitted is not None:
                await self._admitted(uid)
        except BaseException:
            self._nursery.kill(str(uid))
            await self._announcer.dropped(member.metadata)  # it may have been announced for all that
            raise
        return member

    async def _serving(self, ordered: Ordered) -> Member:
        uid, child = ordered.uid, await self._nursery.delivered(ordered.order, timeout_s=self._timeout_s)
        # Before anything runs there.
        oom_kills, crash_report = host.oom_kills(), layout.crash_report(self._home.directory, child.uid)
        address = child.report["address"]
        metadata = WorkerMetadata(uid, address, child.pid, package_version(), self._tags, options=self._options)
        return Member(metadata, child, time.time(), oom_kills, crash_report, ordered.ledger)

    async def _tidy_late(self, uid: UUID) -> None:
        """It may still make files."""
        await self._nursery.ended(str(uid), within_s=EXIT_REPORT_S)
        self.tidy(uid)

    def tidy(self, uid: UUID) -> None:
        """When it has ended: a home may see many workers. The report of a crash stays."""
        socket = layout.socket(self._home.directory, str(uid))
        ledger = layout.ledger(self._home.directory, str(uid))
        for path in (socket, layout.behind_door(socket), layout.direct(socket), ledger):
            path.unlink(missing_ok=True)
        report = layout.crash_report(self._home.directory, str(uid))
        if not has_crashed(report):
            report.unlink(missing_ok=True)

    async def settled(self) -> None:
        """Returns when the files of starts that have failed are gone."""
        await self._tidying.wait()
