"""Blocking calls that wait for a main thread, and those that have one.

put ─▶ queue ─▶ run (holds a slot) ─ batches ─▶ a worker's main thread
futures ◀───────┘ ◀─ reports ─┘

A run is fed as long as nobody else waits in the line for a main thread; else it ends with what it has been sent, and the
calls that are left take their turn. So few turns stand in the line, however many calls there are.
"""

import asyncio
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

from wool_jupyter.aio.owned_tasks import OwnedTasks
from wool_jupyter.errors import CallFailed, NoWorkersAvailable, WoolError, WorkerDied
from wool_jupyter.pool import events
from wool_jupyter.records import WorkerMetadata
from wool_jupyter.settings import BEGINNINGS_MAX, INTERRUPT_GRACE_S, RECALL_S, RUN_S, SIGNAL_S
from wool_jupyter.wire import batches, calls
from wool_jupyter.wire.store import Lease, Store

if TYPE_CHECKING:
    from wool_jupyter.pool.futures import Future
    from wool_jupyter.pool.slots import Slots

_AT_ONCE = 1000  # calls of one batch


class Origin(Protocol):
    """Who submits calls, and sees what they print."""

    directory: str
    places: tuple[str, ...]  # for large data

    @property
    def store(self) -> Store | None:
        """Of large arguments."""
        ...

    # On the thread that submits.

    def ambient(self) -> dict[str, bytes]:
        """The process's state for calls that are submitted now; the same object as long as nothing has changed."""
        ...

    def submitted(self) -> None: ...

    # On the loop.

    def ready(self, worker: UUID) -> None:
        """Calls begin there: their text will be in `batches.text_directory`."""
        ...

    def printed(self, worker: UUID, at: tuple[int, int], shown: tuple[bytes, ...], *, goes_on: bool) -> None:
        """Up to there, before the outcomes are delivered that came with it."""
        ...

    def lost(self, worker: UUID) -> None:
        """It has ended, and prints no more."""
        ...

    def settled(self) -> None:
        """A call that was submitted is over."""
        ...


class Cost:
    """What calls of one function take on a worker."""

    def __init__(self) -> None:
        self.known = 0  # calls that it was measured on
        self.mean_s = RUN_S

    def took(self, seconds: float) -> None:
        self.known += 1
        self.mean_s += (seconds - self.mean_s) * max(0.2, 1 / self.known)

    def takes_at_least(self, seconds: float) -> None:
        self.mean_s = max(self.mean_s, seconds)


@dataclass(eq=False, slots=True)
class Item:
    future: "Future[Any]"
    origin: Origin
    ambient: dict[str, bytes]
    label: str  # shown of it
    cost: Cost
    retries: int
    settled: "Callable[[Item], object]"  # called once, when its future is done
    native_threads: int  # `batches.Opening`
    grace_s: float  # to answer an interrupt, on a worker that may end
    call: bytes = b""
    function: calls.PackedFunction | None = None  # None: `call` says all
    file: str = ""  # with its large data
    lease: Lease | None = None  # of large data that other calls have, too
    beginnings: int = 0
    number: int = 0
    section: int = 0

    def end(self) -> None:
        if self.file:
            Path(self.file).unlink(missing_ok=True)
        if self.lease is not None:
            self.lease.release()
        self.settled(self)

    def arrive(self, outcome: bytes) -> None:
        self.future.arrive(outcome)
        self.end()

    def fail(self, error: BaseException) -> None:
        if self.future.running() or self.future.set_running_or_notify_cancel():
            self.future.fail(error)
        self.end()


class Running(Protocol):
    """A call that holds a slot (`kernel_pool.PoolCall`)."""

    @property
    def worker(self) -> WorkerMetadata: ...
    @property
    def ended(self) -> bool: ...
    def recall(self) -> None: ...
    async def interrupt(self) -> None: ...
    async def kill(self, why: str) -> None: ...
    async def step(self, answer: bytes | None = None) -> bytes | None: ...
    async def close(self) -> None: ...


class Threads(Protocol):
    """The pool's main threads (`kernel_pool.KernelPool`)."""

    @property
    def main_threads(self) -> int: ...
    @property
    def line(self) -> "Slots": ...
    def pins(self, worker: UUID) -> bool: ...
    async def run(self, routine: str, body: Callable[[], bytes], *, about: events.About, who: object) -> Running: ...


class CallQueue:
    """Lives on one loop; ended by `stop`. Each call that it has ends: it runs at most once, unless it has retries."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._waiting: deque[Item] = deque()
        self._runs: set[_Run] = set()  # that have a main thread
        self._turns = 0  # runs that stand in the line for one
        self._numbers = itertools.count(1)
        self._tasks = OwnedTasks("calls")
        self._stopped = False
        self._pruning = False
        self._section = (
            0  # of the calls that come now: a new one begins behind others in the line, with turns of its own
        )

    def put(self, items: Iterable[Item]) -> None:
        if self._stopped:
            for item in items:
                item.fail(_stopped())
            return
        items, line = list(items), self._threads.line
        if line.waits_beside(self) and not line.is_last(self):
            self._section += 1
            self._turn(min(len(items), self._threads.main_threads))
        for item in items:
            item.section = self._section
        self._waiting.extend(items)
        self._serve()

    def prune(self) -> None:
        """Some that wait have been cancelled."""
        if not self._pruning:
            self._pruning = True
            asyncio.get_running_loop().call_soon(self._prune)

    def _prune(self) -> None:
        self._pruning = False
        self._waiting = deque(self._left())

    def _left(self) -> Iterator[Item]:
        for item in self._waiting:
            if item.future.cancelled():
                item.future.drop()
                item.end()
            else:
                yield item

    def interrupt(self, meant: Callable[[Item], bool]) -> None:
        """Those that wait are cancelled, and those that run are interrupted."""
        for item in [item for item in self._waiting if meant(item)]:
            if not item.future.cancel():
                item.fail(_interrupted())
        self._waiting = deque(item for item in self._left() if not item.future.done())
        for run in [run for run in self._runs if run.has(meant)]:
            self._tasks.start(run.interrupt(meant), "interrupt")

    async def stop(self) -> None:
        """Calls that wait, and those that run, fail. Idempotent."""
        self._stopped = True
        await self._tasks.close()
        self._fail_waiting(_stopped())

    def _serve(self) -> None:
        """One turn for each call, but no more than there are main threads."""
        self._turn(min(len(self._waiting), self._threads.main_threads) - self._turns)

    def _turn(self, count: int) -> None:
        for _ in range(count):
            self._turns += 1
            self._tasks.start(self._run(_Run(self, self._section)), "run")

    async def _run(self, run: "_Run") -> None:
        try:
            await run.serve(self._threads)
        except _NothingLeft:
            pass
        except Exception as error:  # noqa: BLE001 (whatever it is, who waits for a call must hear of it)
            run.fail(error)
            if not (run.opened or self._runs):
                self._fail_waiting(error)
        finally:
            self._runs.discard(run)
            if not run.opened:
                self._turns -= 1
            run.fail(WorkerDied("The pool was stopped. This call may have run in part"))  # of a run that was cancelled
        if not self._stopped:
            self._serve()

    def _fail_waiting(self, error: BaseException) -> None:
        while self._waiting:
            self._waiting.popleft().fail(error)

    # For its runs.

    def opened(self, run: "_Run") -> None:
        """It has a main thread."""
        self._turns -= 1
        self._runs.add(run)

    def pins(self, worker: UUID) -> bool:
        """Something lives there alone."""
        return self._threads.pins(worker)

    @property
    def is_contended(self) -> bool:
        """Somebody else waits in the line."""
        return self._threads.line.waits_beside(self)

    def share(self, ahead: int) -> int:
        """Of the calls that there are, for one that has `ahead`."""
        return -(-(len(self._waiting) + ahead) // max(1, self._threads.main_threads))

    def next(self, fits: Callable[[Item], bool]) -> Item | None:
        """The first in the queue. It will be sent now."""
        while self._waiting:
            item = self._waiting[0]
            if not item.future.cancelled() and not fits(item):
                return None
            self._waiting.popleft()
            if item.future.running() or item.future.set_running_or_notify_cancel():
                item.number = next(self._numbers)
                return item
            item.end()
        return None

    @property
    def first(self) -> Item | None:
        return self._waiting[0] if self._waiting else None

    def take_back(self, items: Iterable[Item]) -> None:
        """They will be first again."""
        self._waiting.extendleft(reversed(list(items)))
        self._serve()


class _NothingLeft(Exception):
    """The turn came when there was nothing to do any more."""


class _Run:
    """Calls of one origin on one worker, from the turn that has come to the last outcome."""

    def __init__(self, queue: CallQueue, section: int) -> None:
        self._queue = queue
        self._section = section
        self._about = events.About("call", "calls")
        self.opened = False
        self._is_opening = True
        self._call: Running | None = None
        self._sent: deque[Item] = deque()
        self._ahead_s = 0.0  # of what was sent, if it takes what it took before
        self._functions: dict[calls.PackedFunction, int] = {}
        self._ends = False  # it gets no more
        self._interrupts: Callable[[Item], bool] = lambda _: False
        self._is_placed = asyncio.Event()  # or could not be
        self._came_back = asyncio.Event()
        self._interrupted = 0  # number of the call that has had a signal
        self._looked_at = 0  # number of the call that ran when it was looked at last

    async def serve(self, threads: Threads) -> None:
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
        except (WorkerDied, CallFailed) as error:
            if not self._sent:
                return
            self._end_of_worker(error)
        self.fail(CallFailed("the worker ended a run of calls without their outcomes"))

    def has(self, meant: Callable[[Item], bool]) -> bool:
        return any(map(meant, self._sent))

    def fail(self, error: BaseException) -> None:
        """What it still has."""
        while self._sent:
            self._sent.popleft().fail(error)

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
            self._ahead_s += item.cost.mean_s
            items.append(batches.Item(item.number, self._index_of(item.function, functions), item.call))
            size += len(item.call)
            full = size >= batches.BATCH_BYTES or len(items) >= _AT_ONCE
            item = None if full else self._queue.next(self._fits)
        following = self._queue.first
        self._ends = self._ends or following is None or not self._may_follow(following)
        return batches.Batch(tuple(functions), tuple(items), self._ends)

    def _fits(self, item: Item) -> bool:
        ahead = len(self._sent)
        return self._may_follow(item) and (
            not ahead
            or (
                ahead <= 2 * item.cost.known
                and ahead < self._queue.share(ahead)
                and (self._ahead_s + item.cost.mean_s <= RUN_S or (ahead == 1 and item.cost.mean_s <= RUN_S))
            )
        )

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
        self._look_later(call)
        try:
            answer: bytes | None = None
            while not call.ended:
                data = await call.step(answer)
                if data is None:
                    return
                self._take(batches.decode_report(data), call.worker.uid)
                if not call.ended:
                    answer = batches.encode(self._batch())
        finally:
            self._timer.cancel()

    def _take(self, report: batches.Report, worker: UUID) -> None:
        self._origin.ready(worker)  # another one, if the first was gone before the run began there
        self._origin.printed(worker, report.at, report.shown, goes_on=report.goes_on)
        for done in report.done:
            item = self._sent.popleft()
            if item.number != done.number:
                raise CallFailed("the worker's outcomes are out of order")
            item.cost.took(done.took_s)
            item.arrive(done.outcome)
        given_back = set(report.given_back)
        back = [item for item in self._sent if item.number in given_back]
        self._sent = deque(item for item in self._sent if item.number not in given_back)
        self._ahead_s = sum(item.cost.mean_s for item in self._sent)
        ended = [item for item in back if self._interrupts(item)]
        for item in ended:
            item.fail(_interrupted())
        self._queue.take_back(item for item in back if item not in ended)
        self._came_back.set()

    def _look_later(self, call: Running) -> None:
        self._timer = asyncio.get_running_loop().call_later(RECALL_S, self._look, call)

    def _look(self, call: Running) -> None:
        """Who waits behind a long call is taken back."""
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
        again = []
        while self._sent:
            item = self._sent.popleft()
            item.beginnings += item.number > begun
            if item.number > begun and item.beginnings < BEGINNINGS_MAX:
                again.append(item)
            elif item.retries:
                item.retries -= 1
                again.append(item)
            else:
                item.fail(type(error)(f"{error}. {_how_far(item.number, begun)}"))
        self._queue.take_back(again)


def _how_far(number: int, begun: int) -> str:
    if number > begun:
        return f"This call had not begun; so did {BEGINNINGS_MAX} workers end before they came to it"
    return (
        "This call had begun, and may have run in part"
        if number == begun
        else "This call has run, and its result is lost"
    )


def _interrupted() -> CancelledError:
    return CancelledError("it was interrupted before it began")


def _stopped() -> WoolError:
    return NoWorkersAvailable("the pool was stopped before this call had begun")
