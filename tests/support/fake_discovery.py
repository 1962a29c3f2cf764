"""A discovery in the memory of one loop."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Self

from wool_jupyter.discovery.filtering import afilter
from wool_jupyter.discovery.protocol import DiscoverySubscriberLike, Predicate
from wool_jupyter.errors import DiscoveryCapacityExhausted, DiscoveryNamespaceNotFound, DiscoveryWorkerNotFound
from wool_jupyter.records import DiscoveryEvent, DiscoveryEventType, WorkerMetadata

_KINDS = ("worker-added", "worker-updated", "worker-dropped")


class FakeDiscovery:
    """Serves while it is entered. `publisher` and `subscriber` are itself."""

    def __init__(self, *, capacity: int = 128, filter: Predicate | None = None) -> None:
        self._capacity = capacity
        self._filter = filter
        self._workers: dict[object, WorkerMetadata] = {}
        self._changed = asyncio.Condition()
        self._serves = False
        self.iterations = 0

    async def __aenter__(self) -> Self:
        self._serves = True
        return self

    async def __aexit__(self, *_: object) -> None:
        async with self._changed:
            self._serves = False
            self._changed.notify_all()

    @property
    def publisher(self) -> Self:
        return self

    @property
    def subscriber(self) -> DiscoverySubscriberLike:
        return self.subscribe()

    def subscribe(self, filter: Predicate | None = None) -> DiscoverySubscriberLike:
        accepted = self._filter if filter is None else filter
        return self if accepted is None else afilter(accepted, self)

    async def publish(self, type: DiscoveryEventType, metadata: WorkerMetadata) -> None:
        if type not in _KINDS:
            raise RuntimeError(f"there is no event {type!r}")
        async with self._changed:
            if not self._serves:
                raise DiscoveryNamespaceNotFound("fake")
            known = metadata.uid in self._workers
            if type == "worker-updated" and not known:
                raise DiscoveryWorkerNotFound(metadata.uid)
            if type == "worker-added" and not known and len(self._workers) == self._capacity:
                raise DiscoveryCapacityExhausted(self._capacity)
            if type == "worker-dropped":
                self._workers.pop(metadata.uid, None)
            else:
                self._workers[metadata.uid] = metadata
            self._changed.notify_all()

    async def __aiter__(self) -> AsyncGenerator[DiscoveryEvent, None]:
        seen: dict[object, WorkerMetadata] = {}
        self.iterations += 1
        try:
            while True:
                if not self._serves:
                    raise DiscoveryNamespaceNotFound("fake")
                for uid in [uid for uid in seen if uid not in self._workers]:
                    yield DiscoveryEvent("worker-dropped", seen.pop(uid))
                for uid, metadata in list(self._workers.items()):
                    if seen.get(uid) != metadata:
                        kind: DiscoveryEventType = "worker-updated" if uid in seen else "worker-added"
                        seen[uid] = metadata
                        yield DiscoveryEvent(kind, metadata)
                async with self._changed:
                    await self._changed.wait_for(lambda: not self._serves or seen != self._workers)
        finally:
            self.iterations -= 1
