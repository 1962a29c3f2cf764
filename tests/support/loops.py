"""Running coroutines in tests."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any

DEADLINE_S = 20


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Its clock stands still, and jumps to the next timer when nothing else can run: a wait takes no time, and exactly its time.

    Nothing outside the loop may be waited for.
    """

    def __init__(self) -> None:
        self.now = 0.0
        super().__init__(_Jumping(self))

    def time(self) -> float:
        return self.now


class _Jumping(selectors.SelectSelector):
    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            assert timeout is not None, "nothing can ever happen on this loop again"
            self._loop.now += max(timeout, 0)
        return ready


class ShiftedTimeLoop(asyncio.SelectorEventLoop):
    """The real clock, put forward by `shift_s`: for a long wait beside what sockets and threads do."""

    shift_s = 0.0

    def time(self) -> float:
        return super().time() + self.shift_s


def run(
    coroutine: Coroutine[Any, Any, Any],
    deadline_s: float = DEADLINE_S,
    *,
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> Any:
    """To its end, within a generous deadline; AssertionError if it leaves a task behind."""

    async def main():
        result = await asyncio.wait_for(coroutine, deadline_s)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        if left:  # gRPC hears a moment later that its call was cancelled
            _, left = await asyncio.wait(left, timeout=3)
        assert not left, f"left behind: {left}"
        return result

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        return runner.run(main())


def run_virtual(coroutine: Coroutine[Any, Any, Any], deadline_s: float = 10_000) -> Any:
    """As `run`, in virtual time: the deadline is one of that time, and what waits for ever fails at once."""
    return run(coroutine, deadline_s, loop_factory=VirtualTimeLoop)


async def settle() -> None:
    """Every callback that is ready now, and what these make ready, has run."""
    for _ in range(50):
        await asyncio.sleep(0)


async def begun(*coroutines: Coroutine[Any, Any, Any]) -> list[asyncio.Task[Any]]:
    """Tasks for these, once they wait."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    await settle()
    return tasks


async def until(condition: Callable[[], object]) -> None:
    """For what another thread or process does; the deadline is `run`'s."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.005)
