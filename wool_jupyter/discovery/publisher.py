"""Announces workers in the registry of a namespace."""

import asyncio
from pathlib import Path
from types import TracebackType
from typing import Self, get_args

from wool_jupyter.discovery import checks, generation, locks, registry, watcher
from wool_jupyter.discovery.registry import Binding, Publication
from wool_jupyter.records import DiscoveryEventType, WorkerMetadata
from wool_jupyter.settings import LOCK_TIMEOUT_S
from wool_jupyter.wire.codec import decode_worker, encode_worker


class LocalPublisher:
    """Announces workers in a namespace that somebody owns. It borrows: it makes nothing but a worker's block, and its end removes
    nothing.

    Bound to one generation when it is entered, or by the first `publish`, and for life: once the owner is gone every `publish` is
    DiscoveryNamespaceNotFound. `close`, or leaving the context, gives its descriptors back.
    """

    def __init__(
        self, namespace: str, *, lock_timeout: float | None = LOCK_TIMEOUT_S, root: Path | None = None
    ) -> None:
        """`lock_timeout` in seconds, None for no end. `root`: where the owner has it; None looks where a default owner would."""
        self._namespace = generation.checked(namespace)
        self._lock_timeout = checks.timeout(lock_timeout)
        self._root = checks.root(root)
        self._binding: Binding | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        self._bound()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Idempotent. A `publish` that waits for the lock ends with RuntimeError."""
        self._closed = True
        if self._binding is not None:
            self._binding.close()

    async def publish(self, type: DiscoveryEventType, metadata: WorkerMetadata) -> None:  # noqa: A002
        """Returns when every later look at the registry sees it, and its owner still lived. Any publisher may change any worker.

        `worker-added` of a registered worker replaces its record, `worker-updated` of another is DiscoveryWorkerNotFound,
        `worker-dropped` of another is nothing. DiscoveryCapacityExhausted, DiscoveryBlockExhausted: what was registered stays.
        TimeoutError: the registry was locked all the time. Cancelled while it waits, it has done nothing.
        """
        if type not in get_args(DiscoveryEventType):
            raise RuntimeError(f"there is no event {type!r}, only {', '.join(get_args(DiscoveryEventType))}")
        record = _checked_record(metadata)
        publication = await self._locked()
        try:
            publication.apply(type, metadata.uid, record)
        finally:
            publication.release()
        watcher.ring(self._bound().directory)

    async def _locked(self) -> Publication:
        loop = asyncio.get_running_loop()
        began, waits = loop.time(), locks.pauses()
        while (publication := self._bound().try_lock()) is None:
            if self._lock_timeout is not None and loop.time() - began >= self._lock_timeout:
                raise TimeoutError(
                    f"the registry of the namespace {self._namespace!r} was locked for {self._lock_timeout:g} s"
                )
            await asyncio.sleep(next(waits))
        return publication

    def _bound(self) -> Binding:
        if self._closed:
            raise RuntimeError("this publisher was closed: make another one")
        if self._binding is None:
            self._binding = registry.bind(self._namespace, self._root)
        return self._binding


def _checked_record(metadata: WorkerMetadata) -> bytes:
    """ValueError if it could not be read again."""
    record = encode_worker(metadata)
    if not metadata.uid.int:
        raise ValueError("a worker's uid is not zero: that marks a free slot")
    decode_worker(record)
    return record
