"""joblib's backend "wool": batches of its tasks are calls on the main threads of a pool's workers.

The backend of a `parallel_config` is a template: each `Parallel` has one of its own, and each call of it a `_Call`.
"""

import concurrent.futures
import contextvars
import threading
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Any

from joblib.parallel import (
    AutoBatchingMixin,
    BatchedCalls,
    FallbackToBackend,
    ParallelBackendBase,
    SequentialBackend,
)

from wool_jupyter import host
from wool_jupyter.pool.call_item import Origin
from wool_jupyter.pool.executor import Executor, Terms
from wool_jupyter.pool.futures import Callbacks
from wool_jupyter.pool.intake import Intake
from wool_jupyter.pool.pacing import Cost
from wool_jupyter.settings import ABANDONED_GRACE_S
from wool_jupyter.wire import calls, contents
from wool_jupyter.worker.joblib_threads import of_this_process

Callback = Callable[["concurrent.futures.Future[Any]"], object]


class WoolBackend(AutoBatchingMixin, ParallelBackendBase):  # type: ignore[misc]
    """On a worker it becomes `ThreadsInstead`."""

    supports_retrieve_callback = True
    supports_inner_max_num_threads = True
    default_n_jobs = -1  # whoever names this pool wants it

    def __init__(
        self,
        intake: Callable[[], Intake],
        origin: Callable[[], Origin],
        *,
        main_threads: Callable[[], int],
        nesting_level: int | None = None,
        inner_max_num_threads: int | None = None,
    ) -> None:
        """`intake` and `origin` as an `Executor` has them; `main_threads` starts no pool."""
        super().__init__(nesting_level=nesting_level, inner_max_num_threads=inner_max_num_threads)
        self._intake = intake
        self._origin = origin
        self._main_threads = main_threads
        self.parallel: Any = None  # whose backend this is
        self._call: _Call

    def __wool_reduce__(self) -> tuple[Any, ...]:
        return of_this_process, (self.nesting_level,)

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """No more than the pool has main threads; those from the end are counted as joblib counts CPUs."""
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 in Parallel has no meaning")
        if n_jobs is None:
            return 1
        most = self._main_threads()
        return max(most + 1 + n_jobs, 1) if n_jobs < 0 else min(n_jobs, most)

    def configure(self, n_jobs: int = 1, parallel: Any = None, **_: Any) -> int:
        """Starts the pool, unless there is nothing to do side by side."""
        number = self.effective_n_jobs(n_jobs)
        if number == 1:
            raise FallbackToBackend(SequentialBackend(nesting_level=self.nesting_level))
        if self.parallel is not parallel:
            raise FallbackToBackend(self._of(parallel))
        self._intake()
        self._n_jobs = number
        return number

    def _of(self, parallel: Any) -> "WoolBackend":
        own = WoolBackend(
            self._intake,
            self._origin,
            main_threads=self._main_threads,
            nesting_level=self.nesting_level,
            inner_max_num_threads=self.inner_max_num_threads,
        )
        own.parallel = parallel
        return own

    def start_call(self) -> None:
        threads = self.inner_max_num_threads or max(1, host.usable_cpus() // self._n_jobs)
        self._call = _Call(self._intake(), self._origin(), native_threads=threads)

    def stop_call(self) -> None:
        self._call.close()

    def submit(self, func: BatchedCalls, callback: Callback | None = None) -> "concurrent.futures.Future[Any]":
        return self._call.submit(func, callback)

    apply_async = submit  # its name before joblib 1.5

    def retrieve_result_callback(self, out: "concurrent.futures.Future[Any]") -> Any:
        """On the thread of the callbacks."""
        return self._call.result(out)

    def abort_everything(self, ensure_ready: bool = True) -> None:  # noqa: ARG002 (the pool stays ready)
        """Returns at once: batches that don't answer the interrupt are looked after by the pool."""
        self._call.abort()

    def terminate(self) -> None:
        self.reset_batch_stats()

    def retrieval_context(self) -> "_Call":
        return self._call


class _Call:
    """Made, and closed, on the thread that calls the `Parallel`. As a context it gives an exception of a task, whose traceback
    joblib takes away, the one that it came with."""

    def __init__(self, intake: Intake, origin: Origin, *, native_threads: int) -> None:
        self._origin = origin
        digest = contents.Remembered()
        terms = Terms(grace_s=ABANDONED_GRACE_S, cost=Cost(), native_threads=native_threads, digest=digest)
        self._executor = Executor(lambda: intake, lambda: origin, terms)
        self._callbacks = Callbacks()  # its own, for there the tasks are taken from a generator of the user's
        self._context = contextvars.copy_context()  # what is printed there belongs to this cell
        self._raised: list[tuple[BaseException, TracebackType | None]] = []
        # Between the last batches and the end, which may come from a garbage collection on any thread.
        self._lock = threading.RLock()
        self._over = False
        self._closed = False
        # Batches may follow when all that there were have ended: in a later cell, from a generator.
        origin.submitted(self)

    def submit(self, batch: BatchedCalls, callback: Callback | None) -> "concurrent.futures.Future[Any]":
        with self._lock:
            future = (
                _cancelled()
                if self._over
                else self._executor.submit_batch(
                    calls.Invocation(batch, (), {}), [calls.Invocation(*task) for task in batch.items]
                )
            )
        if callback is not None:
            # Not `pool.futures.Future`'s own: it calls back on the thread of all other callbacks.
            concurrent.futures.Future.add_done_callback(future, partial(self._settled, callback))
        return future

    def _settled(self, callback: Callback, future: "concurrent.futures.Future[Any]") -> None:
        self._callbacks.put(lambda: self._context.run(callback, future))

    def result(self, future: "concurrent.futures.Future[Any]") -> Any:
        error = future.exception()
        if error is None:
            return future.result()
        self._raised.append((error, error.__traceback__))
        raise error

    def abort(self) -> None:
        with self._lock:
            self._over = True
        self._executor.interrupt()

    def close(self) -> None:
        """Idempotent."""
        with self._lock:
            self._over = True
            closed, self._closed = self._closed, True
        if not closed:
            self._callbacks.close()
            self._raised.clear()
            self._origin.settled(self)

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, _traceback: TracebackType | None) -> None:
        if error is not None:
            for raised, traceback in self._raised:
                if raised is error:
                    error.__traceback__ = traceback


def _cancelled() -> "concurrent.futures.Future[Any]":
    future: concurrent.futures.Future[Any] = concurrent.futures.Future()
    future.cancel()
    return future
