"""A background cell while it waits in line and runs: its state, its output, its cancellation. It is driven on the loop.

submitted ─▶ waits ─▶ runs ─▶ its end has arrived ─▶ settled: its names are bound (by `background`, on the main thread)
"""

import asyncio
import contextvars
import pickle
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from functools import partial
from typing import Any

from wool_jupyter.aio.owned_tasks import OwnedTasks
from wool_jupyter.aio.threads import run_to_end
from wool_jupyter.notebook import screens, told
from wool_jupyter.notebook.bridge import Bridge
from wool_jupyter.notebook.cell_run import CellRun, Sending
from wool_jupyter.notebook.job_output import JobOutput
from wool_jupyter.notebook.places import Place
from wool_jupyter.notebook.source import telling_line
from wool_jupyter.notebook.stopped import EVERY_S, StoppedWorkers
from wool_jupyter.pool.kernel_pool import KernelPool, PoolCall
from wool_jupyter.settings import INTERRUPT_GRACE_S
from wool_jupyter.wire import cells

_TEXT_EVERY_S = 0.1  # messages above some thousands a second are lost on their way to a front end

Outcome = cells.Outcome | cells.Refused


class Execution:
    """`run`, `sending` and the end belong to the main thread; the rest may be asked on any. It is its own `Sink`."""

    def __init__(
        self, number: int, run: CellRun, *, bridge: Bridge, place: Place, news: Callable[["Execution"], object]
    ) -> None:
        """`news` of each change of state, on whichever thread that happens."""
        self.number = number
        self.cell_number = run.source.number
        self.telling_line = telling_line(run.body)
        self.run: CellRun | None = run
        self.sending: Sending | None = None
        self.digests = run.shipment.digests()
        context = contextvars.copy_context()
        self.output = JobOutput(place, context)
        self.context = context  # of its cell: what is printed while its names are bound appears there
        self.state = "waiting"
        self.reason = ""  # why it did not end well, in words
        self.why_it_waits = ""  # where it is not that others are before it, in words
        self.has_lost_pool = False  # it was stopped
        self.is_cancelled = False
        self.arrived = threading.Event()
        self.settled = threading.Event()
        self.value: Any = None
        self.error: BaseException | None = None
        self.bound: list[str] = []
        self.lines: list[str] = []  # what is to be said of its end
        self._began_s = self._ended_s = 0.0  # time.monotonic()
        self._queued_s = time.monotonic()
        self._bridge = bridge
        self._news = news
        self._call: PoolCall | None = None
        self._pool: KernelPool | None = None
        self._delivered = False
        self._driving: Future[Outcome] = Future()

    def start(self, pool: KernelPool, sending: Sending) -> None:
        """Also again, after a worker has refused what the last sending held."""
        self.sending, self._pool, self._call = sending, pool, None
        self.arrived.clear()
        self.state = "waiting"
        self._driving = self._bridge.enter(self._drive(pool, sending))
        self._driving.add_done_callback(self._arrive)

    def outcome(self) -> Outcome:
        """When it has arrived. Raises what kept the cell from one."""
        return self._driving.result(0)

    def elapsed_s(self) -> float:
        """Of its run, or in the line."""
        began_s = self._began_s or self._queued_s
        return (self._ended_s or time.monotonic()) - began_s

    def cancel(self) -> bool:
        """False when it has ended already. The body gets a KeyboardInterrupt; once more, and its worker is ended."""
        if self.arrived.is_set():
            return False
        again, self.is_cancelled = self.is_cancelled, True
        self._bridge.start(self._cancel(again=again), "cancel of a job")
        return True

    # On the loop.

    async def _drive(self, pool: KernelPool, sending: Sending) -> Outcome:
        self._tasks = OwnedTasks(f"job {self.number}")
        self._turn = asyncio.Lock()
        try:
            self._tasks.start(self._watch_the_wait(pool), "wait")
            with told.reported(sending.about) as run:
                try:
                    run.outcome = outcome = await sending.drive(pool, self)
                finally:
                    run.worker = sending.worker
            return outcome
        finally:
            await self._tasks.close()
            await run_to_end(lambda: screens.show_rest(sending.flow, self.output))

    def begun(self, call: PoolCall) -> None:
        self._call = call
        self._began_s = time.monotonic()
        self.state = "running"
        self._tasks.start(self._read_on(call), "text")
        self._news(self)

    async def _watch_the_wait(self, pool: KernelPool) -> None:
        stopped = StoppedWorkers()
        while self._call is None:
            await asyncio.sleep(EVERY_S)
            stopped.look(lambda: [worker.pid for worker in pool.crew.snapshot()])
            before, self.why_it_waits = self.why_it_waits, stopped.why()
            if self._call is None and self.why_it_waits != before:
                self._news(self)

    async def _read_on(self, call: PoolCall) -> None:
        stopped = StoppedWorkers()
        while True:
            await asyncio.sleep(_TEXT_EVERY_S)
            await self._in_turn(self._show_ready)
            for text in stopped.look(lambda: [call.worker.pid]):
                await self._in_turn(partial(self.output.stream, *screens.notice(text)))

    async def take(self, event: cells.Event) -> bytes | None:
        match event:
            case cells.Interrupted(delivered=delivered):
                self._delivered |= delivered
            case cells.Ask():
                return cells.encode(cells.Answer(None, pickle.dumps(_nobody_answers())))
            case _ if isinstance(event, cells.Shown):
                await self._in_turn(partial(self._show, event))
        return None

    async def _in_turn(self, function: Callable[[], object]) -> None:
        """Beside the loop, which must not wait for files or for what a display holds; in the order in which it is asked for."""
        async with self._turn:
            await run_to_end(function)

    async def _cancel(self, *, again: bool) -> None:
        call, pool = self._call, self._pool
        if call is None or pool is None:
            self._driving.cancel()
            return
        if call.ended:
            return
        if again:
            await pool.crew.kill(call.worker.uid)
            return
        await call.interrupt()
        await asyncio.wait({asyncio.wrap_future(self._driving)}, timeout=INTERRUPT_GRACE_S)
        if not (call.ended or self._driving.done() or self._delivered):
            await pool.crew.end(call.worker.uid)

    # On a thread of the loop's executor.

    def _show_ready(self) -> None:
        assert self.sending is not None
        self.output.text(self.sending.flow.due())

    def _show(self, event: cells.Shown) -> None:
        assert self.sending is not None
        flow = self.sending.flow
        flow.came()
        self.output.text(flow.ready(event.at))
        screens.show(event, flow, self.output)

    # When it has ended.

    def _arrive(self, driving: "Future[Outcome]") -> None:
        self._ended_s = time.monotonic()
        self.state, self.reason = self._end_of(driving)
        self.arrived.set()
        self._news(self)

    def _end_of(self, driving: "Future[Outcome]") -> tuple[str, str]:
        """What can be said of it before its results are loaded."""
        try:
            outcome = driving.result()
        except CancelledError:
            return "cancelled", ""
        except BaseException as error:  # noqa: BLE001 (it is raised where the job is settled)
            if self.has_lost_pool:
                return "cancelled", "the pool was stopped"
            return ("cancelled", "") if self.is_cancelled else ("failed", f"{type(error).__name__}: {error}")
        if isinstance(outcome, cells.Refused):
            return "waiting", ""
        if self.is_cancelled and outcome.error.startswith("KeyboardInterrupt"):
            return "cancelled", ""
        return ("failed", outcome.error) if outcome.error else ("done", "")

    def let_go(self) -> None:
        """Settled: nothing but its output and its end is kept."""
        if self.sending is not None:
            self.sending.close()
        self.run = self.sending = self._call = self._pool = None  # the call knows its worker, and that worker's files
        self._driving = Future()
        self.digests = {}
        self.settled.set()


def _nobody_answers() -> Exception:
    from IPython.core.error import StdinNotImplementedError

    error: Exception = StdinNotImplementedError("a background cell has nobody to ask: its cell has ended")
    return error
