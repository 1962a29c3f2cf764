"""The pool as a worker of it sees it: its code may await calls, and never block for one, as a blocked main thread runs none.

await pool.submit(...) ─ packed here ─▶ OtherWorkers (on a loop of their own) ─▶ another worker's main thread
                                  └──▶ InnerCalls, on this one, if all of them are busy
"""

import asyncio
import sys
import warnings
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterable, Iterator
from contextlib import nullcontext
from typing import Any, Generic, NoReturn, TypeVar
from weakref import WeakKeyDictionary

from wool_jupyter.errors import BlockedOnOwnPool
from wool_jupyter.notebook.bridge import Bridge
from wool_jupyter.notebook.outputs import TextReader
from wool_jupyter.pool.call_words import in_short
from wool_jupyter.pool.lent import Lent, OtherWorkers
from wool_jupyter.wire import ambient, calls
from wool_jupyter.wire.unhindered import unhindered
from wool_jupyter.worker.identity import Identity

T = TypeVar("T")


def _refuse(*_: Any, **__: Any) -> NoReturn:
    __tracebackhide__ = True
    raise BlockedOnOwnPool(
        "this runs on a worker of the pool, which must not block for another of its calls: `await pool.submit(...)`, "
        "`async for x in pool.map(...)`, or collect the work and submit it from the notebook"
    )


class BorrowedPool:
    """What a body awaits here runs on another worker that has nothing else to do, or else inside the body, which waits anyway: so
    bodies that wait never wait for each other. A thread of a body, or a routine, waits until another worker is free."""

    def __init__(self, own: Identity) -> None:
        self._bridge = Bridge()
        self._others = OtherWorkers(own)
        self._inner = own.inner_calls
        self._turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> "BorrowedCall[T]":
        """To be awaited; it begins then. Nothing else can be done with it."""
        return BorrowedCall(lambda: self._run(calls.Invocation(fn, args, kwargs)))

    def map(self, fn: Callable[..., T], *iterables: Iterable[Any]) -> "BorrowedResults[T]":
        """For `async for`."""
        return BorrowedResults([self.submit(fn, *row) for row in zip(*iterables, strict=False)])

    executor = _refuse

    async def _run(self, invocation: calls.Invocation) -> Any:
        is_of_body = self._inner.can_run()
        if is_of_body:
            self._inner.check_room(invocation.function)
        places = self._others.places()
        try:
            with unhindered() if is_of_body else nullcontext():
                packed = calls.pack_blocking(invocation, calls.Data(places))
            outcome = await self._outcome(packed.body, places, ambient.of_calls(), words=in_short(invocation))
            value, error = calls.Arrived(outcome).loaded()
        finally:
            self._others.forget(places)
        if error is not None:
            raise error
        return value

    async def _outcome(self, body: bytes, places: tuple[str, ...], state: ambient.State, *, words: str) -> bytes:
        options: dict[str, Any] = {"places": places, "ambient": state, "words": words}
        if not self._inner.can_run():
            lent = await self._elsewhere(self._others.place_in_time(body, **options), _closed)
        else:
            async with self._turn():  # or all that wait would run here, when another worker is free after the first
                found = await self._elsewhere(self._others.place(body, **options), _closed)
                if found is None:
                    return self._inner.run(body, state)
                lent = found
        outcome = await self._elsewhere(lent.outcome())
        _print(outcome.text)
        return outcome.data

    def _turn(self) -> asyncio.Lock:
        return self._turns.setdefault(asyncio.get_running_loop(), asyncio.Lock())

    async def _elsewhere(
        self, coroutine: Coroutine[Any, Any, T], unwanted: Callable[[T], Coroutine[Any, Any, object]] | None = None
    ) -> T:
        return await asyncio.wrap_future(self._bridge.enter(coroutine, unwanted=unwanted))

    def __wool_reduce__(self) -> tuple[Any, ...]:
        from wool_jupyter.notebook.pool import pool

        return pool, ()


async def _closed(lent: Lent | None) -> None:
    if lent is not None:
        await lent.close()


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
                "a call that was submitted on a worker was never awaited, and has not run: `await` begins it",
                RuntimeWarning,
                stacklevel=2,
            )

    def __repr__(self) -> str:
        return "<Call on another worker: `await` begins it and gives its result>"

    def __await__(self) -> Generator[Any, None, T]:
        self._was_awaited = True
        found: Generator[Any, None, T] = self._run().__await__()
        return found

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        __tracebackhide__ = True
        self._was_awaited = True
        _refuse()

    result = exception = add_done_callback = cancel = done = running = cancelled = _refuse
    _condition = property(_refuse)  # what `as_completed` and `wait` of `concurrent.futures` ask for first


class BorrowedResults(Generic[T]):
    """Made by `BorrowedPool.map`: in order."""

    def __init__(self, running: list[BorrowedCall[T]]) -> None:
        self._calls = running

    def __repr__(self) -> str:
        return f"<Results of a map of {len(self._calls)}: `async for` begins it and takes them>"

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
