"""The one place that starts asyncio tasks: each has a name, an owner and an awaited outcome."""

import asyncio
import sys
import traceback
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, TypeVar

T = TypeVar("T")


def _report(name: str, error: BaseException) -> None:
    """Default for failures that nobody waits for: the process's own stderr, whatever `sys.stderr` is at the moment."""
    stream = sys.__stderr__
    if stream is not None:
        print(f"wool_jupyter: {name} failed", file=stream)
        traceback.print_exception(error, file=stream)


class OwnedTasks:
    """Tasks of one owner, on the loop that runs when `start` is called.

    A task's failure goes to `report`, unless its caller awaits the task. `close` cancels what still runs and waits for it;
    a closed owner refuses new tasks.
    """

    def __init__(self, owner: str, *, report: Callable[[str, BaseException], None] = _report) -> None:
        self._owner = owner
        self._report = report
        self._running: set[asyncio.Future[Any]] = set()
        self._closed = False

    @property
    def running(self) -> int:
        return len(self._running)

    def start(
        self, coroutine: Coroutine[Any, Any, T], name: str, *, awaited: bool = False, context: Context | None = None
    ) -> asyncio.Task[T]:
        """`awaited`: the caller takes the outcome, so a failure is not reported here. Without a `context` it runs in a copy of the
        caller's."""
        if self._closed:
            coroutine.close()
            raise RuntimeError(f"{self._owner} is closed")
        task = asyncio.get_running_loop().create_task(coroutine, name=f"{self._owner}: {name}", context=context)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        if not awaited:
            task.add_done_callback(self._outcome)
        return task

    def own(self, future: "asyncio.Future[T]") -> "asyncio.Future[T]":
        """One that stands for something under way, as an `awaited` task does: `close` cancels it and waits for it."""
        if self._closed:
            future.cancel()
        self._running.add(future)
        future.add_done_callback(self._running.discard)
        return future

    def _outcome(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._report(task.get_name(), error)

    async def outcome_of(self, task: asyncio.Task[T]) -> T:
        """Of a task started as `awaited`. A caller that is cancelled leaves it running, and then its failure is reported."""
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            task.add_done_callback(self._outcome)
            raise
        return task.result()

    async def wait(self) -> None:
        """Until the tasks that run now are over, however they end; not for the task that waits."""
        if running := self._running - {asyncio.current_task()}:
            await asyncio.wait(running)

    async def close(self) -> None:
        self._closed = True
        while running := [task for task in self._running if task is not asyncio.current_task()]:
            for task in running:
                task.cancel()
            await asyncio.wait(running)
