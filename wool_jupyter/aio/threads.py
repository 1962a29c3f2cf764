"""Blocking work beside the loop."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def run_to_end(function: Callable[[], T], *, cancelled: Callable[[], object] = lambda: None) -> T:
    """Runs it in a thread of the loop's executor. A cancellation is raised when it has ended, and its outcome is lost then;
    `cancelled` is called at once, to hurry it up."""
    outcome = asyncio.get_running_loop().run_in_executor(None, function)
    try:
        return await asyncio.shield(outcome)
    except asyncio.CancelledError:
        cancelled()
        while not outcome.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait({outcome})
        outcome.exception()  # else asyncio reports that nobody took it
        raise
