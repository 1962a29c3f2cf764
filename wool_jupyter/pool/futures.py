"""What a caller holds of a blocking call: a future of the standard library that can also be awaited.

An outcome is loaded by the thread that asks for it, and a callback runs on a thread that is there for callbacks: nothing of a
user's runs on the loop that settles futures.
"""

import asyncio
import concurrent.futures
import logging
import queue
import threading
from collections.abc import Callable, Generator
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from wool_jupyter.wire import calls

T = TypeVar("T")

_log = logging.getLogger("concurrent.futures")  # where the standard library's futures report a callback that fails


class Callbacks:
    """A daemon thread, from the first callback on, until `close`."""

    def __init__(self) -> None:
        self._due: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def put(self, callback: Callable[[], object]) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="wool-callbacks", daemon=True)
                self._thread.start()
        self._due.put(callback)

    def close(self) -> None:
        """Those that were put before are called; what comes later is not."""
        self._due.put(None)

    def _serve(self) -> None:
        while (callback := self._due.get()) is not None:
            try:
                callback()
            except BaseException:  # noqa: BLE001 (of a user's function)
                _log.exception("exception calling callback %r", callback)
            del callback


class Future(concurrent.futures.Future[T]):
    """`result` and `exception` load what has come, the first time that they are called. Cancelling one that waits for its turn
    takes it out of the line; one that has been sent to a worker can't be cancelled."""

    def __init__(self, callbacks: Callbacks, *, raising: Callable[[BaseException], object] = lambda _: None) -> None:
        """`raising` is told of an error that the thread which asks is about to have, ■ among them."""
        super().__init__()
        self._callbacks = callbacks
        self._raising = raising
        self._settler: int | None = None  # thread
        self.keep: object = None  # what the outcome may refer to
        self._loading = threading.Lock()
        self._arrived: calls.Arrived | None = None
        self._value: Any = None
        self._error: BaseException | None = None
        self.cancelled_hook: Callable[[], object] = lambda: None

    # By the pool, on its loop.

    def arrive(self, data: bytes) -> None:
        try:
            self._arrived = arrived = calls.Arrived(data)
        except Exception as error:  # noqa: BLE001 (there may be no descriptor or no memory left; those behind it are to settle, too)
            self.fail(calls.unloaded(error))
            return
        self._settler = threading.get_ident()
        if arrived.raised:
            super().set_exception(_Unloaded())
        else:
            super().set_result(None)  # type: ignore[arg-type]

    def fail(self, error: BaseException) -> None:
        self._settler = threading.get_ident()
        self._error = error
        self.keep = None
        super().set_exception(error)

    def drop(self) -> None:
        """It was cancelled: tells whoever waits for it."""
        self._settler = threading.get_ident()
        self.keep = None
        self.set_running_or_notify_cancel()

    # By everybody.

    def cancel(self) -> bool:
        if not super().cancel():
            return False
        self.cancelled_hook()
        return True

    def result(self, timeout: float | None = None) -> T:
        __tracebackhide__ = True
        error = self.exception(timeout)
        if error is None:
            value: T = self._value
            return value
        self._raising(error)
        try:
            raise error.with_traceback(self._traceback)
        finally:
            del error

    def exception(self, timeout: float | None = None) -> BaseException | None:
        __tracebackhide__ = True
        try:
            super().exception(timeout)
        except BaseException as error:
            self._raising(error)
            raise
        with self._loading:
            if self._arrived is not None:
                self._value, self._error = self._arrived.loaded()
                self._arrived = self.keep = None
                self._traceback = None if self._error is None else self._error.__traceback__
        return self._error

    _traceback: Any = None

    def add_done_callback(self, fn: Callable[[concurrent.futures.Future[T]], object]) -> None:
        super().add_done_callback(partial(self._call_back, fn))

    def _call_back(self, fn: Callable[[concurrent.futures.Future[T]], object], _: concurrent.futures.Future[T]) -> None:
        if self._settler == threading.get_ident():
            self._callbacks.put(partial(fn, self))
        else:
            fn(self)

    def __await__(self) -> Generator[Any, None, T]:
        """As by `asyncio.wrap_future`, which never comes back from a call that raises `StopIteration`."""
        __tracebackhide__ = True
        if not self.done():
            yield from self._settled().__await__()
        if self.cancelled():
            raise asyncio.CancelledError
        return self.result()

    def _settled(self) -> "asyncio.Future[None]":
        """On the loop that runs here. Cancelled, it cancels the call."""
        loop = asyncio.get_running_loop()
        settled: asyncio.Future[None] = loop.create_future()
        settled.add_done_callback(lambda _: self.cancel() if settled.cancelled() else None)

        def settle() -> None:
            if not settled.done():
                settled.set_result(None)

        def tell(_: object) -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(settle)

        self.add_done_callback(tell)
        return settled

    def __repr__(self) -> str:
        state = (
            "cancelled" if self.cancelled() else "done" if self.done() else "running" if self.running() else "pending"
        )
        return f"<{type(self).__name__} of a call: {state}>"


class _Unloaded(Exception):
    """In place of an exception that nobody has asked for yet."""
