"""One client's calls: frames in, frames out. Knows the states of a call, and neither the transport nor what a routine does."""

import asyncio
import enum
from collections.abc import AsyncGenerator, Callable, Mapping
from functools import partial

from wool_jupyter.aio.owned_tasks import OwnedTasks
from wool_jupyter.errors import MessageTooLarge, in_words
from wool_jupyter.wire import frames

# A routine yields (value, whether it is the last one), and is sent the client's answers.
Steps = AsyncGenerator[tuple[bytes, bool], bytes | None]
Routine = Callable[[bytes], Steps]


class _State(enum.Enum):
    WAITING = enum.auto()  # for the client's next step
    STEPPING = enum.auto()
    ENDED = enum.auto()


class _Call:
    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self.state = _State.WAITING
        self.step: asyncio.Task[frames.Response] | None = None


class Session:
    """Lives on one loop. `close` (the client is gone) cancels all its calls and waits for them.

    `send` raises `MessageTooLarge` for a response that it will not send.
    """

    def __init__(self, routines: Mapping[str, Routine], send: Callable[[frames.Response], object]) -> None:
        self._routines = routines
        self._send = send
        self._calls: dict[int, _Call] = {}
        self._tasks = OwnedTasks("session")
        self._closed = False

    def receive(self, frame: frames.Request) -> None:
        if isinstance(frame, frames.Task):
            self._accept(frame)
            return
        call = self._calls.get(frame.call)
        if call is None:
            return  # it has ended while the frame was under way
        if isinstance(frame, frames.Cancel):
            self._cancel(frame.call, call)
        elif call.state is _State.WAITING:
            call.state = _State.STEPPING
            value = frame.value if isinstance(frame, frames.Send) else None
            call.step = self._tasks.start(self._step(frame.call, call, value), f"call {frame.call}", awaited=True)
            call.step.add_done_callback(partial(self._answer, frame.call, call))

    def _accept(self, task: frames.Task) -> None:
        routine = self._routines.get(task.routine)
        if routine is None:
            self._tell(frames.Nack(task.call, f"this worker knows no routine {task.routine!r}"))
        elif task.call in self._calls:
            self._tell(frames.Nack(task.call, f"call {task.call} is under way already"))
        else:
            self._calls[task.call] = _Call(routine(task.body))
            self._tell(frames.Ack(task.call))

    def _cancel(self, number: int, call: _Call) -> None:
        if call.state is _State.STEPPING and call.step is not None:
            call.step.cancel()  # the pending step answers
        elif call.state is _State.WAITING:
            self._end(number, call)
            self._tell(frames.Returned(number))

    def _tell(self, response: frames.Response) -> bool:
        try:
            self._send(response)
        except MessageTooLarge as error:
            self._send(frames.TooLarge(response.call, str(error)))
            return False
        return True

    async def _step(self, number: int, call: _Call, value: bytes | None) -> frames.Response:
        try:
            yielded, last = await call.steps.asend(value)
        except StopAsyncIteration:
            return frames.Returned(number)
        except Exception as error:  # noqa: BLE001 (data for the client)
            return frames.Failed(number, in_words(error))
        return frames.Yielded(number, yielded, last)

    def _answer(self, number: int, call: _Call, step: "asyncio.Task[frames.Response]") -> None:
        """A callback of the step, not its last lines: a step that is cancelled before it begins runs none."""
        response = frames.Failed(number, "cancelled") if step.cancelled() else step.result()
        if self._tell(response) and isinstance(response, frames.Yielded) and not response.last:
            call.state = _State.WAITING
        else:
            self._end(number, call)

    def _end(self, number: int, call: _Call) -> None:
        call.state = _State.ENDED
        self._calls.pop(number, None)
        if not self._closed:
            self._tasks.start(call.steps.aclose(), f"end of call {number}")

    async def close(self) -> None:
        self._closed = True
        steps = [call.steps for call in self._calls.values()]
        await self._tasks.close()
        for outcome in await asyncio.gather(*(each.aclose() for each in steps), return_exceptions=True):
            if isinstance(outcome, Exception):
                raise outcome
