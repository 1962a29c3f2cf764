"""Workers to announce, events to count, and files that fail."""

import asyncio
import gc
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

from tests.support.workers import VERSION
from wool_jupyter.discovery import claim, registry
from wool_jupyter.discovery.local import LocalDiscovery
from wool_jupyter.records import DiscoveryEvent, WorkerMetadata

NEVER = threading.Event()


def worker(number: int, **fields: Any) -> WorkerMetadata:
    return WorkerMetadata(UUID(int=number), f"unix:/w{number}", number, VERSION, **fields)


def shown(event: DiscoveryEvent) -> tuple[str, int]:
    """Its kind and the worker's number."""
    return event.type.removeprefix("worker-"), event.metadata.uid.int


async def take(events: AsyncIterator[DiscoveryEvent], count: int) -> list[tuple[str, int]]:
    return [shown(await anext(events)) for _ in range(count)]


async def silent(step: "asyncio.Future[Any]", for_s: float) -> bool:
    """Whether it stays pending that long: the only way to see that nothing comes."""
    done, _ = await asyncio.wait({step}, timeout=for_s)
    return not done


async def stop(*steps: "asyncio.Future[Any]") -> None:
    """Cancels them; over when it returns."""
    for step in steps:
        step.cancel()
    await asyncio.wait(steps)


def owned(namespace: Path, *, capacity: int = 8, block_size: int = 1024) -> claim.Claim:
    """A claim with a generation that serves."""
    claimed = claim.claim(namespace, give_up=NEVER)
    assert claimed is not None
    claimed.sweep()
    claimed.stage(lambda at: registry.create(at, capacity=capacity, block_size=block_size))
    return claimed


def kill(claimed: claim.Claim) -> None:
    """What a SIGKILL of the owner leaves: the files, and no lock on the generation."""
    lock, claimed._generation = claimed._generation, None
    assert lock is not None
    lock.release()


def crash(entered: LocalDiscovery) -> None:
    """As `kill`, with the claim: an owner of this process that is no more."""
    claimed = entered._claim
    assert claimed is not None
    kill(claimed)
    lock, claimed._lock = claimed._lock, None
    assert lock is not None
    lock.release()


def generation_of(namespace: Path) -> Path:
    return namespace / (namespace / "current").readlink()


def descriptors() -> int:
    """Without those that an earlier test has left to the collector."""
    gc.collect()
    return open_now()


def open_now() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def tree(path: Path) -> list[str]:
    """What lies below, by relative path."""
    return sorted(str(each.relative_to(path)) for each in path.rglob("*"))
