"""A stream of gRPC to a worker: the one file of the client that knows gRPC."""

import asyncio

from wool_jupyter.aio.owned_tasks import OwnedTasks
from wool_jupyter.dispatch.link import BROKE, FAILED, NO_TOKEN, TOO_LARGE, ChannelKey, End, Ended, Received, refused
from wool_jupyter.wire.credentials import TOKEN_KEY
from wool_jupyter.wire.protocol import METHOD, PROTOCOL, PROTOCOL_KEY, SERVICE, VERSION_KEY, package_version
from wool_jupyter.wire.transport import client_options, compression, grpc

_OTHER_PROTOCOL = (
    f"the worker does not speak protocol {PROTOCOL}, as this process does: start both with the same version"
)

# No words: the worker's own. gRPC's library gives none of these codes itself (its doc/statuscodes.md) before the last four.
_ENDS = {
    grpc.StatusCode.UNAUTHENTICATED: NO_TOKEN,
    grpc.StatusCode.FAILED_PRECONDITION: refused(""),
    grpc.StatusCode.UNIMPLEMENTED: refused(_OTHER_PROTOCOL),
    grpc.StatusCode.INVALID_ARGUMENT: refused(""),
    grpc.StatusCode.RESOURCE_EXHAUSTED: TOO_LARGE,
    grpc.StatusCode.UNAVAILABLE: BROKE,
    grpc.StatusCode.INTERNAL: BROKE,  # what gRPC makes of any end that overtakes a write (1.85)
    grpc.StatusCode.DEADLINE_EXCEEDED: BROKE,
    grpc.StatusCode.CANCELLED: BROKE,
}

# What gRPC knows of an address is this channel's alone: after another one's failure it would not try for a while.
_APART = ("grpc.use_local_subchannel_pool", 1)


class GrpcLink:
    def __init__(self, key: ChannelKey, received: Received, ended: Ended) -> None:
        options = key.options
        self._received = received
        self._ended = ended
        self._channel = grpc.aio.insecure_channel(
            key.target, options=[*client_options(options), _APART], compression=compression(options)
        )
        method = self._channel.stream_stream(f"/{SERVICE}/{METHOD}")
        self._stream: grpc.aio.StreamStreamCall[bytes, bytes] = method(
            metadata=((TOKEN_KEY, key.token), (PROTOCOL_KEY, PROTOCOL), (VERSION_KEY, package_version()))
        )
        self._tasks = OwnedTasks(f"link to {key.target}")

    async def open(self) -> None:
        reader = self._tasks.start(self._read(), "reader")
        let_in = self._tasks.start(self._let_in(), "admission")
        await asyncio.wait({reader, let_in}, return_when=asyncio.FIRST_COMPLETED)
        if let_in.done() and not let_in.result():
            await asyncio.wait({reader})  # hears why

    async def _let_in(self) -> bool:
        """A refusal has none of the worker's metadata. A write that it overtakes would hide the reason (gRPC 1.85)."""
        try:
            return bool(await self._stream.initial_metadata())
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            return False

    async def _read(self) -> None:
        end = BROKE
        try:
            while (message := await self._stream.read()) is not grpc.aio.EOF:
                self._received(message)
        except grpc.aio.AioRpcError as error:
            end = _end_of(error)
        finally:
            self._ended(end)

    async def write(self, message: bytes) -> bool:
        try:
            await self._stream.write(message)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            return False  # the reader hears why
        return True

    def write_at_once(self, _message: bytes) -> bool:
        return False

    def cut(self) -> None:
        self._stream.cancel()

    async def close(self) -> None:
        try:
            await self._tasks.close()
        finally:
            await self._channel.close()


def _end_of(error: grpc.aio.AioRpcError) -> End:
    end = _ENDS.get(error.code(), FAILED)
    return end if end.words else end._replace(words=error.details() or "")
