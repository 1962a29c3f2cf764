"""Where clients come in that speak gRPC. It is loaded for the first of them: most workers never see one.

client ─▶ the worker's address ─ bytes as they are ─▶ a socket beside it, where gRPC listens by then
"""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from wool_jupyter.aio import own_sockets
from wool_jupyter.aio.owned_tasks import OwnedTasks
from wool_jupyter.records import ChannelOptions
from wool_jupyter.wire import layout
from wool_jupyter.worker.direct_server import Refusal, Sessions

if TYPE_CHECKING:
    from collections.abc import Callable

    from wool_jupyter.worker.grpc_server import GrpcServer


class GrpcDoor:
    """Open until `close`, on one loop."""

    def __init__(self, refusal: Refusal, sessions: Sessions, options: ChannelOptions) -> None:
        self._refusal = refusal
        self._sessions = sessions
        self._options = options
        self._path = Path()
        self._door: asyncio.Server | None = None
        self._server: GrpcServer | None = None
        self._loading = asyncio.Lock()
        self._ends: set[_End] = set()
        self._tasks = OwnedTasks("gRPC's door")

    async def start(self, path: Path) -> None:
        """Accepts connections when it returns."""
        self._path = path
        self._door = await own_sockets.served(path, self._outer)

    async def close(self, *, grace_s: float) -> None:
        """Lets nobody in any more, and ends the sessions; clients get a moment to end them first."""
        if self._door is not None:
            self._door.close()
            self._path.unlink(missing_ok=True)  # who looks for it sees that the worker is gone
        await self._tasks.close()
        if self._server is not None:
            await self._server.close(grace_s=grace_s)
        for end in list(self._ends):
            end.cut()

    def _outer(self) -> "_End":
        return _End(self._ends, made=self._knocks)

    def _knocks(self, outer: "_End") -> None:
        self._tasks.start(self._let_in(outer), "connection")

    async def _let_in(self, outer: "_End") -> None:
        """What the client says meanwhile waits in its socket."""
        inner = _End(self._ends)
        try:
            path = await self._served()
            await asyncio.get_running_loop().create_unix_connection(lambda: inner, str(path))
        except BaseException:
            outer.cut()
            raise
        outer.joins(inner)

    async def _served(self) -> Path:
        path = layout.behind_door(self._path)
        async with self._loading:
            if self._server is None:
                from wool_jupyter.worker.grpc_server import GrpcServer  # 70 ms, once

                server = GrpcServer(self._refusal, self._sessions, self._options)
                await server.start(path)
                self._server = server
        return path


class _End(asyncio.Protocol):
    """Of a connection: what comes in here goes out at the other one, no faster than that takes it."""

    def __init__(self, ends: "set[_End]", *, made: "Callable[[_End], object]" = lambda _: None) -> None:
        self._ends = ends
        self._made = made
        self._transport: asyncio.Transport | None = None
        self._other: asyncio.Transport | None = None  # once both are there

    def joins(self, other: "_End") -> None:
        here, there = self._transport, other._transport
        if here is None or there is None or here.is_closing() or there.is_closing():  # one has left meanwhile
            self.cut()
            other.cut()
            return
        self._other, other._other = there, here
        here.resume_reading()
        there.resume_reading()

    def cut(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._ends.add(self)
        transport.pause_reading()
        self._made(self)

    def connection_lost(self, _: Exception | None) -> None:
        self._ends.discard(self)
        if self._other is not None:
            self._other.close()  # when it has sent what is left

    def data_received(self, data: bytes) -> None:
        if self._other is not None:
            self._other.write(data)

    def pause_writing(self) -> None:
        if self._other is not None:
            self._other.pause_reading()

    def resume_writing(self) -> None:
        if self._other is not None:
            self._other.resume_reading()
