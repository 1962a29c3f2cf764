"""Event loops of bodies on the main thread, and a body inside another that waits in one."""

import asyncio
import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class CellLoop(asyncio.SelectorEventLoop):
    """A class of its own: nest_asyncio patches the class of a loop, and this one is not the side thread's."""


@contextmanager
def set_aside(loop: asyncio.AbstractEventLoop, task: "asyncio.Task[Any]") -> Iterator[None]:
    """The running loop and its task stand still, and others may run on this thread."""
    asyncio.tasks._leave_task(loop, task)
    asyncio._set_running_loop(None)
    try:
        yield
    finally:
        asyncio._set_running_loop(loop)
        asyncio.tasks._enter_task(loop, task)
        asyncio.set_event_loop(loop)


_run = asyncio.run


@functools.wraps(asyncio.run)
def run_nested(main: Any, **options: Any) -> Any:
    """`asyncio.run` that also works in a cell with top-level await: a loop of its own, while the cell's stands still."""
    try:
        outer = asyncio.get_running_loop()
    except RuntimeError:
        return _run(main, **options)
    task = asyncio.current_task()
    if not isinstance(outer, CellLoop) or task is None:
        return _run(main, **options)
    with set_aside(outer, task):
        return _run(main, **options)
