"""The client's side of one call: steps out, values in. Knows neither the transport nor what a routine does."""

import asyncio
from typing import Protocol

from wool_jupyter.errors import CallFailed, MessageTooLarge, WoolError, WorkerRefused
from wool_jupyter.records import WorkerMetadata
from wool_jupyter.wire import frames


class Sender(Protocol):
    """Of frames to one worker."""

    def send(self, frame: frames.Request) -> None:
        """`MessageTooLarge` for one that was not sent."""
        ...

    def end(self, number: int) -> None:
        """The call takes no more responses."""
        ...

    def failure(self) -> WoolError:
        """Why the connection has ended, for a call that may have begun."""
        ...

    def unreached(self) -> WoolError:
        """Why the connection has ended, for a call that has not begun."""
        ...


class Call:
    """A routine under way on one worker. One `step` at a time; `close`, idempotent, cancels what has not ended."""

    def __init__(self, number: int, connection: Sender, *, worker: WorkerMetadata, begun: bool) -> None:
        """`begun`: its first step was sent with it, so that it may run by now. Otherwise it begins with the first `step`."""
        self.worker = worker
        self.responses: asyncio.Queue[frames.Response | None] = asyncio.Queue()
        self._number = number
        self._connection = connection
        self._next_is_sent = begun
        self.ended = False

    async def accepted(self) -> None:
        """Returns when the worker has taken a call that has not begun. `NotReached` when its connection ends first, `WorkerRefused`
        when it does not take it: nothing has run, and the call has ended."""
        match await self.responses.get():
            case frames.Ack():
                return
            case frames.Nack(_, reason):
                self._end()
                raise WorkerRefused(reason)
            case _:
                self._end()
                raise self._connection.unreached()

    async def step(self, answer: bytes | None = None) -> bytes | None:
        """The routine's next value, None at its end; `answer` goes to the routine. `ended` may be true with a last value.

        `WorkerRefused` when the worker does not take the call, `CallFailed` when the routine itself fails, `WorkerDied` when the
        connection breaks.
        `MessageTooLarge` for an answer, which then was not given; or for a value, and the call has ended.
        """
        if self.ended:
            return None
        if not self._next_is_sent:
            self._connection.send(frames.Next(self._number) if answer is None else frames.Send(self._number, answer))
        self._next_is_sent = False
        response = await self.responses.get()
        while isinstance(response, frames.Ack):
            response = await self.responses.get()
        match response:
            case frames.Yielded(_, value, last):
                if last:
                    self._end()
                return value
            case frames.Nack(_, reason):
                self._end()
                raise WorkerRefused(reason)
            case frames.Failed(_, reason):
                self._end()
                raise CallFailed(f"the worker failed at this call: {reason}")
            case frames.TooLarge(_, reason):
                self._end()
                raise MessageTooLarge(f"from the worker: {reason}")
            case None:
                self._end()
                raise self._connection.failure()
            case _:
                self._end()
                return None

    def _end(self) -> None:
        self.ended = True
        self._connection.end(self._number)

    def close(self) -> None:
        if not self.ended:
            self._connection.send(frames.Cancel(self._number))
            self._end()
