"""`wool_jupyter.pool()`: the pool of this kernel, for code."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from IPython.core.getipython import get_ipython

from wool_jupyter import host
from wool_jupyter.notebook import extension, joblib_offer, jobs, magics, terminal, tracebacks
from wool_jupyter.notebook.borrowed import BorrowedPool
from wool_jupyter.notebook.feed import door
from wool_jupyter.notebook.runtime import Runtime, runtime
from wool_jupyter.notebook.submissions import Submissions
from wool_jupyter.notebook.table import as_text, mimebundle
from wool_jupyter.pool.call_item import Item
from wool_jupyter.pool.executor import Executor, Terms
from wool_jupyter.pool.intake import Intake
from wool_jupyter.pool.kernel_pool import KernelPool
from wool_jupyter.settings import PoolSettings
from wool_jupyter.worker import identity

if TYPE_CHECKING:
    from wool_jupyter.pool.futures import Future
    from wool_jupyter.pool.joblib_backend import WoolBackend
    from wool_jupyter.pool.results import Results

T = TypeVar("T")


class _NativeExecutor(Executor):
    """Also what is raised by its own methods shows the user's lines alone."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> "Future[T]":
        with _natively():
            return super().submit(fn, *args, **kwargs)

    def map(self, fn: Callable[..., T], *iterables: Iterable[Any], **options: Any) -> "Results[T]":
        with _natively():
            return super().map(fn, *iterables, **options)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        with _natively():
            super().shutdown(wait, cancel_futures=cancel_futures)

    def __exit__(self, *_: object) -> None:
        self.shutdown()


class Pool:
    """Runs functions on the main threads of this kernel's workers. What they print appears under the cell that submitted them, and
    ■ cancels what the running cell has submitted."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._lock = threading.Lock()
        self._intake_of: tuple[KernelPool, Intake] | None = None
        self._cells: dict[tuple[object, KernelPool], Submissions] = {}
        self._own = Executor(self._intake, self._submissions)

    def start(self) -> None:
        """Idempotent; any call does it, too."""
        self._current()

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> "Future[T]":
        """A `concurrent.futures.Future`, which can also be awaited. Its exception is `WorkerDied` if the worker ends meanwhile."""
        with _natively():
            return self._own.submit(fn, *args, **kwargs)

    def map(
        self, fn: Callable[..., T], *iterables: Iterable[Any], timeout: float | None = None, retries: int = 0
    ) -> "Results[T]":
        """Results in the order of the arguments, which are taken as they are needed: they may have no end. `timeout`: seconds from
        now until the last result. `retries`: how often a call whose worker ends under it is run again."""
        with _natively():
            return self._own.map_lazily(fn, iterables, timeout_s=timeout, retries=retries)

    def executor(self, *, retries: int = 0) -> Executor:
        """A `concurrent.futures.Executor`; ending it ends no worker."""
        with _natively():
            return _NativeExecutor(self._intake, self._submissions, Terms(retries=retries))

    @property
    def main_threads(self) -> int:
        """How many calls may run side by side, once the pool runs. Starts nothing."""
        running = self._runtime.running
        return _settings().workers or host.usable_cpus() if running is None else running.main_threads

    def joblib_backend(self, **options: Any) -> "WoolBackend":
        """A `joblib.parallel.ParallelBackendBase`, with the options of one."""
        from wool_jupyter.pool.joblib_backend import WoolBackend

        return WoolBackend(self._intake, self._submissions, main_threads=lambda: self.main_threads, **options)

    def __repr__(self) -> str:
        return as_text(door().glance())

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """As it is now; `wool_jupyter.dashboard()` is live."""
        return mimebundle(door().glance())

    def __wool_reduce__(self) -> tuple[Any, ...]:
        """On a worker it is borrowed, and here it is itself again."""
        return pool, ()

    def __reduce__(self) -> Any:
        raise TypeError("the pool can't be stored or copied: `wool_jupyter.pool()` finds it again")

    def _intake(self) -> Intake:
        return self._current()[1]

    def _current(self) -> tuple[KernelPool, Intake]:
        found = self._intake_of
        if found is None or found[0] is not self._runtime.running:
            with self._lock:
                pool, _ = jobs.started_pool(self._runtime, _settings())
                found = self._intake_of
                if found is None or found[0] is not pool:
                    found = self._intake_of = pool, self._intake_to(pool)
        return found

    def _intake_to(self, pool: KernelPool) -> Intake:
        return Intake(
            pool.calls,
            self._runtime.bridge.post,
            main_threads=lambda: pool.main_threads,
            raising=_dressed,
        )

    def _submissions(self) -> Submissions:
        pool, _ = self._current()
        shell = get_ipython()
        key = _cell_of(shell), pool
        with self._lock:
            found = self._cells.get(key)
            if found is None:
                found = self._cells[key] = Submissions(
                    self._runtime,
                    shell,
                    output_budget_bytes=_settings().output_budget_bytes,
                    interrupt=self._interrupt,
                    ended=partial(self._cells.pop, key),
                )
        return found

    def _interrupt(self, submissions: Submissions) -> None:
        found = self._intake_of
        if found is not None:

            def meant(item: Item) -> bool:
                return item.origin is submissions

            found[1].interrupt(meant)


def _cell_of(shell: Any) -> object:
    """Of the caller's thread."""
    return getattr(shell, "execution_count", None) if terminal.is_terminal(shell) else terminal.message(shell)


@contextmanager
def _natively() -> Iterator[None]:
    """Errors that are raised here show the user's lines alone."""
    try:
        yield
    except BaseException as error:
        _dressed(error)
        raise


def _dressed(error: BaseException) -> None:
    if get_ipython() is None:
        return
    with suppress(AttributeError):  # a user's class that takes no attributes
        tracebacks.show_users_frames(error)


def _settings() -> PoolSettings:
    shell = get_ipython()
    return PoolSettings() if shell is None else magics.settings_in(shell)


_pool: Pool | None = None
_borrowed: BorrowedPool | None = None


def pool() -> Pool:
    """This process's; started if need be, as for a cell. On a worker, its own pool's (`borrowed`). `StartFailed`.

    In a notebook it loads the extension: the panel sees this pool, too, and `%wool` looks after it.
    """
    global _borrowed
    if (own := identity.own()) is not None:
        if _borrowed is None:
            _borrowed = BorrowedPool(own)
        return cast("Pool", _borrowed)  # as far as it goes: the rest of it refuses
    if (shell := get_ipython()) is not None:
        extension.load(shell)
    found = not_started()
    found.start()
    joblib_offer.offer()
    return found


def not_started() -> Pool:
    """As `pool`, and as it is; never on a worker."""
    global _pool
    if _pool is None:
        _pool = Pool(runtime())
    return _pool
