"""The pool of a kernel: its workers, and calls on their main threads.

run ─▶ slots (a free main thread) ─▶ proxy (balancer names uids) ─▶ connection ─▶ worker
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from uuid import UUID

from wool_jupyter import host
from wool_jupyter.aio.owned_tasks import OwnedTasks
from wool_jupyter.balance.sticky import Sticky
from wool_jupyter.dispatch.call import Call
from wool_jupyter.dispatch.proxy import WorkerProxy
from wool_jupyter.errors import (
    CallFailed,
    DiscoveryNamespaceNotFound,
    KeptOnWorker,
    NoWorkersAvailable,
    WorkerDied,
    WorkerRefused,
)
from wool_jupyter.pool import events
from wool_jupyter.pool.crew import Crew
from wool_jupyter.pool.home import Home
from wool_jupyter.pool.members import Member
from wool_jupyter.pool.obituary import obituary
from wool_jupyter.settings import AGAIN_S, EXIT_REPORT_S, FIRST_WORKERS, INTERRUPT_GRACE_S, PoolSettings


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

    @classmethod
    async def start(
        cls,
        home: Home,
        settings: PoolSettings,
        *,
        environment: Mapping[str, str],
        version: str,
        pinned: Callable[[UUID], bool] = lambda _: False,
        tell: events.Tell = events.to_nobody,
    ) -> "KernelPool":
        """Returns when the first worker serves; others are on their way. `StartFailed` leaves no worker. `pinned` is as for a
        `Crew`."""
        async with AsyncExitStack() as resources:
            nursery = await home.nursery(environment)
            proxy = WorkerProxy(discovery=home.discovery.subscriber, loadbalancer=Sticky(), quorum=None)
            publisher = home.discovery.publisher
            crew = Crew(
                home,
                nursery,
                proxy=proxy,
                publisher=publisher,
                admitted=proxy.admitted,
                most=settings.workers or host.usable_cpus(),
                start_timeout_s=settings.start_timeout_s,
                environment=environment,
                version=version,
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
        self, routine: str, body: bytes, *, only: UUID | None = None, about: events.About | None = None
    ) -> "PoolCall":
        """Waits for a free main thread, as long as workers are there or on their way, and returns once it is sent to a worker.
        `StartFailed` when none can be started; `KeptOnWorker` when `only`, the worker that it needs, is gone.

        `about`: what is shown of it."""
        about = about or events.About("call", routine, bytes_in=len(body))
        self._tell(events.Waits(about))
        try:
            call = await self._placed(routine, body, only, about)
        except BaseException:
            self._tell(events.Over(about, None))
            raise
        self._under_way[about] = call.worker.uid
        self._tell(events.Placed(about, call.worker.uid))
        return call

    async def _placed(self, routine: str, body: bytes, only: UUID | None, about: events.About) -> "PoolCall":
        while True:
            if self._stopped:
                raise NoWorkersAvailable("the pool was stopped")
            await self.crew.slots.take()
            try:
                call = await self._proxy.dispatch(routine, body, only=only, begun=True)
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
            return PoolCall(self, call, member, about)

    async def _wind_down(self, call: Call, member: Member, about: events.About) -> None:
        """Of a call that nobody waits for any more: its worker is free when its body has ended, and not before."""
        try:
            async with asyncio.timeout(INTERRUPT_GRACE_S):
                await self.crew.interrupt(member.metadata.uid)
                while not call.ended:
                    await call.step()
        except TimeoutError:
            await self.crew.kill(member.metadata.uid)
        except (CallFailed, WorkerDied, WorkerRefused):
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
        self._under_way.pop(about, None)
        self._tell(events.Over(about, member.metadata.uid))
        self.crew.release(member)

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
        await self._tasks.close()
        with suppress(
            DiscoveryNamespaceNotFound
        ):  # the home's files were removed from outside: the proxy says so as it ends
            await self._resources.aclose()


class PoolCall:
    """A call that holds a slot; `close`, idempotent, gives it back, once a body that still runs has been interrupted. One `step`
    at a time."""

    def __init__(self, pool: KernelPool, call: Call, member: Member, about: events.About) -> None:
        self._pool = pool
        self._call = call
        self._member = member
        self._about = about
        self._closed = False
        self.worker = call.worker

    @property
    def ended(self) -> bool:
        return self._call.ended

    async def step(self, answer: bytes | None = None) -> bytes | None:
        """As `Call.step`; a `WorkerDied` says how it ended. A worker that fails at a call by a fault of its own is ended: whatever
        broke it (descriptors that ran out, a patched module) would meet the next call."""
        try:
            return await self._call.step(answer)
        except CallFailed as error:
            await self._pool.crew.kill(self.worker.uid)
            raise CallFailed(f"{error}. It is replaced, and what lived on it is gone") from None
        except WorkerDied:
            await asyncio.wait({self._member.child.exited}, timeout=EXIT_REPORT_S)
            how = obituary(self._member, crashed="; `%wool logs` shows where")
            if not self._member.child.exited.done():  # its body may still run, and the next one would wait behind it
                await self._pool.crew.kill(self.worker.uid)
            raise WorkerDied(how) from None

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._pool.closed(self._call, self._member, self._about)
