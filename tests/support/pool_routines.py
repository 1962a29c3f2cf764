"""Routines for pools of workers; importable there, as any module of a project."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path

from tests.support.loops import until
from wool_jupyter.discovery.subscriber import LocalSubscriber
from wool_jupyter.dispatch.routine import routine
from wool_jupyter.pool.worker_pool import WorkerPool
from wool_jupyter.records import DiscoveryEvent


@routine
async def worker_pid():
    return os.getpid()


@routine
async def doubled(value):
    return value * 2


@routine
async def counted(up_to):
    for number in range(up_to):
        yield number, os.getpid()


@routine
async def nested(depth):
    """The pids on the way down."""
    below = await nested(depth - 1) if depth > 1 else []
    return [os.getpid(), *below]


@routine
async def waits(directory):
    """Says that it is inside, and how it ends."""
    place = Path(directory)
    try:
        (place / "inside").touch()
        await asyncio.get_running_loop().create_future()
    finally:
        (place / "cancelled").touch()


@routine
async def says(text, descriptor):
    os.write(descriptor, text.encode())


@routine
async def lingers(directory):
    """For a while after it was cancelled, and then until it is cancelled again."""
    try:
        await waits.__wrapped__(directory)
    finally:
        await asyncio.get_running_loop().create_future()


@routine
async def stays(directory):
    """Whatever is asked of it."""
    (Path(directory) / "inside").touch()
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.get_running_loop().create_future()


@routine
async def dies():
    os.kill(os.getpid(), signal.SIGKILL)


@routine
async def exits(code):
    os._exit(code)


@dataclass(frozen=True)
class Gated:
    """A namespace of which nothing is seen until the file `gate` is there."""

    namespace: str
    gate: str

    async def __aiter__(self) -> AsyncGenerator[DiscoveryEvent, None]:
        await until(Path(self.gate).exists)
        async for event in LocalSubscriber(self.namespace):
            yield event


async def pids_of(pool: WorkerPool, workers: int) -> set[int]:
    """Asks until each of so many has answered."""
    found: set[int] = set()
    while len(found) < workers:
        found.add(await worker_pid())
    return found
