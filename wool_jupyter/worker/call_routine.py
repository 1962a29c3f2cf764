"""A call of an async function or async generator as a routine.

session's loop     CallBody ── begin, step, close ──▶ Running     routine loop
                            ◀───── outcomes ─────────
"""

import asyncio
import contextvars
import inspect
from collections.abc import AsyncGenerator, Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from wool_jupyter.dispatch import channels, routine
from wool_jupyter.dispatch.carried import CarriedProxies
from wool_jupyter.errors import WorkerDied, in_words
from wool_jupyter.wire import calls, classes, frames, homes, refusals, shipping
from wool_jupyter.worker.routine_lane import RoutineLane
from wool_jupyter.worker.session import Body, Flaw

Answer = tuple[bytes, bool] | None
_STOPPED = "The worker was stopped before the routine had ended, as its pool ended"

_Target = Coroutine[Any, Any, Any] | AsyncGenerator[Any, Any]


def call_routine(lane: RoutineLane) -> Callable[[bytes], Body]:
    proxies = CarriedProxies()
    lane.at_end(proxies.clear)
    lane.at_end(_close_channels)

    def begin(body: bytes) -> Body:
        return CallBody(lane, Running(body, lane, proxies))

    return begin


async def _close_channels() -> None:
    await channels.of_this_loop().clear()


class CallBody:
    """The session's side: nothing of a user's is touched here."""

    def __init__(self, lane: RoutineLane, running: "Running") -> None:
        self._lane = lane
        self._running = running

    async def begin(self) -> Flaw | None:
        return await self._lane.ask(self._running.load)

    async def step(self, command: frames.Command) -> Answer:
        answer: Future[Answer] = Future()
        self._lane.post(self._running.step, command, answer)
        return await self._outlast(asyncio.wrap_future(answer))

    async def _outlast(self, answer: "asyncio.Future[Answer]") -> Answer:
        """A cancellation is the body's, and what it makes of it the answer."""
        while not answer.done():
            try:
                await asyncio.wait({answer})
            except asyncio.CancelledError:
                self._lane.post(self._running.cancel)
        return answer.result()

    def interrupt(self) -> None:
        self._lane.post(self._running.interrupt)

    def stopping(self) -> None:
        self._lane.post(self._running.stopping)

    async def close(self) -> None:
        ended: Future[Answer] = Future()
        self._lane.post(self._running.close, ended)
        await self._outlast(asyncio.wrap_future(ended))


class Running:
    """The routine lane's side, and on its loop alone. One task from the first command to the end, so that a generator keeps its
    task and its context from step to step, as in an `async for`."""

    def __init__(self, body: bytes, lane: RoutineLane, proxies: CarriedProxies) -> None:
        self._body = body
        self._lane = lane
        self._proxies = proxies
        self._context = contextvars.Context()
        self._places: tuple[str, ...] = ()
        self._known: frozenset[str] = frozenset()  # ids of classes that the caller has
        self._target: _Target | None = None
        self._task: asyncio.Task[None] | None = None
        self._next: asyncio.Future[tuple[frames.Command, Future[Answer]]] | None = None
        self._inside = False  # the task waits in the body, and not for a command
        self._early = False  # cancelled before the body went on
        self._cancelled = False  # in this step
        self._stepping = False
        self._interrupted = False
        self._stopped = False

    # What follows up to `_serve` runs between steps of the task.

    def load(self) -> Flaw | None:
        """Makes the coroutine or generator; its body has not begun."""
        try:
            self._context.run(self._load)
        except BaseException as error:  # noqa: BLE001 (of the user's objects; for the caller)
            return Flaw(in_words(error), shipping.dump(error))
        finally:
            self._body = b""
        return None

    def _load(self) -> None:
        request = calls.decode_request(self._body)
        self._places = request.places
        homes.enter_new_home()
        routine.carry(self._proxies.carried(request.proxy), places=request.places)
        function, args, kwargs = calls.unpack_call(request)
        function = routine.unwrapped(function)
        if not (inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)):
            raise TypeError(f"{function!r} is neither an async function nor an async generator")
        self._target = function(*args, **kwargs)
        self._known = classes.known_ids()

    def step(self, command: frames.Command, answer: "Future[Answer]") -> None:
        self._stepping, self._cancelled = True, False
        if self._task is None:
            self._next = asyncio.get_running_loop().create_future()
            self._task = self._lane.tasks.start(
                self._serve(), f"call of {refusals.name_of(self._target)}", context=self._context
            )
        if self._next is not None:
            self._next.set_result((command, answer))

    def cancel(self) -> None:
        self._cancelled = True
        if self._inside and self._task is not None:
            self._task.cancel()
        elif self._stepping:
            self._early = True

    def interrupt(self) -> None:
        """As Ctrl-C does it to `asyncio.run`: a cancellation that shows as a KeyboardInterrupt."""
        if self._stepping:
            self._interrupted = True
            self.cancel()

    def stopping(self) -> None:
        """A caller who has cancelled it already hears of that."""
        if not self._cancelled:
            self._stopped = True

    def close(self, ended: "Future[Answer]") -> None:
        if self._task is None:
            if inspect.iscoroutine(self._target):
                self._target.close()
            self._target = None
            ended.set_result(None)
        elif self._task.done():
            ended.set_result(None)
        elif self._stepping:  # a step that its session gave up: it ends by its cancellation
            self._task.add_done_callback(lambda _: ended.set_result(None))
        else:
            self.step(frames.Close(0), ended)

    # The task.

    async def _serve(self) -> None:
        target, self._target = self._target, None
        last = False
        while not last and self._next is not None:
            command, answer = await self._next
            self._next = asyncio.get_running_loop().create_future()
            try:
                made = await self._answer(target, command)
            except BaseException as error:  # noqa: BLE001 (of a user's object that even its words can't be had of)
                answer.set_exception(RuntimeError(f"{type(error).__name__} when an outcome was packed"))
                return
            last = made is None or made[1]
            if last and inspect.isasyncgen(target):
                with suppress(BaseException):  # it is over, unless what it was to be sent could not be loaded
                    await target.aclose()
            self._stepping = self._interrupted = False
            answer.set_result(made)

    async def _answer(self, target: Any, command: frames.Command) -> Answer:
        """The body's outcome is data, whatever its class."""
        is_generator = inspect.isasyncgen(target)
        try:
            value = await self._resume(target, command, is_generator=is_generator)
        except StopAsyncIteration as end:
            if is_generator:
                return None
            return calls.pack_raised(end, places=self._places), True
        except BaseException as error:  # noqa: BLE001
            return calls.pack_raised(self._as_it_came(error), places=self._places), True
        finally:
            self._settle_down()
        if isinstance(command, frames.Close):
            return None
        packed = calls.pack_outcome(
            value,
            places=self._places,
            known_classes=self._known,
            what=lambda: f"{'what is yielded by' if is_generator else 'the result of'} `{refusals.name_of(target)}`",
        )
        return packed, not is_generator

    async def _resume(self, target: Any, command: frames.Command, *, is_generator: bool) -> Any:
        resumed = self._resumed(target, command) if is_generator else self._begun(target, command)
        self._inside = True
        try:
            return await resumed
        finally:
            self._inside = False

    def _resumed(self, target: AsyncGenerator[Any, Any], command: frames.Command) -> Any:
        if self._early:
            return target.athrow(asyncio.CancelledError())
        match command:
            case frames.Send(_, value):
                return target.asend(calls.unpack_sent(value))
            case frames.Throw(_, error):
                return target.athrow(shipping.load(error))
            case frames.Close():
                return target.aclose()
        return target.asend(None)

    def _begun(self, target: Coroutine[Any, Any, Any], command: frames.Command) -> Any:
        if self._early:
            target.close()
            raise asyncio.CancelledError
        if not isinstance(command, frames.Next):
            target.close()
            raise TypeError("a coroutine takes no values")
        return target

    def _settle_down(self) -> None:
        """Every cancellation was the step's. One that is left would show in a time-out of the next."""
        self._early = False
        task = asyncio.current_task()
        while task is not None and task.cancelling():
            task.uncancel()

    def _as_it_came(self, error: BaseException) -> BaseException:
        """A cancellation that nobody who waits has asked for would end their tasks without a word."""
        if not isinstance(error, asyncio.CancelledError):
            return error
        if self._interrupted:
            return KeyboardInterrupt().with_traceback(error.__traceback__)
        return WorkerDied(_STOPPED) if self._stopped else error
