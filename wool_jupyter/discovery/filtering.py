"""The workers that a predicate accepts, as if there were no others."""

from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from uuid import UUID

from wool_jupyter.aio.closing import close_iterator
from wool_jupyter.discovery.protocol import DiscoverySubscriberLike, Marked, Predicate
from wool_jupyter.discovery.subscription import unmarked
from wool_jupyter.records import DiscoveryEvent, WorkerMetadata


@dataclass(frozen=True, slots=True)
class afilter:  # noqa: N801 (as `filter`)
    """A subscriber over another. A worker whose record comes to pass is added, one that ceases to is dropped with the record that
    passed. Each iteration is on its own, and closes the inner one with itself; what the predicate raises ends it."""

    predicate: Predicate
    inner: DiscoverySubscriberLike

    def check(self) -> None:
        """As that of the inner subscriber, if it has one."""
        check = getattr(self.inner, "check", None)
        if check is not None:
            check()

    def __aiter__(self) -> AsyncGenerator[DiscoveryEvent, None]:  # noqa: PYI058 (it can be closed)
        return unmarked(self._filtered(aiter(self.inner)))

    def marked(self) -> AsyncGenerator[Marked, None] | None:
        """As that of the inner subscriber, if it has one."""
        marked = getattr(self.inner, "marked", None)
        events = None if marked is None else marked()
        return None if events is None else self._filtered(events)

    async def _filtered(self, events: AsyncIterator[Marked]) -> AsyncGenerator[Marked, None]:
        tracked: dict[UUID, WorkerMetadata] = {}
        try:
            async for event in events:
                if event is None:
                    yield None
                elif (seen := _seen(event, tracked, self.predicate)) is not None:
                    yield seen
        finally:
            await close_iterator(events)


def _seen(event: DiscoveryEvent, tracked: dict[UUID, WorkerMetadata], predicate: Predicate) -> DiscoveryEvent | None:
    """What an event is to somebody who sees the accepted workers only; `tracked` are those, and is brought up to date."""
    metadata, uid = event.metadata, event.metadata.uid
    known = tracked.get(uid)
    if event.type == "worker-dropped":
        return None if tracked.pop(uid, None) is None else event
    if predicate(metadata):
        tracked[uid] = metadata
        return DiscoveryEvent("worker-added" if known is None else "worker-updated", metadata)
    if known is None:
        return None
    return DiscoveryEvent("worker-dropped", tracked.pop(uid))
