"""The workers that a pool has started: as many as are wanted, announced when they serve, and replaced when they end.

starts ─ member ─▶ roster ─ free main threads ─▶ calls
                   │   └─ who fails a call ─▶ care
        exits ◀────┘
"""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from uuid import UUID

from wool_jupyter import host
from wool_jupyter.aio.owned_tasks import OwnedTasks
from wool_jupyter.aio.to_end import to_end
from wool_jupyter.discovery.protocol import DiscoveryPublisherLike
from wool_jupyter.dispatch.proxy import WorkerProxy
from wool_jupyter.errors import NotReached, NoWorkersAvailable, StartFailed
from wool_jupyter.pool import ended, events, supervisor
from wool_jupyter.pool.announcer import Announcer
from wool_jupyter.pool.care import Care
from wool_jupyter.pool.doubt import Doubt
from wool_jupyter.pool.ends import Ends
from wool_jupyter.pool.home import Home
from wool_jupyter.pool.members import Member, WorkerSnapshot
from wool_jupyter.pool.obituary import IN_LOGS, how_it_ended, obituary
from wool_jupyter.pool.processes import Processes
from wool_jupyter.pool.roster import Roster
from wool_jupyter.pool.slots import Slots
from wool_jupyter.pool.starts import Starts
from wool_jupyter.pool.stopped import check_not_stopped
from wool_jupyter.pool.surplus import Surplus
from wool_jupyter.records import ChannelOptions
from wool_jupyter.settings import EXIT_REPORT_S

_LOST = "The process that looks after the workers has ended, and they with it: a new pool has new ones"
_ASKED = "as was asked"
_OPTIONS = ChannelOptions()
_WELL_S = 0.005  # after it took a call, a worker that has answered is not looked at again: small calls come in quick succession


class Crew:
    """Lives on one loop; ended by `stop`. A worker that dies is replaced: at once if it had run something, otherwise when work
    waits or after a pause."""

    def __init__(
        self,
        home: Home,
        processes: Processes,
        *,
        proxy: WorkerProxy,
        publisher: DiscoveryPublisherLike,
        admitted: Callable[[UUID], Awaitable[object]] | None = None,
        most: int,
        start_timeout_s: float,
        tags: frozenset[str] = frozenset(),
        pinned: Callable[[UUID], bool] = lambda _: False,
        tell: events.Tell = events.to_nobody,
        options: ChannelOptions = _OPTIONS,
    ) -> None:
        """Whoever has made the processes closes them after `stop`. `proxy` follows the discovery in which `publisher` announces.
        `admitted`: what a worker has to wait for, once it is announced, before its main thread counts as free. `pinned`: whether a
        smaller crew must not let a worker go."""
        self._check_room = home.check_room
        self._directory = home.directory
        self._processes = processes
        self._nursery = nursery = processes.nursery
        self._proxy = proxy
        proxy.observe(
            placed=self._took_a_call,
            failed=self._failed_a_call,
            dropped=self._failed_a_call,
            asks=self._check_not_stopped,
        )
        self._keep = 0
        self._most = most
        self.pins = pinned
        self._tell = tell
        nursery.lost.add_done_callback(lambda _: self._tell(events.Lost(_LOST)))
        self._roster = Roster(wanted=self.supervise)
        self._announcer = Announcer(publisher)
        self._starts = Starts(
            home,
            processes,
            self._announcer,
            admitted=admitted,
            timeout_s=start_timeout_s,
            tags=tags,
            options=options,
        )
        self._starting = 0
        self._on_their_way: list[asyncio.Task[None]] = []  # those that `supervise` has asked for, the latest last
        self._looking = 0
        self._doubt = Doubt(passed=self.supervise)
        self._tasks = OwnedTasks("crew")
        self._ending = OwnedTasks("end of a crew")
        self._ends = Ends(nursery)
        self._care = Care(
            self._roster, proxy=proxy, announcer=self._announcer, ends=self._ends, pinned=pinned, tasks=self._tasks
        )
        self._surplus = Surplus(
            self._roster,
            proxy=proxy,
            announcer=self._announcer,
            ends=self._ends,
            pinned=pinned,
            tell=tell,
            tasks=self._tasks,
        )

    @property
    def lost(self) -> bool:
        """The nursery is gone, and the workers with it: only `stop` makes sense."""
        return self._nursery.lost.done()

    @property
    def nursery_pid(self) -> int:
        return self._nursery.pid

    @property
    def template_pid(self) -> int | None:
        """Of the process that workers are forked from; None where they are started."""
        return self._nursery.template_pid

    @property
    def slots(self) -> Slots:
        """The free main threads, and who waits for one."""
        return self._roster.slots

    @property
    def size(self) -> int:
        """Workers that stay, with those that are starting."""
        return self._roster.staying + self._starting

    @property
    def most(self) -> int:
        """Workers that there may be."""
        return self._most

    @property
    def starting(self) -> int:
        return self._starting

    def member(self, uid: UUID) -> Member | None:
        return self._roster.member(uid)

    def snapshot(self) -> list[WorkerSnapshot]:
        """Oldest first."""
        return self._roster.snapshot()

    # How many.

    async def start_all(self, workers: int) -> None:
        """Returns when they all serve; from then on there are as many. An ExceptionGroup has what their starts raised."""
        self._starting += workers
        self._keep = max(self._most, workers)
        self._allow(self._keep)
        starts = [self._tasks.start(self._started(), "start of a worker", awaited=True) for _ in range(workers)]
        try:
            outcomes = await asyncio.gather(*starts, return_exceptions=True)
        finally:
            self._starting -= workers
        failures = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
        if failures:
            raise ExceptionGroup(f"{len(failures)} of {workers} workers did not start", failures)

    async def grow(self, workers: int) -> None:
        """To that many; a larger crew stays as it is. Does not wait for those that it starts. `StartFailed` where the home has no
        room for so many: nothing has changed."""
        self._allow(max(self._most, workers))
        self._keep = max(self._keep, workers)
        self._doubt.settle()
        self.supervise()

    async def scale(self, workers: int) -> None:
        """To exactly that many, without waiting for them. Starts that are not needed are given up, idle workers are let go at once
        and busy ones when their calls are over; a pinned one stays. `StartFailed` as in `grow`."""
        self._allow(workers)
        self._keep = workers
        self._doubt.settle()
        surplus = max(0, self.size - workers)
        given_up = self._on_their_way[max(0, len(self._on_their_way) - surplus) :]
        if given_up:
            await asyncio.sleep(0)  # a task that is cancelled before it has begun never comes to its `finally`
            for start in given_up:
                start.cancel()
            await asyncio.wait(given_up)
        self._surplus.recall(up_to=workers - self.size)
        self.supervise()

    def _allow(self, most: int) -> None:
        self._check_room(most)
        self._most = most
        self._tell(events.MostChanged(most))

    @contextmanager
    def wanted(self) -> Iterator[None]:
        """For as long as a call that takes no slot looks for a worker."""
        self._looking += 1
        self.supervise()
        try:
            yield
        finally:
            self._looking -= 1

    def supervise(self) -> None:
        """To be called when anything that counts has changed."""
        if self.slots.closed:
            return
        if self.lost:
            self.slots.fail(StartFailed(_LOST))
            return
        self._surplus.let_go(beyond=self._most)
        standing = supervisor.Standing(
            keep=self._keep,
            most=self._most,
            present=self._roster.staying,
            starting=self._starting,
            free=self.slots.free,
            waiting=self.slots.waiting + self._looking,
            in_doubt=self._doubt.is_there,
        )
        for _ in range(supervisor.workers_to_start(standing)):
            self._starting += 1
            start = self._tasks.start(self._start(), "start of a worker")
            self._on_their_way.append(start)
            start.add_done_callback(self._on_their_way.remove)

    # One that comes, and one that has ended.

    async def _start(self) -> None:
        failure: Exception | None = None
        try:
            await self._started()
            self._processes.prepare()
        except StartFailed as error:
            failure = error
        except Exception as error:  # noqa: BLE001 (whoever waits in the line must hear of it)
            failure = StartFailed(f"A worker can't start: {type(error).__name__}: {error}")
        finally:
            self._starting -= 1
        if failure is not None:
            self._doubt.start_failed()
            if not len(self._roster) and not self._starting:
                self.slots.fail(failure)

    async def _started(self) -> None:
        member = await self._starts.worker(self._tell, at_once=self.slots.waiting > 0)
        self._tasks.start(self._watch(member), f"watch over {member.metadata.uid}")
        self._roster.joins(member)

    async def _watch(self, member: Member) -> None:
        await asyncio.wait({member.child.exited})
        uid = member.metadata.uid
        self._roster.ends(member)
        member.ledger.close()
        how = how_it_ended(member, crashed=IN_LOGS)
        ended.write(self._directory, uid, f"The worker (pid {member.child.pid}) {how}")
        self._tell(events.Ended(uid, "" if member.leaves else how.removesuffix(IN_LOGS)))
        self._doubt.ended(member)
        self.supervise()
        self._proxy.evict(uid)
        self._starts.tidy(uid)
        await self._announcer.dropped(member.metadata, timeout_s=None)  # nobody waits for it, and nobody says it later

    # Calls on them.

    def takes(self, uid: UUID) -> Member | None:
        """As `Roster.takes`."""
        return self._roster.takes(uid)

    def takes_again(self, member: Member) -> bool:
        """As `Roster.takes_again`; nor one that is stopped, or to which another call is on its way."""
        found = self._proxy.workers.workers.get(member.metadata.uid)
        if found is None or found.connection.load:
            return False
        used_s = asyncio.get_running_loop().time() - member.last_used
        if used_s > _WELL_S and host.is_stopped(member.child.pid):
            return False
        if not self._roster.takes_again(member):
            return False
        self._took_a_call(member.metadata.uid)
        return True

    def release(self, member: Member) -> None:
        """That call is over."""
        self._roster.releases(member)
        if member.drains and member.calls == 0 and self._roster.member(member.metadata.uid) is not None:
            self._surplus.is_free(member, most=self._most)

    def obituary_of(self, uid: UUID) -> Callable[[], Awaitable[str]] | None:
        """None for a worker of somebody else."""
        member = self._roster.member(uid)
        if member is None:
            return None

        async def told() -> str:
            await asyncio.wait({member.child.exited}, timeout=EXIT_REPORT_S)
            return obituary(member)

        return told

    def _took_a_call(self, uid: UUID) -> None:
        member = self._roster.member(uid)
        if member is not None:
            member.last_used = asyncio.get_running_loop().time()
            if self._doubt.settle():
                self.supervise()

    def _check_not_stopped(self, uid: UUID) -> None:
        member = self._roster.member(uid)
        if member is None:
            return
        try:
            check_not_stopped(member.child.pid)
        except NotReached:
            self._proxy.evict(uid)  # until it is known to be well
            raise

    def _failed_a_call(self, uid: UUID) -> bool:
        """It could not be asked. False for a worker of somebody else."""
        member = self._roster.member(uid)
        if member is None:
            return False
        if member.ended_by_us or member.care is not None:
            return True
        if member.drains:
            self._surplus.lost_its_call(member)
        else:
            self._care.begin(member)
        return True

    async def cared_for(self, uid: UUID) -> None:
        """Returns when it is known whether a worker that could not be asked can be asked again; at once for any other."""
        member = self._roster.member(uid)
        if member is not None and member.care is not None:
            await asyncio.wait({member.care})

    # Their end.

    async def interrupt(self, uid: UUID) -> None:
        """SIGINT, to the worker and its children, as Jupyter does with a kernel. Returns once it is sent, so that one sent for a
        call can't reach the next."""
        if (member := self._roster.member(uid)) is not None:
            await self._ends.signal(member, signal.SIGINT)

    async def end(self, uid: UUID) -> None:
        """SIGTERM, then SIGKILL. Returns when the worker has ended."""
        if (member := self._roster.member(uid)) is not None:
            await self._ends.end(member, _ASKED)

    async def restart(self, uid: UUID) -> None:
        """Ends it, whatever it does; another takes its place. Returns when it has ended."""
        if (member := self._roster.member(uid)) is not None:
            member.asked_to_end = True
            member.ended_by_us = member.ended_by_us or _ASKED
            await self._ends.end(member, _ASKED)

    async def kill(self, uid: UUID, why: str = _ASKED) -> None:
        """Returns when the worker has ended."""
        if (member := self._roster.member(uid)) is not None:
            await self._ends.kill(member, why)

    async def stop(self, *, by: float | None = 0) -> None:
        """Calls under way end with `WorkerDied`, unless `by`, a time of the loop (None: for ever), gives them the time to be
        cancelled; who waits for a slot, or asks for one later, gets NoWorkersAvailable. Returns
        when the workers have ended, or a moment after they were killed; cancelled, it does so at once.

        Idempotent."""
        await to_end(self._ending.start(self._stop(by), "stop", awaited=True), cancelled=self._ends.hurry)

    async def _stop(self, by: float | None) -> None:
        self.slots.close(NoWorkersAvailable("the pool was stopped"))
        self._doubt.close()
        members = list(self._roster)
        for member in members:
            member.ended_by_us = member.ended_by_us or "as the pool was stopped"
        await self._tasks.close()
        await asyncio.gather(*(self._end_at_stop(member, by) for member in members))
        self._roster.clear()
        await self._starts.settled()

    async def _end_at_stop(self, member: Member, by: float | None) -> None:
        """Announced first, so that nobody asks it any more. It ends all the same."""
        self._proxy.evict(member.metadata.uid)
        try:
            await self._announcer.dropped(member.metadata)
            await self._ends.persuade(member, by)
        finally:
            self._nursery.kill(member.child.uid)
            await asyncio.wait({member.child.exited}, timeout=EXIT_REPORT_S)
            self._starts.tidy(member.metadata.uid)
