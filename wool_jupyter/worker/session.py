"""One client's calls: frames in, frames out. Knows the states of a call, and neither the transport nor what a routine does."""

import asyncio
import enum
from collections.abc import AsyncGenerator, Callable, Mapping

from wool_jupyter.aio.owned_tasks import OwnedTasks
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
        self.step: asyncio.Task[None] | None = None


class Session:
    """Lives on one loop. `close` (the client is gone) cancels all its calls and waits for them."""

    def __init__(self, routines: Mapping[str, Routine], send: Callable[[frames.Response], object]) -> None:
        self._routines = routines
        self._send = send
        self._calls: dict[int, _Call] = {}
        self._tasks = OwnedTasks("session")

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
            value = frame.value if isinstance(frame, frames.Send) else None
            call.state = _State.STEPPING
            call.step = self._tasks.start(self._advance(frame.call, call, value), f"call {frame.call}")

    def _accept(self, task: frames.Task) -> None:
        routine = self._routines.get(task.routine)
        if routine is None:
            self._send(frames.Nack(task.call, f"this worker knows no routine {task.routine!r}"))
        elif task.call in self._calls:
            self._send(frames.Nack(task.call, f"call {task.call} is under way already"))
        else:
            self._calls[task.call] = _Call(routine(task.body))
            self._send(frames.Ack(task.call))

    def _cancel(self, number: int, call: _Call) -> None:
        if call.state is _State.STEPPING and call.step is not None:
            call.step.cancel()  # the pending step answers
        elif call.state is _State.WAITING:
            self._end(number, call)
            self._tasks.start(call.steps.aclose(), f"closing call {number}")
            self._send(frames.Returned(number))

    async def _advance(self, number: int, call: _Call, value: bytes | None) -> None:
        try:
            yielded, last = await call.steps.asend(value)
        except StopAsyncIteration:
            response: frames.Response = frames.Returned(number)
            last = True
        except asyncio.CancelledError:
            self._end(number, call)
            self._send(frames.Failed(number, "cancelled"))
            raise
        except Exception as error:  # noqa: BLE001 (data for the client)
            response, last = frames.Failed(number, f"{type(error).__name__}: {error}"), True
        else:
            response = frames.Yielded(number, yielded, last)
        if last:
            self._end(number, call)
            await call.steps.aclose()
        else:
            call.state = _State.WAITING
        self._send(response)

    def _end(self, number: int, call: _Call) -> None:
        call.state = _State.ENDED
        self._calls.pop(number, None)

    async def close(self) -> None:
        await self._tasks.close()
        for call in list(self._calls.values()):
            await call.steps.aclose()
        self._calls.clear()
