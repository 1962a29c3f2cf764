"""The one pool of this kernel: started by the first cell that needs it, ended with the kernel."""

import atexit
import os
import secrets
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from wool_jupyter.discovery import root
from wool_jupyter.errors import StartFailed, WoolError
from wool_jupyter.notebook import logs, threads
from wool_jupyter.notebook.bridge import Bridge, bridge
from wool_jupyter.notebook.flow import Flow
from wool_jupyter.notebook.handles import Handles
from wool_jupyter.notebook.late_text import LateText, Show
from wool_jupyter.notebook.left_out import Shelf
from wool_jupyter.pool.home import Home
from wool_jupyter.pool.processes import Processes
from wool_jupyter.settings import STOP_TIMEOUT_S, PoolSettings
from wool_jupyter.wire.store import Store

if TYPE_CHECKING:
    from wool_jupyter.notebook.background import Background
    from wool_jupyter.pool import events
    from wool_jupyter.pool.kernel_pool import KernelPool
    from wool_jupyter.pool.members import WorkerSnapshot

# What a pool needs beside its processes (`kernel_pool`, `feed`) is imported while its first worker starts.

T = TypeVar("T")


class Runtime:
    """Used from the notebook's threads; home and pool live on the bridge's loop. `stop` and `end` are idempotent; a later `pool`
    starts anew."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._pid = os.getpid()
        self._lock = threading.RLock()  # re-entrant: a second cell may be run from within the first
        self._home: Home | None = None
        self._entered_at = 0.0  # the home, in seconds since the epoch
        self._begun: Processes | None = None  # for a pool that is about to be started
        self._pool: KernelPool | None = None
        self._parents: tuple[Home | None, Processes | None, KernelPool | None] = None, None, None  # in a forked child
        self.failed_log: str | None = None  # what the last start wrote, if it failed: its files are gone
        self.handles = Handles(changed=self._pins_changed)
        self.left_out = Shelf()
        self.unshippable: list[str] = []  # aspects of the process that the last cell had to go without
        self._late_text = LateText()
        self.background: Background | None = None  # made by the first cell with --bg
        os.register_at_fork(after_in_child=self._disown)

    @property
    def bridge(self) -> Bridge:
        return bridge()

    @property
    def running(self) -> "KernelPool | None":
        return None if self._pool is None or self._pool.crew.lost else self._pool

    @property
    def started(self) -> "KernelPool | None":
        """As `running`, or lost and not stopped yet."""
        return self._pool

    @property
    def places(self) -> tuple[Path, ...]:
        """The directories in which files of the pool may lie, its own first; none before it was started."""
        return () if self._home is None else self._home.places

    @contextmanager
    def beginning(self) -> Iterator[None]:
        """While the caller gets ready to ask for the pool its first worker starts, unless there is a home from an earlier pool.
        If it does not come to the pool, nothing is left. `StartFailed`."""
        mine: Processes | None = None
        with self._lock:
            if self._home is None and os.getpid() == self._pid:
                with self._whole():
                    self._begin()
                mine = self._begun
        try:
            yield
        finally:
            with self._lock:
                if mine is not None and self._begun is mine:
                    self.end()

    def pool(self, settings: PoolSettings) -> "tuple[KernelPool, bool]":
        """The pool, and whether it was started just now. `StartFailed` leaves nothing behind."""
        if os.getpid() != self._pid:
            raise WoolError("The pool belongs to the process that this one was forked from")
        with self._lock:
            if self._home is not None and not self._home.is_intact:
                self.end()  # something swept it away: a cell, or a cleaner of temporary files
            if self.running is not None:
                self.store.budget_bytes = settings.data_budget_bytes
                return self.running, False
            self.stop()
            with self._whole():
                if self._begun is None:
                    self._begin()
                self.store.budget_bytes = settings.data_budget_bytes
                self._pool = self._started(settings)
            self.failed_log = None
            return self._pool, True

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """A start that fails leaves nothing behind. `StartFailed`."""
        try:
            yield
        except BaseException as error:
            self.end()
            if isinstance(error, OSError):
                raise StartFailed(f"The pool can't have its files: {error}") from error
            raise

    def _begin(self) -> None:
        """The nursery and a first worker are on their way when this returns."""
        threads.try_out()
        # One hash of a text on all workers, and so one order of a set. The kernel's own can't be had.
        environment = {"PYTHONHASHSEED": str(secrets.randbelow(1 << 32)), **os.environ}
        home = self._entered_home()
        with self._logged(home):
            self._begun = self._outcome(Processes.begun(home, environment=environment), _closed)

    def _entered_home(self) -> Home:
        if self._home is None:
            self._home = self._outcome(Home.enter(self._namespace), Home.leave)
            self._entered_at = time.time()
            # Again, for the last one is called first: the pool ends before the home removes its files.
            atexit.unregister(self._at_exit)
            atexit.register(self._at_exit)
        return self._home

    @contextmanager
    def _logged(self, home: Home) -> Iterator[None]:
        """What a start that fails has written stays, when its files are gone."""
        with logs.opened(home.directory) as log:
            try:
                yield
            except BaseException:
                self.failed_log = logs.text_of(log)
                raise

    def _started(self, settings: PoolSettings) -> "KernelPool":
        from wool_jupyter.notebook.feed import door
        from wool_jupyter.pool.kernel_pool import KernelPool

        home, feed = self._home, door().feed
        begun, self._begun = self._begun, None
        assert home is not None
        assert begun is not None

        async def start() -> KernelPool:
            feed.pool_starts(home.namespace, self._entered_at, home.discovery.subscriber)
            try:
                pool = await KernelPool.start(home, settings, begun, pinned=self.handles.pins, tell=self._see)
            except BaseException as error:
                feed.pool_ended(str(error))
                raise
            feed.pool_runs()
            return pool

        with self._logged(home):
            return self._outcome(start(), _stopped)

    def _see(self, event: "events.PoolEvent") -> None:
        """On the loop."""
        from wool_jupyter.notebook.feed import door
        from wool_jupyter.pool import events

        match event:
            case events.Ended(worker):
                self.handles.worker_ended(worker)
            case events.Lost():
                self.handles.worker_ended()
        door().feed.see(event)

    def _outcome(self, coroutine: Coroutine[Any, Any, T], unwanted: Callable[[T], Coroutine[Any, Any, object]]) -> T:
        outcome = self.bridge.enter(coroutine, unwanted=unwanted)
        try:
            return outcome.result()
        except BaseException:
            self.bridge.abandon(outcome, unwanted)
            raise

    def follow(self, flow: Flow, worker: UUID, show: Show) -> None:
        """What its threads and children print from now on."""
        self.bridge.start(self._late_text.follow(flow, worker, show, alive=self.alive), "late text")

    def alive(self) -> set[UUID]:
        """The workers. On the loop."""
        pool = self.running
        return set() if pool is None else {worker.uid for worker in pool.crew.snapshot()}

    def _pins_changed(self) -> None:
        if os.getpid() == self._pid:
            self.bridge.post(self._tell_pins)

    def _tell_pins(self) -> None:
        """On the loop. A worker that is not pinned any more may be one too many."""
        from wool_jupyter.notebook.feed import door

        door().feed.keeps(self.handles.by_worker())
        if self.running is not None:
            self.running.crew.supervise()

    def workers(self) -> "list[WorkerSnapshot]":
        """Oldest first; none without a pool."""
        pool = self.running
        return [] if pool is None else self.bridge.call(pool.crew.snapshot).result()

    def stop(self) -> bool:
        """Ends the pool. False if none ran. At most 3 s; what is left then is the nursery's to end."""
        with self._lock:
            pool, self._pool = self._pool, None
            if pool is None or os.getpid() != self._pid:
                return False
            if self.background is not None:
                self.background.pool_stops()
            outcome = self.bridge.enter(_stopped(pool))
            with suppress(TimeoutError):
                outcome.result(STOP_TIMEOUT_S)
            self.handles.worker_ended()
            return True

    def end(self) -> bool:
        """As `stop`, and leaves the home: no process and no file remains."""
        with self._lock:
            ran = self.stop()
            home, self._home, self._begun = self._home, None, None
            if home is not None and os.getpid() == self._pid:
                with suppress(TimeoutError):
                    self.bridge.enter(_left(home)).result(STOP_TIMEOUT_S)
            return ran

    def _at_exit(self) -> None:
        """The home's files go afterwards: they have been claimed, and every claim is given back when the process exits."""
        home = self._home
        if home is None or os.getpid() != self._pid:
            return
        if self.background is not None:
            self.background.process_ends()
        self.stop()
        with suppress(TimeoutError):
            self.bridge.enter(home.end_processes()).result(STOP_TIMEOUT_S)

    def _disown(self) -> None:
        """In a forked child: home and pool, their sockets and their files are the parent's."""
        # Kept, for nothing of it may be collected: its tasks would report that they were destroyed.
        self._parents = self._home, self._begun, self._pool
        home, self._home, self._begun, self._pool = self._home, None, None, None
        if home is not None:
            home.disown()

    @property
    def store(self) -> Store:
        """Of the home, which the pool has entered."""
        assert self._home is not None
        return self._home.store

    def call_directories(self) -> AbstractContextManager[tuple[str, ...]]:
        """As the home's, which the pool has entered."""
        assert self._home is not None
        return self._home.call_directories()


async def _closed(begun: Processes) -> None:
    begun.close()


async def _stopped(pool: "KernelPool") -> None:
    from wool_jupyter.notebook.feed import door

    try:
        await pool.stop()
    finally:
        door().feed.pool_ended()


async def _left(home: Home) -> None:
    """And nothing of it stays open on this loop, which is ours."""
    from wool_jupyter.discovery.subscription import subscriber_pool
    from wool_jupyter.dispatch import channels

    await home.leave()
    await subscriber_pool().clear()
    await channels.of_this_loop().clear()


_runtime: Runtime | None = None


def runtime() -> Runtime:
    """This process's; made when it is first asked for."""
    global _runtime
    if _runtime is None:
        _runtime = Runtime(root.kernel_namespace(_connection_file()))
    return _runtime


def _connection_file() -> str:
    """Of the kernel: keeps its path when the kernel restarts. Elsewhere a process has only its pid."""
    app = sys.modules.get("ipykernel.kernelapp")
    if app is not None and app.IPKernelApp.initialized():
        return str(app.IPKernelApp.instance().abs_connection_file)
    return f"pid {os.getpid()}"
