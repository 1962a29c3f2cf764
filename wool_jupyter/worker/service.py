"""The gRPC servicer: the one file of the worker that knows gRPC."""

import asyncio
import contextlib
import hmac
from collections.abc import Mapping
from typing import Any

from wool_jupyter.aio.owned_tasks import OwnedTasks
from wool_jupyter.wire import frames
from wool_jupyter.wire.credentials import TOKEN_KEY
from wool_jupyter.wire.transport import METHOD, OPTIONS, SERVICE, grpc
from wool_jupyter.worker.session import Routine, Session


class WorkerService:
    """Serves on a Unix socket until `close`. A stream is a session; its end means that the client is gone."""

    def __init__(self, routines: Mapping[str, Routine], *, token: str) -> None:
        self._routines = routines
        self._token = token
        self._server = grpc.aio.server(options=OPTIONS)
        handler = grpc.stream_stream_rpc_method_handler(self._session)  # bytes both ways
        self._server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler})])

    async def start(self, address: str) -> None:
        """Accepts connections when it returns."""
        self._server.add_insecure_port(address)
        await self._server.start()

    async def close(self) -> None:
        await self._server.stop(grace=None)

    async def _session(self, _requests: Any, context: "grpc.aio.ServicerContext[bytes, bytes]") -> None:
        given = dict(context.invocation_metadata() or ()).get(TOKEN_KEY, "")
        if not hmac.compare_digest(str(given).encode(), self._token.encode()):
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "wrong token")
        out: asyncio.Queue[frames.Response] = asyncio.Queue()
        session = Session(self._routines, out.put_nowait)
        tasks = OwnedTasks("stream")
        tasks.start(_write(out, context), "writer")
        try:
            with contextlib.suppress(grpc.aio.UsageError):  # read after the client broke off
                while (data := await context.read()) is not grpc.aio.EOF:
                    session.receive(frames.decode_request(data))
        finally:
            try:
                await session.close()
            finally:
                await tasks.close()


async def _write(out: "asyncio.Queue[frames.Response]", context: "grpc.aio.ServicerContext[bytes, bytes]") -> None:
    while True:
        await context.write(frames.encode(await out.get()))
