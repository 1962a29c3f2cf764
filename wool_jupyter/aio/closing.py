"""How an iterator that somebody else wrote is closed."""

import inspect
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, cast


async def close_iterator(iterator: AsyncIterator[Any]) -> None:
    """Closes an async generator, native or by its methods, and whatever has a coroutine function `aclose`; its errors are raised.

    Anything else has nothing to await: a synchronous `aclose` may mean another thing and is not called.
    """
    if isinstance(iterator, AsyncGenerator) or inspect.iscoroutinefunction(getattr(iterator, "aclose", None)):
        await cast("AsyncGenerator[Any]", iterator).aclose()
