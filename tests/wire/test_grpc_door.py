"""A worker's door for gRPC: what a client meets there while gRPC is not loaded yet, or can't be."""

import asyncio
import sys
from contextlib import asynccontextmanager
from uuid import UUID

import pytest

from tests.support.carriers import sockets_of
from tests.support.channels import opened
from tests.support.loops import run, until
from tests.support.services import TOKEN, Forever, once
from tests.support.workers import VERSION
from wool_jupyter.errors import NotReached, WorkerDied
from wool_jupyter.records import WorkerMetadata
from wool_jupyter.wire import layout
from wool_jupyter.worker.service import WorkerService

SERVER = "wool_jupyter.worker.grpc_server"


@asynccontextmanager
async def serving(**routines):
    with sockets_of("grpc") as directory:
        metadata = WorkerMetadata(UUID(int=1), f"unix:{directory}/1", 1, VERSION)
        service = WorkerService({"once": once, **routines}, token=TOKEN)
        await service.start(metadata.address)
        try:
            yield metadata, service, directory / "1"
        finally:
            await service.close()


async def answers(metadata):
    async with opened(metadata, TOKEN) as channel:
        return await channel.call(metadata, "once", b"?").step()


def test_both_sockets_are_their_users_alone_and_go_with_the_worker():
    async def main():
        async with serving() as (metadata, service, path):
            assert await answers(metadata) == b"?"
            sockets = [path, layout.behind_door(path)]
            assert [each.stat().st_mode & 0o777 for each in sockets] == [0o600] * 2
            await service.close()
            assert not any(each.exists() for each in sockets)

    run(main())


def test_a_client_is_told_when_grpc_cannot_be_loaded_and_the_next_one_may_have_more_luck(monkeypatch, capfd):
    async def main():
        async with serving() as (metadata, _, _):
            with monkeypatch.context() as patch:
                patch.setitem(sys.modules, SERVER, None)
                with pytest.raises(NotReached):
                    await answers(metadata)
            assert await answers(metadata) == b"?"

    run(main())
    assert "ModuleNotFoundError" in capfd.readouterr().err


def test_clients_that_come_together_find_one_server():
    async def main():
        async with serving() as (metadata, _, _):
            assert await asyncio.gather(*(answers(metadata) for _ in range(5))) == [b"?"] * 5

    run(main())


def test_a_client_that_leaves_at_once_leaves_nothing_behind():
    async def main():
        async with serving() as (metadata, service, path):
            for _ in range(3):
                _, writer = await asyncio.open_unix_connection(str(path))
                writer.close()
            await until(lambda: service._door._server is not None and not service._door._ends)
            assert await answers(metadata) == b"?"

    run(main())


def test_a_worker_that_closes_ends_its_connections():
    async def main():
        forever = Forever()
        async with serving(forever=forever) as (metadata, service, _), opened(metadata, TOKEN) as channel:
            call = channel.call(metadata, "forever", b"")
            step = asyncio.ensure_future(call.step())
            await until(lambda: forever.inside)
            await service.close()
            with pytest.raises(WorkerDied):
                await step
            await until(lambda: not service._door._ends)
            assert not forever.inside

    run(main())


@pytest.mark.parametrize("to", ["the worker", "the client"])
def test_a_connection_takes_no_more_than_its_reader(to):
    """What nobody reads stays where it was sent from, and not in the worker's memory."""

    async def main():
        async with serving() as (_, service, path):
            await until_loaded(service, path)
            taken = []

            def accept(reader, writer):
                taken.append((reader, writer))

            path_behind = layout.behind_door(path)
            path_behind.unlink()  # in the place of gRPC
            async with await asyncio.start_unix_server(accept, str(path_behind)):
                reader, writer = await asyncio.open_unix_connection(str(path))
                await until(lambda: taken)
                ends = (reader, writer), taken[0]
                (_, sends), (receives, _) = ends if to == "the worker" else ends[::-1]
                sent = 0
                while sends.transport.get_write_buffer_size() < 1 << 20:
                    sends.write(bytes(1 << 16))
                    sent += 1 << 16
                    await asyncio.sleep(0)
                    assert sent < 64 << 20
                held = sum(end._transport.get_write_buffer_size() for end in service._door._ends)
                assert held < 1 << 20
                sends.close()
                received = 0
                while data := await receives.read(1 << 20):
                    received += len(data)
                assert received == sent
                for _, each in ends:
                    each.close()
                await until(lambda: not service._door._ends)

    run(main())


async def until_loaded(service, path):
    _, writer = await asyncio.open_unix_connection(str(path))
    await until(lambda: service._door._server is not None)
    writer.close()
    await until(lambda: not service._door._ends)
