"""A connection to a worker of this host that does without gRPC."""

import asyncio
from pathlib import Path

from wool_jupyter.dispatch.link import BROKE, NO_TOKEN, TOO_LARGE, UNREADABLE, ChannelKey, Ended, Received, refused
from wool_jupyter.wire import direct, layout
from wool_jupyter.wire.protocol import PROTOCOL, package_version


def socket_of(target: str) -> Path | None:
    """Of the worker with that address; None if it has none, or is not here. One that is gone had one if others have one: gRPC would
    be loaded for nothing, with its threads."""
    other = layout.socket_at(target)
    if other is None:
        return None
    path = layout.direct(other)
    is_gone = path.parent.is_dir() and not other.exists()
    return path if path.is_socket() or is_gone else None


class DirectLink:
    def __init__(self, path: Path, key: ChannelKey, received: Received, ended: Ended) -> None:
        self._path = path
        self._token = key.token
        self._received = received
        self._ended = ended
        self._let_in = asyncio.Event()  # or ended
        self._gone = asyncio.Event()
        self._line = direct.Line(self, message_max_bytes=key.options.max_send_bytes)

    async def open(self) -> None:
        try:
            await asyncio.get_running_loop().create_unix_connection(lambda: self._line, str(self._path))
        except OSError:
            self.ended()
            return
        self._line.notice(direct.Hello(self._token, PROTOCOL, package_version()))
        await self._let_in.wait()

    async def write(self, message: bytes) -> bool:
        return await self._line.write(message)

    def write_at_once(self, message: bytes) -> bool:
        return self._line.write_at_once(message)

    def cut(self) -> None:
        self._line.cut()

    async def close(self) -> None:
        self.cut()
        if self._line.is_connected:
            await self._gone.wait()

    def received(self, message: bytes) -> None:
        self._received(message)

    def noticed(self, notice: bytes) -> None:
        try:
            said = direct.decode_notice(notice)
        except direct.DecodeError:
            self._ended(UNREADABLE)
            return
        match said.kind:
            case "let in":
                self._let_in.set()
            case "token":
                self._ended(NO_TOKEN)
            case "too large":
                self._ended(TOO_LARGE)
            case _:
                self._ended(refused(said.words))

    def too_large(self) -> None:
        self._ended(TOO_LARGE)

    def ended(self) -> None:
        self._let_in.set()
        self._gone.set()
        self._ended(BROKE)
