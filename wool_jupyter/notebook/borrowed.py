"""The pool as a worker of it sees it: its code may await calls, and never block for one, as a blocked main thread runs none.

await pool.submit(...) ─ packed here ─▶ OtherWorkers (on a loop of their own) ─▶ another worker's main thread
"""

import asyncio
import sys
import warnings
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator
from typing import Any, Generic, NoReturn, TypeVar

from wool_jupyter.errors import BlockedOnOwnPool
from wool_jupyter.notebook.bridge import Bridge
from wool_jupyter.notebook.outputs import TextReader
from wool_jupyter.pool.lent import OtherWorkers
from wool_jupyter.wire import ambient, calls
from wool_jupyter.worker.identity import Identity

T = TypeVar("T")


def _refuse(*_: Any, **__: Any) -> NoReturn:
    __tracebackhide__ = True
    raise BlockedOnOwnPool(
        "this runs on a worker of the pool, which must not block for another of its calls: `await pool.submit(...)`, or collect "
        "the work and submit it from the notebook"
    )


class BorrowedPool:
    """What a call awaits here runs on another worker as soon as one has nothing else to do."""

    def __init__(self, own: Identity) -> None:
        self._bridge = Bridge()
        self._others = OtherWorkers(own)

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> "BorrowedCall[T]":
        """To be awaited; it begins then. Nothing else can be done with it."""
        return BorrowedCall(lambda: self._run(calls.Invocation(fn, args, kwargs)))

    def map(self, fn: Callable[..., T], *iterables: Iterable[Any]) -> "BorrowedResults[T]":
        """For `async for`."""
        return BorrowedResults([self.submit(fn, *row) for row in zip(*iterables, strict=False)])

    executor = _refuse

    async def _run(self, invocation: calls.Invocation) -> Any:
        places = self._others.places()
        try:
            packed = calls.pack_blocking(invocation, calls.Data(places))
            running = self._bridge.enter(self._others.run(packed.body, places=places, ambient=ambient.of_calls()))
            outcome = await asyncio.wrap_future(running)
            _print(outcome.text)
            value, error = calls.Arrived(outcome.data).loaded()
        finally:
            self._others.forget(places)
        if error is not None:
            raise error
        return value

    def __wool_reduce__(self) -> tuple[Any, ...]:
        from wool_jupyter.notebook.pool import pool

        return pool, ()


def _print(directory: str) -> None:
    """Here, and so under the cell that awaits it."""
    reader = TextReader(directory)
    try:
        for name, text in reader.rest():
            getattr(sys, name).write(text)
    finally:
        reader.close()


class BorrowedCall(Generic[T]):
    """Made by `BorrowedPool.submit`."""

    def __init__(self, run: Callable[[], Any]) -> None:
        self._run = run
        self._was_awaited = False

    def __del__(self) -> None:
        if not self._was_awaited:
            warnings.warn(
                "a call that was submitted on a worker was never awaited, and has not run", RuntimeWarning, stacklevel=2
            )

    def __await__(self) -> Generator[Any, None, T]:
        self._was_awaited = True
        found: Generator[Any, None, T] = self._run().__await__()
        return found

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        __tracebackhide__ = True
        self._was_awaited = True
        _refuse()

    result = exception = add_done_callback = cancel = done = _refuse


class BorrowedResults(Generic[T]):
    """Made by `BorrowedPool.map`: in order."""

    def __init__(self, running: list[BorrowedCall[T]]) -> None:
        self._calls = running

    def __iter__(self) -> Iterator[T]:
        for call in self._calls:
            call._was_awaited = True
        _refuse()

    async def __aiter__(self) -> AsyncIterator[T]:
        tasks = [asyncio.ensure_future(_awaited(call)) for call in self._calls]
        try:
            for task in tasks:
                yield await task
        finally:
            for task in tasks:
                task.cancel()


async def _awaited(call: BorrowedCall[T]) -> T:
    return await call
