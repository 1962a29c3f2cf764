"""Cancelling a coroutine wherever it can wait."""

import asyncio
import gc
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import suppress
from typing import Any

from tests.support.loops import settle


class CancelledAt:
    """Awaits `coroutine`, and cancels the task in the moment in which it waits for the n-th time."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], nth: int) -> None:
        self.waits = 0
        self._coroutine = coroutine
        self._nth = nth

    def __await__(self) -> Generator[Any, Any, Any]:
        steps = self._coroutine.__await__()
        thrown: BaseException | None = None
        while True:
            try:
                future = next(steps) if thrown is None else steps.throw(thrown)
            except StopIteration as stop:
                return stop.value
            self.waits += 1
            if self.waits == self._nth:
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
            thrown = None
            try:
                yield future
            except BaseException as error:
                thrown = error


async def cancelled_at_each_wait(
    prepare: Callable[[], Awaitable[Coroutine[Any, Any, Any]]], check: Callable[[], Awaitable[None]]
) -> int:
    """Runs what `prepare` gives for n = 1, 2, …, cancelled at its n-th wait, and `check` after each, until it gets through.

    The number of waits at which it was cancelled.
    """
    nth = 0
    while True:
        nth += 1
        cancelled = CancelledAt(await prepare(), nth)
        await asyncio.ensure_future(_outlast(cancelled))
        await settle()
        gc.collect()  # a thrown error and the frame that caught it hold each other
        await check()
        if cancelled.waits < nth:
            return nth - 1


async def _outlast(cancelled: CancelledAt) -> None:
    with suppress(asyncio.CancelledError):
        await cancelled
