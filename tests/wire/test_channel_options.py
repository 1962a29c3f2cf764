"""What a worker says of how it wants to be spoken to, and what its clients make of that: over a real socket, past a relay."""

import asyncio
import tempfile
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from uuid import UUID

import pytest

from tests.support.loops import run, until
from tests.support.services import TOKEN, Forever, echo, once
from tests.support.workers import VERSION
from wool_jupyter.dispatch import channels
from wool_jupyter.dispatch.connection import WorkerConnection
from wool_jupyter.errors import MessageTooLarge, WorkerDied
from wool_jupyter.records import ChannelOptions, WorkerMetadata
from wool_jupyter.worker.service import WorkerService

MIB = 1 << 20


class Relay:
    """Between a client and a worker. It counts the bytes, and may hold them all."""

    def __init__(self, target):
        self._target = target
        self.to_worker = self.to_client = self.open = 0
        self.passes = asyncio.Event()
        self.passes.set()

    async def serve(self, reader, writer):
        self.open += 1
        further, back = await asyncio.open_unix_connection(self._target)
        await asyncio.gather(self._pass_on(reader, back, "to_worker"), self._pass_on(further, writer, "to_client"))
        self.open -= 1

    async def _pass_on(self, reader, writer, way):
        with suppress(ConnectionError):
            while data := await reader.read(MIB):
                await self.passes.wait()
                setattr(self, way, getattr(self, way) + len(data))
                writer.write(data)
                await writer.drain()
        writer.close()


@asynccontextmanager
async def worker_with(**options):
    """A connection to it, and the relay."""
    chosen, forever = ChannelOptions(**options), Forever()
    with tempfile.TemporaryDirectory(prefix="w", dir="/tmp") as directory:
        relay = Relay(Path(directory) / "worker")
        service = WorkerService(
            {"once": once, "echo": echo, "zeros": zeros, "forever": forever}, token=TOKEN, options=chosen
        )
        await service.start(f"unix:{directory}/worker")
        server = await asyncio.start_unix_server(relay.serve, Path(directory) / "relay")
        metadata = WorkerMetadata(UUID(int=1), f"unix:{directory}/relay", 1, VERSION, options=chosen)
        try:
            yield WorkerConnection(metadata, token=TOKEN), relay
        finally:
            relay.passes.set()
            await channels.of_this_loop().clear()
            server.close()
            await service.close()
            await until(lambda: not relay.open)


async def zeros(body):
    yield bytes(int(body)), True


async def answer(connection, routine, body):
    call = await connection.dispatch(routine, body)
    try:
        return await call.step()
    finally:
        call.close()


def test_a_client_sends_no_more_than_the_worker_takes():
    async def main():
        async with worker_with(max_receive_bytes=MIB) as (connection, relay):
            assert await answer(connection, "once", bytes(MIB - 100)) == bytes(MIB - 100)
            before = relay.to_worker
            with pytest.raises(MessageTooLarge, match=r"larger than 1 MiB, and was not sent"):
                await connection.dispatch("once", bytes(MIB))
            assert await answer(connection, "once", b"next") == b"next", "the connection stays"
            assert relay.to_worker - before < MIB

    run(main())


def test_a_worker_takes_more_than_by_default_if_it_says_so():
    async def main():
        async with worker_with(max_receive_bytes=40 * MIB, max_send_bytes=40 * MIB) as (connection, _):
            assert await answer(connection, "once", bytes(30 * MIB)) == bytes(30 * MIB)

    run(main())


def test_a_worker_sends_no_more_than_it_says():
    async def main():
        async with worker_with(max_send_bytes=MIB) as (connection, relay):
            assert await answer(connection, "zeros", b"%d" % (MIB - 100)) == bytes(MIB - 100)
            before = relay.to_client
            with pytest.raises(MessageTooLarge, match=r"from the worker: .* larger than 1 MiB"):
                await answer(connection, "zeros", b"%d" % MIB)
            assert relay.to_client - before < MIB
            assert await answer(connection, "once", b"next") == b"next"

    run(main())


@pytest.mark.parametrize(("compression", "small"), [("none", False), ("deflate", True), ("gzip", True)])
def test_messages_are_compressed_both_ways_as_the_worker_says(compression, small):
    async def main():
        async with worker_with(compression=compression) as (connection, relay):
            assert await answer(connection, "once", bytes(4 * MIB)) == bytes(4 * MIB)
            assert (relay.to_worker < MIB, relay.to_client < MIB) == (small, small)

    run(main())


@pytest.mark.parametrize("pings", [True, False])
def test_a_peer_that_falls_silent_is_found_out_by_pings_alone(pings):
    async def main():
        options = {"keepalive_time_s": 0.2, "keepalive_timeout_s": 0.3} if pings else {}
        async with worker_with(**options) as (connection, relay):
            call = await connection.dispatch("forever", b"")
            step = asyncio.create_task(call.step())
            await until(lambda: connection.load == 1)
            before = relay.to_worker
            if pings:
                await until(lambda: step.done() or relay.to_worker > before + 9 * 17)
                assert not step.done(), "the worker took offence at the pings"
            relay.passes.clear()
            done, _ = await asyncio.wait({step}, timeout=None if pings else 2)
            assert bool(done) == pings
            relay.passes.set()
            call.close()
            if pings:
                with pytest.raises(WorkerDied):
                    await step
            step.cancel()

    run(main())
