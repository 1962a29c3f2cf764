"""The worker's main thread, where blocking bodies run one at a time."""

import asyncio
import gc
import queue
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")

_IDLE_S = 0.05  # without a body before garbage is collected: a collection costs 50 ms with the usual libraries loaded


class MainLane:
    """`serve` runs on the main thread until `close`; `call` is awaited on a loop of another thread."""

    def __init__(self) -> None:
        self._bodies: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()

    async def call(self, body: Callable[..., T], *args: Any) -> T:
        """Cancelling the caller does not stop a body that has begun."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        self._bodies.put(partial(_settle, loop, done, partial(body, *args)))
        return await done

    def serve(self) -> None:
        gc.collect()
        gc.freeze()  # later collections look at the bodies' objects only
        collected = True
        while True:
            try:
                body = self._bodies.get(timeout=None if collected else _IDLE_S)
            except queue.Empty:
                gc.collect()
                collected = True
                continue
            if body is None:
                return
            body()
            del body
            collected = False

    def close(self) -> None:
        self._bodies.put(None)


def _settle(loop: asyncio.AbstractEventLoop, done: "asyncio.Future[Any]", body: Callable[[], Any]) -> None:
    try:
        value, error = body(), None
    except BaseException as caught:  # noqa: BLE001 (for the waiter, whatever its class)
        value, error = None, caught
    loop.call_soon_threadsafe(_resolve, done, value, error)


def _resolve(done: "asyncio.Future[Any]", value: Any, error: BaseException | None) -> None:
    if done.cancelled():
        return
    if error is None:
        done.set_result(value)
    else:
        # A future refuses StopIteration, and the loop stops at a SystemExit or KeyboardInterrupt.
        fits = isinstance(error, Exception) and not isinstance(error, StopIteration)
        done.set_exception(error if fits else RuntimeError(repr(error)))
