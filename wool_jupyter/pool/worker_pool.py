"""Workers for routines: started here, found through a discovery, or both.

          discovery given   workers started   whose namespace
default   no                one for each CPU  its own
ephemeral no                as many as asked  its own
durable   yes               none              the discovery's
hybrid    yes, a service    as many as asked  the discovery's, where they are announced

routine ─▶ proxy ─▶ worker           crew ─ added, dropped ─▶ discovery ─▶ proxy
           └─ nobody is there ─▶ crew
"""

import asyncio
import os
import warnings
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack
from functools import cached_property, partial
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

from wool_jupyter import host
from wool_jupyter.balance.protocol import LoadBalancerLike
from wool_jupyter.discovery.filtering import afilter
from wool_jupyter.discovery.local import BorrowedDiscovery
from wool_jupyter.discovery.protocol import DiscoveryLike, DiscoveryPublisherLike, DiscoverySubscriberLike
from wool_jupyter.dispatch import channels, checks, setups
from wool_jupyter.dispatch.call import Call
from wool_jupyter.dispatch.proxy import HasOneOf, WorkerProxy
from wool_jupyter.dispatch.routine import use
from wool_jupyter.dispatch.setups import Backpressure
from wool_jupyter.errors import NoWorkersAvailable
from wool_jupyter.pool.crew import Crew
from wool_jupyter.pool.echo import echoed
from wool_jupyter.pool.home import Home
from wool_jupyter.pool.processes import Processes
from wool_jupyter.pool.resolving import resolved
from wool_jupyter.records import ChannelOptions
from wool_jupyter.settings import POOL_SHUTDOWN_S, PoolSettings

T = TypeVar("T")

_DEFAULTS = PoolSettings()


class WorkerPool:
    """`async with WorkerPool() as pool`: routines that are called inside run on its workers. Entered once, on one loop. What its
    workers write to stdout and stderr comes out at this process's stderr.

    Leaving it cancels what runs on the workers that it started and ends them, within `shutdown_timeout` seconds (None: without a
    bound); those of others stay. A call that none of its workers takes, as they are dead or do not answer, waits up to
    `start_timeout` for one that is started in their place.
    """

    def __init__(
        self,
        *tags: str,
        spawn: int | None = None,
        discovery: Any = None,
        loadbalancer: LoadBalancerLike | None = None,
        lease: int | None = None,
        quorum: int | None = 1,
        quorum_timeout: float | None = None,
        lazy: bool = True,
        shutdown_timeout: float | None = POOL_SHUTDOWN_S,
        start_timeout: float = _DEFAULTS.start_timeout_s,
        backpressure: Backpressure | None = None,
        options: ChannelOptions | None = None,
    ) -> None:
        """`spawn`: how many workers to start; 0 is one for each usable CPU, as is None without a discovery. `discovery`: a
        service, or for a pool that starts none a subscriber; itself, a context manager that gives it, or a function or awaitable
        that makes it. `lease`: how many workers of others it may hold. Workers that it starts have the `tags`, and the name
        of their namespace; it asks only such as have one of the `tags`. `backpressure`: a function, plain or async, that each of
        these workers asks before it takes a call, with the number of calls that it has and the next one; true turns that one
        away for now. `options`: how they want to be spoken to. The rest is as for a `WorkerProxy`.
        """
        if spawn is not None:
            spawn = checks.workers("spawn", spawn)
        if lease is not None:
            lease = checks.workers("lease", lease, least=1)
        if lease is not None and discovery is None:
            warnings.warn("lease has no effect without a discovery", stacklevel=2)
            lease = None
        if spawn is None and discovery is None:
            spawn = 0
        self._tags = checks.tags(tags)
        self._workers = None if spawn is None else spawn or host.usable_cpus()
        self._discovery = discovery
        self._lease = lease if lease is None or self._workers is None else lease + self._workers
        checks.balancer(loadbalancer)
        self._proxy_options: dict[str, Any] = {
            "loadbalancer": loadbalancer,
            "quorum": checks.quorum(quorum, self._lease, None),
            "quorum_timeout": None if quorum_timeout is None else checks.seconds("quorum_timeout", quorum_timeout),
            "lazy": checks.flag("lazy", value=lazy),
        }
        self._shutdown_timeout_s = (
            None if shutdown_timeout is None else checks.seconds("shutdown_timeout", shutdown_timeout)
        )
        self._start_timeout_s = checks.seconds("start_timeout", start_timeout)
        if self._workers is None and not (backpressure is None and options is None):
            raise ValueError("backpressure and options are for workers that the pool starts, and it starts none")
        if not (backpressure is None or callable(backpressure)):
            raise TypeError(f"backpressure is a function, not {backpressure!r}")
        self._backpressure = backpressure
        self._channel_options = setups.checked_options(options)
        self._resources: AsyncExitStack | None = None
        self._entered = False

    async def __aenter__(self) -> Self:
        """The workers that it starts all serve. What their starts raised comes as one ExceptionGroup; a quorum that is not there as
        TimeoutError, the discovery's own error as it is. Nothing is left then."""
        if self._entered:
            raise RuntimeError("a WorkerPool is entered once: make another one")
        self._entered = True
        async with AsyncExitStack() as resources:
            resources.push_async_callback(channels.of_this_loop().settled)
            home = None if self._workers is None else await self._home(resources, self._workers)
            found = await self._found(resources, home)
            self.proxy = WorkerProxy(discovery=found.subscriber, lease=self._lease, **self._proxy_options)
            crew = None if home is None else await self._crew(resources, home, found)
            await self._enter(resources, self.proxy, "proxy")
            places = {}
            if home is not None and found.namespace is not None:
                places["places"] = partial(self._call_directories, home)
            whom = self.proxy if crew is None else _Refilled(self.proxy, crew, self._start_timeout_s)
            self._in_use = partial(use, whom, **places)
            resources.enter_context(self._in_use())
            self._resources = resources.pop_all()
        return self

    def use(self) -> AbstractContextManager[None]:
        """For a context that its entry does not reach, such as another cell of a notebook: routines that are called inside run on
        its workers. RuntimeError unless it is entered."""
        if self._resources is None:
            raise RuntimeError(
                "this WorkerPool is not entered" + (" any more: make another one" if self._entered else "")
            )
        return self._in_use()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """TimeoutError if a discovery or a balancer has not ended in time."""
        resources, self._resources = self._resources, None
        if resources is not None:
            await resources.__aexit__(kind, error, trace)

    def _call_directories(self, home: Home) -> AbstractContextManager[tuple[str, ...]]:
        """RuntimeError for a call in a context that the end of the pool has not reached."""
        if self._resources is None:
            raise RuntimeError("this WorkerPool was stopped: make another one")
        return home.call_directories()

    @cached_property
    def _leave_by(self) -> float | None:
        """A time of the loop, fixed by the first step of leaving."""
        timeout_s = self._shutdown_timeout_s
        return None if timeout_s is None else asyncio.get_running_loop().time() + timeout_s

    async def _enter(self, resources: AsyncExitStack, part: AbstractAsyncContextManager[T], what: str) -> T:
        """Left in time, and without a say in what becomes of an error that passes."""
        entered = await part.__aenter__()

        async def leave(kind: Any, error: BaseException | None, trace: TracebackType | None) -> None:
            try:
                async with asyncio.timeout_at(self._leave_by) as limit:
                    await part.__aexit__(kind, error, trace)
            except TimeoutError:
                if not limit.expired():
                    raise
                raise TimeoutError(
                    f"the pool's {what} has not ended within {self._shutdown_timeout_s:g} s of its end"
                ) from None

        resources.push_async_exit(leave)
        return entered

    async def _home(self, resources: AsyncExitStack, workers: int) -> Home:
        home = await Home.enter(capacity=workers)
        resources.push_async_callback(home.leave)
        await resources.enter_async_context(echoed(home.log))
        return home

    async def _found(self, resources: AsyncExitStack, home: Home | None) -> "_Found":
        if home is None:
            expected: tuple[type, ...] = (DiscoveryLike, DiscoverySubscriberLike)
        else:
            expected = (DiscoveryLike,)
        given = home.discovery if home is not None and self._discovery is None else self._discovery
        kind, found = await self._enter(resources, resolved(given, *expected), "discovery")
        wanted = HasOneOf(self._tags) if self._tags else None
        if kind is not DiscoveryLike:
            return _Found(found if wanted is None else afilter(wanted, found))
        subscriber = found.subscriber if wanted is None else found.subscribe(wanted)
        namespace = found.namespace if isinstance(found, BorrowedDiscovery) else None
        return _Found(subscriber, None if home is None else found.publisher, namespace)

    async def _crew(self, resources: AsyncExitStack, home: Home, found: "_Found") -> Crew:
        assert self._workers is not None
        publisher: Any = found.publisher
        if hasattr(publisher, "__aenter__"):
            publisher = await self._enter(resources, publisher, "publisher")
        setups.write(home.directory, setups.pack(self._channel_options, self._backpressure))
        processes = Processes(home, await home.nursery(os.environ), environment=os.environ)
        resources.callback(processes.close)
        crew = Crew(
            home,
            processes,
            proxy=self.proxy,
            publisher=publisher,
            most=self._workers,
            start_timeout_s=self._start_timeout_s,
            tags=self._tags if found.namespace is None else self._tags | {found.namespace},
            options=self._channel_options,
        )

        async def stop() -> None:
            await crew.stop(by=self._leave_by)

        resources.push_async_callback(stop)
        await crew.start_all(self._workers)
        return crew


class _Found(NamedTuple):
    """Where to look for workers, and where to announce those that are started."""

    subscriber: DiscoverySubscriberLike
    publisher: DiscoveryPublisherLike | None = None
    namespace: str | None = None  # on this host: its workers see the files of this process


class _Refilled:
    """A pool's proxy, to the process that starts the pool's workers: a call that nobody takes, as all are dead or do not answer,
    waits for one that is started or answers again."""

    def __init__(self, proxy: WorkerProxy, crew: Crew, patience_s: float) -> None:
        self._proxy = proxy
        self._crew = crew
        self._patience_s = patience_s

    async def dispatch(self, routine: str, body: bytes) -> Call:
        """As the proxy's. `StartFailed` when no worker can be started any more."""
        patient_until = asyncio.get_running_loop().time() + self._patience_s
        with self._crew.wanted():
            if not self._proxy.started:  # it may have to wait for its quorum, and would not hear of starts that fail
                nobody = NoWorkersAvailable(f"no worker of the pool was there within {self._patience_s:g} s")
                await self._one_of_ours(patient_until, otherwise=nobody)
            while True:
                try:
                    call = await self._proxy.dispatch(routine, body)
                    call.obituary = self._crew.obituary_of(call.worker.uid)
                    return call
                except NoWorkersAvailable as error:
                    if self._crew.slots.free and self._proxy.workers.workers:  # else one was announced just now
                        raise
                    nobody = error
                await self._one_of_ours(patient_until, otherwise=nobody)

    async def _one_of_ours(self, until: float, *, otherwise: NoWorkersAvailable) -> None:
        """Returns when one of them is there and not in doubt, and a proxy that is started knows of one."""
        try:
            async with asyncio.timeout_at(until) as limit:
                await self._crew.slots.take()
                self._crew.slots.add()
                if self._proxy.started:
                    await self._proxy.admitted()
        except TimeoutError:
            if not limit.expired():  # the discovery's own
                raise
            raise otherwise from None

    async def stop(self) -> None:
        await self._proxy.stop()

    def __wool_reduce__(self) -> tuple[Any, ...]:
        """On workers it is the proxy alone."""
        return self._proxy.__wool_reduce__()
