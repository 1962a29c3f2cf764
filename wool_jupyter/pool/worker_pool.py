"""Workers for routines: started here, found through a discovery, or both.

          discovery given   workers started   whose namespace
default   no                one for each CPU  its own
ephemeral no                as many as asked  its own
durable   yes               none              the discovery's
hybrid    yes, a service    as many as asked  the discovery's, where they are announced
"""

import asyncio
import os
import warnings
from contextlib import AsyncExitStack
from importlib.metadata import version
from types import TracebackType
from typing import Any, Self, cast

from wool_jupyter import host
from wool_jupyter.balance.protocol import LoadBalancerLike
from wool_jupyter.discovery.filtering import afilter
from wool_jupyter.discovery.protocol import DiscoveryLike, DiscoveryPublisherLike, DiscoverySubscriberLike
from wool_jupyter.dispatch.proxy import HasOneOf, WorkerProxy
from wool_jupyter.dispatch.routine import use
from wool_jupyter.pool.crew import Crew
from wool_jupyter.pool.home import Home
from wool_jupyter.pool.resolving import resolved
from wool_jupyter.settings import POOL_SHUTDOWN_S, PoolSettings

_DEFAULTS = PoolSettings()


class WorkerPool:
    """`async with WorkerPool() as pool`: routines that are called inside run on its workers. Entered once, on one loop.

    Leaving it ends the workers that it started, within `shutdown_timeout` seconds (None: without a bound); those of others stay.
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
    ) -> None:
        """`spawn`: how many workers to start; 0 is one for each usable CPU, as is None without a discovery. `discovery`: a
        service, or for a pool that starts none a subscriber; itself, a context manager that gives it, or a function or awaitable
        that makes it. `lease`: how many workers of others it may hold. Workers that it starts have the `tags`, and it asks
        only such as have one of them. The rest is as for a `WorkerProxy`.
        """
        if spawn is not None and spawn < 0:
            raise ValueError(f"spawn is a number of workers, not {spawn}")
        if lease is not None and lease < 1:
            raise ValueError(f"lease is a number of workers, at least 1, not {lease}")
        if lease is not None and discovery is None:
            warnings.warn("lease has no effect without a discovery", stacklevel=2)
            lease = None
        if shutdown_timeout is not None and shutdown_timeout <= 0:
            raise ValueError(f"shutdown_timeout is a time in seconds, above 0, not {shutdown_timeout}")
        if spawn is None and discovery is None:
            spawn = 0
        self._tags = frozenset(tags)
        self._workers = None if spawn is None else spawn or host.usable_cpus()
        self._discovery = discovery
        self._lease = lease if lease is None or self._workers is None else lease + self._workers
        self._options: dict[str, Any] = {
            "loadbalancer": loadbalancer,
            "quorum": quorum,
            "quorum_timeout": quorum_timeout,
            "lazy": lazy,
        }
        self._shutdown_timeout_s = shutdown_timeout
        self._start_timeout_s = start_timeout
        self._resources: AsyncExitStack | None = None
        self._entered = False

    async def __aenter__(self) -> Self:
        """The workers that it starts all serve. What their starts raised comes as one ExceptionGroup; a quorum that is not there as
        TimeoutError, the discovery's own error as it is. Nothing is left then."""
        if self._entered:
            raise RuntimeError("a WorkerPool is entered once: make another one")
        self._entered = True
        async with AsyncExitStack() as resources:
            home = None if self._workers is None else await self._home(resources, self._workers)
            subscriber, publisher = await self._found(resources, home)
            self.proxy = WorkerProxy(discovery=subscriber, lease=self._lease, **self._options)
            if home is not None and publisher is not None:
                await self._start_crew(resources, home, publisher)
            await resources.enter_async_context(self.proxy)
            resources.enter_context(use(self.proxy))
            self._resources = resources.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        resources, self._resources = self._resources, None
        if resources is not None:
            async with asyncio.timeout(self._shutdown_timeout_s):
                await resources.__aexit__(kind, error, trace)

    async def _home(self, resources: AsyncExitStack, workers: int) -> Home:
        home = await Home.enter(capacity=workers)
        resources.push_async_callback(home.leave)
        return home

    async def _found(
        self, resources: AsyncExitStack, home: Home | None
    ) -> tuple[DiscoverySubscriberLike, DiscoveryPublisherLike | None]:
        """Where to look for workers, and where to announce those that are started."""
        wanted = HasOneOf(self._tags) if self._tags else None
        if self._discovery is None:
            assert home is not None
            found: Any = home.discovery
        else:
            expected = (DiscoveryLike,) if home is not None else (DiscoveryLike, DiscoverySubscriberLike)
            found = await resources.enter_async_context(resolved(self._discovery, *expected))
        if isinstance(found, DiscoveryLike):
            subscriber = found.subscriber if wanted is None else found.subscribe(wanted)
            return subscriber, None if home is None else found.publisher
        return found if wanted is None else afilter(wanted, found), None

    async def _start_crew(self, resources: AsyncExitStack, home: Home, publisher: DiscoveryPublisherLike) -> None:
        assert self._workers is not None
        if hasattr(publisher, "__aenter__"):
            publisher = await resources.enter_async_context(cast("Any", publisher))
        crew = Crew(
            home,
            await home.nursery(os.environ),
            proxy=self.proxy,
            publisher=publisher,
            most=self._workers,
            start_timeout_s=self._start_timeout_s,
            environment=os.environ,
            version=version("wool_jupyter"),
            tags=self._tags,
        )
        resources.push_async_callback(crew.stop)
        await crew.start_all(self._workers)
