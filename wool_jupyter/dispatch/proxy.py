"""Asks the balancer whom to ask, and resolves each uid against the live membership at the moment of sending.

discovery ─ events ─▶ sentinel ─ admits, refreshes, evicts ─▶ context ◀─ looks ─ balancer ─ uids ─▶ dispatch ─▶ connection
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeAlias
from uuid import UUID, uuid4

from wool_jupyter.aio.closing import close_iterator
from wool_jupyter.aio.failure_report import FailureReport
from wool_jupyter.aio.owned_tasks import OwnedTasks
from wool_jupyter.balance.context import LoadBalancerContext, LoadBalancerContextView
from wool_jupyter.balance.protocol import LoadBalancerLike, Task
from wool_jupyter.balance.round_robin import RoundRobinLoadBalancer
from wool_jupyter.discovery.filtering import afilter
from wool_jupyter.discovery.protocol import DiscoverySubscriberLike, Marked
from wool_jupyter.discovery.subscriber import LocalSubscriber
from wool_jupyter.dispatch import channels, checks
from wool_jupyter.dispatch.call import Call
from wool_jupyter.dispatch.connection import WorkerConnection
from wool_jupyter.errors import NotReached, NoWorkersAvailable, RpcError
from wool_jupyter.records import DiscoveryEvent, WorkerMetadata
from wool_jupyter.settings import FIRST_LOOK_S

_log = logging.getLogger(__name__)

_TOKEN_STAYS = "; the token that the caller gave its WorkerProxy is secret, and has not come along with the call"

Failures: TypeAlias = dict[UUID, RpcError]


class WorkerProxy:
    """Who can be asked, kept up to date by a discovery, and calls to them. Lives on one loop; what was stopped stays so.

    `lease` bounds how many workers it holds at a time; one that was turned away stays out until it is announced again. A worker
    that fails for good is evicted until it is announced again, or `readmit`.

    When the discovery has failed, its error is what `start` raises, and a call that finds no worker; the workers that are held go
    on being asked. `stop` raises it too, unless somebody has seen it.
    """

    def __init__(
        self,
        pool_uri: str | None = None,
        *tags: str,
        discovery: DiscoverySubscriberLike | None = None,
        workers: Collection[WorkerMetadata] | None = None,
        loadbalancer: LoadBalancerLike | None = None,
        token: str | None = None,
        lease: int | None = None,
        quorum: int | None = 1,
        quorum_timeout: float | None = None,
        lazy: bool = True,
    ) -> None:
        """One of: a namespace on this host, of which it asks the workers that a pool has started there, and those that have one of
        the tags; a subscriber, which is iterated and never entered; the workers themselves.

        `quorum` workers have to be there before the first call, within `quorum_timeout` seconds (60); None or 0: it does not wait.
        `lazy`: the first call starts it. `token`: None reads it where a worker's socket is. The balancer is entered and left
        with the proxy if it is a context manager. A token that is given stays: routines that call others in their turn need workers
        whose token can be read.
        """
        if [pool_uri is None, discovery is None, workers is None].count(False) != 1:
            raise ValueError("a WorkerProxy takes one of: a namespace, discovery=..., workers=[...]")
        if tags and pool_uri is None:
            raise ValueError("tags go with a namespace")
        if pool_uri is not None:
            wanted = checks.tags((pool_uri, *tags))
            discovery = afilter(HasOneOf(wanted), LocalSubscriber(pool_uri))
        if discovery is not None:
            checks.subscriber(discovery)
        checks.balancer(loadbalancer)
        self._discovery = discovery
        self._static = None if workers is None else checks.records(workers)
        self._quorum = checks.quorum(quorum, lease, self._static)
        self._quorum_timeout_s = checks.quorum_timeout(quorum_timeout, self._quorum)
        self._lease = lease
        self._lazy = checks.flag("lazy", value=lazy)
        self._token = token
        self._token_stays = False  # with the proxy of which this is the copy that has travelled
        self._placed_at: Callable[[UUID], object] = lambda _: None
        self._failed: Callable[[UUID], object] = lambda _: None
        self._dropped: Callable[[UUID], object] = lambda _: None
        self._balancer = loadbalancer or RoundRobinLoadBalancer()
        self.id = uuid4()
        self._context = LoadBalancerContext()
        self._connections: dict[UUID, WorkerConnection] = {}
        self._announced: dict[UUID, WorkerMetadata] = {}
        self._changed = asyncio.Event()
        self._starting = asyncio.Lock()
        self._resources: AsyncExitStack | None = None  # while it is started
        self._tasks = OwnedTasks("proxy")
        self._sentinel: asyncio.Task[None] | None = None
        self._knows_all = True  # who were there when it began to follow the discovery
        self._failure: FailureReport | None = None
        self._failure_was_told = False
        self._entered = False
        self._stopped = False

    @property
    def workers(self) -> LoadBalancerContextView:
        """Live and read-only."""
        return self._context.view

    @property
    def started(self) -> bool:
        return self._resources is not None

    # Its life.

    async def __aenter__(self) -> Self:
        if self._entered:
            raise RuntimeError("a WorkerProxy is entered once: make another one")
        self._entered = True
        if not self._lazy:
            await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.stop()
        except Exception as failure:
            if error is None:
                raise
            _log.warning("the discovery or the balancer of a pool has failed: %s", failure)

    async def start(self) -> None:
        """Returns when the quorum is there; nothing if it is started already. TimeoutError when it is not in time, the discovery's
        error when that fails first; then, and if cancelled, it is not started. RuntimeError after `stop`."""
        async with self._starting:
            if self.started:
                return
            self._check_not_stopped()
            async with AsyncExitStack() as resources:
                balancer: Any = self._balancer
                if hasattr(balancer, "__aenter__"):
                    await resources.enter_async_context(balancer)
                elif hasattr(balancer, "__enter__"):
                    resources.enter_context(balancer)
                resources.push_async_callback(self._end_sentinel)
                for metadata in self._static or ():
                    self._see(DiscoveryEvent("worker-added", metadata))
                if self._discovery is not None:
                    check = getattr(self._discovery, "check", None)
                    if check is not None:
                        check()
                    self._failure, self._failure_was_told = None, False
                    marked = getattr(self._discovery, "marked", None)
                    events = None if marked is None else marked()
                    self._knows_all = events is None  # or there is no telling
                    self._sentinel = self._tasks.start(
                        self._follow(events or aiter(self._discovery)), "sentinel", awaited=True
                    )
                    self._sentinel.add_done_callback(self._sentinel_ended)
                await self._quorum_is_there()
                self._resources = resources.pop_all()

    async def stop(self) -> None:
        """Evicts everyone, and a start under way gives up; calls under way go on. The channels that nobody uses are closed by then.
        Idempotent."""
        self._stopped = True
        self._changed.set()
        async with self._starting:
            resources, self._resources = self._resources, None
            if resources is None:
                return
            await resources.aclose()
        if self._failure is not None and not self._failure_was_told:
            self._tell_failure()

    async def _end_sentinel(self) -> None:
        sentinel, self._sentinel = self._sentinel, None
        try:
            if sentinel is not None:
                sentinel.cancel()
                await asyncio.wait({sentinel})
        finally:
            for uid in list(self._connections):
                self.evict(uid)
            self._announced.clear()
            await channels.of_this_loop().settled()

    def _check_not_stopped(self) -> None:
        if self._stopped:
            raise RuntimeError("this WorkerProxy was stopped: make another one")

    async def _quorum_is_there(self) -> None:
        if not self._quorum:
            return
        try:
            async with asyncio.timeout(self._quorum_timeout_s) as limit:
                while len(self._connections) < self._quorum:
                    self._check_not_stopped()
                    if self._failure is not None:
                        self._tell_failure()
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            if not limit.expired():  # the discovery's own
                raise
            found = len(self._connections)
            raise TimeoutError(
                f"{found} of {self._quorum} workers were there after {self._quorum_timeout_s:g} s"
            ) from None

    # Membership.

    async def _follow(self, events: AsyncIterator[Marked]) -> None:
        try:
            async for event in events:
                if event is not None:
                    self._see(event)
                else:
                    self._knows_all = True
                    self._changed.set()
        finally:
            await close_iterator(events)

    def _sentinel_ended(self, sentinel: "asyncio.Task[None]") -> None:
        if not sentinel.cancelled() and (failure := sentinel.exception()) is not None:
            self._failure = FailureReport(failure)
        self._changed.set()

    def _tell_failure(self) -> None:
        assert self._failure is not None
        self._failure_was_told = True
        self._failure.report()

    def _see(self, event: DiscoveryEvent) -> None:
        metadata = event.metadata
        if event.type == "worker-dropped" or metadata.secure:  # who speaks TLS can't be asked from here
            self._announced.pop(metadata.uid, None)
            self.evict(metadata.uid)
            self._dropped(metadata.uid)
            return
        if event.type == "worker-added" or metadata.uid in self._announced:
            self._announced[metadata.uid] = metadata
        if metadata.uid in self._connections or (event.type == "worker-added" and self._has_room):
            self._admit(metadata)

    @property
    def _has_room(self) -> bool:
        return self._lease is None or len(self._connections) < self._lease

    def _admit(self, metadata: WorkerMetadata) -> None:
        """Under its uid, in place of an earlier record; calls under way there go on."""
        before = self._connections.get(metadata.uid)
        if before is not None and before.metadata == metadata:
            return
        connection = self._connections[metadata.uid] = WorkerConnection(metadata, token=self._token)
        self._context.add_worker(metadata, connection)
        if before is not None:
            before.give_way_to(connection)
        self._changed.set()

    def evict(self, uid: UUID) -> None:
        """Calls under way go on. An absent uid is no error."""
        self._context.remove_worker(uid)
        connection = self._connections.pop(uid, None)
        if connection is not None:
            connection.close()
            self._changed.set()

    def readmit(self, uid: UUID) -> bool:
        """A worker that was evicted here and is still announced. False if it is not, or if the lease has no room for it."""
        metadata = self._announced.get(uid)
        if metadata is None or not (uid in self._connections or self._has_room):
            return False
        self._admit(metadata)
        return True

    def observe(
        self,
        *,
        placed: Callable[[UUID], object],
        failed: Callable[[UUID], object],
        dropped: Callable[[UUID], object] = lambda _: None,
    ) -> None:
        """`placed` hears of each worker that took a call, `failed` of each that could not be asked, even if another took it, and
        `dropped` of each that the discovery says has left."""
        self._placed_at, self._failed, self._dropped = placed, failed, dropped

    async def changed(self, *, within_s: float) -> None:
        """Returns when somebody has been admitted or evicted, or after that time."""
        self._changed.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._changed.wait()

    async def _all_are_known(self) -> None:
        """Until then it can't tell that nobody is there. Returns when it need not, or can't, wait for that any more."""
        with suppress(TimeoutError):
            async with asyncio.timeout(FIRST_LOOK_S):
                while not (self._knows_all or self._connections or self._failure is not None or self._stopped):
                    self._changed.clear()
                    await self._changed.wait()

    async def admitted(self, uid: UUID | None = None) -> None:
        """Returns once that worker can be asked; without a uid, once any can. Raises what the discovery raises first;
        RuntimeError after `stop`."""
        while not self._connections if uid is None else uid not in self._connections:
            self._check_not_stopped()
            if self._failure is not None:
                self._tell_failure()
            self._changed.clear()
            await self._changed.wait()

    # Calls.

    async def dispatch(self, routine: str, body: bytes, *, only: UUID | None = None, begun: bool = False) -> Call:
        """Returns when a worker has taken the call, which begins with its first `step`. `only` asks that worker or nobody.
        `begun`: it begins at once, and is never repeated elsewhere.

        `NoWorkersAvailable` when nobody could be asked, or took it; it says who was asked and why not. If there is no worker at all
        because the discovery has failed, its error. The worker's own refusal of this call (it can't be unpickled there, say) is
        raised as it is, and nobody else is asked.
        """
        if not self.started:
            await self.start()
        if not self._connections:
            await self._all_are_known()
        failures: Failures = {}
        if (call := await self._placed(routine, body, only, begun=begun, failures=failures)) is not None:
            return call
        # Outside of any handler, so that the error has no context that does not belong to it.
        nobody = _nobody(failures, _TOKEN_STAYS if self._token_stays else "")
        if self._failure is None:
            raise nobody
        if not self._connections:
            self._tell_failure()
        self._failure_was_told = True
        raise nobody from self._failure.failure

    async def _placed(
        self, routine: str, body: bytes, only: UUID | None, *, begun: bool, failures: Failures
    ) -> Call | None:
        balancer = self._balancer
        candidates = balancer.delegate(Task(routine), context=self._context.view) if only is None else _just(only)
        async with aclosing(candidates):
            uid = await _next(candidates.asend(None))
            while uid is not None:
                connection = self._connections.get(uid)
                if connection is None:  # it has left since
                    uid = await _next(candidates.asend(None))
                    continue
                try:
                    call = await connection.dispatch(routine, body, begun=begun)
                except RpcError as error:
                    failures[uid] = error
                    self._failed(uid)
                    if not isinstance(error, NotReached):
                        self.evict(uid)
                    uid = await _next(candidates.athrow(error))
                    continue
                try:
                    if await _next(candidates.asend(uid)) is not None:
                        raise RuntimeError(f"{type(balancer).__name__} goes on after {uid} has taken the call")
                except BaseException:
                    call.close()
                    raise
                self._placed_at(uid)
                return call
        return None

    # It travels with our own pickler only, which is not used for anything that is stored.

    def __reduce__(self) -> Any:
        raise TypeError(
            "a WorkerProxy can't be pickled or copied: it goes to workers with the calls that are made through it"
        )

    def __wool_reduce__(self) -> tuple[Any, ...]:
        for what, part in (("discovery", self._discovery), ("loadbalancer", self._balancer)):
            if hasattr(part, "__aenter__") or hasattr(part, "__enter__"):
                raise TypeError(
                    f"{what} is a context manager, {type(part).__name__}, and can't go to a worker with a call"
                )
        given = {
            "discovery": self._discovery,
            "workers": self._static,
            "loadbalancer": self._balancer,
            "lease": self._lease,
            "quorum": self._quorum,
            "quorum_timeout": self._quorum_timeout_s if self._quorum else None,
            "lazy": self._lazy,
        }
        return _rebuilt, (self.id, given, self._token is not None or self._token_stays)


def _rebuilt(identity: UUID, given: dict[str, Any], token_stays: bool) -> WorkerProxy:
    proxy = WorkerProxy(**given)
    proxy.id, proxy._token_stays = identity, token_stays
    return proxy


@dataclass(frozen=True, slots=True)
class HasOneOf:
    """Whether a worker has one of the tags; a class, so that it can travel."""

    tags: frozenset[str]

    def __call__(self, metadata: WorkerMetadata) -> bool:
        return not self.tags.isdisjoint(metadata.tags)


def _nobody(failures: Failures, note: str) -> NoWorkersAvailable:
    if not failures:
        return NoWorkersAvailable("no worker of the pool could be asked", failures)
    told = "; ".join(dict.fromkeys(str(error) for error in failures.values()))
    return NoWorkersAvailable(f"no worker of the pool took the call: {told}{note}", failures)


async def _next(step: Awaitable[UUID]) -> UUID | None:
    try:
        return await step
    except StopAsyncIteration:
        return None


async def _just(uid: UUID) -> AsyncGenerator[UUID, UUID | None]:
    with suppress(RpcError):
        yield uid
