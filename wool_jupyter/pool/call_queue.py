"""Blocking calls that wait for a main thread, and those that have one.

put ─▶ WaitingCalls ─▶ Run (holds a slot) ─ batches ─▶ a worker's main thread
futures ◀───────────────┘ ◀─ reports ─┘

A run is fed as long as nobody else waits in the line for a main thread; else it ends with what it has been sent, and the
calls that are left take their turn. So few turns stand in the line, however many calls there are. A run that has nothing left to
do rests for a moment, without its slot: the next small call goes on with it instead of beginning another.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from wool_jupyter.aio.owned_tasks import OwnedTasks
from wool_jupyter.errors import NoWorkersAvailable, WoolError
from wool_jupyter.pool import events
from wool_jupyter.pool.call_item import Item
from wool_jupyter.pool.call_run import Run, Running, interrupted
from wool_jupyter.pool.waiting_calls import WaitingCalls

if TYPE_CHECKING:
    from wool_jupyter.pool.slots import Slots


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
        self._waiting = WaitingCalls()
        self._runs: set[Run] = set()  # that have a main thread, or rest
        self._resting: dict[Run, None] = {}  # those that rest, in their order
        self._turns = 0  # runs that stand in the line for one
        self._tasks = OwnedTasks("calls")
        self._stopped = False
        self._pruning = False

    def put(self, items: Iterable[Item]) -> None:
        if self._stopped:
            for item in items:
                item.fail(_stopped(item))
            return
        items, line = list(items), self._threads.line
        if line.waits_beside(self) and not line.is_last(self):
            self._waiting.begin_section()  # behind others, with turns of its own
            self._turn(min(len(items), self._threads.main_threads))
        self._waiting.add(items)
        for origin in dict.fromkeys(item.origin for item in items):
            origin.queued()
        self._serve()

    def prune(self) -> None:
        """Some that wait have been cancelled."""
        if not self._pruning:
            self._pruning = True
            asyncio.get_running_loop().call_soon(self._prune)

    def _prune(self) -> None:
        self._pruning = False
        self._waiting.prune()

    def interrupt(self, meant: Callable[[Item], bool]) -> None:
        """Those that wait are cancelled, and those that run are interrupted."""
        self._waiting.cancel(meant, interrupted)
        for run in [run for run in self._runs if run.has(meant)]:
            self._tasks.start(run.interrupt(meant), "interrupt")

    async def stop(self) -> None:
        """Calls that wait, and those that run, fail. Idempotent."""
        self._stopped = True
        await self._tasks.close()
        self._waiting.fail(_stopped)

    def _serve(self) -> None:
        """One turn for each call that no run can go on with, but no more than there are main threads."""
        for run in reversed(list(self._resting)):
            run.go_on()
        self._turn(min(len(self._waiting), self._threads.main_threads) - self._turns)

    def _turn(self, count: int) -> None:
        for _ in range(count):
            self._turns += 1
            self._tasks.start(self._run(Run(self, self._waiting.section)), "run")

    async def _run(self, run: "Run") -> None:
        try:
            await run.serve(self._threads)
        except Exception as error:
            failure, heard = error, run.fail(error)
            if not (run.opened or self._runs):
                self._waiting.fail(lambda _: failure)
            elif not (heard or isinstance(error, WoolError)):
                raise  # a fault that no call can tell of
        finally:
            self._runs.discard(run)
            if not run.opened:
                self._turns -= 1
            run.stopped()
            if not self._stopped:
                self._serve()

    # For its runs.

    def opened(self, run: "Run") -> None:
        """It has a main thread."""
        self._turns -= 1
        self._runs.add(run)

    def rests(self, run: "Run") -> None:
        """It has nothing to do, and no main thread: to be asked before others get a turn."""
        self._resting[run] = None

    def rests_no_more(self, run: "Run") -> None:
        self._resting.pop(run, None)

    def pins(self, worker: UUID) -> bool:
        """Something lives there alone."""
        return self._threads.pins(worker)

    @property
    def is_contended(self) -> bool:
        """Somebody else waits in the line."""
        return self._threads.line.waits_beside(self)

    def share(self, ahead: int) -> int:
        """Of the calls that there are, for one that has `ahead`."""
        return self._waiting.share(ahead, self._threads.main_threads)

    def next(self, fits: Callable[[Item], bool]) -> Item | None:
        """The first in the queue. It will be sent now."""
        return self._waiting.next(fits)

    @property
    def first(self) -> Item | None:
        return self._waiting.first

    def take_back(self, items: Iterable[Item]) -> None:
        """They will be first again."""
        self._waiting.take_back(items)
        self._serve()


def _stopped(item: Item) -> WoolError:
    return NoWorkersAvailable(f"the pool was stopped before {item.words} had begun")
