"""Messages on a Unix socket, between processes of one host: the frames that gRPC carries elsewhere, in a third of its time.

    length, 4 bytes, the highest bit 0 │ message
                          ... and 1    │ what an end has to say of the connection itself, a `Notice`

The client begins with its `Hello`, and sends nothing else before the worker's first notice, which lets it in.
"""

import asyncio
import contextlib
import socket
import struct
from typing import Protocol

import msgspec

_HEAD = struct.Struct("<I")
_OF_CONNECTION = 1 << 31
HELLO_MAX_BYTES = 1024

Kind = str  # "let in", or why a connection ends: "token", "version", "unreadable", "too large"


class Hello(msgspec.Struct, frozen=True, array_like=True):
    token: str
    protocol: str
    version: str


class Notice(msgspec.Struct, frozen=True, array_like=True):
    kind: Kind
    words: str = ""


encode = msgspec.msgpack.Encoder().encode
decode_hello = msgspec.msgpack.Decoder(Hello).decode
decode_notice = msgspec.msgpack.Decoder(Notice).decode
DecodeError = msgspec.DecodeError


class Listener(Protocol):
    """What it raises ends the connection."""

    def received(self, message: bytes) -> None: ...

    def noticed(self, notice: bytes) -> None: ...

    def too_large(self) -> None:
        """Instead of a message that is not read; nothing more is."""
        ...

    def ended(self) -> None:
        """Once, at last."""
        ...


class Line(asyncio.Protocol):
    """One end of a connection, on the loop that made it."""

    def __init__(self, listener: Listener, *, message_max_bytes: int) -> None:
        self.message_max_bytes = message_max_bytes
        self._listener = listener
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._deaf = False

    @property
    def is_connected(self) -> bool:
        """Or was: its end is told."""
        return self._transport is not None

    async def write(self, message: bytes) -> bool:
        """Returns when there is room for the next one; False once the connection has ended."""
        if self._transport is None or self._transport.is_closing():
            return False
        self._transport.writelines((_HEAD.pack(len(message)), message))
        await self._may_write.wait()
        return not self._transport.is_closing()

    def write_at_once(self, message: bytes) -> bool:
        """False if it has to wait for room, or the connection has ended: it was not written."""
        if self._transport is None or self._transport.is_closing() or not self._may_write.is_set():
            return False
        self._transport.writelines((_HEAD.pack(len(message)), message))
        return True

    def notice(self, notice: Notice | Hello) -> None:
        if self._transport is not None:
            data = encode(notice)
            self._transport.writelines((_HEAD.pack(len(data) | _OF_CONNECTION), data))

    def finish(self) -> None:
        """Ends it when what was written is sent."""
        self._deaf = True
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write_eof()
            self._transport.close()

    def cut(self) -> None:
        """Ends it now, also where a fork of this process has the descriptor."""
        self._deaf = True
        if self._transport is not None:
            with contextlib.suppress(OSError):
                self._transport.get_extra_info("socket").shutdown(socket.SHUT_RDWR)
            self._transport.abort()

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        start = 0
        while len(buffer) - start >= _HEAD.size and not self._deaf:
            (head,) = _HEAD.unpack_from(buffer, start)
            size = head & ~_OF_CONNECTION
            if size > self.message_max_bytes:
                self._deaf = True
                self._listener.too_large()
                break
            end = start + _HEAD.size + size
            if len(buffer) < end:
                break
            message = bytes(memoryview(buffer)[start + _HEAD.size : end])
            start = end
            (self._listener.noticed if head & _OF_CONNECTION else self._listener.received)(message)
        del buffer[:start]

    def connection_lost(self, _: Exception | None) -> None:
        self._may_write.set()
        self._listener.ended()

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()
