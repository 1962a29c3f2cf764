"""One raw subscriber for all who listen to the same thing.

subscription ──aiter──▶ pool of the loop ──▶ feed: raw subscriber ─▶ fanout ─▶ ledger, then every reader's queue
"""

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Hashable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, cast
from weakref import WeakKeyDictionary

from wool_jupyter.aio.closing import close_iterator
from wool_jupyter.aio.fanout import Fanout, FanoutConsumer
from wool_jupyter.aio.resource_pool import ResourcePool
from wool_jupyter.discovery.coalescing import EventQueue
from wool_jupyter.discovery.protocol import DiscoverySubscriberLike, Marked
from wool_jupyter.records import DiscoveryEvent, WorkerMetadata

if TYPE_CHECKING:
    from uuid import UUID

Factory: TypeAlias = Callable[[], AsyncIterable[DiscoveryEvent]]


@dataclass(frozen=True, slots=True)
class SharingKey:
    """Equal by identity alone; the factory rides along, so that whoever opens the feed opens it with its own arguments."""

    identity: Hashable
    factory: Factory = field(compare=False)


class _Feed:
    """What the open iterations of one identity share."""

    def __init__(self, raw: AsyncIterable[DiscoveryEvent]) -> None:
        self._raw = raw
        self._members: dict[UUID, WorkerMetadata] = {}
        self._is_complete = False  # all who were there at the beginning are among them
        marked = getattr(raw, "marked", None)
        source: AsyncIterable[Marked] = raw if marked is None else marked()
        self._fanout = Fanout(source, on_item=self._record, queue=EventQueue)

    def join(self) -> FanoutConsumer[Marked]:
        """In one step, so that what is not replayed comes from the source, and nothing comes twice."""
        reader = self._fanout.consumer()
        for metadata in self._members.values():
            reader.enqueue(DiscoveryEvent("worker-added", metadata))
        if self._is_complete:
            reader.enqueue(None)
        return reader

    def _record(self, event: Marked) -> None:
        """When an event is distributed, not when somebody reads it: a slow reader would put workers back that have left."""
        if event is None:
            self._is_complete = True
            return
        uid = event.metadata.uid
        if event.type == "worker-dropped":
            self._members.pop(uid, None)
        elif event.type == "worker-added" or uid in self._members:
            self._members[uid] = event.metadata

    async def close(self) -> None:
        try:
            await self._fanout.cleanup()
        finally:
            shutdown = getattr(self._raw, "_shutdown", None)
            if shutdown is not None:
                await shutdown()


Pool: TypeAlias = ResourcePool[SharingKey, _Feed]

# The pool of a context is that of the loop that it last ran on. Pools hold feeds only while somebody iterates, and no classes else.
SUBSCRIBER_POOL: ContextVar[Pool] = ContextVar("SUBSCRIBER_POOL")
_pools: WeakKeyDictionary[asyncio.AbstractEventLoop, Pool] = WeakKeyDictionary()


def subscriber_pool() -> Pool:
    """The running loop's, made if it has none. Whoever owns the loop clears it before the loop stops; open iterations end then."""
    loop = asyncio.get_running_loop()
    pool = _pools.get(loop)
    if pool is None:
        pool = _pools[loop] = _new_pool()
    SUBSCRIBER_POOL.set(pool)
    return pool


def _new_pool() -> Pool:
    async def open_feed(key: SharingKey) -> _Feed:
        return _Feed(key.factory())

    return ResourcePool(open_feed, _Feed.close)


def _ensure_pool() -> None:
    if SUBSCRIBER_POOL.get(None) is None:
        try:
            subscriber_pool()
        except RuntimeError:  # no loop runs; the one that iterates first puts its own pool in this place
            SUBSCRIBER_POOL.set(_new_pool())


class SharedSubscription:
    """A feed of discovery events, iterated by anyone any number of times, over one raw subscriber while an iteration is open.

    Subscriptions of equal `identity` share it. The `factory` of the one that is iterated first makes it, at that moment, and
    again after the last iteration has ended: then also a loss is forgotten. A late iteration begins with the present workers as
    added. A slow one gets what it has missed merged, two events at most for each worker.

    Close an iteration that you leave early (`aclose`), or its share is held until it is collected. TypeError for an identity that
    has no hash. RuntimeError when it is iterated in a context, and on a loop, in which no subscription was made and no pool is.
    """

    def __init__(self, identity: Hashable, factory: Factory) -> None:
        self.key = SharingKey(identity, factory)
        hash(self.key)
        _ensure_pool()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.key.identity!r}>"

    def __aiter__(self) -> AsyncGenerator[DiscoveryEvent, None]:  # noqa: PYI058 (it can be closed)
        return unmarked(self._events())

    async def _events(self) -> AsyncGenerator[Marked, None]:
        if asyncio.get_running_loop() not in _pools and SUBSCRIBER_POOL.get(None) is None:
            raise RuntimeError(
                "no subscriber pool here: make a subscription, or call subscriber_pool(), in this context first"
            )
        async with subscriber_pool().get(self.key) as feed:
            async for event in feed.join():
                yield event


class _Construction(SharedSubscription):
    """Of a class with `SubscriberMeta`. Pickled as class and arguments, and constructed anew from them."""

    def __init__(self, cls: "SubscriberMeta", args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._construction = cls, args, kwargs
        super().__init__(
            (cls, cls._sharing_key(cls, *args, **kwargs)), lambda: SubscriberMeta.build(cls, *args, **kwargs)
        )

    def check(self) -> None:
        """Raises what an iteration would raise at its start, if the class can tell without one: by a static method of that name,
        which takes the arguments of the construction."""
        cls, args, kwargs = self._construction
        check = getattr(cls, "check", None)
        if check is not None:
            check(*args, **kwargs)

    def marked(self) -> AsyncGenerator[Marked, None] | None:
        """As the class's own method of that name says; None if it has none."""
        cls, _, _ = self._construction
        return self._events() if hasattr(cls, "marked") else None

    def __reduce__(self) -> tuple[Any, ...]:
        return _construct, self._construction


async def unmarked(events: AsyncIterator[Marked]) -> AsyncGenerator[DiscoveryEvent, None]:
    try:
        async for event in events:
            if event is not None:
                yield event
    finally:
        await close_iterator(events)


def _construct(cls: Callable[..., object], args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
    return cls(*args, **kwargs)


class SubscriberMeta(type):
    """Makes the construction of a raw subscriber class give a shared subscription.

    `class Sub(metaclass=SubscriberMeta, key=f)`: `f(cls, *args, **kwargs)` says by which arguments the instances of the class
    differ for those who listen. It is the place to check values: an instance is not made until somebody iterates. If that
    instance has a coroutine method `_shutdown`, it is called when the last iteration has ended and the instance's own is closed.

    A type checker sees the class. For it to see the protocol, let a base class have the `__init__`, and declare `__new__` under
    TYPE_CHECKING, with the protocol as what it returns (mypy 2.4 goes by an `__init__` of the same class first).
    """

    _sharing_key: Callable[..., Hashable]

    def __new__(
        mcs,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        key: Callable[..., Hashable] | None = None,
    ) -> "SubscriberMeta":
        cls = super().__new__(mcs, name, bases, namespace)
        if key is not None:
            cls._sharing_key = key
        return cls

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **_: object) -> None:
        super().__init__(name, bases, namespace)

    def __call__(cls, *args: Any, **kwargs: Any) -> DiscoverySubscriberLike:
        # Not sooner: cloudpickle makes the class first and its attributes then (3.1).
        if not hasattr(cls, "_sharing_key"):
            raise TypeError(f"{cls.__name__} has to say what is shared: class ...(metaclass=SubscriberMeta, key=...)")
        inspect.signature(cls.__init__).bind(None, *args, **kwargs)  # type: ignore[misc]  # TypeError now, not when iterated
        return _Construction(cls, args, kwargs)

    def build(cls, *args: Any, **kwargs: Any) -> AsyncIterable[DiscoveryEvent]:
        """A raw instance."""
        return cast("AsyncIterable[DiscoveryEvent]", super().__call__(*args, **kwargs))
