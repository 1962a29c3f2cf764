"""Asks the balancer whom to ask, and resolves each uid against the live membership at the moment of sending.

discovery ─ events ─▶ sentinel ─ admits, refreshes, evicts ─▶ context ◀─ looks ─ balancer ─ uids ─▶ dispatch ─▶ connection
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Self
from uuid import UUID, uuid4

from wool_jupyter.balance.context import LoadBalancerContextView
from wool_jupyter.balance.protocol import LoadBalancerLike, Task
from wool_jupyter.balance.round_robin import RoundRobinLoadBalancer
from wool_jupyter.discovery.filtering import afilter
from wool_jupyter.discovery.protocol import DiscoverySubscriberLike
from wool_jupyter.discovery.subscriber import LocalSubscriber
from wool_jupyter.dispatch import channels, checks, placing
from wool_jupyter.dispatch.call import Call
from wool_jupyter.dispatch.following import Following
from wool_jupyter.dispatch.membership import Membership, why_unfit
from wool_jupyter.dispatch.readmission import Readmission
from wool_jupyter.errors import NotReached, NoWorkersAvailable, RpcError
from wool_jupyter.records import DiscoveryEvent, WorkerMetadata
from wool_jupyter.settings import FIRST_LOOK_S

_log = logging.getLogger(__name__)

_TOKEN_STAYS = "; the token that the caller gave its WorkerProxy is secret, and has not come along with the call"


class WorkerProxy:
    """Who can be asked, kept up to date by a discovery, and calls to them. Lives on one loop; what was stopped stays so.

    `lease` bounds how many workers it holds at a time; one that was turned away stays out until it is announced again. A worker
    that refuses a call is evicted until it is announced again, or answers after a pause, or `readmit`. One that can't be asked from
    here (another version of the package) is not held at all.

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
        fit = None if self._static is None else {each.uid for each in self._static if not why_unfit(each)}
        self._quorum = checks.quorum(quorum, lease, None if fit is None else len(fit))
        self._quorum_timeout_s = checks.quorum_timeout(quorum_timeout, self._quorum)
        self._lease = lease
        self._lazy = checks.flag("lazy", value=lazy)
        self._token = token
        self._token_stays = False  # with the proxy of which this is the copy that has travelled
        self._placed_at: Callable[[UUID], object] = lambda _: None
        self._failed: Callable[[UUID], bool] = lambda _: False
        self._dropped: Callable[[UUID], object] = lambda _: None
        self._asks: Callable[[UUID], object] = lambda _: None
        self._balancer = loadbalancer or RoundRobinLoadBalancer()
        self.id = uuid4()
        self._members = Membership(lease=lease, token=token)
        self._following = Following(discovery, self._see, woken=self._members.wake)
        self._readmission = Readmission(self._members)
        self._starting = asyncio.Lock()
        self._line = asyncio.Lock()  # of calls that no worker has room for
        self._resources: AsyncExitStack | None = None  # while it is started
        self._entered = False
        self._stopped = False

    @property
    def workers(self) -> LoadBalancerContextView:
        """Live and read-only."""
        return self._members.context.view

    @property
    def started(self) -> bool:
        return self._resources is not None

    @property
    def failure(self) -> BaseException | None:
        """Of the discovery: who is there, and who is not, is what it was then."""
        return self._following.failure

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
                resources.push_async_callback(self._end)
                for metadata in self._static or ():
                    self._see(DiscoveryEvent("worker-added", metadata))
                self._following.start()
                await self._quorum_is_there()
                self._resources = resources.pop_all()

    async def stop(self) -> None:
        """Evicts everyone, and a start under way gives up; calls under way go on. The channels that nobody uses are closed by then.
        Idempotent."""
        self._stopped = True
        self._members.wake()
        async with self._starting:
            resources, self._resources = self._resources, None
            if resources is None:
                return
            await resources.aclose()
        self._following.tell_once()

    async def _end(self) -> None:
        try:
            await self._following.stop()
        finally:
            self._members.clear()
            await self._readmission.clear()
            await channels.of_this_loop().settled()

    def _check_not_stopped(self) -> None:
        if self._stopped:
            raise RuntimeError("this WorkerProxy was stopped: make another one")

    async def _news(self) -> None:
        """Of who is there. Raises why there will be none."""
        self._check_not_stopped()
        self._following.tell()
        await self._members.changed()

    async def _quorum_is_there(self) -> None:
        try:
            async with asyncio.timeout(self._quorum_timeout_s) as limit:
                while len(self._members) < self._quorum:
                    await self._news()
        except TimeoutError:
            if not limit.expired():  # the discovery's own
                raise
            found = f"{len(self._members)} of {self._quorum} workers were there after {self._quorum_timeout_s:g} s"
            raise TimeoutError(found + _beside(self._members.unfit)) from None

    async def _all_are_known(self) -> None:
        """Until then it can't tell that nobody is there. Returns when it need not, or can't, wait for that any more."""
        following = self._following
        with suppress(TimeoutError):
            async with asyncio.timeout(FIRST_LOOK_S):
                while not (following.knows_all or self._members or following.failure or self._stopped):
                    await self._members.changed()

    # Who is there.

    def _see(self, event: DiscoveryEvent) -> None:
        if not self._members.see(event):
            self._readmission.left(event.metadata.uid)
            self._dropped(event.metadata.uid)

    def evict(self, uid: UUID) -> None:
        """Calls under way go on. An absent uid is no error."""
        self._members.evict(uid)

    def readmit(self, uid: UUID) -> bool:
        """A worker that was evicted here and is still announced. False if it is not, or if the lease has no room for it."""
        return self._members.readmit(uid)

    def observe(
        self,
        *,
        placed: Callable[[UUID], object],
        failed: Callable[[UUID], bool],
        dropped: Callable[[UUID], object] = lambda _: None,
        asks: Callable[[UUID], object] = lambda _: None,
    ) -> None:
        """`placed` hears of each worker that took a call, `failed` of each that could not be asked, even if another took it, and
        `dropped` of each that the discovery says has left. `asks` hears of each that is about to be asked, and may raise NotReached
        instead. `failed` returns whether somebody looks after that worker, who then also has to `readmit` it."""
        self._placed_at, self._failed, self._dropped, self._asks = placed, failed, dropped, asks

    async def changed(self, *, within_s: float) -> None:
        """Returns when somebody has been admitted or evicted, when a call has ended, or after that time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._members.changed()

    async def admitted(self, uid: UUID | None = None) -> None:
        """Returns once that worker can be asked; without a uid, once any can. Raises what the discovery raises first;
        RuntimeError after `stop`."""
        while not self._members if uid is None else uid not in self._members:
            await self._news()

    # Calls.

    async def dispatch(self, routine: str, body: bytes, *, only: UUID | None = None, begun: bool = False) -> Call:
        """Returns when a worker has taken the call, which begins with its first `step`; while all have as many as they take at a
        time, it waits. `only` asks that worker or nobody. `begun`: it begins at once, and is never repeated elsewhere.

        `NoWorkersAvailable` when nobody could be asked, or took it; it says who was asked and why not. If there is no worker at all
        because the discovery has failed, its error. The worker's own refusal of this call (it can't be unpickled there, say) is
        raised as it is, and nobody else is asked.
        """
        if not self.started:
            await self.start()
        if not self._members:
            await self._all_are_known()
        members, balancer = self._members, self._balancer if only is None else placing.Only(only)
        if only is None and members and self._line.locked():
            await self._room(members.uids, known=members.uids)
        while True:
            known, full, failures = members.uids, set[UUID](), placing.Failures()
            ask = partial(self._asked, routine, body, begun=begun, full=full if only is None else None)
            call = await placing.place(Task(routine), balancer, members.context.view, ask, failures=failures)
            if call is not None:
                self._readmission.took_a_call(call.worker.uid)
                self._placed_at(call.worker.uid)
                return call
            if not full:
                break
            await self._room(full, known=known)
        # Outside of any handler, so that the error has no context that does not belong to it.
        if not self._members:
            self._following.tell()
        nobody = self._nobody(failures)
        if (failure := self._following.told()) is None:
            raise nobody
        raise nobody from failure

    async def _room(self, full: set[UUID], *, known: set[UUID]) -> None:
        """Returns when one of these takes a call again, or has left, or others have come or gone. First come, first served."""
        async with self._line:
            while all(map(self._members.is_full, full)) and self._members.uids == known:
                await self._members.changed()

    async def _asked(self, routine: str, body: bytes, uid: UUID, *, begun: bool, full: set[UUID] | None) -> Call | None:
        connection = self._members.connection(uid)
        if connection is None:
            return None
        if full is not None and connection.is_full:
            full.add(uid)
            return None
        try:
            self._asks(uid)
            return await connection.dispatch(routine, body, begun=begun)
        except RpcError as error:
            is_cared_for = self._failed(uid)
            if not isinstance(error, NotReached):
                self._members.evict(uid)
                if not is_cared_for:
                    self._readmission.refused(uid)
            raise

    def _nobody(self, failures: placing.Failures) -> NoWorkersAvailable:
        if not failures:
            return NoWorkersAvailable("no worker of the pool could be asked" + _beside(self._members.unfit), failures)
        told = "; ".join(dict.fromkeys(str(error) for error in failures.values()))
        note = _TOKEN_STAYS if self._token_stays else ""
        return NoWorkersAvailable(f"no worker of the pool took the call: {told}{note}", failures)

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


def _beside(unfit: str) -> str:
    return f"; of one that is announced: {unfit}" if unfit else ""
