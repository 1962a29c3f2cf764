"""The workers that a pool has started: announced when they serve, watched, dropped and replaced when they end.

nursery ─ ready, exits ─▶ crew ─ added, dropped ─▶ discovery ─▶ proxy
                           └─ free main threads ─▶ slots
"""

import asyncio
import logging
import signal
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from uuid import UUID, uuid4

from wool_jupyter import host
from wool_jupyter.aio.owned_tasks import OwnedTasks
from wool_jupyter.aio.to_end import to_end
from wool_jupyter.discovery.protocol import DiscoveryPublisherLike
from wool_jupyter.dispatch.connection import WorkerConnection
from wool_jupyter.dispatch.proxy import WorkerProxy
from wool_jupyter.errors import NoWorkersAvailable, RpcError, StartFailed
from wool_jupyter.nursery.client import Nursery
from wool_jupyter.pool import events, supervisor
from wool_jupyter.pool.ends import Ends
from wool_jupyter.pool.home import Home
from wool_jupyter.pool.members import Member, WorkerSnapshot
from wool_jupyter.pool.obituary import has_crashed, how_it_ended, obituary
from wool_jupyter.pool.slots import Slots
from wool_jupyter.pool.starts import Starts
from wool_jupyter.records import ChannelOptions, DiscoveryEventType, WorkerMetadata
from wool_jupyter.settings import ANNOUNCE_S, EXIT_REPORT_S
from wool_jupyter.wire import layout
from wool_jupyter.wire.ledger import Ledger

_LOST = "The process that looks after the workers has ended, and they with it: a new pool has new ones"

_ASKED = "as was asked"
_OPTIONS = ChannelOptions()

_GONE = 64  # ended workers that a call on its way may still name

_log = logging.getLogger(__name__)


class Crew:
    """Lives on one loop; ended by `stop`. A worker that dies is replaced: at once if it had run something, otherwise when work
    waits or after a pause."""

    def __init__(
        self,
        home: Home,
        nursery: Nursery,
        *,
        proxy: WorkerProxy,
        publisher: DiscoveryPublisherLike,
        admitted: Callable[[UUID], Awaitable[object]] | None = None,
        most: int,
        start_timeout_s: float,
        environment: Mapping[str, str],
        version: str,
        tags: frozenset[str] = frozenset(),
        pinned: Callable[[UUID], bool] = lambda _: False,
        tell: events.Tell = events.to_nobody,
        options: ChannelOptions = _OPTIONS,
    ) -> None:
        """`proxy` follows the discovery in which `publisher` announces. `admitted`: what a worker has to wait for, once it is
        announced, before its main thread counts as free. `pinned`: whether a smaller crew must not let a worker go."""
        self._home = home
        self._nursery = nursery
        self._proxy = proxy
        proxy.observe(placed=self._took_a_call, failed=self._failed_a_call, dropped=self._failed_a_call)
        self._publisher = publisher
        self._admitted = admitted
        self.slots = Slots(wanted=self.supervise)  # the free main threads, and who waits for one
        self._keep = 0
        self._most = most
        self._starts = Starts(home, nursery, environment=environment, timeout_s=start_timeout_s)
        self._version = version
        self._tags = tags
        self.pins = pinned
        self._tell = tell
        nursery.lost.add_done_callback(lambda _: self._tell(events.Lost(_LOST)))
        self._options = options
        self._members: dict[UUID, Member] = {}
        self._gone: deque[Member] = deque(maxlen=_GONE)
        self._announcing = asyncio.Lock()  # in order: a worker's place has to be free before its successor's is taken
        self._starting = 0
        self._on_the_way: list[asyncio.Task[None]] = []  # of those that `supervise` has asked for, the latest last
        self._looking = 0
        self._in_doubt = False
        self._retried = 0  # starts without work, since a worker has served
        self._retry: asyncio.TimerHandle | None = None
        self._tasks = OwnedTasks("crew")
        self._ending = OwnedTasks("end of a crew")
        self._ends = Ends(nursery)

    @property
    def lost(self) -> bool:
        """The nursery is gone, and the workers with it: only `stop` makes sense."""
        return self._nursery.lost.done()

    @property
    def size(self) -> int:
        """Workers that stay, with those that are starting."""
        return self._staying + self._starting

    @property
    def _staying(self) -> int:
        return sum(not member.drains for member in self._members.values())

    @property
    def most(self) -> int:
        """Workers that there may be."""
        return self._most

    @property
    def starting(self) -> int:
        return self._starting

    @property
    def nursery_pid(self) -> int:
        return self._nursery.pid

    @property
    def template_pid(self) -> int | None:
        """Of the process that workers are forked from; None where they are started."""
        return self._nursery.template_pid

    def member(self, uid: UUID) -> Member | None:
        return self._members.get(uid)

    def snapshot(self) -> list[WorkerSnapshot]:
        """Oldest first."""
        found = [WorkerSnapshot(uid, m.metadata.pid, m.calls > 0, m.started) for uid, m in self._members.items()]
        return sorted(found, key=lambda worker: worker.started)

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

    # How many.

    async def grow(self, workers: int) -> None:
        """To that many; a larger crew stays as it is. Does not wait for those that it starts."""
        self._allow(max(self._most, workers))
        self._keep = max(self._keep, workers)
        self._trust()
        self.supervise()

    async def scale(self, workers: int) -> None:
        """To exactly that many, without waiting for them. Starts that are not needed are given up, idle workers are let go at once
        and busy ones when their calls are over; a pinned one stays."""
        self._allow(workers)
        self._keep = workers
        self._trust()
        surplus = max(0, self.size - workers)
        given_up = self._on_the_way[max(0, len(self._on_the_way) - surplus) :]
        if given_up:
            await asyncio.sleep(0)  # a task that is cancelled before it has begun never comes to its `finally`
            for start in given_up:
                start.cancel()
            await asyncio.wait(given_up)
        for member in sorted(self._members.values(), key=lambda member: member.last_used, reverse=True):
            if member.drains and not member.leaves and self.size < workers:
                self._stays(member)
        self.supervise()

    def _allow(self, most: int) -> None:
        self._most = most
        self._tell(events.MostChanged(most))

    def _let_surplus_go(self) -> None:
        if self._staying <= self._most:
            return
        present = [
            supervisor.Candidate(uid, self._is_busy(member), self.pins(uid), member.last_used, member.started)
            for uid, member in self._members.items()
            if not member.drains
        ]
        for uid in supervisor.workers_to_part(present, self._most):
            member = self._members[uid]
            is_busy = self._is_busy(member)
            member.drains = True
            self._tell(events.Drains(uid, drains=True))
            self._proxy.evict(uid)
            if not is_busy:
                if member.care is None:
                    self.slots.remove()
                self._lets_go(member)

    def _is_busy(self, member: Member) -> bool:
        """Also with a call that is on its way there and holds the slot."""
        if member.calls > 0 or member.care is not None:
            return member.calls > 0
        found = self._proxy.workers.workers.get(member.metadata.uid)
        return found is not None and found.connection.load > 0

    def _is_free_while_draining(self, member: Member) -> None:
        if self.pins(member.metadata.uid) or self._staying < self._most:
            self._stays(member)
        else:
            self._lets_go(member)

    def _stays(self, member: Member) -> None:
        """After all."""
        member.drains = False
        self._tell(events.Drains(member.metadata.uid, drains=False))
        self._proxy.readmit(member.metadata.uid)
        if member.calls == 0 and member.care is None:
            self.slots.add()

    def _lets_go(self, member: Member) -> None:
        member.leaves = True
        member.ended_by_us = member.ended_by_us or "as the pool became smaller"
        self._tasks.start(self._let_go(member), f"farewell to {member.metadata.uid}")

    async def _let_go(self, member: Member) -> None:
        await self._announce_end(member.metadata)
        await self._ends.drain(member)

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
        self._let_surplus_go()
        standing = supervisor.Standing(
            keep=self._keep,
            most=self._most,
            present=self._staying,
            starting=self._starting,
            free=self.slots.free,
            waiting=self.slots.waiting + self._looking,
            in_doubt=self._in_doubt,
        )
        for _ in range(supervisor.workers_to_start(standing)):
            self._starting += 1
            start = self._tasks.start(self._start(), "start of a worker")
            self._on_the_way.append(start)
            start.add_done_callback(self._on_the_way.remove)

    async def _start(self) -> None:
        failure: Exception | None = None
        try:
            await self._started()
            self._starts.prepare()
        except StartFailed as error:
            failure = error
        except Exception as error:  # noqa: BLE001 (whoever waits in the line must hear of it)
            failure = StartFailed(f"A worker can't start: {type(error).__name__}: {error}")
        finally:
            self._starting -= 1
        if failure is not None:
            self._doubt()
            if not self._members and not self._starting:
                self.slots.fail(failure)

    async def _started(self) -> None:
        uid = uuid4()
        self._tell(events.Starting(uid))
        try:
            await self._serves(uid)
        except BaseException as error:
            self._tell(events.NotStarted(uid, str(error)))
            raise

    async def _serves(self, uid: UUID) -> None:
        ledger = Ledger.create(layout.ledger(self._home.directory, str(uid)))
        child = await self._starts.child(uid, at_once=self.slots.waiting > 0)
        # Before anything runs there.
        oom_kills, crash_report = host.oom_kills(), layout.crash_report(self._home.directory, child.uid)
        address = child.report["address"]
        metadata = WorkerMetadata(uid, address, child.pid, self._version, self._tags, options=self._options)
        member = Member(metadata, child, time.time(), oom_kills, crash_report, ledger)
        try:
            await self._announce("worker-added", metadata)
            if self._admitted is not None:
                await self._admitted(uid)
        except BaseException:
            self._nursery.kill(str(uid))
            await self._announce_end(metadata)  # it may have been announced for all that
            raise
        self._members[uid] = member
        self._tasks.start(self._watch(member), f"watch over {uid}")
        self.slots.add()

    async def _watch(self, member: Member) -> None:
        await asyncio.wait({member.child.exited})
        uid = member.metadata.uid
        if member.calls == 0 and member.care is None and not member.drains:
            self.slots.remove()
        self._gone.append(self._members.pop(uid))
        member.ledger.close()
        self._tell(events.Ended(uid, "" if member.leaves else how_it_ended(member)))
        if not self._is_proven(member):
            self._doubt()
        self.supervise()
        self._proxy.evict(uid)
        self._tidy(member)
        await self._announce_end(member.metadata, timeout_s=None)  # nobody waits for it, and nobody says it later

    @staticmethod
    def _is_proven(member: Member) -> bool:
        """Its end says nothing about the start of others."""
        is_old = time.time() - member.started > supervisor.PROVEN_S
        return bool(member.last_used) or is_old or member.asked_to_end or member.leaves

    def _doubt(self) -> None:
        if self._in_doubt or self.slots.closed:
            return
        self._in_doubt = True
        if (pause_s := supervisor.pause_in_doubt(self._retried)) is not None:
            self._retry = asyncio.get_running_loop().call_later(pause_s, self._start_again)

    def _start_again(self) -> None:
        self._retried += 1
        self._in_doubt = False
        self.supervise()

    def _trust(self) -> bool:
        """Whether there was a doubt."""
        if self._retry is not None:
            self._retry.cancel()
        was_in_doubt, self._in_doubt, self._retried = self._in_doubt, False, 0
        return was_in_doubt

    def _tidy(self, member: Member) -> None:
        """Its socket and ledger, and the report of a crash that it did not come to: a home may see many workers."""
        socket = layout.socket(self._home.directory, str(member.metadata.uid))
        for path in (socket, layout.direct(socket), layout.ledger(self._home.directory, str(member.metadata.uid))):
            path.unlink(missing_ok=True)
        if not has_crashed(member.crash_report):
            member.crash_report.unlink(missing_ok=True)

    async def _announce(self, event: DiscoveryEventType, metadata: WorkerMetadata) -> None:
        async with self._announcing:
            await self._publisher.publish(event, metadata)

    async def _announce_again(self, metadata: WorkerMetadata) -> None:
        try:
            await self._announce("worker-added", metadata)
        except Exception:  # noqa: BLE001 (said in the log: it is tried again)
            _log.warning("worker %s could not be announced again", metadata.uid, exc_info=True)

    async def _announce_end(self, metadata: WorkerMetadata, *, timeout_s: float | None = ANNOUNCE_S) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await self._announce("worker-dropped", metadata)
        except Exception:  # noqa: BLE001 (said in the log: the worker's end is not to depend on it)
            _log.warning("the end of worker %s could not be announced", metadata.uid, exc_info=True)

    # Calls on them.

    def takes(self, uid: UUID) -> Member | None:
        """A call was placed there, with a slot. One that has ended since is told by the call's first step; None for a worker of
        somebody else."""
        member = self._members.get(uid) or next((gone for gone in self._gone if gone.metadata.uid == uid), None)
        if member is None:
            self.slots.add()
            return None
        member.calls += 1
        if member.calls > 1 or uid not in self._members:
            self.slots.add()  # it waits behind another call there, or for nobody: no main thread is taken
        return member

    def obituary_of(self, uid: UUID) -> Callable[[], Awaitable[str]] | None:
        """None for a worker of somebody else."""
        member = self._members.get(uid)
        if member is None:
            return None

        async def told() -> str:
            await asyncio.wait({member.child.exited}, timeout=EXIT_REPORT_S)
            return obituary(member)

        return told

    def release(self, member: Member) -> None:
        member.calls -= 1
        if member.calls > 0 or member.metadata.uid not in self._members:
            return
        if member.drains:
            self._is_free_while_draining(member)
        elif member.care is None:
            self.slots.add()

    def _took_a_call(self, uid: UUID) -> None:
        member = self._members.get(uid)
        if member is not None:
            member.last_used = asyncio.get_running_loop().time()
            if self._trust():
                self.supervise()

    def _failed_a_call(self, uid: UUID) -> None:
        """It could not be asked. There is no slot for it until it answers again; if it does not, it is replaced."""
        member = self._members.get(uid)
        if member is None or member.care is not None or member.ended_by_us:
            return
        if member.drains:
            if member.calls == 0 and not member.leaves:  # the call that was on its way there: its slot is given back
                self.slots.remove()
                self._lets_go(member)
            return
        if member.calls == 0:
            self.slots.remove()
        member.care = self._tasks.start(self._heal(member), f"care for {uid}")

    async def cared_for(self, uid: UUID) -> None:
        """Returns when it is known whether a worker that could not be asked can be asked again; at once for any other."""
        member = self._members.get(uid)
        if member is not None and member.care is not None:
            await asyncio.wait({member.care})

    async def _heal(self, member: Member) -> None:
        uid, failed = member.metadata.uid, 0
        while (pause_s := supervisor.pause_before_probe(failed)) is not None:
            await asyncio.wait({member.child.exited}, timeout=pause_s)
            if uid not in self._members:
                return
            try:
                with closing(WorkerConnection(member.metadata)) as connection:
                    await connection.probe()
            except RpcError:
                failed += 1
                continue
            if member.drains:
                return
            if not self._proxy.readmit(uid):  # it is well: another has its place, or somebody else has dropped it
                await self._announce_again(member.metadata)
                await asyncio.wait({member.child.exited}, timeout=supervisor.ROOM_S)
                continue
            member.care = None
            if member.calls == 0:
                self.slots.add()
            return
        await self._ends.kill(member, "as it did not answer any more")

    # Their end.

    async def interrupt(self, uid: UUID) -> None:
        """SIGINT, to the worker and its children, as Jupyter does with a kernel. Returns once it is sent, so that one sent for a
        call can't reach the next."""
        if (member := self._members.get(uid)) is not None:
            await self._ends.signal(member, signal.SIGINT)

    async def end(self, uid: UUID) -> None:
        """SIGTERM, then SIGKILL. Returns when the worker has ended."""
        if (member := self._members.get(uid)) is not None:
            await self._ends.end(member, _ASKED)

    async def restart(self, uid: UUID) -> None:
        """Ends it, whatever it does; another takes its place. Returns when it has ended."""
        if (member := self._members.get(uid)) is not None:
            member.asked_to_end = True
            member.ended_by_us = member.ended_by_us or _ASKED
            await self._ends.end(member, _ASKED)

    async def kill(self, uid: UUID, why: str = _ASKED) -> None:
        """Returns when the worker has ended."""
        if (member := self._members.get(uid)) is not None:
            await self._ends.kill(member, why)

    async def stop(self, *, by: float | None = 0) -> None:
        """Calls under way end with `WorkerDied`, unless `by`, a time of the loop (None: for ever), gives them the time to be
        cancelled; who waits for a slot, or asks for one later, gets NoWorkersAvailable. Returns
        when the workers have ended, or a moment after they were killed; cancelled, it does so at once.

        Idempotent."""
        await to_end(self._ending.start(self._stop(by), "stop", awaited=True), cancelled=self._ends.hurry)

    async def _stop(self, by: float | None) -> None:
        self.slots.close(NoWorkersAvailable("the pool was stopped"))
        self._trust()
        members = list(self._members.values())
        for member in members:
            member.ended_by_us = member.ended_by_us or "as the pool was stopped"
        await self._tasks.close()
        self._starts.close()
        await asyncio.gather(*(self._end_at_stop(member, by) for member in members))
        self._members.clear()

    async def _end_at_stop(self, member: Member, by: float | None) -> None:
        """Announced first, so that nobody asks it any more. It ends all the same."""
        self._proxy.evict(member.metadata.uid)
        try:
            await self._announce_end(member.metadata)
            await self._ends.persuade(member, by)
        finally:
            self._nursery.kill(member.child.uid)
            await asyncio.wait({member.child.exited}, timeout=EXIT_REPORT_S)
            self._tidy(member)
