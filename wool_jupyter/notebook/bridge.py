"""The one door between the notebook's threads and the loop that the pool lives on."""

import asyncio
import contextvars
import os
import signal
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Any, TypeVar

from wool_jupyter.aio.owned_tasks import OwnedTasks

T = TypeVar("T")


class Bridge:
    """A daemon thread with one asyncio loop, for the life of the process. A forked child has no such thread: nothing may be asked
    of its parent's there."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._tasks: OwnedTasks | None = None
        self._thread = threading.Thread(target=self._serve, name="wool", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # ■ is the main thread's
        asyncio.set_event_loop(self._loop)
        while True:
            with suppress(SystemExit, KeyboardInterrupt):  # a task's outcome, that asyncio also raises here
                self._loop.run_forever()

    def enter(
        self, coroutine: Coroutine[Any, Any, T], *, unwanted: Callable[[T], Coroutine[Any, Any, object]] | None = None
    ) -> "Future[T]":
        """Runs it on the loop, in an empty context: with the caller's, what it prints later would appear under the caller's cell.

        Cancelling the future cancels the coroutine. `unwanted` takes a result that came too late to be cancelled.
        """
        outcome: Future[T] = Future()
        self._loop.call_soon_threadsafe(self._start, coroutine, outcome, unwanted, context=contextvars.Context())
        return outcome

    def call(self, function: Callable[..., T], *arguments: Any) -> "Future[T]":
        """What it returns on the loop."""

        async def on_the_loop() -> T:
            return function(*arguments)

        return self.enter(on_the_loop())

    def start(self, coroutine: Coroutine[Any, Any, object], name: str) -> None:
        """As `enter`, for who does not wait: its failure is reported."""
        self._loop.call_soon_threadsafe(self._start_owned, coroutine, name, context=contextvars.Context())

    def post(self, callback: Callable[..., object], *arguments: Any) -> None:
        """Calls it on the loop, after what was posted before. May be called at any moment, by a finalizer too."""
        self._loop.call_soon_threadsafe(callback, *arguments, context=contextvars.Context())

    def abandon(self, outcome: "Future[T]", unwanted: Callable[[T], Coroutine[Any, Any, object]]) -> None:
        """Cancels it; a result that is there already goes to `unwanted`."""
        if not outcome.cancel() and outcome.exception() is None:
            self.start(unwanted(outcome.result()), "unwanted")

    def _owned(self) -> OwnedTasks:
        if self._tasks is None:
            self._tasks = OwnedTasks("bridge")
        return self._tasks

    def _start_owned(self, coroutine: Coroutine[Any, Any, object], name: str) -> None:
        self._owned().start(coroutine, name)

    def _start(self, coroutine: Coroutine[Any, Any, T], outcome: "Future[T]", unwanted: Any) -> None:
        task = self._owned().start(coroutine, "entered", awaited=True)
        task.add_done_callback(lambda task: self._settle(outcome, task, unwanted))
        outcome.add_done_callback(lambda outcome: self._cancel(outcome, task))

    def _cancel(self, outcome: "Future[T]", task: "asyncio.Task[T]") -> None:
        if outcome.cancelled():
            self._loop.call_soon_threadsafe(task.cancel)

    def _settle(self, outcome: "Future[T]", task: "asyncio.Task[T]", unwanted: Any) -> None:
        if task.cancelled():
            outcome.cancel()
            return
        error = task.exception()
        with suppress(InvalidStateError):  # cancelled meanwhile, perhaps by another thread at this moment
            outcome.set_result(task.result()) if error is None else outcome.set_exception(error)
            return
        if error is None and unwanted is not None:
            self._owned().start(unwanted(task.result()), "unwanted")


_bridge: Bridge | None = None
_parents: list[Bridge | None] = []  # in a forked child: kept, or its tasks would report that they were destroyed


def _forget() -> None:
    global _bridge
    _parents.append(_bridge)
    _bridge = None


os.register_at_fork(after_in_child=_forget)


def bridge() -> Bridge:
    """This process's; made when it is first asked for."""
    global _bridge
    if _bridge is None:
        _bridge = Bridge()
    return _bridge
