"""A worker's sessions with clients of the same host, without gRPC."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path

from wool_jupyter.aio import own_sockets
from wool_jupyter.aio.owned_tasks import OwnedTasks
from wool_jupyter.wire import direct, frames
from wool_jupyter.wire.outbox import Outbox
from wool_jupyter.worker.session import Session

# Of a stranger: None lets it in.
Refusal = Callable[[direct.Hello], direct.Notice | None]
Sessions = Callable[[], AbstractAsyncContextManager[tuple[Session, Outbox]]]


class DirectServer:
    """Serves on a Unix socket until `close`. A connection is a session."""

    def __init__(self, refusal: Refusal, sessions: Sessions, *, message_max_bytes: int) -> None:
        self._refusal = refusal
        self._sessions = sessions
        self._message_max_bytes = message_max_bytes
        self._clients: set[_Client] = set()
        self._tasks = OwnedTasks("direct server")
        self._server: asyncio.Server | None = None

    async def start(self, path: Path) -> None:
        """Accepts connections when it returns."""
        self._server = await own_sockets.served(path, self._line)

    def _line(self) -> direct.Line:
        client = _Client(self._refusal, self._message_max_bytes)
        self._clients.add(client)
        task = self._tasks.start(client.serve(self._sessions), "client")
        task.add_done_callback(lambda _: self._clients.discard(client))
        return client.line

    async def close(self, *, grace_s: float) -> None:
        """Takes no more connections, and ends those that there are; clients get a moment to end them first."""
        if self._server is not None:
            self._server.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await self._tasks.wait()
        for client in list(self._clients):
            client.line.cut()
        await self._tasks.wait()


class _Client:
    """Of one connection. Its first message says who it is."""

    def __init__(self, refusal: Refusal, message_max_bytes: int) -> None:
        self._refusal = refusal
        self._message_max_bytes = message_max_bytes
        self._let_in: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._session: Session | None = None
        self.gone = asyncio.Event()
        self.line = direct.Line(self, message_max_bytes=direct.HELLO_MAX_BYTES)

    async def serve(self, sessions: Sessions) -> None:
        if not await self._let_in:
            return
        async with sessions() as (self._session, out):
            self.line.notice(direct.Notice("let in"))
            out.sends_at_once = self.line.write_at_once
            tasks = OwnedTasks("client")
            writer = tasks.start(self._write(out), "writer")
            await self.gone.wait()
            out.close()
            await asyncio.wait({writer})

    async def _write(self, out: Outbox) -> None:
        while (message := await out.take()) is not None and await self.line.write(message):
            pass

    def noticed(self, notice: bytes) -> None:
        if self._let_in.done():
            self._refuse(direct.Notice("unreadable", "the worker can't read what the client says of itself"))
            return
        try:
            refusal = self._refusal(direct.decode_hello(notice))
        except direct.DecodeError:
            refusal = direct.Notice("token")
        if refusal is not None:
            self._refuse(refusal)
            return
        self.line.message_max_bytes = self._message_max_bytes
        self._let_in.set_result(True)

    def received(self, message: bytes) -> None:
        if not self._let_in.done():
            self._refuse(direct.Notice("token"))
            return
        if self._session is None:
            self._refuse(direct.Notice("unreadable", "the client sent a message before it was let in"))
            return
        try:
            requests = frames.decode_requests(message)
        except frames.DecodeError as error:
            self._refuse(direct.Notice("unreadable", f"the worker can't read a message of the client: {error}"))
            return
        for request in requests:
            self._session.receive(request)

    def too_large(self) -> None:
        self._refuse(direct.Notice("too large" if self._let_in.done() else "token"))

    def _refuse(self, notice: direct.Notice) -> None:
        self.line.notice(notice)
        self.line.finish()

    def ended(self) -> None:
        self.gone.set()
        if not self._let_in.done():
            self._let_in.set_result(False)
