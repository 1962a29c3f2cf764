"""A blocking cell: the main thread waits for the run, and replays what it shows where %%capture and Output widgets see it."""

import asyncio
import getpass
import pickle
import queue
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

from wool_jupyter import host
from wool_jupyter.errors import WoolError, WorkerDied
from wool_jupyter.notebook import homecoming, told, tracebacks
from wool_jupyter.notebook.bridge import Bridge
from wool_jupyter.notebook.cell_run import CellRun, End, Sending
from wool_jupyter.notebook.interrupts import Interrupts
from wool_jupyter.notebook.places import place_of_this_cell
from wool_jupyter.notebook.replay import Replay
from wool_jupyter.notebook.runtime import Runtime
from wool_jupyter.notebook.shipment import AS_CAPTURED, Route
from wool_jupyter.notebook.source import CellSource, prepare_source
from wool_jupyter.notebook.status_line import StatusLine
from wool_jupyter.notebook.stopped import StoppedWorkers
from wool_jupyter.pool.kernel_pool import KernelPool, PoolCall
from wool_jupyter.settings import PoolSettings
from wool_jupyter.wire import ambient, cells

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

EXPLAIN_S = 1.0  # until a cell that waits behind background jobs says so
POLL_S = 0.05  # between two looks at a running cell's text: reads as live


def run_cell(
    shell: "InteractiveShell",
    runtime: Runtime,
    *,
    body: str,
    settings: PoolSettings,
    route: Route = AS_CAPTURED,
    prepare: Callable[["InteractiveShell", str], CellSource] = prepare_source,
    namespace: dict[str, Any] | None = None,
) -> Any:
    """The value of the last expression. Raises what the cell raised, and shows it as a plain cell would. `namespace` is that of a
    function that the cell is run from, with the notebook's below."""
    __tracebackhide__ = True
    with shown_as_by_a_cell(shell):
        make = partial(
            CellRun, shell, runtime, body=body, settings=settings, route=route, prepare=prepare, namespace=namespace
        )
        end = _run(shell, runtime, make, settings)
        if runtime.background is not None:
            runtime.background.cell_has_bound(end.bound)
    if end.error is not None:
        tracebacks.show_natively(end.error, shell)
        raise end.error
    return end.value


@contextmanager
def shown_as_by_a_cell(shell: "InteractiveShell") -> Iterator[None]:
    """An error of ours in one line, another one (SyntaxError, ■) as a plain cell would show it."""
    __tracebackhide__ = True
    try:
        yield
    except WoolError as error:
        tracebacks.show_plainly(error)
        raise
    except BaseException as error:
        tracebacks.show_natively(error, shell)
        raise


def started_pool(runtime: Runtime, settings: PoolSettings) -> tuple[KernelPool, bool]:
    """Says so in one line if it was started just now."""
    pool, just_now = runtime.pool(settings)
    if just_now:
        print(
            f"wool: started a pool of {pool.crew.size} worker process{'es' if pool.crew.size > 1 else ''} for this notebook"
        )
    return pool, just_now


def _run(shell: "InteractiveShell", runtime: Runtime, make: Callable[..., CellRun], settings: PoolSettings) -> End:
    background = runtime.background
    run = make(before_shipping=None if background is None else background.cell_is_about_to_read)
    for text in run.notices:
        notice(text)
    pool, _ = started_pool(runtime, settings)
    interrupts = Interrupts()
    with interrupts:
        while True:
            sending = Sending(run, unshippable=notice, press=interrupts.press)
            try:
                status = StatusLine(shell, sending.about, wanted=settings.status_line)
                outcome = _Waiting(shell, runtime, pool, interrupts, status, Replay(shell, sending.flow)).of(sending)
                if isinstance(outcome, End):
                    return outcome
                run.without(outcome)
            finally:
                sending.close()


class _Waiting:
    """Waits for one sending, and shows on this thread what it shows. Takes it in when it has ended."""

    def __init__(
        self,
        shell: "InteractiveShell",
        runtime: Runtime,
        pool: KernelPool,
        interrupts: Interrupts,
        status: StatusLine,
        replay: Replay,
    ) -> None:
        self._replay = replay
        self._shell = shell
        self._runtime = runtime
        self._bridge = runtime.bridge
        self._jobs_ahead = 0 if runtime.background is None else len(runtime.background.unended())
        self._pool = pool
        self._interrupts = interrupts
        self._status = status
        # No `SimpleQueue`: one that is interrupted when its time is just over waits for ever (CPython 3.11), and ■ with it.
        self._events: queue.Queue[tuple[cells.Event, Future[bytes | None]] | None] = queue.Queue()
        self._running: _Running | None = None
        self._explains_at_s: float | None = monotonic() + EXPLAIN_S
        self._stopped = StoppedWorkers()

    # A `Sink`, on the loop.

    def begun(self, call: PoolCall) -> None:
        self._running = _Running(self._bridge, self._pool, call)

    async def take(self, event: cells.Event) -> bytes | None:
        handled: Future[bytes | None] = Future()
        self._events.put((event, handled))
        return await asyncio.wrap_future(handled)

    # On this thread, while the cell runs.

    def of(self, sending: Sending) -> End | cells.Refused:
        with told.reported(sending.about) as run, closing(self._status):
            try:
                run.outcome = outcome = self._driven(sending)
            finally:
                run.worker = sending.worker
        return outcome if isinstance(outcome, cells.Refused) else self._end(sending, outcome)

    def _driven(self, sending: Sending) -> cells.Outcome | cells.Refused:
        driving = self._bridge.enter(sending.drive(self._pool, self))
        driving.add_done_callback(lambda _: self._events.put(None))
        try:
            return self._outcome(driving)
        except WorkerDied as died:
            if not self._interrupts.ended:
                raise WorkerDied(f"{died}. What the cell had bound is lost") from None
            notice("its worker was ended and is replaced; what the cell had bound is lost")
            raise KeyboardInterrupt from None
        finally:
            driving.cancel()
            self._replay.end()

    def _outcome(self, driving: "Future[cells.Outcome | cells.Refused]") -> cells.Outcome | cells.Refused:
        look_at_s = monotonic() + POLL_S
        while True:
            if (left_s := look_at_s - monotonic()) <= 0:
                self._look()
                look_at_s = monotonic() + POLL_S
                continue
            try:
                happened = self._events.get(timeout=left_s)
            except queue.Empty:
                continue
            if happened is None:
                return driving.result()
            event, handled = happened
            self._replay.up_to(event)
            handled.set_result(self._answer_to(event))

    def _look(self) -> None:
        self._status.tick()
        running = self._running
        for text in self._stopped.look(self._workers if running is None else running.workers):
            notice(text)
        if running is None:
            if self._interrupts.pressed:
                raise KeyboardInterrupt
            self._explain_the_wait()
            return
        self._replay.tick()
        for text in self._interrupts.pass_on(running):
            notice(text)

    def _workers(self) -> list[int]:
        return [worker.pid for worker in self._runtime.workers()]

    def _explain_the_wait(self) -> None:
        if self._explains_at_s is not None and monotonic() > self._explains_at_s and self._jobs_ahead:
            self._explains_at_s = None
            notice(
                f"waits for a free worker, behind {self._jobs_ahead} background job{'s' if self._jobs_ahead > 1 else ''}"
            )

    def _answer_to(self, event: cells.Event) -> bytes | None:
        match event:
            case cells.Interrupted(delivered=delivered):
                self._interrupts.saw(delivered=delivered)
            case cells.Ask():
                return cells.encode(self._asked(event))
            case _ if isinstance(event, cells.Shown):
                self._replay.event(event)
        return None

    def _asked(self, event: cells.Ask) -> cells.Answer:
        ask = getpass.getpass if event.password else input
        with self._interrupts.as_usual():
            try:
                return cells.Answer(ask(event.prompt), b"")
            except (KeyboardInterrupt, Exception) as error:  # noqa: BLE001 (the cell's to handle: EOFError, ...)
                return cells.Answer(None, pickle.dumps(error))

    # When it has ended. An interrupt is held back.

    def _end(self, sending: Sending, outcome: cells.Outcome) -> End:
        try:
            end = sending.finish(outcome, _Here(self._replay))
        finally:
            self._replay.show_late()
        if outcome.goes_on:
            sending.goes_on(place_of_this_cell(self._shell).stream)
        if end.error is None and (outcome.interrupted or self._interrupts.unsent):
            # It came when the body had ended: Run All stops, and the names are there.
            return End(None, KeyboardInterrupt(), end.bound)
        return end


class _Here:
    """A `Receiver` that takes all: nothing else has happened meanwhile."""

    def __init__(self, replay: Replay) -> None:
        self._replay = replay

    def notice(self, text: str) -> None:
        notice(text)

    def payload(self, payload: dict[str, Any]) -> None:
        self._replay.payload(payload)

    def takes(self, name: str) -> bool:  # noqa: ARG002
        return True

    def sift(self, arrived: homecoming.Arrived) -> None:
        pass

    def state(self, outcome: cells.Outcome) -> ambient.State:
        return outcome.ambient


class _Running:
    """The running cell, as ■ sees it."""

    def __init__(self, bridge: Bridge, pool: KernelPool, call: PoolCall) -> None:
        self._bridge, self._pool, self._call = bridge, pool, call

    def ignores_interrupts(self) -> bool:
        return host.ignores(self._call.worker.pid, signal.SIGINT)

    def is_stopped(self) -> bool:
        return host.is_stopped(self._call.worker.pid)

    def workers(self) -> list[int]:
        return [self._call.worker.pid]

    def interrupt(self) -> None:
        self._bridge.enter(self._call.interrupt()).result()

    def end(self) -> None:
        self._bridge.enter(self._pool.crew.end(self._call.worker.uid)).result()

    def kill(self) -> None:
        self._bridge.enter(self._pool.crew.kill(self._call.worker.uid)).result()


def notice(text: str) -> None:
    print(f"wool: {text}", file=sys.stderr)
