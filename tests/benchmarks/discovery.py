"""What it costs to be listed, and to follow the list: a registry of 128 workers, in memory. Durations in seconds by row name."""

import asyncio
import resource
import shutil
import statistics
import tempfile
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from time import perf_counter

from tests.support.discovery import worker
from tests.support.discovery_process import Interpreter
from wool_jupyter.discovery import registry
from wool_jupyter.discovery.local import LocalDiscovery
from wool_jupyter.discovery.scan import Scan

MEMORY = next((path for path in (Path("/dev/shm"),) if path.is_dir()), None)
WORKERS = 128
IDLE_S = 10.0

Measured = dict[str, tuple[float, float | None]]


@asynccontextmanager
async def full_registry() -> AsyncIterator[LocalDiscovery]:
    root = Path(tempfile.mkdtemp(dir=MEMORY))
    try:
        async with LocalDiscovery("n", root=root) as discovery, discovery.publisher as into:
            for number in range(1, WORKERS + 1):
                await into.publish("worker-added", worker(number, tags=frozenset({"gpu"})))
            yield discovery
    finally:
        shutil.rmtree(root)


async def _publishing(count: int) -> float:
    async with full_registry() as discovery, discovery.publisher as into:
        took = []
        for number in range(count):
            record = worker(1 + number % WORKERS, extra={"n": str(number)})
            began = perf_counter()
            await into.publish("worker-updated", record)
            took.append(perf_counter() - began)
        return statistics.median(took)


async def _scanning(count: int) -> tuple[float, float]:
    async with full_registry() as discovery:
        binding = registry.bind("n", discovery.directory.parents[1])
        first, again = [], []
        for _ in range(count):
            scan = Scan()
            for took in (first, again):
                began = perf_counter()
                scan.take(binding.blocks())
                took.append(perf_counter() - began)
        binding.close()
        return statistics.median(first), statistics.median(again)


async def _latency(count: int) -> tuple[float, float]:
    """From the call of `publish` to the event: here, and from another process, as both clocks are the system's monotonic one."""
    async with (
        full_registry() as discovery,
        discovery.publisher as into,
        aclosing(aiter(discovery.subscriber)) as events,
    ):
        for _ in range(WORKERS):
            await anext(events)
        near = []
        for number in range(count):
            step = asyncio.ensure_future(anext(events))
            await asyncio.sleep(0.002)  # it waits
            began = perf_counter()
            await into.publish("worker-updated", worker(1, extra={"n": str(number)}))
            await step
            near.append(perf_counter() - began)
        far = []
        with Interpreter("publish", discovery.directory.parents[1]) as publisher:
            assert publisher.hear() == "bound"
            for number in range(count):
                step = asyncio.ensure_future(anext(events))
                await asyncio.sleep(0.002)
                began = perf_counter()  # with the pipe to the publisher
                publisher.say("dropped 2" if number % 2 == 0 else "added 2")
                await step
                far.append(perf_counter() - began)
                await asyncio.to_thread(publisher.hear)
        return statistics.median(near), statistics.median(far)


async def _idle() -> float:
    """CPU per second."""
    async with full_registry() as discovery, aclosing(aiter(discovery.subscriber)) as events:
        for _ in range(WORKERS):
            await anext(events)
        step = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0.1)
        before = resource.getrusage(resource.RUSAGE_SELF)
        await asyncio.sleep(IDLE_S)
        after = resource.getrusage(resource.RUSAGE_SELF)
        step.cancel()
        await asyncio.wait({step})
        return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / IDLE_S


def publishing() -> Measured:
    return {"publish": (asyncio.run(_publishing(2000)), None)}


def scanning() -> Measured:
    first, again = asyncio.run(_scanning(100))
    return {"look at 128 workers, first": (first, None), "look at 128 workers, again": (again, None)}


def latency() -> Measured:
    near, far = asyncio.run(_latency(200))
    return {"publish to event, same process": (near, None), "publish to event, another process": (far, None)}


def idling() -> Measured:
    return {"idle subscription, CPU per second": (asyncio.run(_idle()), None)}
