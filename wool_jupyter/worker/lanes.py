"""The worker's main thread, where blocking bodies run one at a time."""

import asyncio
import enum
import gc
import queue
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

T = TypeVar("T")

# Without a body before garbage is collected. That takes 0.15 s with large libraries, and a body that comes meanwhile waits for it:
# so the longer the last collection took, the longer the pause has to be.
_IDLE_S = 0.05
_IDLE_PER_S = 20.0  # more, for each second of the last one


class _Progress(enum.Enum):
    QUEUED = enum.auto()
    RUNNING = enum.auto()
    OVER = enum.auto()


class Job(Generic[T]):
    """A body that waits for the main thread, or has it. `done` belongs to the loop that submitted it; to cancel that stops
    nothing."""

    def __init__(self, body: Callable[[], T]) -> None:
        self.done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._loop = asyncio.get_running_loop()
        self._body = body
        self._progress = _Progress.QUEUED
        self._lock = threading.Lock()  # between the end of this body and a signal that is meant for it

    def run(self) -> None:
        with self._lock:
            if self._progress is _Progress.OVER:
                return
            self._progress = _Progress.RUNNING
        try:
            value, error = self._body(), None
        except BaseException as caught:  # noqa: BLE001 (for the waiter, whatever its class)
            value, error = None, caught
        with self._lock:
            self._progress = _Progress.OVER
        self._loop.call_soon_threadsafe(_resolve, self.done, value, error)

    def interrupt(self, thread: int | None) -> None:
        """A SIGINT to the thread that runs it. One that waits never begins, and its `done` is cancelled."""
        with self._lock:
            if self._progress is _Progress.RUNNING and thread is not None:
                signal.pthread_kill(thread, signal.SIGINT)
            elif self._progress is _Progress.QUEUED:
                self._progress = _Progress.OVER
                self.done.cancel()


class MainLane:
    """`serve` runs on the main thread until `close`; the rest is called on a loop of another thread."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Job[Any] | None] = queue.SimpleQueue()
        self._thread: int | None = None
        self._under_way = 0

    @property
    def is_busy(self) -> bool:
        """A body runs, or waits."""
        return self._under_way > 0

    def submit(self, body: Callable[..., T], *args: Any) -> Job[T]:
        job: Job[T] = Job(partial(body, *args))
        self._under_way += 1
        job.done.add_done_callback(self._over)
        self._jobs.put(job)
        return job

    def _over(self, _done: "asyncio.Future[Any]") -> None:
        self._under_way -= 1

    def interrupt(self, job: Job[Any]) -> None:
        """That body and no other. What a SIGINT does is up to the handler."""
        job.interrupt(self._thread)

    def serve(self) -> None:
        self._thread = threading.get_ident()
        collected, took_s = True, 0.0
        while True:
            try:  # an interrupt may make it wait for ever (CPython 3.11): that costs a collection, for the next job still comes
                job = self._jobs.get(timeout=None if collected else _IDLE_S + _IDLE_PER_S * took_s)
            except queue.Empty:
                began_s = time.monotonic()
                gc.collect()
                collected, took_s = True, time.monotonic() - began_s
                continue
            if job is None:
                return
            job.run()
            del job
            collected = False

    def close(self) -> None:
        self._jobs.put(None)


def _resolve(done: "asyncio.Future[Any]", value: Any, error: BaseException | None) -> None:
    if done.cancelled():
        return
    if error is None:
        done.set_result(value)
    else:
        done.set_exception(for_a_future(error))


def for_a_future(error: BaseException) -> Exception:
    """Which refuses a StopIteration; and a loop stops at a SystemExit or KeyboardInterrupt."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    return RuntimeError(repr(error))
