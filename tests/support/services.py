"""Workers' gRPC servers in this process: our own service, and others that behave as a test needs."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.support.carriers import direct_of
from wool_jupyter.records import ChannelOptions, WorkerMetadata
from wool_jupyter.wire.protocol import METHOD, PROTOCOL, PROTOCOL_KEY, SERVICE
from wool_jupyter.wire.transport import grpc, server_options
from wool_jupyter.worker.service import WorkerService
from wool_jupyter.worker.session import Routine

TOKEN = "0123456789abcdef"
LET_IN = ((PROTOCOL_KEY, PROTOCOL),)  # what a worker's metadata says to a client that may come in


async def once(body):
    yield body, True


async def echo(body):
    answer = yield body, False
    while answer is not None:
        answer = yield answer, False


class Forever:
    """A routine that never answers; it counts who is inside."""

    def __init__(self):
        self.inside = 0

    async def __call__(self, body):
        self.inside += 1
        try:
            await asyncio.get_running_loop().create_future()
            yield b"", True
        finally:
            self.inside -= 1


@asynccontextmanager
async def serving(metadata: WorkerMetadata, **routines: Routine) -> AsyncIterator[WorkerService]:
    """Beside `routines` it knows `once`, `echo`, and `who`, which answers with its address."""

    async def who(_):
        yield metadata.address.encode(), True

    service = WorkerService({"once": once, "echo": echo, "who": who, **routines}, token=TOKEN)
    await service.start(metadata.address, direct=direct_of(metadata.address))
    try:
        yield service
    finally:
        await service.close()


@asynccontextmanager
async def answering(metadata: WorkerMetadata, handler: Callable[[Any], Awaitable[None]]) -> AsyncIterator[None]:
    """Each stream is the handler's."""

    async def session(_requests: Any, context: Any) -> None:
        await handler(context)

    server = grpc.aio.server(options=server_options(ChannelOptions()))
    method = grpc.stream_stream_rpc_method_handler(session)
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, {METHOD: method})])
    server.add_insecure_port(metadata.address)
    await server.start()
    try:
        yield
    finally:
        await server.stop(grace=None)
