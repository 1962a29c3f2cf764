"""Routines for pools of workers; importable there, as any module of a project."""

import asyncio
import contextlib
import os
import signal
from pathlib import Path

from wool_jupyter.dispatch.routine import routine
from wool_jupyter.pool.worker_pool import WorkerPool


@routine
async def worker_pid():
    return os.getpid()


@routine
async def parent_pid():
    return os.getppid()


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
async def stays(directory):
    """Whatever is asked of it."""
    signal.signal  # noqa: B018
    (Path(directory) / "inside").touch()
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.get_running_loop().create_future()


@routine
async def blocks(directory):
    """The loop of all routines there."""
    (Path(directory) / "inside").touch()
    signal.pause()


@routine
async def dies():
    os.kill(os.getpid(), signal.SIGKILL)


async def pids_of(pool: WorkerPool, workers: int) -> set[int]:
    """Asks until each of so many has answered."""
    found: set[int] = set()
    while len(found) < workers:
        found.add(await worker_pid())
    return found
