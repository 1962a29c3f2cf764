"""The client's side of one call: commands out, values in. Knows neither the transport nor what a routine does."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from wool_jupyter.errors import (
    CallFailed,
    CallRejected,
    MessageTooLarge,
    NotReached,
    WoolError,
    WorkerDied,
    WorkerRefused,
)
from wool_jupyter.records import WorkerMetadata
from wool_jupyter.wire import frames


class Sender(Protocol):
    """Of frames to one worker."""

    def send(self, frame: frames.Request) -> None:
        """`MessageTooLarge` for one that was not sent."""
        ...

    def rests(self, number: int) -> None:
        """Nothing of the call runs, or will before its next command."""
        ...

    def set_aside(self, number: int) -> None:
        """One that rests: it is no load either."""
        ...

    def goes_on(self, number: int) -> None:
        """A command is sent, or about to be. Nothing, unless it rests."""
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


Obituary = Callable[[], Awaitable[str]]  # how the worker of a call has ended, from who looks after it


class Call:
    """A routine under way on one worker. One command at a time; `close`, idempotent, cancels what has not ended.

    A command that is cancelled is still pending: the next `step` waits for its answer, and sends nothing.
    """

    def __init__(self, number: int, connection: Sender, *, worker: WorkerMetadata, begun: bool) -> None:
        """`begun`: the first `Next` was sent with it, so that it may run by now. Otherwise it begins with the first command."""
        self.worker = worker
        self.responses: asyncio.Queue[frames.Response | None] = asyncio.Queue()
        self.number = number
        self._connection = connection
        self._begun = begun
        self._pending = begun
        self._accepted = False
        self.ended = False
        self.obituary: Obituary | None = None

    async def accepted(self) -> None:
        """Returns when the worker has taken the call.

        `NotReached` when it does not for now, or the connection broke before anything ran; `WorkerRefused` when it never will;
        `CallRejected` when the call itself is at fault. The call has ended then.
        """
        if not self._accepted and not self.ended:
            self._look_at(await self.responses.get())

    async def step(self, answer: bytes | None = None) -> bytes | None:
        """The routine's next value, None at its end; `answer` goes to the routine. `ended` may be true with a last value.

        What `accepted` raises, if that was not awaited. `CallFailed` when the routine itself fails, `WorkerDied` when the
        connection breaks.
        `MessageTooLarge` for an answer, which then was not given; or for a value, and the call has ended.
        """
        return await self._command(frames.Next(self.number) if answer is None else frames.Send(self.number, answer))

    def give(self, answer: bytes) -> None:
        """The command of the next `step`, ahead of it. None may be pending."""
        self._order(frames.Send(self.number, answer))

    async def throw(self, error: bytes) -> bytes | None:
        """As `step`, with an exception (`wire.shipping`) for the routine."""
        return await self._command(frames.Throw(self.number, error))

    async def finish(self) -> bytes | None:
        """As `step`, and the last one: the routine cleans up. A value is what came of that."""
        value = await self._command(frames.Close(self.number))
        self.close()
        return value

    def interrupt(self) -> None:
        """A KeyboardInterrupt in the routine, if a command is pending, which then answers with what the routine made of it."""
        self._say(frames.Interrupt(self.number))

    def recall(self) -> None:
        """What the routine has been given and has not begun comes back, with the answer to a pending command."""
        self._say(frames.Recall(self.number))

    def cancel(self) -> None:
        """As `interrupt`, a CancelledError. Ends a routine that waits for a command."""
        self._say(frames.Cancel(self.number))

    def set_aside(self) -> None:
        """It waits for its next command, for long perhaps: until then it is no load of its worker."""
        if self._begun and not (self.ended or self._pending):
            self._connection.set_aside(self.number)

    def take_up(self) -> None:
        """After `set_aside`: its next command follows, and it is a load from here on."""
        self._connection.goes_on(self.number)

    def _say(self, frame: frames.Request) -> None:
        if not self.ended:
            self._connection.send(frame)

    async def _command(self, command: frames.Command) -> bytes | None:
        if self.ended:
            return None
        if not self._pending:
            self._order(command)
        response = await self.responses.get()
        while isinstance(response, frames.Ack):
            response = await self.responses.get()
        self._pending = False
        try:
            self._look_at(response)
        except WorkerDied:
            if self.obituary is None:
                raise
            raise WorkerDied(await self.obituary()) from None
        if isinstance(response, frames.Yielded):
            if response.last:
                self._end()
            else:
                self._connection.rests(self.number)
            return response.value
        self._end()
        return None

    def _order(self, command: frames.Command) -> None:
        self._connection.send(command)
        self._connection.goes_on(self.number)
        self._pending = self._begun = True

    def _look_at(self, response: frames.Response | None) -> None:
        if isinstance(response, frames.Ack | frames.Yielded | frames.Returned):
            self._accepted = True
            return
        self._end()
        match response:
            case frames.Nack(_, reason, error):
                raise CallRejected(reason, error)
            case frames.Refused(_, reason, True):
                raise NotReached(reason)
            case frames.Refused(_, reason):
                raise WorkerRefused(reason)
            case frames.Failed(_, reason):
                raise CallFailed(f"the worker failed at this call: {reason}")
            case frames.TooLarge(_, reason):
                raise MessageTooLarge(f"from the worker: {reason}")
        raise self._connection.failure() if self._begun else self._connection.unreached()

    def _end(self) -> None:
        self.ended = True
        self._connection.end(self.number)

    def close(self) -> None:
        if not self.ended:
            self._connection.send(frames.Cancel(self.number))
            self._end()
