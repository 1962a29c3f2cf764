"""What the socket without gRPC adds to a session: who gets it, and what strangers and slow readers can do to it."""

import asyncio
import os
import socket
import struct
from contextlib import asynccontextmanager
from uuid import UUID

import pytest

from tests.support.carriers import direct_of, sockets_of
from tests.support.channels import opened
from tests.support.loops import run, until
from tests.support.services import TOKEN, Forever, once
from tests.support.workers import VERSION
from wool_jupyter.dispatch import channels
from wool_jupyter.dispatch.direct_link import DirectLink
from wool_jupyter.dispatch.grpc_link import GrpcLink
from wool_jupyter.dispatch.link import ChannelKey
from wool_jupyter.errors import MessageTooLarge, NotReached, WorkerDied
from wool_jupyter.records import ChannelOptions, WorkerMetadata
from wool_jupyter.wire import direct, frames
from wool_jupyter.wire.protocol import PROTOCOL, package_version
from wool_jupyter.worker.service import WorkerService

HELLO = direct.Hello(TOKEN, PROTOCOL, package_version())


@asynccontextmanager
async def serving(carrier="direct", options=None, **routines):
    with sockets_of(carrier) as directory:
        metadata = WorkerMetadata(UUID(int=1), f"unix:{directory}/1", 1, VERSION)
        service = WorkerService({"once": once, **routines}, token=TOKEN, options=options or ChannelOptions())
        await service.start(metadata.address, direct=direct_of(metadata.address))
        try:
            yield metadata, service
        finally:
            await service.close()


async def answers(metadata):
    async with opened(metadata, TOKEN) as channel:
        return await channel.call(metadata, "once", b"?").step()


@asynccontextmanager
async def stranger(metadata):
    reader, writer = await asyncio.open_unix_connection(str(direct_of(metadata.address)))
    try:
        yield reader, writer
    finally:
        writer.close()


def sent(data, *, notice=False):
    return struct.pack("<I", len(data) | (1 << 31 if notice else 0)) + data


async def last_notice(reader):
    *_, last = await notices(reader)
    return last


async def notices(reader):
    """All that the worker says of the connection, which it ends."""
    found, data = [], await reader.read()
    while data:
        (head,) = struct.unpack_from("<I", data)
        assert head >> 31, "a message"
        size = head & ~(1 << 31)
        found.append(direct.decode_notice(data[4 : 4 + size]))
        data = data[4 + size :]
    return found


@pytest.mark.parametrize(("carrier", "link"), [("direct", DirectLink), ("grpc", GrpcLink)])
def test_a_worker_that_has_the_socket_is_reached_by_it_and_others_by_grpc(carrier, link):
    async def main():
        async with serving(carrier) as (metadata, _), opened(metadata, TOKEN) as channel:
            assert type(channel._link) is link
            assert await channel.call(metadata, "once", b"?").step() == b"?"

    run(main())


def test_a_worker_that_is_gone_is_not_looked_for_by_grpc():
    async def main():
        async with serving() as (metadata, service):
            await service.close()
            direct_of(metadata.address).unlink(missing_ok=True)
            link = channels._link(ChannelKey(metadata.address, TOKEN, metadata.options), lambda _: None, lambda _: None)
            assert type(link) is DirectLink
            with pytest.raises(NotReached):
                await answers(metadata)

    run(main())


def test_the_socket_is_its_users_alone():
    async def main():
        async with serving() as (metadata, _):
            assert direct_of(metadata.address).stat().st_mode & 0o777 == 0o600

    run(main())


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(b"\0" * 64, id="messages before it said who it is"),
        pytest.param(b"\xff" * 64, id="rubbish"),
        pytest.param(sent(b"\xc1", notice=True), id="a hello that is none"),
        pytest.param(sent(direct.encode(direct.Hello("x" * 64, PROTOCOL, "1")), notice=True), id="another token"),
        pytest.param(struct.pack("<I", 1 << 31 | 1025), id="a hello that is too long"),
    ],
)
def test_a_stranger_is_told_nothing_and_disturbs_nobody(said, monkeypatch):
    async def main():
        async with serving() as (metadata, service), stranger(metadata) as (reader, writer):
            with monkeypatch.context() as patched:
                patched.setattr(frames, "decode_requests", lambda _: pytest.fail("it was decoded"))
                writer.write(said)
                assert (await last_notice(reader)).kind == "token"
            assert await answers(metadata) == b"?"
            await until(lambda: not service._sessions)

    run(main())


def test_one_that_never_says_who_it_is_keeps_nobody_from_leaving():
    async def main():
        async with serving() as (metadata, _), stranger(metadata) as (reader, _):
            assert await answers(metadata) == b"?"
            reading = asyncio.create_task(reader.read())
            await asyncio.sleep(0)
        assert await reading == b""

    run(main())


def test_a_second_hello_ends_the_connection():
    async def main():
        async with serving() as (metadata, _), stranger(metadata) as (reader, writer):
            writer.write(sent(direct.encode(HELLO), notice=True) * 2)
            assert [notice.kind for notice in await notices(reader)] == ["unreadable"]

    run(main())


def test_a_message_before_the_client_was_let_in_ends_the_connection(monkeypatch):
    async def main():
        async with serving() as (metadata, _), stranger(metadata) as (reader, writer):
            with monkeypatch.context() as patched:
                patched.setattr(frames, "decode_requests", lambda _: pytest.fail("it was decoded"))
                writer.write(sent(direct.encode(HELLO), notice=True) + sent(b"\x90"))
                assert (await last_notice(reader)).kind == "unreadable"
            assert await answers(metadata) == b"?"

    run(main())


def test_a_message_that_the_worker_does_not_take_is_named_to_its_call():
    async def main():
        async with serving(options=ChannelOptions(max_receive_bytes=1000)) as (metadata, _):  # not what the record says
            async with opened(metadata, TOKEN) as channel:
                with pytest.raises(MessageTooLarge, match="larger than its receiver takes"):
                    await channel.call(metadata, "once", b"x" * 2000).step()
            assert await answers(metadata) == b"?"

    run(main())


def test_a_fork_that_has_the_descriptor_does_not_keep_a_closed_connection_open():
    async def main():
        forever = Forever()
        async with serving(forever=forever) as (metadata, _):
            async with opened(metadata, TOKEN) as channel:
                call = channel.call(metadata, "forever", b"")
                await until(lambda: forever.inside)
                inherited = os.dup(channel._link._line._transport.get_extra_info("socket").fileno())
            await until(lambda: not forever.inside)
            os.close(inherited)
            with pytest.raises(WorkerDied):
                await call.step()

    run(main())


def test_who_writes_waits_for_who_does_not_read():
    async def main():
        ours, theirs = socket.socketpair()
        with theirs:
            line = direct.Line(Silent(), message_max_bytes=1 << 30)
            await asyncio.get_running_loop().create_unix_connection(lambda: line, sock=ours)
            writing = asyncio.create_task(line.write(b"x" * (8 << 20)))
            done, _ = await asyncio.wait({writing}, timeout=0.1)
            assert not done
            theirs.setblocking(False)
            left = 4 + (8 << 20)
            while left:
                left -= len(await asyncio.get_running_loop().sock_recv(theirs, 1 << 20))
            assert await writing
            line.cut()

    run(main())


def test_what_is_sent_at_once_waits_where_there_is_no_room():
    async def main():
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        with theirs:
            theirs.setblocking(False)
            line = direct.Line(Silent(), message_max_bytes=1 << 30)
            assert not line.write_at_once(b"too early")
            await loop.create_unix_connection(lambda: line, sock=ours)
            assert line.write_at_once(b"first")
            assert await loop.sock_recv(theirs, 100) == sent(b"first")
            assert line.write_at_once(b"x" * (8 << 20))
            assert not line.write_at_once(b"no room")
            left = 4 + (8 << 20)
            while left:
                left -= len(await loop.sock_recv(theirs, 1 << 20))
            await until(lambda: line.write_at_once(b"again"))
            assert await loop.sock_recv(theirs, 100) == sent(b"again")
            line.cut()
            assert not line.write_at_once(b"too late")

    run(main())


def test_messages_of_a_small_call_are_sent_at_once_both_ways():
    async def main():
        async with serving() as (metadata, service), opened(metadata, TOKEN) as channel:
            (session,) = service._sessions
            there, back = channel._out, session._send.__self__
            ways = [Counted(outbox.sends_at_once) for outbox in (there, back)]
            there.sends_at_once, back.sends_at_once = ways
            for _ in range(3):
                assert await channel.call(metadata, "once", b"?").step() == b"?"
            assert [way.sent for way in ways] == [3, 3]

    run(main())


class Counted:
    def __init__(self, way):
        self._way, self.sent = way, 0

    def __call__(self, message):
        at_once = self._way(message)
        self.sent += at_once
        return at_once


class Silent:
    def received(self, message):
        raise AssertionError(message)

    noticed = received

    def too_large(self):
        raise AssertionError

    def ended(self):
        pass
