"""Running coroutines in tests."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

DEADLINE_S = 20


def run(coroutine: Coroutine[Any, Any, Any], deadline_s: float = DEADLINE_S) -> Any:
    """To its end, within a generous deadline; AssertionError if it leaves a task behind."""

    async def main():
        result = await asyncio.wait_for(coroutine, deadline_s)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        if left:  # gRPC hears a moment later that its call was cancelled
            _, left = await asyncio.wait(left, timeout=3)
        assert not left, f"left behind: {left}"
        return result

    return asyncio.run(main())


async def settle() -> None:
    """Every callback that is ready now, and what these make ready, has run."""
    for _ in range(50):
        await asyncio.sleep(0)


async def until(condition: Callable[[], object]) -> None:
    """For what another thread or process does; the deadline is `run`'s."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.005)
