"""Event loops of a worker's side threads."""

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any

_Task = asyncio.Task


class PinnedLoop(asyncio.SelectorEventLoop):
    """Pins what `nest_asyncio.apply()` in a cell would replace on the base class, under a loop that runs."""

    _run_once = asyncio.SelectorEventLoop._run_once  # type: ignore[attr-defined]
    run_forever = asyncio.SelectorEventLoop.run_forever
    run_until_complete = asyncio.SelectorEventLoop.run_until_complete
    _check_running = asyncio.SelectorEventLoop._check_running  # type: ignore[attr-defined]

    def __init__(self) -> None:
        super().__init__()
        self.set_task_factory(_task)


def _task(
    loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any] | Generator[Any, Any, Any], **options: Any
) -> "asyncio.Task[Any]":
    return _Task(coroutine, loop=loop, **options)
