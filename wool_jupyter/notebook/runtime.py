"""The one pool of this kernel: started by the first cell that needs it, ended with the kernel."""

import atexit
import itertools
import os
import secrets
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import BinaryIO
from uuid import UUID

from wool_jupyter.discovery import root
from wool_jupyter.errors import NoUsableRoot, StartFailed, WoolError
from wool_jupyter.notebook import logs, threads
from wool_jupyter.notebook.bridge import Bridge
from wool_jupyter.notebook.handles import Handles
from wool_jupyter.notebook.late_text import LateText, Show
from wool_jupyter.notebook.outputs import TextReader
from wool_jupyter.nursery.sweep import sweep
from wool_jupyter.pool.worker_pool import WorkerPool, WorkerSnapshot
from wool_jupyter.settings import STOP_TIMEOUT_S, PoolSettings
from wool_jupyter.wire import layout


class Runtime:
    """Used from the notebook's threads; the pool lives on the bridge's loop. `stop` is idempotent; a later `pool` starts anew."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._pid = os.getpid()
        self._lock = threading.RLock()  # re-entrant: a second cell may be run from within the first
        self._bridge: Bridge | None = None
        self._pool: WorkerPool | None = None
        self._parents: WorkerPool | None = None  # in a forked child
        self._directories: list[Path] = []
        self.failed_log: str | None = None  # what the last start wrote, if it failed: its files are gone
        self.handles = Handles()
        self.unshippable: list[str] = []  # aspects of the process that the last cell had to go without
        self._late_text = LateText()
        self._calls = itertools.count(1)
        atexit.register(self._at_exit)
        os.register_at_fork(after_in_child=self._disown)

    @property
    def bridge(self) -> Bridge:
        if self._bridge is None:
            self._bridge = Bridge()
        return self._bridge

    @property
    def running(self) -> WorkerPool | None:
        return None if self._pool is None or self._pool.lost else self._pool

    @property
    def started(self) -> WorkerPool | None:
        """As `running`, or lost and not stopped yet."""
        return self._pool

    @property
    def places(self) -> tuple[Path, ...]:
        """Directories of the pool that was started: its own, then one on disk."""
        return () if self._pool is None else tuple(self._directories)

    def pool(self, settings: PoolSettings) -> tuple[WorkerPool, bool]:
        """The pool, and whether it was started just now. `StartFailed` leaves nothing behind."""
        if os.getpid() != self._pid:
            raise WoolError("The pool belongs to the process that this one was forked from")
        with self._lock:
            if self.running is not None:
                return self.running, False
            self.stop()
            threads.try_out()
            self._directories = _new_directories(self._namespace)
            try:
                with logs.opened(self._directories[0]) as log:
                    self._pool = self._started(settings, log)
            except BaseException as error:
                for directory in self._directories:  # if the nursery has not come up, nobody else sweeps them
                    with suppress(OSError):  # it may be at it
                        sweep(directory)
                if isinstance(error, OSError):
                    raise StartFailed(f"The pool can't have its files: {error}") from error
                raise
            self.failed_log = None
            return self._pool, True

    def _started(self, settings: PoolSettings, log: BinaryIO) -> WorkerPool:
        # One hash of a text on all workers, and so one order of a set. The kernel's own can't be had.
        environment = {"PYTHONHASHSEED": str(secrets.randbelow(1 << 32)), **os.environ}
        starting = WorkerPool.start(
            settings, directories=self._directories, environment=environment, version=version("wool_jupyter")
        )
        outcome = self.bridge.enter(starting, unwanted=WorkerPool.stop)
        try:
            return outcome.result()
        except BaseException:
            self.bridge.abandon(outcome, WorkerPool.stop)
            self.failed_log = logs.text_of(log)
            raise

    def follow(self, text: TextReader, worker: UUID, show: Show) -> None:
        """What its threads and children print from now on."""
        self.bridge.enter(self._late_text.follow(text, worker, show, alive=self._alive))

    def _alive(self) -> set[UUID]:
        pool = self.running
        return set() if pool is None else {worker.uid for worker in pool.snapshot()}

    def workers(self) -> list[WorkerSnapshot]:
        """Oldest first; none without a pool."""
        pool = self.running

        async def on_the_loop() -> list[WorkerSnapshot]:
            return [] if pool is None else pool.snapshot()

        return self.bridge.enter(on_the_loop()).result()

    def stop(self) -> bool:
        """False if none ran. At most 3 s; what is left then is the nursery's to end."""
        with self._lock:
            pool, self._pool = self._pool, None
            if pool is None or os.getpid() != self._pid:
                return False
            outcome = self.bridge.enter(pool.stop())
            with suppress(TimeoutError):
                outcome.result(STOP_TIMEOUT_S)
            return True

    @contextmanager
    def call_directories(self) -> Iterator[tuple[str, ...]]:
        """A call's own directory, and where its large buffers may go; all removed at the end."""
        number = next(self._calls)
        places = [layout.call(directory, number) for directory in self._directories]
        places[0].mkdir(mode=0o700)
        try:
            yield tuple(map(str, places))
        finally:
            for place in places:
                shutil.rmtree(place, ignore_errors=True)  # a stopped pool has swept it already

    def _at_exit(self) -> None:
        with suppress(OSError):  # what can't be removed is told by `%wool doctor`
            self.stop()

    def _disown(self) -> None:
        """In a forked child: the pool, its sockets and its files are the parent's."""
        # Kept, for nothing of it may be collected: its tasks would report that they were destroyed.
        self._parents, self._pool = self._pool, None
        if self._parents is not None:
            self._parents.disown()


def _new_directories(namespace: str) -> list[Path]:
    """The pool's own, and one on disk for buffers that memory has no room for."""
    chosen = root.choose_root()
    try:
        directories = [root.new_pool_directory(chosen, namespace)]
    except OSError as error:
        raise StartFailed(f"The pool's directory can't be made: {error}") from error
    with suppress(NoUsableRoot, OSError):
        spare = root.choose_root(candidates=root.temporary_directories())
        if spare != chosen:
            directories.append(root.new_pool_directory(spare, namespace))
    return directories


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
