"""Workers for routines, in this process: a service on the loop that runs, and a routine lane on a thread of its own."""

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from uuid import UUID

from tests.support.proxies import FixedProxy
from wool_jupyter.dispatch import routine as routines
from wool_jupyter.records import WorkerMetadata
from wool_jupyter.worker.admission import Admission
from wool_jupyter.worker.call_routine import call_routine
from wool_jupyter.worker.routine_lane import RoutineLane
from wool_jupyter.worker.service import WorkerService

TOKEN = "0123456789abcdef"


@asynccontextmanager
async def worker(sockets, number=1, *, hook=None):
    lane = RoutineLane()
    lane.start()
    ask = None if hook is None else lambda active, task: lane.ask_hook(hook, active, task)
    service = WorkerService({"call": call_routine(lane)}, token=TOKEN, admission=Admission(ask))
    metadata = WorkerMetadata(UUID(int=number), f"unix:{sockets}/{number}", 1, "1")
    await service.start(metadata.address)
    try:
        yield metadata, service
    finally:
        await service.close()
        await asyncio.to_thread(lane.close)


@asynccontextmanager
async def routines_on(sockets, *, workers=1, **options):
    """A proxy over that many workers, in use. Yields the proxy and the services."""
    async with AsyncExitStack() as stack:
        made = [await stack.enter_async_context(worker(sockets, number + 1)) for number in range(workers)]
        proxy = FixedProxy([metadata for metadata, _ in made], TOKEN)
        stack.push_async_callback(proxy.stop)
        with routines.use(proxy, **options):
            yield proxy, [service for _, service in made]
