"""Workers for routines, in this process: a service on the loop that runs, and a routine lane on a thread of its own."""

import asyncio
import tempfile
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from uuid import UUID

from tests.support.channels import proxied
from tests.support.workers import VERSION
from wool_jupyter.balance.round_robin import RoundRobinLoadBalancer
from wool_jupyter.dispatch import routine as routines
from wool_jupyter.records import WorkerMetadata
from wool_jupyter.wire import layout
from wool_jupyter.worker.admission import Admission
from wool_jupyter.worker.call_routine import call_routine
from wool_jupyter.worker.routine_lane import RoutineLane
from wool_jupyter.worker.service import WorkerService

TOKEN = "0123456789abcdef"


@contextmanager
def pool_directory():
    """Laid out as a pool's: from a worker's socket a routine finds the token for its own calls."""
    with tempfile.TemporaryDirectory(prefix="w", dir="/tmp") as made:
        directory = Path(made)
        layout.token(directory).write_text(TOKEN, encoding="ascii")
        layout.socket(directory, "x").parent.mkdir()
        yield directory


def metadata_of(directory, number):
    return WorkerMetadata(UUID(int=number), f"unix:{layout.socket(directory, str(number))}", 1, VERSION)


@asynccontextmanager
async def worker(directory, number=1, *, hook=None):
    lane = RoutineLane()
    lane.start()
    ask = None if hook is None else lambda active, task: lane.ask_hook(hook, active, task)
    service = WorkerService({"call": call_routine(lane)}, token=TOKEN, admission=Admission(ask))
    metadata = metadata_of(directory, number)
    await service.start(metadata.address)
    try:
        yield metadata, service
    finally:
        await service.close()
        await asyncio.to_thread(lane.close)


@asynccontextmanager
async def routines_on(directory, *, workers=1, **options):
    """A proxy over that many workers, in use. Yields the proxy and the services."""
    async with AsyncExitStack() as stack:
        made = [await stack.enter_async_context(worker(directory, number + 1)) for number in range(workers)]
        proxy = await stack.enter_async_context(
            proxied(*(metadata for metadata, _ in made), token=TOKEN, loadbalancer=RoundRobinLoadBalancer())
        )
        with routines.use(proxy, **options):
            yield proxy, [service for _, service in made]
