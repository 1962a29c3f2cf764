"""Where a process's workers live: a namespace that it owns, room for files, and the nursery."""

import asyncio
import functools
import itertools
import os
import secrets
import shutil
import threading
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

from wool_jupyter import host
from wool_jupyter.aio.owned_tasks import OwnedTasks
from wool_jupyter.aio.threads import run_to_end
from wool_jupyter.discovery import claim, files, root
from wool_jupyter.discovery.local import LocalDiscovery
from wool_jupyter.errors import (
    DiscoveryNamespaceContended,
    DiscoveryNamespaceInUse,
    NoUsableRoot,
    StartFailed,
)
from wool_jupyter.nursery.client import Nursery
from wool_jupyter.records import WorkerMetadata
from wool_jupyter.settings import CAPACITY, DATA_TRIM_S, POOL_BLOCK_SIZE_BYTES
from wool_jupyter.wire import layout, segments
from wool_jupyter.wire.store import Store


def capacity_for(cpus: int) -> int:
    """How many workers there may be at a time: also all that come for others, while those are still there."""
    return max(CAPACITY, 2 * cpus)


class Home:
    """Outlives pools: a pool that is started later in the same home has the same namespace and generation.

    Made by `enter`, ended by `leave`, on one loop. If its process is killed the nursery ends the workers and sweeps the files;
    if the process exits without `leave`, its files are removed on the way.
    """

    def __init__(
        self, discovery: LocalDiscovery, resources: AsyncExitStack, places: list[Path], store: Store, *, capacity: int
    ) -> None:
        self._capacity = capacity
        self.discovery = LocalDiscovery.borrow(discovery.namespace, root=places[0].parents[1])
        self.namespace = discovery.namespace
        self.short_directory = discovery.short_directory  # the same as `directory`, for paths of sockets
        self.places = tuple(places)  # room for the data of calls: beside the sockets, then on disk
        self._marks = [str(layout.token(places[0])), *map(str, places[1:])]  # looked for before each cell
        self.store = store
        self._resources = resources
        self._nursery: Nursery | None = None
        self._calls = itertools.count(1)

    @classmethod
    async def enter(
        cls, namespace: str | None = None, *, within: Path | None = None, capacity: int | None = None
    ) -> "Home":
        """`within`: this user's own directory; None chooses one. `capacity`: workers at a time; None: enough for all usable CPUs.
        `StartFailed` leaves nothing behind.

        A namespace that another process has (where two count their processes apart, say) is not disputed: the home gets another.
        """
        capacity = capacity or capacity_for(host.usable_cpus())
        chosen = await run_to_end(root.choose_root) if within is None else within
        async with AsyncExitStack() as resources:
            try:
                discovery = await _owned(resources, namespace, chosen, capacity)
                _furnish(discovery.directory)
                places = [discovery.directory]
                spare = _Spare(discovery.namespace)
                resources.push_async_callback(run_to_end, spare.release)
                places += await run_to_end(functools.partial(spare.directories, beside=chosen))
            except (OSError, DiscoveryNamespaceContended) as error:
                raise StartFailed(f"The pool can't have its files: {error}") from error
            store = Store(places)
            resources.callback(store.close)
            upkeep = OwnedTasks("large data")
            resources.push_async_callback(upkeep.close)
            upkeep.start(_trimmed(store), "upkeep")
            return cls(discovery, resources.pop_all(), places, store, capacity=capacity)
        raise AssertionError  # for mypy: the stack swallows nothing

    def check_room(self, workers: int) -> None:
        """`StartFailed` if it has no room for so many at a time."""
        if workers > self._capacity:
            raise StartFailed(f"A pool has at most {self._capacity} workers here, and {workers} were asked for")

    @property
    def directory(self) -> Path:
        return self.places[0]

    @property
    def log(self) -> Path:
        return layout.log(self.directory)

    @property
    def is_intact(self) -> bool:
        """Nobody has removed its files from outside."""
        return all(map(os.path.exists, self._marks))

    def holds(self, worker: WorkerMetadata) -> bool:
        """Whether it was started here."""
        return layout.holds(str(self.short_directory), worker.address)

    @contextmanager
    def call_directories(self) -> Iterator[tuple[str, ...]]:
        """A call's own directory, and where its large buffers may go; all removed at the end. On any thread."""
        number = next(self._calls)
        places = [layout.call(directory, number) for directory in self.places]
        places[0].mkdir(mode=0o700)
        try:
            yield tuple(map(str, places))
        finally:
            for place in places:
                shutil.rmtree(place, ignore_errors=True)  # a home that was left has swept it already

    async def nursery(self, environment: Mapping[str, str]) -> Nursery:
        """Launched when it is first asked for, and again after its end. `StartFailed`."""
        if self._nursery is not None and self._nursery.lost.done():
            await self._nursery.shutdown()
            self._nursery = None
        if self._nursery is None:
            self._nursery = await Nursery.launch(self.places, log=self.log, environment=environment)
        return self._nursery

    def disown(self) -> None:
        """In a forked child of the owner: closes what it inherited, and touches nothing of the parent's."""
        if self._nursery is not None:
            self._nursery.disown()

    async def end_processes(self) -> None:
        """All that remains to be done where the process exits, and no thread can be started any more."""
        if self._nursery is not None:
            await self._nursery.shutdown()

    async def leave(self) -> None:
        """No process and no file remains. Idempotent."""
        try:
            await self.end_processes()
        finally:
            await self._resources.aclose()


async def _owned(resources: AsyncExitStack, namespace: str | None, chosen: Path, capacity: int) -> LocalDiscovery:
    def discovery(name: str | None) -> LocalDiscovery:
        return LocalDiscovery(name, root=chosen, capacity=capacity, block_size=POOL_BLOCK_SIZE_BYTES)

    try:
        return await resources.enter_async_context(discovery(namespace))
    except DiscoveryNamespaceInUse:
        if namespace is None:
            raise
        return await resources.enter_async_context(discovery(root.kernel_namespace(secrets.token_hex(16))))


async def _trimmed(store: Store) -> None:
    while True:
        await asyncio.sleep(DATA_TRIM_S)
        if store.is_used:
            await run_to_end(store.trim)


def _furnish(directory: Path) -> None:
    for folder in layout.FOLDERS:
        (directory / folder).mkdir(mode=0o700)
    _only_if_locks_hold(directory)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(layout.token(directory), flags, 0o600), "w", encoding="ascii") as token:
        token.write(secrets.token_hex(32))


class _Spare:
    """On disk, for buffers that memory has no room for: owned as the namespace itself, or whoever sweeps there takes it for
    a dead owner's."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._owned: claim.Claim | None = None  # at once: who waits for the thread may be cancelled

    def directories(self, *, beside: Path) -> list[Path]:
        """None, if there is no other place or it can't be had."""
        try:
            other = root.choose_root(candidates=root.temporary_directories())
            if other == beside:
                return []
            self._owned = claim.claim(other / self._namespace, give_up=threading.Event())
            if self._owned is None:
                return []
            self._owned.sweep()
            directory = self._owned.stage(_folders)
            _only_if_locks_hold(directory)
            claim.sweep_dead(other, sparing=self._namespace)
        except (NoUsableRoot, DiscoveryNamespaceInUse, DiscoveryNamespaceContended, OSError):
            self.release()
            return []
        return [directory]

    def release(self) -> None:
        """Idempotent."""
        if self._owned is not None:
            self._owned.release()


def _only_if_locks_hold(directory: Path) -> None:
    """Without the folder no file of large data is written again."""
    if not segments.locks_hold(directory):
        layout.idle(directory).rmdir()


def _folders(fd: int) -> None:
    for folder in layout.FOLDERS:
        files.make_directory(folder, at=fd)
