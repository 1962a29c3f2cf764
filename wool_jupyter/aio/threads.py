"""Blocking work beside the loop."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from wool_jupyter.aio.to_end import to_end

T = TypeVar("T")


async def run_to_end(function: Callable[[], T], *, cancelled: Callable[[], object] = lambda: None) -> T:
    """Runs it in a thread of the loop's executor; `to_end` as for any future."""
    return await to_end(asyncio.get_running_loop().run_in_executor(None, function), cancelled=cancelled)
