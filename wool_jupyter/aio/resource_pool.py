"""Resources that are shared while somebody uses them."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Generic, TypeVar, cast

from wool_jupyter.aio.failure_report import FailureReport
from wool_jupyter.aio.owned_tasks import OwnedTasks

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

_NONE = object()


@dataclass(eq=False, slots=True)
class _Entry(Generic[K]):
    key: K  # of whoever missed it, which is the one that the factory got
    name: str
    references: int = 0
    doomed: bool = False
    value: Any = _NONE
    failure: FailureReport | None = None
    timer: asyncio.TimerHandle | None = None
    making: asyncio.Task[None] = field(init=False)

    def stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


@dataclass(frozen=True, slots=True)
class ResourcePoolStats:
    entries: int
    references: int
    idle: int  # entries without a reference, kept for their ttl
    tasks: int  # being made or finalized


class ResourcePool(Generic[K, T]):
    """One resource for each key, counted by its users. Lives on one loop.

    `factory` makes the resource of a key; slow or stuck, it delays nobody who wants another key. `finalizer` ends a resource `ttl`
    seconds after its last reference went, or with it (0). Both run in tasks of the pool: a user's cancellation interrupts no
    finalizer, and a making only if nobody else waits for it. By the time that a finalizer runs its resource has left the pool, and
    the next user gets a new one. A failure of a finalizer is reported with the key.
    """

    def __init__(
        self,
        factory: Callable[[K], Coroutine[Any, Any, T]],
        finalizer: Callable[[T], Coroutine[Any, Any, object]] | None = None,
        *,
        ttl: float = 0,
    ) -> None:
        self._factory = factory
        self._finalizer = finalizer
        self._ttl = ttl
        self._entries: dict[K, _Entry[K]] = {}
        self._tasks = OwnedTasks("resource pool")
        self._ends = OwnedTasks("resource pool")

    @property
    def stats(self) -> ResourcePoolStats:
        entries = self._entries.values()
        return ResourcePoolStats(
            entries=len(entries),
            references=sum(entry.references for entry in entries),
            idle=sum(entry.timer is not None for entry in entries),
            tasks=self._tasks.running + self._ends.running,
        )

    def get(self, key: K) -> "Lease[K, T]":
        """A reference for the length of one `async with`. It means the very resource that it got, whatever happens to the key."""
        return Lease(self, key)

    async def acquire(self, key: K) -> T:
        """One `release` is due for it. Raises what the factory raised, to everyone who waited for it; the next one tries again.

        A cancelled caller has acquired nothing, and the making is cancelled if nobody else waits for it.
        """
        return cast("T", (await self._acquire(key)).value)

    async def release(self, key: K) -> None:
        """Waits for the finalizer if the resource ends with this. An unknown key is no error, one without references is a
        ValueError."""
        entry = self._entries.get(key)
        if entry is not None:
            await self._release(entry)

    def let_go(self, key: K) -> None:
        """As `release`, for who can't wait: a finalizer that is due runs by itself."""
        entry = self._entries.get(key)
        if entry is not None:
            self._let_go(entry)

    async def expire(self, key: K) -> None:
        """Ends the resource as soon as nobody uses it; a new user before that keeps it."""
        entry = self._entries.get(key)
        if entry is None:
            return
        if entry.references:
            entry.doomed = True
        else:
            await _finished(self._retire(entry))

    async def clear(self) -> None:
        """Ends every resource, used or not, and waits for all that is still being made or finalized. The pool can be used again.

        A lease of what was cleared ends without effect. Who waits for one that is being made gets a RuntimeError.
        """
        for entry in list(self._entries.values()):
            self._retire(entry)
        await self._tasks.wait()
        await self._ends.wait()

    async def settled(self) -> None:
        """Waits for the finalizers that run now."""
        await self._ends.wait()

    async def _acquire(self, key: K) -> _Entry[K]:
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = _Entry(key, repr(key))
            entry.making = self._tasks.start(self._make(entry), entry.name)
        entry.references += 1
        entry.doomed = False
        entry.stop_timer()
        try:
            if not entry.making.done():
                await asyncio.wait({entry.making})
        except asyncio.CancelledError:
            self._let_go(entry)
            raise
        if entry.failure is not None:
            entry.failure.report()
        if not self._holds(entry):
            raise RuntimeError(f"{entry.name} was cleared before it could be used")
        return entry

    async def _release(self, entry: _Entry[K]) -> None:
        doomed = entry.doomed
        finalizing = self._let_go(entry)
        if not doomed:
            await _finished(finalizing)

    def _let_go(self, entry: _Entry[K]) -> asyncio.Task[None] | None:
        """Gives a reference back. The finalizer's task, if that was the last one."""
        if not self._holds(entry):
            return None
        if not entry.references:
            raise ValueError(f"{entry.name} was released more often than it was acquired")
        entry.references -= 1
        if entry.references:
            return None
        if entry.doomed or self._ttl <= 0 or not entry.making.done():
            return self._retire(entry)
        entry.timer = asyncio.get_running_loop().call_later(self._ttl, self._retire, entry)
        return None

    def _holds(self, entry: _Entry[K]) -> bool:
        return self._entries.get(entry.key) is entry

    def _retire(self, entry: _Entry[K]) -> asyncio.Task[None] | None:
        entry.stop_timer()
        del self._entries[entry.key]
        if not entry.making.done():
            entry.making.cancel()
            return None
        return self._ends.start(self._finalize(entry), entry.name)

    async def _make(self, entry: _Entry[K]) -> None:
        try:
            entry.value = await self._factory(entry.key)
        except asyncio.CancelledError as error:
            failure = RuntimeError(f"the making of {entry.name} was cancelled")
            failure.__cause__ = error
            self._fail(entry, failure)
        except BaseException as error:  # noqa: BLE001 (whatever it is, those who wait raise it)
            self._fail(entry, error)
        else:
            if not self._holds(entry):  # it was cancelled, and made all the same
                await self._finalize(entry)

    def _fail(self, entry: _Entry[K], failure: BaseException) -> None:
        entry.failure = FailureReport(failure)
        if self._holds(entry):
            del self._entries[entry.key]

    async def _finalize(self, entry: _Entry[K]) -> None:
        if self._finalizer is not None:
            await self._finalizer(entry.value)


class Lease(Generic[K, T]):
    """Made by `ResourcePool.get`. Can be entered once."""

    def __init__(self, pool: ResourcePool[K, T], key: K) -> None:
        self._pool = pool
        self._key = key
        self._entered = False
        self._entry: _Entry[K] | None = None

    async def __aenter__(self) -> T:
        if self._entered:
            raise RuntimeError("a lease can be entered once")
        self._entered = True
        self._entry = await self._pool._acquire(self._key)
        return cast("T", self._entry.value)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        entry, self._entry = self._entry, None
        if entry is not None:
            await self._pool._release(entry)


async def _finished(task: asyncio.Task[None] | None) -> None:
    """However it ends: its failure is reported by its owner."""
    if task is not None:
        await asyncio.wait({task})
