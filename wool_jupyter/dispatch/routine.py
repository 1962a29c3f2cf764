"""The `routine` decorator: an async function or async generator that a worker runs, called as if it ran here.

wrapper ─▶ pickled once ─▶ the context's proxy ─▶ Call ─▶ a worker's routine loop
wrapper ◀─ raised or returned here ◀─ outcomes, one for each command
"""

import asyncio
import functools
import inspect
import shutil
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    contextmanager,
    nullcontext,
    suppress,
)
from contextvars import ContextVar
from functools import partial
from types import TracebackType
from typing import Any, Protocol, TypeVar
from uuid import uuid4

from wool_jupyter.dispatch.call import Call
from wool_jupyter.dispatch.carried import CarriedProxy
from wool_jupyter.dispatch.protocol import ProxyLike
from wool_jupyter.errors import (
    CallFailed,
    CallRejected,
    CannotLoad,
    NoWorkersAvailable,
    RpcError,
    WorkerDied,
    WorkerRefused,
)
from wool_jupyter.settings import INTERRUPT_GRACE_S
from wool_jupyter.wire import calls, pickling, shipping

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

_ROUTINE = "call"  # the worker's handler

Places = Callable[[], AbstractContextManager[tuple[str, ...]]]


class _Current(Protocol):
    """Whose calls the context's routines are."""

    def pickled(self) -> bytes: ...

    def reached(self) -> AbstractAsyncContextManager[ProxyLike]: ...

    def places(self) -> AbstractContextManager[tuple[str, ...]]:
        """Directories for the large data of one call, removed at the end; none: it travels in messages."""
        ...


_current: ContextVar[_Current | None] = ContextVar("current", default=None)


def routine(function: F) -> F:
    """Calls of `function` run on a worker of the pool that the context uses; calling is all that changes. Its arguments and results
    are copies.

    A coroutine runs when it is awaited. Of an async generator each step is asked for, and nothing is computed ahead; `asend`,
    `athrow` and `aclose` do what they do here. Cancelling who waits cancels the routine, and what it makes of that is the outcome.
    `NoWorkersAvailable` without a pool, or when nobody of it takes the call; `CannotShip` for an argument that can't travel.
    `function.__wrapped__` runs here. TypeError for what is neither.
    """
    if inspect.isasyncgenfunction(function):

        @functools.wraps(function)
        async def stream(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
            async with _Called(calls.Invocation(stream, args, kwargs)) as remote:
                command: Callable[[], Awaitable[bytes | None]] = remote.call.step
                while True:
                    try:
                        value = await remote.outcome(command)
                    except _Returned:
                        return
                    try:
                        sent = yield value
                    except GeneratorExit:
                        await remote.finish()
                        raise
                    except BaseException as error:  # noqa: BLE001 (of whoever iterates: for the body)
                        command = partial(remote.call.throw, shipping.dump(error))
                    else:
                        command = remote.call.step if sent is None else partial(remote.call.step, remote.sent(sent))

        return stream  # type: ignore[return-value]
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def call(*args: Any, **kwargs: Any) -> Any:
            async with _Called(calls.Invocation(call, args, kwargs)) as remote:
                try:
                    return await remote.outcome(remote.call.step)
                except _Returned:
                    raise CallFailed("the worker ended the call without a result") from None

        return call  # type: ignore[return-value]
    kind = type(function).__name__
    if isinstance(function, staticmethod | classmethod):
        raise TypeError(f"put @routine below @{kind}, next to the function")
    raise TypeError(f"@routine takes an async function or an async generator, and not a {kind}")


def unwrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    """What a worker runs for a routine that was called."""
    wrapped: Callable[..., Any] = getattr(function, "__wrapped__", function)
    return wrapped


@contextmanager
def use(proxy: ProxyLike, *, places: Places = lambda: nullcontext(())) -> Iterator[None]:
    """Routines that are called in this context, and in tasks that are started in it, go to `proxy`.

    `places` makes the directories of one call, in order of preference, for data that is too large for a message: only for workers
    that see the same files. Entered on a loop, it must be that of the proxy, and the routines must be called there: elsewhere they
    are a RuntimeError.
    """
    token = _current.set(_Used(proxy, places))
    try:
        yield
    finally:
        with suppress(ValueError):  # left in another task: the context where it was entered is out of reach
            _current.reset(token)


def carry(proxy: CarriedProxy, *, places: tuple[str, ...]) -> None:
    """On a worker, for the rest of a routine's context: its own calls go where it came from."""
    _current.set(_Handed(proxy, places))


class _Used:
    def __init__(self, proxy: ProxyLike, places: Places) -> None:
        self._proxy = proxy
        self.places = places
        self._loop = asyncio._get_running_loop()  # None outside of one

    def pickled(self) -> bytes:
        return _pickled(self._proxy)

    def reached(self) -> AbstractAsyncContextManager[ProxyLike]:
        if self._loop not in (None, asyncio.get_running_loop()):
            raise RuntimeError("the pool in use lives on another event loop: call its routines there")
        return nullcontext(self._proxy)


_pickles: "weakref.WeakKeyDictionary[ProxyLike, bytes]" = weakref.WeakKeyDictionary()


def _pickled(proxy: ProxyLike) -> bytes:
    found = _pickles.get(proxy)
    if found is None:
        found = _pickles[proxy] = pickling.dumps(proxy)
    return found


class _Handed:
    """`places` are those of the call that is running; its own calls have theirs inside."""

    def __init__(self, proxy: CarriedProxy, places: tuple[str, ...]) -> None:
        self._places = places
        self._proxy = proxy

    def pickled(self) -> bytes:
        return self._proxy.data

    def reached(self) -> AbstractAsyncContextManager[ProxyLike]:
        return self._proxy.reached()

    @contextmanager
    def places(self) -> Iterator[tuple[str, ...]]:
        inside = tuple(f"{place}/{uuid4().hex[:12]}" for place in self._places)
        try:
            yield inside
        finally:
            for place in inside:
                shutil.rmtree(place, ignore_errors=True)  # mostly there is none


class _Called:
    """A call, from its dispatch to its end. No async generator: a loop that ends closes these all at once, and one inside of
    another fails then."""

    def __init__(self, invocation: calls.Invocation) -> None:
        self._invocation = invocation
        self._resources = AsyncExitStack()

    async def __aenter__(self) -> "_Remote":
        current = _current.get()
        if current is None:
            name = getattr(self._invocation.function, "__qualname__", "this")
            raise NoWorkersAvailable(
                f"`{name}` is a routine, and no pool is in use here: call it inside `async with WorkerPool() as pool`, or inside "
                f"`with pool.use()` where that is out of reach, or `{name}.__wrapped__` to run it here"
            )
        async with AsyncExitStack() as resources:
            places = resources.enter_context(current.places())
            packed = calls.pack_call(self._invocation, places=places, proxy=current.pickled())
            proxy = await resources.enter_async_context(current.reached())
            call = await _rejections_raised(proxy.dispatch(_ROUTINE, packed.body))
            resources.callback(call.close)
            self._resources = resources.pop_all()
        return _Remote(call, packed, places)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._resources.__aexit__(kind, error, trace)


class _Returned(Exception):
    """The generator has ended."""


class _Remote:
    """A routine under way. One `outcome` at a time."""

    def __init__(self, call: Call, packed: calls.Packed, places: tuple[str, ...]) -> None:
        self.call = call
        self._packed = packed
        self._places = places

    def sent(self, value: Any) -> bytes:
        return calls.pack_sent(value, places=self._places)

    async def finish(self) -> None:
        """What the body raises as it cleans up. That it was over already, with its worker perhaps, is no error."""
        with suppress(_Returned, CallFailed, WorkerDied):
            await self.outcome(self.call.finish)

    async def outcome(self, command: Callable[[], Awaitable[bytes | None]]) -> Any:
        """What the body raised or returned. A cancellation goes to the body, and its answer is waited for a while."""
        try:
            data = await _rejections_raised(command())
        except asyncio.CancelledError:
            if self.call.ended:
                raise
            data = await self._cancelled()
        if data is None:
            raise _Returned
        return calls.unpack_outcome(data)

    async def _cancelled(self) -> bytes | None:
        try:
            async with asyncio.timeout(INTERRUPT_GRACE_S) as grace:
                while True:
                    self.call.cancel()
                    try:
                        return await self.call.step()
                    except asyncio.CancelledError:
                        if grace.expired():
                            raise
        except (TimeoutError, CallFailed, RpcError):
            raise asyncio.CancelledError from None  # it had not begun, or does not answer


async def _rejections_raised(step: Awaitable[T]) -> T:
    """As what they were where the call was looked at. Not from inside the handler, whose error would be stamped on it."""
    try:
        return await step
    except CallRejected as error:
        rejected = error
    raise _original(rejected)


def _original(rejected: CallRejected) -> BaseException:
    if not rejected.error:  # the worker's own words
        return rejected
    try:
        return shipping.load(rejected.error)
    except CannotLoad as unreadable:
        return WorkerRefused(f"the worker found a fault with the call: {unreadable}")
