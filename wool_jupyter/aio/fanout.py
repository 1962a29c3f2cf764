"""One source, many consumers, pulled on demand.

consumer ── wants an item, has none ──▶ pull (one at a time, the container's own) ──▶ source
every consumer's queue ◀── hook, then each item, in one synchronous step ──┘
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable
from contextvars import copy_context
from dataclasses import dataclass
from enum import Enum
from typing import Generic, Protocol, TypeVar
from weakref import WeakSet

from wool_jupyter.aio.closing import close_iterator
from wool_jupyter.aio.failure_report import FailureReport
from wool_jupyter.aio.owned_tasks import OwnedTasks

T = TypeVar("T")


class Queue(Protocol[T]):
    """What a consumer has not taken yet. A plain one holds everything; one that merges may also shrink when an item comes."""

    def append(self, item: T, /) -> None: ...

    def popleft(self) -> T: ...

    def __len__(self) -> int: ...


class State(Enum):
    OPEN = "open"
    EXHAUSTED = "exhausted"
    FAILED = "failed"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class FanoutStats:
    state: State
    consumers: int
    queued: int  # items that consumers have not taken
    tasks: int  # a pull, or the closing


class Fanout(Generic[T]):
    """Every item of the source goes to every consumer that is registered when it comes. Lives on one loop.

    The source is advanced only while somebody waits for an item. A pull belongs to the container: cancelling who waits for it
    neither reaches the source nor loses the item. Items are taken, and the iterator is closed, in the context in which the
    container was made, but in one task each: the source must not bind a cancel scope or a timeout to a task across a `yield`.

    `on_item` sees each item once, before any consumer does. Its failure counts as the source's. With the default `queue`, a
    consumer that never pulls holds every item since it was registered.
    """

    def __init__(
        self,
        source: AsyncIterable[T],
        *,
        on_item: Callable[[T], object] | None = None,
        queue: Callable[[], Queue[T]] = deque,
    ) -> None:
        self._source = source
        self._on_item = on_item
        self._new_queue = queue
        self._context = copy_context()
        self._tasks = OwnedTasks("fanout")
        self._consumers: WeakSet[FanoutConsumer[T]] = WeakSet()
        self._iterator: AsyncIterator[T] | None = None
        self._pull: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._state = State.OPEN
        self._failure: FailureReport | None = None

    def consumer(self) -> "FanoutConsumer[T]":
        """Held weakly: it is registered for as long as somebody else holds it."""
        consumer = FanoutConsumer(self, self._new_queue())
        self._consumers.add(consumer)
        return consumer

    @property
    def stats(self) -> FanoutStats:
        consumers = list(self._consumers)
        queued = sum(consumer.queued for consumer in consumers)
        return FanoutStats(self._state, len(consumers), queued, self._tasks.running)

    async def cleanup(self) -> None:
        """Ends the pull, then closes the iterator. Consumers are at their end once they have taken what they hold.

        Every call waits for the one closing and raises what that raised. A caller that is cancelled leaves it running.
        """
        if self._closing is None:
            self._state, self._failure = State.CLOSED, None
            self._closing = self._tasks.start(self._close(), "close", awaited=True, context=self._context)
        await self._tasks.outcome_of(self._closing)

    async def _close(self) -> None:
        if self._pull is not None and not self._pull.done():
            self._pull.cancel()
            await asyncio.wait({self._pull})  # closing a generator while it runs is an error
        iterator, self._iterator = self._iterator, None
        if iterator is not None:
            await close_iterator(iterator)

    async def _advance(self) -> bool:
        """Waits until the source has made a step, whoever asked for it. False at the end; a failure is raised to everyone."""
        if self._failure is not None:
            self._failure.report()
        if self._state is not State.OPEN:
            return False
        if self._pull is None or self._pull.done():
            self._pull = self._tasks.start(self._step(), "pull", context=self._context)
        await asyncio.wait({self._pull})  # unlike `await`, hands no cancellation on
        return True

    async def _step(self) -> None:
        try:
            if self._iterator is None:
                self._iterator = aiter(self._source)
            item = await anext(self._iterator)
            if self._on_item is not None:
                self._on_item(item)
            for consumer in self._consumers:
                consumer.enqueue(item)
        except StopAsyncIteration:
            self._end(State.EXHAUSTED)
        except asyncio.CancelledError as error:
            failure = RuntimeError("the source was cancelled")  # raised as it is, it would pass for the consumer's own
            failure.__cause__ = error
            self._end(State.FAILED, failure)
        except BaseException as error:  # noqa: BLE001 (whatever it is, the consumers raise it)
            self._end(State.FAILED, error)

    def _end(self, state: State, failure: BaseException | None = None) -> None:
        if self._state is State.OPEN:
            self._state = state
            self._failure = None if failure is None else FailureReport(failure)


class FanoutConsumer(AsyncIterator[T]):
    """Made by `Fanout.consumer`. Raises the source's failure once its queue is empty, each time that it is asked."""

    def __init__(self, fanout: Fanout[T], queue: Queue[T]) -> None:
        self._fanout = fanout
        self._queue = queue

    @property
    def queued(self) -> int:
        """Items that can be taken without waiting."""
        return len(self._queue)

    def enqueue(self, item: T) -> None:
        """For this consumer alone. If it is waiting, it wakes with the source's next step."""
        self._queue.append(item)

    async def __anext__(self) -> T:
        while not self._queue:
            if not await self._fanout._advance():
                raise StopAsyncIteration
        return self._queue.popleft()
