"""The worker's sessions with its clients. The one file of the worker that knows gRPC."""

import asyncio
import contextlib
import hmac
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from wool_jupyter.aio.owned_tasks import OwnedTasks
from wool_jupyter.records import ChannelOptions
from wool_jupyter.wire import frames, versions
from wool_jupyter.wire.credentials import TOKEN_KEY
from wool_jupyter.wire.direct import Hello, Notice
from wool_jupyter.wire.outbox import Outbox
from wool_jupyter.wire.protocol import METHOD, PROTOCOL, PROTOCOL_KEY, SERVICE, VERSION_KEY, package_version
from wool_jupyter.wire.transport import compression, grpc, server_options
from wool_jupyter.worker.admission import Admission
from wool_jupyter.worker.direct_server import DirectServer
from wool_jupyter.worker.session import Routine, Session

_DEFAULTS = ChannelOptions()
_LAST_WORDS_S = 0.5  # for what was said last to reach a client that keeps its stream


# What gRPC calls the ends that a worker gives a reason for.
_CODES = {
    "token": grpc.StatusCode.UNAUTHENTICATED,
    "version": grpc.StatusCode.FAILED_PRECONDITION,
    "unreadable": grpc.StatusCode.INVALID_ARGUMENT,
}


class WorkerService:
    """Serves until `close`. A stream is a session; its end means that the client is gone."""

    def __init__(
        self,
        routines: Mapping[str, Routine],
        *,
        token: str,
        admission: Admission | None = None,
        begins: Callable[[int], object] = lambda _: None,
        options: ChannelOptions = _DEFAULTS,
    ) -> None:
        """`begins`: as for a `Session`. `options`: those that the worker's record advertises."""
        self._options = options
        self._routines = routines
        self._begins = begins
        self._token = token
        self._admission = admission or Admission()
        self._sessions: set[Session] = set()
        self._tasks = OwnedTasks("service")
        self._stopped = asyncio.Event()
        self._server = grpc.aio.server(options=server_options(options), compression=compression(options))
        handler = grpc.stream_stream_rpc_method_handler(self._session)  # bytes both ways
        self._server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler})])
        self._direct = DirectServer(self._refusal_of, self._begun, message_max_bytes=options.max_receive_bytes)

    async def start(self, address: str, *, direct: Path | None = None) -> None:
        """Accepts connections when it returns: by gRPC on the Unix socket that is the address, and without it on the other one."""
        self._server.add_insecure_port(address)
        os.chmod(address.removeprefix("unix:"), 0o600)  # noqa: PTH101 (inline: nothing connects yet); the umask is the user's
        await self._server.start()
        if direct is not None:
            await self._direct.start(direct)

    @property
    def active(self) -> int:
        """Calls under way, of all clients."""
        return self._admission.active

    def stop(self, timeout_s: float) -> "asyncio.Task[None]":
        """Takes no more calls. Those that run are cancelled after `timeout_s`: 0 at once, negative never. Done when all have ended;
        a later one may be in more of a hurry."""
        self._admission.stop()
        return self._tasks.start(self._drain(timeout_s), "stop")

    async def _drain(self, timeout_s: float) -> None:
        try:
            async with asyncio.timeout(None if timeout_s < 0 else timeout_s):
                await self._admission.emptied()
        except TimeoutError:
            for session in self._sessions:
                session.cancel()
            await self._admission.emptied()
        self._stopped.set()

    async def stopped(self) -> None:
        """Returns when `stop` has done its work: what is left is to `close`."""
        await self._stopped.wait()

    async def close(self) -> None:
        """Cancels what still runs."""
        grace_s = _LAST_WORDS_S if self._stopped.is_set() else 0
        await asyncio.gather(self._server.stop(grace=grace_s or None), self._direct.close(grace_s=grace_s))
        await self._admission.emptied()
        await self._tasks.close()

    @asynccontextmanager
    async def _begun(self) -> AsyncIterator[tuple[Session, Outbox]]:
        """A session with a client that was let in."""
        out = Outbox(message_max_bytes=self._options.max_send_bytes)
        session = Session(self._routines, out.put, admission=self._admission, control=self, begins=self._begins)
        self._sessions.add(session)
        try:
            yield session, out
        finally:
            try:
                await session.close()
            finally:
                self._sessions.discard(session)

    async def _session(self, _requests: Any, context: "grpc.aio.ServicerContext[bytes, bytes]") -> None:
        given = dict(context.invocation_metadata() or ())
        who = Hello(*(str(given.get(key, "")) for key in (TOKEN_KEY, PROTOCOL_KEY, VERSION_KEY)))
        if (refusal := self._refusal_of(who)) is not None:
            await context.abort(_CODES[refusal.kind], refusal.words)
        # Lets the client in, which sends nothing before. It tells from the metadata that this is no refusal.
        await context.send_initial_metadata(((PROTOCOL_KEY, PROTOCOL),))
        tasks = OwnedTasks("stream")
        try:
            async with self._begun() as (session, out):
                writer = tasks.start(_write(out, context), "writer")
                refusal = await _read(session, context)
                out.close()
                # Not cancelled: its write would stay under way, and no status could follow (gRPC 1.85).
                await asyncio.wait({writer})
                if refusal is not None:
                    await context.abort(_CODES[refusal.kind], refusal.words)
        finally:
            await tasks.close()

    def _refusal_of(self, who: Hello) -> Notice | None:
        """The token first: a stranger is told nothing."""
        if not hmac.compare_digest(who.token.encode(), self._token.encode()):
            return Notice("token", "wrong token")
        if who.protocol == PROTOCOL and versions.suits(package_version(), who.version):
            return None
        words = (
            f"the worker speaks protocol {PROTOCOL} (wool_jupyter {package_version()}), the client {who.protocol} "
            f"(wool_jupyter {who.version}): start both with the same version"
        )
        return Notice("version", words)


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
