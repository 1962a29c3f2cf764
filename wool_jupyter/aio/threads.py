"""Blocking work beside the loop."""

import _thread
import asyncio
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from wool_jupyter.aio.to_end import to_end

T = TypeVar("T")


async def run_to_end(function: Callable[[], T], *, cancelled: Callable[[], object] = lambda: None) -> T:
    """Runs it on a thread of its own; `to_end` as for any future. Not on the loop's executor: that takes nothing from the moment on
    when the interpreter begins to end, and threads of the user's may run for long after it (3.11 to 3.14)."""
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        try:
            settle: Callable[[], None] = partial(outcome.set_result, function())
        except BaseException as error:  # noqa: BLE001 (it is raised where it is awaited)
            settle = partial(outcome.set_exception, error)
        loop.call_soon_threadsafe(settle)

    _thread.start_new_thread(run, ())
    return await to_end(outcome, cancelled=cancelled)


def begun(make: Callable[[], T]) -> Callable[[], T]:
    """`make()`, on another thread from now on; what is returned waits for it, and makes it again if it has failed. Not by
    `threading`, whose threads somebody may trace or count."""
    made: list[T] = []
    ended = _thread.allocate_lock()
    ended.acquire()

    def run() -> None:
        try:
            made.append(make())
        finally:
            ended.release()

    def result() -> T:
        with ended:
            return made[0] if made else make()

    try:
        _thread.start_new_thread(run, ())
    except RuntimeError:  # there are too many
        ended.release()
    return result
