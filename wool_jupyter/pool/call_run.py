"""Calls of one origin on one worker, from the turn that has come to the last outcome."""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from wool_jupyter.errors import CallFailed, WoolError, WorkerDied
from wool_jupyter.pool import events
from wool_jupyter.pool.call_item import Item
from wool_jupyter.pool.lost_calls import fates
from wool_jupyter.pool.pacing import Ahead
from wool_jupyter.pool.rest import Rest
from wool_jupyter.records import WorkerMetadata
from wool_jupyter.settings import INTERRUPT_GRACE_S, RECALL_S, SIGNAL_S
from wool_jupyter.wire import batches, calls

if TYPE_CHECKING:
    from wool_jupyter.pool.call_queue import CallQueue, Threads

_AT_ONCE = 1000  # calls of one batch
_FUNCTIONS = 100  # that a worker keeps for one run


class Running(Protocol):
    """A call that holds a slot (`kernel_pool.PoolCall`)."""

    @property
    def worker(self) -> WorkerMetadata: ...
    @property
    def ended(self) -> bool: ...
    def recall(self) -> None: ...
    def rest(self) -> None: ...
    def go_on(self) -> bool: ...
    def give(self, answer: bytes) -> None: ...
    async def interrupt(self) -> None: ...
    async def kill(self, why: str) -> None: ...
    async def step(self) -> bytes | None: ...
    async def close(self) -> None: ...


class _NothingLeft(Exception):
    """The turn came when there was nothing to do any more."""


class Run:
    """On the queue's loop. `serve` is awaited once."""

    def __init__(self, queue: "CallQueue", section: int) -> None:
        self._queue = queue
        self._section = section
        self._about = events.About("call", "calls")
        self.opened = False
        self._is_opening = True
        self._call: Running | None = None
        self._sent: deque[Item] = deque()
        self._ahead = Ahead()
        self._functions: dict[calls.PackedFunction, int] = {}
        self._ends = False  # it gets no more
        self._interrupts: Callable[[Item], bool] = lambda _: False
        self._is_placed = asyncio.Event()  # or could not be
        self._came_back = asyncio.Event()
        self._rest = Rest()
        self._interrupted = 0  # number of the call that has had a signal
        self._looked_at = 0  # number of the call that ran when it was looked at last
        self._timer: asyncio.TimerHandle | None = None  # until then

    async def serve(self, threads: "Threads") -> None:
        try:
            try:
                call = self._call = await threads.run("batch", self._open, about=self._about, who=self._queue)
            finally:
                self._is_placed.set()
            self._origin.ready(call.worker.uid)
            try:
                await self._serve(call)
            except WorkerDied:
                self._origin.lost(call.worker.uid)
                raise
            finally:
                await call.close()
        except _NothingLeft:
            return
        except (WorkerDied, CallFailed) as error:
            if not self._sent:
                return
            self._end_of_worker(error)
        self.fail(CallFailed("the worker ended a run of calls without their outcomes"))

    def has(self, meant: Callable[[Item], bool]) -> bool:
        return any(map(meant, self._sent))

    def fail(self, error: BaseException) -> bool:
        """What it still has; whether there was something."""
        return self._fail_each(lambda _: error)

    def stopped(self) -> None:
        """Fails what it still has, if it was cancelled with its pool."""
        self._fail_each(lambda item: WorkerDied(f"The pool was stopped. {item.words} may have run in part"))

    def _fail_each(self, error: Callable[[Item], BaseException]) -> bool:
        had = bool(self._sent)
        while self._sent:
            item = self._sent.popleft()
            item.fail(error(item))
        return had

    async def interrupt(self, meant: Callable[[Item], bool]) -> None:
        """First all that has not begun comes back, so that a signal hits the call that it is meant for."""
        self._ends, self._interrupts = True, meant
        await self._is_placed.wait()
        call = self._call
        if call is None:
            return
        self._came_back.clear()
        call.recall()
        with suppress(TimeoutError):
            async with asyncio.timeout(SIGNAL_S):
                await self._came_back.wait()
        if not (self._sent and meant(self._sent[0])):
            return
        number = self._sent[0].number
        if number == self._interrupted:
            return  # by somebody else who means it: its answer may need its time
        self._interrupted = number
        grace_s = INTERRUPT_GRACE_S if self._queue.pins(call.worker.uid) else self._sent[0].grace_s
        await call.interrupt()
        await asyncio.sleep(grace_s)
        if self._sent and self._sent[0].number == number:
            await call.kill(f"as it had not answered an interrupt for {grace_s:.0f} s")

    # What goes there.

    def _open(self) -> bytes:
        self.opened = True
        self._queue.opened(self)
        first = self._queue.next(lambda _: True)
        if first is None:
            raise _NothingLeft
        self._origin, self._ambient, self._native_threads = first.origin, first.ambient, first.native_threads
        self._about.label = first.label
        batch = self._batch(first)
        self._about.bytes_in = sum(len(item.call) for item in self._sent)
        self._is_opening = False
        origin = self._origin
        return batches.encode(
            batches.Opening(origin.directory, origin.places, self._ambient, batch, self._native_threads)
        )

    def _batch(self, first: Item | None = None) -> batches.Batch:
        """And what else may be sent now."""
        functions: list[bytes] = []
        items: list[batches.Item] = []
        size = 0
        item = first or self._queue.next(self._fits)
        while item is not None:
            self._sent.append(item)
            self._ahead.sent(item.cost)
            items.append(batches.Item(item.number, self._index_of(item.function, functions), item.call))
            size += len(item.call)
            full = size >= batches.BATCH_BYTES or len(items) >= _AT_ONCE
            item = None if full else self._queue.next(self._fits)
        following = self._queue.first
        self._ends = self._ends or len(self._functions) >= _FUNCTIONS or self._queue.is_contended
        self._ends = self._ends or (following is not None and not self._may_follow(following))
        return batches.Batch(tuple(functions), tuple(items), self._ends)

    def _fits(self, item: Item) -> bool:
        return self._may_follow(item) and self._ahead.has_room(item.cost, share=self._queue.share(len(self._sent)))

    def _may_follow(self, item: Item) -> bool:
        if self._ends or item.origin is not self._origin or item.ambient is not self._ambient:
            return False
        if item.native_threads != self._native_threads:
            return False
        return (self._is_opening and item.section <= self._section) or not self._queue.is_contended

    def _index_of(self, function: calls.PackedFunction | None, told: list[bytes]) -> int:
        if function is None:
            return -1
        if function not in self._functions:
            self._functions[function] = len(self._functions)
            told.append(function.body)
        return self._functions[function]

    # What comes of it.

    async def _serve(self, call: Running) -> None:
        try:
            while True:
                self._look_later(call)
                data = await call.step()
                if data is None:
                    return
                arrived = self._take(batches.decode_report(data), call.worker.uid)
                try:
                    rests = not (call.ended or self._give_more(call))
                    if rests:
                        self._begin_rest(call)
                finally:  # at last: who waits for them wants Python for itself then
                    _settle(arrived)
                if call.ended or (rests and not await self._goes_on()):
                    return
        finally:
            self._rest.close()
            if self._timer is not None:
                self._timer.cancel()

    def _give_more(self, call: Running) -> bool:
        """False if it has nothing to do."""
        batch = self._batch()
        if not (self._sent or batch.last):
            return False
        call.give(batches.encode(batch))
        return True

    def _begin_rest(self, call: Running) -> None:
        """Its worker is free for others meanwhile, and keeps what it has made of the run: the next small call finds it there."""
        call.rest()
        self._rest.begin()
        self._queue.rests(self)

    async def _goes_on(self) -> bool:
        """False when no call comes while it rests."""
        try:
            return await self._rest.over()
        finally:
            self._queue.rests_no_more(self)

    def go_on(self) -> None:
        """Calls have come, and are sent now. Nothing, if it does not rest, they don't fit, or somebody else has the main thread."""
        first, call = self._queue.first, self._call
        if not self._rest.is_on or first is None or call is None:
            return
        self._about.label, self._about.bytes_in = first.label, len(first.call)
        if not (self._may_follow(first) and call.go_on()):
            return
        batch = self._batch()
        if not (batch.items or batch.last):  # all were cancelled just now
            call.rest()
            return
        try:
            call.give(batches.encode(batch))
        except WoolError as error:
            self._rest.fail(error)
        else:
            self._rest.end()

    def _take(self, report: batches.Report, worker: UUID) -> deque[tuple[Item, bytes]]:
        """Those whose outcomes have come."""
        self._origin.ready(worker)  # another one, if the first was gone before the run began there
        is_idle = len(self._sent) == len(report.done) + len(report.given_back)
        self._origin.printed(worker, report.shown, goes_on=report.goes_on, is_idle=is_idle)
        arrived = deque[tuple[Item, bytes]]()
        for done in report.done:
            if self._sent[0].number != done.number:
                raise CallFailed("the worker's outcomes are out of order")
            item = self._sent.popleft()
            item.cost.took(done.took_s)
            self._ahead.over(item.cost)
            arrived.append((item, done.outcome))
        if report.given_back:
            self._take_back(set(report.given_back))
        self._came_back.set()
        return arrived

    def _take_back(self, numbers: set[int]) -> None:
        back = [item for item in self._sent if item.number in numbers]
        self._sent = deque(item for item in self._sent if item.number not in numbers)
        for item in back:
            self._ahead.over(item.cost)
            if self._interrupts(item):
                item.fail(interrupted())
        self._queue.take_back(item for item in back if not item.future.done())

    def _look_later(self, call: Running) -> None:
        if self._timer is None and len(self._sent) > 1:
            self._timer = asyncio.get_running_loop().call_later(RECALL_S, self._look, call)

    def _look(self, call: Running) -> None:
        """Who waits behind a long call is taken back."""
        self._timer = None
        if self._sent and self._sent[0].number == self._looked_at and len(self._sent) > 1:
            self._sent[0].cost.takes_at_least(RECALL_S)
            call.recall()
        self._looked_at = self._sent[0].number if self._sent else 0
        self._look_later(call)

    def _end_of_worker(self, error: WoolError) -> None:
        """The ledger says which of them have begun."""
        own = {item.number for item in self._sent}
        ledgers = Path(self._origin.directory).iterdir()
        begun = max((each for place in ledgers if (each := batches.last_begun(str(place))) in own), default=0)
        found = fates(self._sent, begun)
        self._sent.clear()
        for item, how_far in found.failed:
            item.fail(type(error)(f"{error}. {how_far}"))
        if found.notice:
            self._origin.notice(f"{error}: {found.notice}")
        self._queue.take_back(found.again)


def _settle(arrived: deque[tuple[Item, bytes]]) -> None:
    """Leaves none of them in it: the next report may come late, and results are large."""
    while arrived:
        item, outcome = arrived.popleft()
        item.arrive(outcome)


def interrupted() -> CancelledError:
    return CancelledError("it was interrupted before it began")
