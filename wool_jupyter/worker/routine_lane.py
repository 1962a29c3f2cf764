"""The worker's second side thread, where asynchronous routines run, many at a time.

A routine may do to its loop what it likes, short of never returning: the loop that talks to clients is another one.
"""

import asyncio
import contextlib
import contextvars
import functools
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from wool_jupyter.aio.owned_tasks import OwnedTasks
from wool_jupyter.balance.protocol import Task
from wool_jupyter.dispatch import setups
from wool_jupyter.dispatch.setups import Backpressure
from wool_jupyter.worker.lanes import for_a_future
from wool_jupyter.worker.pinned_loop import PinnedLoop

T = TypeVar("T")

_LAST_WORDS_S = 1.0


class RoutineLane:
    """A thread with a loop, from `start` to `close`. `ask` is awaited on another thread's loop; the rest is for the loop's own."""

    def __init__(self) -> None:
        self._loop = PinnedLoop()
        self.tasks = OwnedTasks("routine lane")
        self._thread = threading.Thread(target=self._serve, name="wool-routines", daemon=True)
        self._closing = False
        self._last: list[Callable[[], Coroutine[Any, Any, object]]] = []

    def at_end(self, last: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Awaited on the loop when all else has ended."""
        self._last.append(last)

    def start(self) -> None:
        self._thread.start()

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        while not self._closing:
            # What a user's task raises of these it has as its outcome already; asyncio raises it here as well.
            with contextlib.suppress(SystemExit, KeyboardInterrupt):
                self._loop.run_forever()
        with contextlib.suppress(SystemExit, KeyboardInterrupt):
            self._loop.run_until_complete(self._end())
        self._loop.close()

    async def _end(self) -> None:
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=_LAST_WORDS_S)
        await self._loop.shutdown_asyncgens()
        for last in self._last:
            await last()

    def close(self) -> None:
        """Cancels what runs, and waits for the thread unless it is stuck in a routine."""
        self._closing = True
        self.post(self._loop.stop)
        self._thread.join(2 * _LAST_WORDS_S)

    def post(self, function: Callable[..., object], *args: Any) -> None:
        """From any thread. A lane that has ended takes nothing any more."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, *args)

    async def ask(self, function: Callable[[], T]) -> T:
        """Runs it on the loop. Cancelling leaves it running. RuntimeError when the lane has ended."""
        outcome: Future[T] = Future()
        self._loop.call_soon_threadsafe(_settle, outcome, function)
        return await asyncio.wrap_future(outcome)

    async def hook(self, setup: setups.Setup) -> Callable[[int, Task], Coroutine[Any, Any, bool]] | None:
        """The pool's backpressure hook, loaded here, to be awaited on another thread's loop; None if it has none. Raises what the
        user's objects raise."""
        if not setup.backpressure:
            return None
        load = functools.partial(contextvars.Context().run, setups.unpack_hook, setup)
        return functools.partial(self.ask_hook, await self.ask(load))

    async def ask_hook(self, hook: Backpressure, active: int, task: Task) -> bool:
        """Of either kind. What it raises is an Exception."""
        outcome: Future[bool] = Future()
        self._loop.call_soon_threadsafe(lambda: self.tasks.start(_answer(outcome, hook, active, task), "hook"))
        return await asyncio.wrap_future(outcome)


def _settle(outcome: "Future[T]", function: Callable[[], T]) -> None:
    try:
        value = function()
    except BaseException as error:  # noqa: BLE001 (for whoever asked)
        _fail(outcome, error)
    else:
        _succeed(outcome, value)


async def _answer(outcome: "Future[bool]", hook: Backpressure, active: int, task: Task) -> None:
    try:
        made = hook(active, task)
        value = await made if isinstance(made, Awaitable) else made
    except BaseException as error:  # noqa: BLE001 (for whoever asked)
        _fail(outcome, error)
    else:
        _succeed(outcome, bool(value))


def _succeed(outcome: "Future[T]", value: T) -> None:
    if outcome.set_running_or_notify_cancel():
        outcome.set_result(value)


def _fail(outcome: "Future[Any]", error: BaseException) -> None:
    if outcome.set_running_or_notify_cancel():
        outcome.set_exception(for_a_future(error))
