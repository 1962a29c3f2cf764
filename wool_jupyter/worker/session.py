"""One client's calls: frames in, frames out. Knows the states of a call, and neither the transport nor what a routine does."""

import asyncio
import enum
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from functools import partial
from typing import Any, NamedTuple, Protocol, runtime_checkable

from wool_jupyter.aio.owned_tasks import OwnedTasks
from wool_jupyter.errors import CallFailed, MessageTooLarge, in_words
from wool_jupyter.wire import frames
from wool_jupyter.worker.admission import Admission


class Flaw(NamedTuple):
    """What is wrong with a call: it will not begin."""

    reason: str
    error: bytes = b""


_Made = tuple[bytes, bool] | None
Step = Coroutine[Any, Any, _Made] | asyncio.Future[_Made]


class Body(Protocol):
    """What a routine makes of one task. Its steps are awaited on the session's loop, one at a time."""

    async def begin(self) -> Flaw | None:
        """Reads the task; nothing of it runs yet."""
        ...

    def step(self, command: frames.Command) -> Step:
        """The next value and whether it is the last one; None at the end. What it raises is the routine's own fault: a body's
        outcome is a value. Cancelling it cancels the body, and then it returns what the body made of that.

        A coroutine gets a task; a future needs none, and is there two steps of the loop sooner."""
        ...

    def interrupt(self) -> None:
        """Interrupts the body if it runs."""
        ...

    def stopping(self) -> None:
        """The cancellation that follows is the worker's own, which stops, and not the client's."""
        ...

    async def close(self) -> None:
        """Ends a body that waits, has not begun, or is over; returns when nothing of it runs any more."""
        ...


@runtime_checkable
class Divisible(Protocol):
    """A body that is made of parts."""

    def recall(self) -> None:
        """Gives back those that have not begun."""
        ...


# A routine may also yield (value, whether it is the last one), and is sent the client's answers.
Steps = AsyncGenerator[tuple[bytes, bool], bytes | None]
Routine = Callable[[bytes], Body | Steps]


class _Stepped:
    """A generator as a body. It can be cancelled, and takes no exception from the client."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._pending: asyncio.Task[object] | None = None

    async def begin(self) -> None:
        pass

    async def step(self, command: frames.Command) -> tuple[bytes, bool] | None:
        if isinstance(command, frames.Throw):
            raise CallFailed("this routine takes no exceptions")
        self._pending = asyncio.current_task()
        try:
            if isinstance(command, frames.Close):
                await self._steps.aclose()
                return None
            return await self._steps.asend(command.value if isinstance(command, frames.Send) else None)
        except StopAsyncIteration:
            return None
        finally:
            self._pending = None

    def interrupt(self) -> None:
        if self._pending is not None:
            self._pending.cancel()

    def stopping(self) -> None:
        pass

    async def close(self) -> None:
        await self._steps.aclose()


class _State(enum.Enum):
    BEGINNING = enum.auto()  # its task is being looked at; what the client says meanwhile is held
    WAITING = enum.auto()  # for the client's next command
    STEPPING = enum.auto()
    ENDED = enum.auto()


class _Call:
    def __init__(self, body: Body) -> None:
        self.body = body
        self.state = _State.BEGINNING
        self.task: asyncio.Future[Any] | None = None  # that looks at its task, or steps
        self.held: list[frames.Request] = []
        self.last = False  # the command is the last one: whatever comes of it
        self.entered = False


class Control(Protocol):
    """Of the worker, not of a call."""

    def stop(self, timeout_s: float) -> "asyncio.Task[None]":
        """Done when no call runs any more."""
        ...


class Session:
    """Lives on one loop. `close` (the client is gone) cancels all its calls and waits until they have ended.

    `send` raises `MessageTooLarge` for a response that it will not send.
    """

    def __init__(
        self,
        routines: Mapping[str, Routine],
        send: Callable[[frames.Response], object],
        *,
        admission: Admission | None = None,
        control: Control | None = None,
        begins: Callable[[int], object] = lambda _: None,
    ) -> None:
        """`begins` hears the number of each call that came with its first step, before its body starts."""
        self._routines = routines
        self._send = send
        self._admission = admission or Admission()
        self._control = control
        self._begins = begins
        self._calls: dict[int, _Call] = {}
        self._tasks = OwnedTasks("session")
        self._ends = OwnedTasks("session")  # never cancelled: what they release is released once
        self._closed = False

    def receive(self, frame: frames.Request) -> None:
        match frame:
            case frames.Task():
                self._accept(frame)
            case frames.Stop():
                self._tasks.start(self._stop(frame), "stop")
            case frames.Idle(number):
                self._tell(frames.IdleFor(number, self._admission.idle_s))
            case _ if (call := self._calls.get(frame.call)) is not None:
                self._command(call, frame)
            case _:
                pass  # the call has ended while the frame was under way

    def _accept(self, task: frames.Task) -> None:
        routine = self._routines.get(task.routine)
        if routine is None:
            self._tell(frames.Nack(task.call, f"this worker knows no routine {task.routine!r}"))
        elif task.call in self._calls:
            self._tell(frames.Nack(task.call, f"call {task.call} is under way already"))
        else:
            made = routine(task.body)
            call = self._calls[task.call] = _Call(_Stepped(made) if isinstance(made, AsyncGenerator) else made)
            call.task = self._tasks.start(self._begin(task, call), f"begin of call {task.call}", awaited=True)
            call.task.add_done_callback(partial(self._begun, task.call, call))

    async def _begin(self, task: frames.Task, call: _Call) -> frames.Response:
        refusal = await self._admission.enter(task.routine)
        if refusal is not None:
            return frames.Refused(task.call, *refusal)
        call.entered = True
        try:
            flaw = await call.body.begin()
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 (for the client: it must not end the loop)
            flaw = Flaw(in_words(error))
        return frames.Ack(task.call) if flaw is None else frames.Nack(task.call, *flaw)

    def _begun(self, number: int, call: _Call, task: "asyncio.Task[frames.Response]") -> None:
        """As `_answer`."""
        cancelled = task.cancelled() or any(isinstance(frame, frames.Cancel) for frame in call.held)
        response = frames.Refused(number, "cancelled", True) if cancelled else task.result()
        begins = isinstance(response, frames.Ack) and any(isinstance(frame, frames.Next) for frame in call.held)
        # Who has asked for the first step already waits for nothing but its answer.
        told = begins or self._tell(response)
        if not (told and isinstance(response, frames.Ack)) or self._closed:
            self._end(number, call)
            return
        call.state = _State.WAITING
        if begins:
            self._begins(number)
        for frame in call.held:
            self.receive(frame)

    def _command(self, call: _Call, frame: frames.Request) -> None:
        match call.state, frame:
            case _State.BEGINNING, _:
                call.held.append(frame)
                if isinstance(frame, frames.Cancel):
                    self._cancel(frame.call, call)
            case _, frames.Cancel(number):
                self._cancel(number, call)
            case _, frames.Interrupt():
                call.body.interrupt()
            case _, frames.Recall():
                if isinstance(call.body, Divisible):
                    call.body.recall()
            case _State.WAITING, frames.Next() | frames.Send() | frames.Throw() | frames.Close():
                call.state = _State.STEPPING
                call.last = isinstance(frame, frames.Close)
                self._step(call, frame)

    def _cancel(self, number: int, call: _Call, *, why: str = "it was cancelled between two steps") -> None:
        if call.state is _State.WAITING:
            self._end(number, call)
            self._tell(frames.Failed(number, why))  # `Returned` would be a whole stream's end
        elif call.task is not None:
            call.task.cancel()  # the pending command answers

    def _step(self, call: _Call, command: frames.Command) -> None:
        number = command.call
        try:
            step = call.body.step(command)
        except Exception as error:  # noqa: BLE001 (for the client: it must not end the loop)
            self._answer(frames.Failed(number, in_words(error)), call)
            return
        if isinstance(step, asyncio.Future):
            call.task = self._tasks.own(step)
        else:
            call.task = self._tasks.start(_outcome(number, step), f"call {number}", awaited=True)
            call.task.add_done_callback(lambda _: step.close())  # if it was cancelled before it began
        # A callback of the step, not its last lines: a step that is cancelled before it begins runs none.
        call.task.add_done_callback(lambda done: self._answer(_response(number, done, last=call.last), call))

    def _answer(self, response: frames.Response, call: _Call) -> None:
        number = response.call
        goes_on = isinstance(response, frames.Yielded) and not response.last
        if isinstance(response, frames.Yielded | frames.Returned) and not goes_on:
            # Before the client hears of its end, and sends the next one: this one must not count then.
            self._leave(call)
        if self._tell(response) and goes_on and not self._closed:
            call.state = _State.WAITING
        else:
            self._end(number, call)

    def _tell(self, response: frames.Response) -> bool:
        try:
            self._send(response)
        except MessageTooLarge as error:
            self._send(frames.TooLarge(response.call, str(error)))
            return False
        return True

    def _end(self, number: int, call: _Call) -> None:
        call.state = _State.ENDED
        self._calls.pop(number, None)
        self._ends.start(self._ended(call), f"end of call {number}")

    async def _ended(self, call: _Call) -> None:
        try:
            await call.body.close()
        finally:
            self._leave(call)

    def _leave(self, call: _Call) -> None:
        if call.entered:
            call.entered = False
            self._admission.leave()

    async def _stop(self, stop: frames.Stop) -> None:
        if self._control is not None:
            await asyncio.wait({self._control.stop(stop.timeout_s)})
            self._tell(frames.Stopped(stop.call))

    def cancel(self) -> None:
        """All calls: the worker stops."""
        for number, call in list(self._calls.items()):
            call.body.stopping()
            self._cancel(number, call, why="it was stopped between two steps, as its pool ended")

    async def close(self) -> None:
        self._closed = True
        for number, call in list(self._calls.items()):
            if call.state is _State.WAITING:
                self._end(number, call)
        await self._tasks.close()  # cancels the others, once
        await self._ends.wait()


async def _outcome(number: int, step: Coroutine[Any, Any, _Made]) -> _Made | frames.Failed:
    try:
        return await step
    except asyncio.CancelledError:
        raise
    except BaseException as error:  # noqa: BLE001 (for the client: it must not end the loop)
        return frames.Failed(number, in_words(error))


def _response(number: int, step: "asyncio.Future[Any]", *, last: bool) -> frames.Response:
    if step.cancelled():
        return frames.Failed(number, "cancelled")
    if (error := step.exception()) is not None:
        return frames.Failed(number, in_words(error))
    match step.result():
        case frames.Failed() as failed:
            return failed
        case None:
            return frames.Returned(number)
        case value, ends:
            return frames.Yielded(number, value, ends or last)
    raise AssertionError  # for mypy
