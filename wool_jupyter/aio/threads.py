"""Blocking work beside the loop."""

import _thread
import asyncio
from collections.abc import Callable
from typing import TypeVar

from wool_jupyter.aio.to_end import to_end

T = TypeVar("T")


async def run_to_end(function: Callable[[], T], *, cancelled: Callable[[], object] = lambda: None) -> T:
    """Runs it in a thread of the loop's executor; `to_end` as for any future."""
    return await to_end(asyncio.get_running_loop().run_in_executor(None, function), cancelled=cancelled)


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
