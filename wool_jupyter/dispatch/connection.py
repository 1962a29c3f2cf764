"""A client's stream to one worker: the one file of the client that knows gRPC."""

import asyncio
import contextlib
import itertools
from collections.abc import Callable
from typing import NamedTuple

from wool_jupyter.aio.owned_tasks import OwnedTasks
from wool_jupyter.dispatch.call import Call
from wool_jupyter.errors import MessageTooLarge, NotReached, WoolError, WorkerDied, WorkerRefused
from wool_jupyter.records import WorkerMetadata
from wool_jupyter.wire import frames
from wool_jupyter.wire.credentials import TOKEN_KEY
from wool_jupyter.wire.outbox import Outbox
from wool_jupyter.wire.transport import (
    METHOD,
    OPTIONS,
    PROTOCOL,
    PROTOCOL_KEY,
    SERVICE,
    VERSION_KEY,
    grpc,
    package_version,
)


class _End(NamedTuple):
    """Of a stream: what its calls are told, and whether the worker would tell the next stream the same."""

    error: type[WoolError]
    words: str
    final: bool = False


_BROKE = _End(WorkerDied, "the connection to the worker broke")
_UNREADABLE = _End(WorkerDied, "the worker sent a message that can't be read")
_OTHER_PROTOCOL = f"the worker does not speak protocol {PROTOCOL}, as this kernel does: restart the kernel"
_TOO_LARGE = f"a message was larger than {frames.MESSAGE_MAX_BYTES >> 20} MiB: the worker ended the connection"

# No words: the worker's own. gRPC's library never gives these codes itself (its doc/statuscodes.md).
_ENDS = {
    grpc.StatusCode.UNAUTHENTICATED: _End(WorkerRefused, "the worker does not accept this kernel's token", final=True),
    grpc.StatusCode.FAILED_PRECONDITION: _End(WorkerRefused, "", final=True),
    grpc.StatusCode.UNIMPLEMENTED: _End(WorkerRefused, _OTHER_PROTOCOL, final=True),
    grpc.StatusCode.INVALID_ARGUMENT: _End(WorkerRefused, ""),
    grpc.StatusCode.RESOURCE_EXHAUSTED: _End(MessageTooLarge, _TOO_LARGE),
}


class WorkerConnection:
    """One open stream, many calls on it. Lives on the loop that opened it; `close` is idempotent."""

    def __init__(self, metadata: WorkerMetadata, *, token: str) -> None:
        self.metadata = metadata
        self._token = token
        self._calls: dict[int, asyncio.Queue[frames.Response | None]] = {}
        self._tasks = OwnedTasks(f"connection to {metadata.uid}")
        self._channel: grpc.aio.Channel | None = None
        self._stream: grpc.aio.StreamStreamCall[bytes, bytes] | None = None
        self._out = Outbox()
        self._end: _End | None = None
        self._numbers = itertools.count(1)

    @property
    def load(self) -> int:
        return len(self._calls)

    @property
    def broken(self) -> bool:
        return self._end is not None

    @property
    def refusal(self) -> WoolError | None:
        """What the worker would say to any call; nothing of this connection can help."""
        return self._end.error(self._end.words) if self._end is not None and self._end.final else None

    def failure(self) -> WoolError:
        """For a call that was under way when the stream ended."""
        end = self._end or _BROKE
        return end.error(end.words)

    async def open(self) -> None:
        self._channel = grpc.aio.insecure_channel(self.metadata.address, options=OPTIONS)
        method = self._channel.stream_stream(f"/{SERVICE}/{METHOD}")
        self._stream = method(
            metadata=((TOKEN_KEY, self._token), (PROTOCOL_KEY, PROTOCOL), (VERSION_KEY, package_version()))
        )
        self._tasks.start(self._read(), "reader")
        self._tasks.start(self._write(), "writer")

    def call(self, routine: str, body: bytes, *, begin: bool = True) -> "Call":
        """`begin` sends the first step with the task: it will not be repeated elsewhere, for it may have begun. `NotReached` when
        the worker can't be asked, `MessageTooLarge` when the body is."""
        if self.broken or self._stream is None:
            raise NotReached(str(self.metadata.uid))
        number = next(self._numbers)
        self.send(frames.Task(number, routine, body))
        call = Call(number, self, begun=begin)
        self._calls[number] = call.responses
        if begin:
            self.send(frames.Next(number))
        return call

    async def stop(self, timeout_s: float) -> None:
        """The worker takes no more calls, cancels those that run after `timeout_s` (0: at once, negative: never) and leaves.
        Returns when none runs any more, or with the connection."""
        await self._ask(lambda number: frames.Stop(number, timeout_s))

    async def idle_s(self) -> float:
        """Since the worker's last call ended; 0 while one is under way."""
        response = await self._ask(frames.Idle)
        if not isinstance(response, frames.IdleFor):
            raise self.failure()
        return response.seconds

    async def _ask(self, question: Callable[[int], frames.Request]) -> frames.Response | None:
        """Of the worker itself, beside the calls. None when the connection broke."""
        if self.broken or self._stream is None:
            raise NotReached(str(self.metadata.uid))
        number = next(self._numbers)
        answers = self._calls[number] = asyncio.Queue()
        try:
            self.send(question(number))
            return await answers.get()
        finally:
            self.end(number)

    def send(self, frame: frames.Request) -> None:
        self._out.put(frame)

    def end(self, number: int) -> None:
        self._calls.pop(number, None)

    async def _read(self) -> None:
        stream, end = self._stream, _BROKE
        try:
            while stream is not None and (message := await stream.read()) is not grpc.aio.EOF:
                for response in frames.decode_responses(message):
                    if response.call in self._calls:
                        self._calls[response.call].put_nowait(response)
        except grpc.aio.AioRpcError as error:
            end = _end_of(error)
        except frames.DecodeError:
            end = _UNREADABLE
        finally:
            self._break(end)

    async def _write(self) -> None:
        stream = self._stream
        with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):  # the reader hears why
            if stream is not None:
                await stream.initial_metadata()  # a write that a refusal overtakes would hide the reason (gRPC 1.85)
            while stream is not None and (message := await self._out.take()) is not None:
                await stream.write(message)

    def _break(self, end: _End) -> None:
        self._end = self._end or end
        if self._stream is not None:
            self._stream.cancel()
        for responses in self._calls.values():
            responses.put_nowait(None)

    async def close(self) -> None:
        self._break(_BROKE)
        await self._tasks.close()
        if self._channel is not None:
            await self._channel.close()


def _end_of(error: grpc.aio.AioRpcError) -> _End:
    end = _ENDS.get(error.code(), _BROKE)
    return end if end.words else end._replace(words=error.details() or "")
