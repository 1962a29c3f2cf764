"""The worker's sessions with its clients, by whichever way they come."""

import asyncio
import hmac
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from wool_jupyter.aio.owned_tasks import OwnedTasks
from wool_jupyter.records import ChannelOptions
from wool_jupyter.wire import layout, versions
from wool_jupyter.wire.direct import Hello, Notice
from wool_jupyter.wire.outbox import Outbox
from wool_jupyter.wire.protocol import PROTOCOL, package_version
from wool_jupyter.worker.admission import Admission
from wool_jupyter.worker.direct_server import DirectServer
from wool_jupyter.worker.grpc_door import GrpcDoor
from wool_jupyter.worker.session import Routine, Session

_DEFAULTS = ChannelOptions()
_LAST_WORDS_S = 0.5  # for what was said last to reach a client that keeps its stream


class WorkerService:
    """Serves until `close`."""

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
        self._door = GrpcDoor(self._refusal_of, self._begun, options)
        self._direct = DirectServer(self._refusal_of, self._begun, message_max_bytes=options.max_receive_bytes)

    async def start(self, address: str, *, direct: Path | None = None) -> None:
        """Accepts connections when it returns: by gRPC on the Unix socket that is the address, and without it on the other one."""
        socket = layout.socket_at(address)
        assert socket is not None
        await self._door.start(socket)
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
        await asyncio.gather(self._door.close(grace_s=grace_s), self._direct.close(grace_s=grace_s))
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
