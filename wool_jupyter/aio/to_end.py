"""A wait that no cancellation ends."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def to_end(future: "asyncio.Future[T]", *, cancelled: Callable[[], object] = lambda: None) -> T:
    """What comes of it. A cancellation is raised when it has ended, and its outcome is lost then; `cancelled` is called at once, to
    hurry it up."""
    try:
        await asyncio.wait({future})
    except asyncio.CancelledError:
        cancelled()
        while not future.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait({future})
        if not future.cancelled():
            future.exception()  # else asyncio reports that nobody took it
        raise
    return future.result()
