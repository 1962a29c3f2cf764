"""A client's stream to one worker: the one file of the client that knows gRPC."""

import asyncio
import itertools

from wool_jupyter.aio.owned_tasks import OwnedTasks
from wool_jupyter.errors import NotReached, WorkerDied, WorkerRefused
from wool_jupyter.records import WorkerMetadata
from wool_jupyter.wire import frames
from wool_jupyter.wire.credentials import TOKEN_KEY
from wool_jupyter.wire.transport import METHOD, OPTIONS, SERVICE, grpc


class WorkerConnection:
    """One open stream, many calls on it. Lives on the loop that opened it; `close` is idempotent."""

    def __init__(self, metadata: WorkerMetadata, *, token: str) -> None:
        self.metadata = metadata
        self._token = token
        self._calls: dict[int, asyncio.Queue[frames.Response | None]] = {}
        self._tasks = OwnedTasks(f"connection to {metadata.uid}")
        self._channel: grpc.aio.Channel | None = None
        self._stream: grpc.aio.StreamStreamCall[bytes, bytes] | None = None
        self._out: asyncio.Queue[frames.Request] = asyncio.Queue()
        self.broken = False
        self._numbers = itertools.count(1)

    @property
    def load(self) -> int:
        return len(self._calls)

    async def open(self) -> None:
        self._channel = grpc.aio.insecure_channel(self.metadata.address, options=OPTIONS)
        method = self._channel.stream_stream(f"/{SERVICE}/{METHOD}")
        self._stream = method(metadata=((TOKEN_KEY, self._token),))
        self._tasks.start(self._read(), "reader")
        self._tasks.start(self._write(), "writer")

    def call(self, routine: str, body: bytes) -> "Call":
        """Sends the task and its first step together: it will not be repeated elsewhere, for it may have begun. `NotReached`
        when the worker can't be asked."""
        if self.broken or self._stream is None:
            raise NotReached(str(self.metadata.uid))
        number = next(self._numbers)
        call = Call(number, self)
        self._calls[number] = call.responses
        self.send(frames.Task(number, routine, body))
        self.send(frames.Next(number))
        return call

    def send(self, frame: frames.Request) -> None:
        self._out.put_nowait(frame)

    def end(self, number: int) -> None:
        self._calls.pop(number, None)

    async def _read(self) -> None:
        stream = self._stream
        try:
            while stream is not None and (data := await stream.read()) is not grpc.aio.EOF:
                response = frames.decode_response(data)
                if response.call in self._calls:
                    self._calls[response.call].put_nowait(response)
        except grpc.aio.AioRpcError:
            pass  # the worker is gone: said to each call below
        finally:
            self._break()

    async def _write(self) -> None:
        stream = self._stream
        try:
            while stream is not None:
                await stream.write(frames.encode(await self._out.get()))
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            self._break()

    def _break(self) -> None:
        self.broken = True
        for responses in self._calls.values():
            responses.put_nowait(None)

    async def close(self) -> None:
        self._break()
        if self._stream is not None:
            self._stream.cancel()
        await self._tasks.close()
        if self._channel is not None:
            await self._channel.close()


class Call:
    """A routine under way on one worker. One `step` at a time; `close`, idempotent, cancels what has not ended."""

    def __init__(self, number: int, connection: WorkerConnection) -> None:
        self.worker = connection.metadata
        self.responses: asyncio.Queue[frames.Response | None] = asyncio.Queue()
        self._number = number
        self._connection = connection
        self._first = True
        self.ended = False

    async def step(self, answer: bytes | None = None) -> bytes | None:
        """The routine's next value, None at its end; `answer` goes to the routine. `ended` may be true with a last value.

        `WorkerRefused` when the worker does not take the call or the routine itself fails, `WorkerDied` when the connection breaks.
        """
        if self.ended:
            return None
        if not self._first:
            self._connection.send(frames.Next(self._number) if answer is None else frames.Send(self._number, answer))
        self._first = False
        response = await self.responses.get()
        while isinstance(response, frames.Ack):
            response = await self.responses.get()
        match response:
            case frames.Yielded(_, value, last):
                if last:
                    self._end()
                return value
            case frames.Nack(_, reason) | frames.Failed(_, reason):
                self._end()
                raise WorkerRefused(reason)
            case None:
                self._end()
                raise WorkerDied("the connection to the worker broke")
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
