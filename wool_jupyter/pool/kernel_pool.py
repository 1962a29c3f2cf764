"""The pool of a kernel: its workers, and calls on their main threads.

run ─▶ slots (a free main thread) ─▶ proxy (balancer names uids) ─▶ connection ─▶ worker
"""

import asyncio
import enum
import functools
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from functools import partial
from uuid import UUID

from wool_jupyter import host
from wool_jupyter.aio.owned_tasks import OwnedTasks
from wool_jupyter.balance.sticky import Sticky
from wool_jupyter.dispatch.call import Call
from wool_jupyter.dispatch.proxy import WorkerProxy
from wool_jupyter.errors import (
    CallFailed,
    CallRejected,
    DiscoveryNamespaceNotFound,
    KeptOnWorker,
    NoWorkersAvailable,
    WorkerDied,
    WorkerRefused,
)
from wool_jupyter.pool import events
from wool_jupyter.pool.call_queue import CallQueue
from wool_jupyter.pool.crew import Crew
from wool_jupyter.pool.home import Home
from wool_jupyter.pool.members import Member
from wool_jupyter.pool.obituary import IN_LOGS, obituary
from wool_jupyter.pool.processes import Processes
from wool_jupyter.pool.slots import Slots
from wool_jupyter.records import WorkerMetadata
from wool_jupyter.settings import AGAIN_S, EXIT_REPORT_S, FIRST_WORKERS, INTERRUPT_GRACE_S, PoolSettings

_Body = bytes | Callable[[], bytes]


class KernelPool:
    """Made by `start`, ended by `stop`; on one loop. The home stays."""

    def __init__(self, resources: AsyncExitStack, proxy: WorkerProxy, crew: Crew, tell: events.Tell) -> None:
        self._resources = resources
        self._proxy = proxy
        self.crew = crew
        self._tell = tell
        self._under_way: dict[events.About, UUID] = {}
        self._tasks = OwnedTasks("pool")
        self._stopped = False
        self.calls = CallQueue(self)

    @property
    def main_threads(self) -> int:
        """That calls may have side by side, once as many workers run."""
        return self.crew.most

    def pins(self, worker: UUID) -> bool:
        """Something lives there alone."""
        return self.crew.pins(worker)

    @property
    def line(self) -> Slots:
        """Of those that wait for one."""
        return self.crew.slots

    @classmethod
    async def start(
        cls,
        home: Home,
        settings: PoolSettings,
        processes: Processes,
        *,
        pinned: Callable[[UUID], bool] = lambda _: False,
        tell: events.Tell = events.to_nobody,
    ) -> "KernelPool":
        """Returns when the first worker serves; others are on their way. `StartFailed` leaves no worker. Closes the processes, at
        the pool's end too. `pinned` is as for a `Crew`."""
        async with AsyncExitStack() as resources:
            resources.callback(processes.close)
            await processes.nursery.up()  # else it is said why it is not, and not only that it is gone
            own = home.discovery.subscribe(home.holds)
            proxy = WorkerProxy(discovery=own, loadbalancer=Sticky(), quorum=None)
            publisher = home.discovery.publisher
            crew = Crew(
                home,
                processes,
                proxy=proxy,
                publisher=publisher,
                admitted=proxy.admitted,
                most=settings.workers or host.usable_cpus(),
                start_timeout_s=settings.start_timeout_s,
                tags=frozenset({home.namespace}),
                pinned=pinned,
                tell=tell,
            )
            resources.callback(publisher.close)
            await resources.enter_async_context(proxy)
            await proxy.start()
            resources.push_async_callback(crew.stop)
            await crew.grow(1)  # the first alone: it is there sooner, and if all fail alike, that is said once
            await crew.slots.take()
            crew.slots.add()
            await crew.grow(settings.workers or min(FIRST_WORKERS, host.usable_cpus()))
            return cls(resources.pop_all(), proxy, crew, tell)
        raise AssertionError  # for mypy: the stack swallows nothing

    async def run(
        self,
        routine: str,
        body: _Body,
        *,
        only: UUID | None = None,
        about: events.About | None = None,
        who: object = None,
    ) -> "PoolCall":
        """Waits for a free main thread, as long as workers are there or on their way, and returns once it is sent to a worker.
        `StartFailed` when none can be started; `KeptOnWorker` when `only`, the worker that it needs, is gone. A function makes the
        body when the turn has come; what it raises ends the call.

        `about`: what is shown of it; a function may still fill it in. `who`: as for `Slots.take`."""
        about = about or events.About("call", routine, bytes_in=len(body) if isinstance(body, bytes) else 0)
        made = body if isinstance(body, bytes) else functools.cache(body)
        place = partial(self._shown, routine, made, only, about, who)
        return PoolCall(self, place, *await place(), about)

    async def _shown(
        self, routine: str, body: _Body, only: UUID | None, about: events.About, who: object
    ) -> tuple[Call, Member]:
        self._tell(events.Waits(about))
        try:
            call, member = await self._placed(routine, body, only, who)
        except BaseException:
            self._tell(events.Over(about, None))
            raise
        self._under_way[about] = call.worker.uid
        self._tell(events.Placed(about, call.worker.uid))
        return call, member

    async def _placed(self, routine: str, body: _Body, only: UUID | None, who: object) -> tuple[Call, Member]:
        while True:
            if self._stopped:
                raise NoWorkersAvailable("the pool was stopped")
            await self.crew.slots.take(who)
            try:
                made = body if isinstance(body, bytes) else body()
                call = await self._proxy.dispatch(routine, made, only=only, begun=True)
            except NoWorkersAvailable:
                self.crew.slots.add()  # its worker has just left, or does not answer any more
                if only is not None:
                    await self.crew.cared_for(only)
                    if self.crew.member(only) is None:
                        raise KeptOnWorker(
                            "the worker that kept a value of this cell is gone: run the cell again that made it"
                        ) from None
                # One whose main thread is free may be busy for a moment with something else, and is not named then.
                await self._proxy.changed(within_s=AGAIN_S)
                continue
            except BaseException:
                self.crew.slots.add()
                raise
            member = self.crew.takes(call.worker.uid)
            if member is None:
                call.close()
                raise WorkerDied("The worker died when the call began")
            return call, member

    async def _wind_down(self, call: Call, member: Member, about: events.About) -> None:
        """Of a call that nobody waits for any more: its worker is free when its body has ended, and not before."""
        try:
            async with asyncio.timeout(INTERRUPT_GRACE_S):
                await self.crew.interrupt(member.metadata.uid)
                while not call.ended:
                    await call.step()
        except TimeoutError:
            await self.crew.kill(member.metadata.uid)
        except (CallFailed, CallRejected, WorkerDied, WorkerRefused):
            pass  # it has ended, too
        finally:
            self._over(call, member, about)

    def closed(self, call: Call, member: Member, about: events.About) -> None:
        if call.ended or self._stopped:
            self._over(call, member, about)
        else:
            self._tasks.start(self._wind_down(call, member, about), "end of a call")

    def _over(self, call: Call, member: Member, about: events.About) -> None:
        call.close()
        self.rests(member, about)

    def rests(self, member: Member, about: events.About) -> None:
        """Nothing of that call runs there."""
        self._under_way.pop(about, None)
        self._tell(events.Over(about, member.metadata.uid))
        self.crew.release(member)

    def goes_on(self, member: Member, about: events.About) -> bool:
        """After `rests`. False if the worker's main thread is not free."""
        if self._stopped or not self.crew.takes_again(member):
            return False
        self._under_way[about] = member.metadata.uid
        self._tell(events.Placed(about, member.metadata.uid))
        return True

    async def interrupt(self, uid: UUID) -> bool:
        """What runs there, as ■ does. False if nothing does."""
        calls = [about for about, worker in self._under_way.items() if worker == uid]
        presses = [about.press for about in calls if about.press is not None]
        for press in presses:
            press()
        if calls and not presses:
            await self.crew.interrupt(uid)
        return bool(calls)

    async def stop(self) -> None:
        """Calls under way end with `WorkerDied`. Idempotent."""
        self._stopped = True
        await self.calls.stop()
        await self._tasks.close()
        # The home's files were removed from outside: the proxy says so as it ends.
        with suppress(DiscoveryNamespaceNotFound):
            await self._resources.aclose()


_Place = Callable[[], Awaitable[tuple[Call, Member]]]


class _Slot(enum.Enum):
    HELD = enum.auto()
    LENT = enum.auto()  # to others, while the call rests
    NONE = enum.auto()


class PoolCall:
    """A call that holds a slot; `close`, idempotent, gives it back, once a body that still runs has been interrupted. One `step`
    at a time, and none while it rests."""

    def __init__(self, pool: KernelPool, place: _Place, call: Call, member: Member, about: events.About) -> None:
        self._pool = pool
        self._place = place
        self._call = call
        self._member = member
        self._about = about
        self._closed = False
        self._slot = _Slot.HELD
        self._interrupting = asyncio.Lock()  # the next call on the worker begins when the signal has been sent
        self._placing: asyncio.Task[object] | None = None  # a step that waits for another worker

    @property
    def worker(self) -> WorkerMetadata:
        """Another one after a `step` in which the worker turned out to be gone before the body had begun."""
        return self._call.worker

    @property
    def ended(self) -> bool:
        return self._call.ended

    def recall(self) -> None:
        self._call.recall()

    async def interrupt(self) -> None:
        """A SIGINT, if the call has not ended. Returns once it is sent."""
        async with self._interrupting:
            if not (self._closed or self._call.ended):
                await self._pool.crew.interrupt(self.worker.uid)

    async def kill(self, why: str) -> None:
        """Ends its worker, if the call has not ended."""
        if not (self._closed or self._call.ended):
            await self._pool.crew.kill(self.worker.uid, why)

    async def step(self, answer: bytes | None = None) -> bytes | None:
        """As `Call.step`; a `WorkerDied` says how it ended. A worker that fails at a call by a fault of its own is ended: whatever
        broke it (descriptors that ran out, a patched module) would meet the next call. A call whose worker died by itself before
        it began there is placed again, as by `run`."""
        while True:
            try:
                return await self._call.step(answer)
            except CallFailed as error:
                await self._pool.crew.kill(self.worker.uid)
                raise CallFailed(f"{error}. It is replaced, and what lived on it is gone") from None
            except WorkerDied:
                how, may_have_run = await self._end_of_worker()
            if may_have_run or self._closed:
                raise WorkerDied(how)
            await self._place_again()

    def rest(self) -> None:
        """Nothing of it runs, and the slot is others'. The worker keeps what it has of the call."""
        self._call.set_aside()
        self._slot = _Slot.LENT
        self._pool.rests(self._member, self._about)

    def go_on(self) -> bool:
        """After `rest`. False if somebody else has its worker's main thread: it can only be closed then."""
        if not (self._closed or self._call.ended) and self._pool.goes_on(self._member, self._about):
            self._call.take_up()  # at once: nobody else is to be placed there
            self._slot = _Slot.HELD
        return self._slot is _Slot.HELD

    def give(self, answer: bytes) -> None:
        """As `Call.give`."""
        self._call.give(answer)

    async def _end_of_worker(self) -> tuple[str, bool]:
        """In words, and whether the call may have run there, or was not to."""
        member = self._member
        await asyncio.wait({member.child.exited}, timeout=EXIT_REPORT_S)
        how, ended_by_us = obituary(member, crashed=IN_LOGS), bool(member.ended_by_us)
        if not member.child.exited.done():  # its body may still run, and the next one would wait behind it
            await self._pool.crew.kill(self.worker.uid)
        return how, ended_by_us or not member.child.exited.done() or member.ledger.has_begun(self._call.number)

    async def _place_again(self) -> None:
        self._give_back()
        self._placing = asyncio.current_task()
        try:
            self._call, self._member = await self._place()
            self._slot = _Slot.HELD
        finally:
            self._placing = None

    def _give_back(self) -> None:
        slot, self._slot = self._slot, _Slot.NONE
        match slot:
            case _Slot.HELD:
                self._pool.closed(self._call, self._member, self._about)
            case _Slot.LENT:
                self._call.close()

    async def close(self) -> None:
        self._closed = True
        if self._placing is not None:
            self._placing.cancel()
        async with self._interrupting:
            self._give_back()
