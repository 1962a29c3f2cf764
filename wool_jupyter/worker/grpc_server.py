"""Sessions with clients that come by gRPC. The one file of the worker that knows gRPC; it is imported for the first of them."""

import asyncio
import contextlib
import os
from pathlib import Path
from typing import Any

from wool_jupyter.aio.owned_tasks import OwnedTasks
from wool_jupyter.records import ChannelOptions
from wool_jupyter.wire import frames
from wool_jupyter.wire.credentials import TOKEN_KEY
from wool_jupyter.wire.direct import Hello, Notice
from wool_jupyter.wire.outbox import Outbox
from wool_jupyter.wire.protocol import METHOD, PROTOCOL, PROTOCOL_KEY, SERVICE, VERSION_KEY
from wool_jupyter.wire.transport import compression, grpc, server_options
from wool_jupyter.worker.direct_server import Refusal, Sessions
from wool_jupyter.worker.session import Session

# What gRPC calls the ends that a worker gives a reason for.
_CODES = {
    "token": grpc.StatusCode.UNAUTHENTICATED,
    "version": grpc.StatusCode.FAILED_PRECONDITION,
    "unreadable": grpc.StatusCode.INVALID_ARGUMENT,
}


class GrpcServer:
    """Serves on a Unix socket until `close`. A stream is a session; its end means that the client is gone."""

    def __init__(self, refusal: Refusal, sessions: Sessions, options: ChannelOptions) -> None:
        self._refusal = refusal
        self._sessions = sessions
        self._server = grpc.aio.server(options=server_options(options), compression=compression(options))
        handler = grpc.stream_stream_rpc_method_handler(self._session)  # bytes both ways
        self._server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler})])

    async def start(self, path: Path) -> None:
        """Accepts connections when it returns."""
        self._server.add_insecure_port(f"unix:{path}")
        os.chmod(path, 0o600)  # noqa: PTH101 (inline: nothing connects yet); the umask is the user's
        await self._server.start()

    async def close(self, *, grace_s: float) -> None:
        """Takes no more streams, and ends those that there are; clients get a moment to end them first."""
        await self._server.stop(grace=grace_s or None)

    async def _session(self, _requests: Any, context: "grpc.aio.ServicerContext[bytes, bytes]") -> None:
        given = dict(context.invocation_metadata() or ())
        who = Hello(*(str(given.get(key, "")) for key in (TOKEN_KEY, PROTOCOL_KEY, VERSION_KEY)))
        if (refusal := self._refusal(who)) is not None:
            await context.abort(_CODES[refusal.kind], refusal.words)
        # Lets the client in, which sends nothing before. It tells from the metadata that this is no refusal.
        await context.send_initial_metadata(((PROTOCOL_KEY, PROTOCOL),))
        tasks = OwnedTasks("stream")
        try:
            async with self._sessions() as (session, out):
                writer = tasks.start(_write(out, context), "writer")
                refusal = await _read(session, context)
                out.close()
                # Not cancelled: its write would stay under way, and no status could follow (gRPC 1.85).
                await asyncio.wait({writer})
                if refusal is not None:
                    await context.abort(_CODES[refusal.kind], refusal.words)
        finally:
            await tasks.close()


async def _read(session: Session, context: "grpc.aio.ServicerContext[bytes, bytes]") -> Notice | None:
    """Until the client ends the stream, or sends what can't be read."""
    with contextlib.suppress(grpc.aio.UsageError):  # read after the client broke off
        while (message := await context.read()) is not grpc.aio.EOF:
            try:
                requests = frames.decode_requests(message)
            except frames.DecodeError as error:
                return Notice("unreadable", f"the worker can't read a message of the client: {error}")
            for request in requests:
                session.receive(request)
    return None


async def _write(out: Outbox, context: "grpc.aio.ServicerContext[bytes, bytes]") -> None:
    while (message := await out.take()) is not None:
        await context.write(message)
