"""What a discovery offers: announce workers, and tell who is there."""

from collections.abc import AsyncIterator, Callable
from typing import Protocol, TypeAlias, runtime_checkable

from wool_jupyter.records import DiscoveryEvent, DiscoveryEventType, WorkerMetadata

# What is given by `marked`, a method that a subscriber may have. It returns an iterator as that of the subscriber, which says None
# once when every worker that was there at the beginning has been given; or None, if there is no telling.
Marked: TypeAlias = DiscoveryEvent | None

Predicate: TypeAlias = Callable[[WorkerMetadata], bool]


@runtime_checkable
class DiscoveryPublisherLike(Protocol):
    async def publish(self, type: DiscoveryEventType, metadata: WorkerMetadata) -> None:  # noqa: A002
        """Returns when subscribers can see it; cancelled or failed, it has had no effect that a repetition would not repair."""
        ...


@runtime_checkable
class DiscoverySubscriberLike(Protocol):
    def __aiter__(self) -> AsyncIterator[DiscoveryEvent]:
        """A feed of its own, independent of others: first every present worker as added, then what changes, without an end.

        The loss of the source is raised. `aclose`, where an iterator has one, or cancelling a step gives back what it holds.
        """
        ...


@runtime_checkable
class DiscoveryLike(Protocol):
    @property
    def publisher(self) -> DiscoveryPublisherLike: ...

    @property
    def subscriber(self) -> DiscoverySubscriberLike:
        """Of all workers that the discovery lets through by default."""
        ...

    def subscribe(self, filter: Predicate | None = None) -> DiscoverySubscriberLike:  # noqa: A002
        """Of the workers that `filter` accepts, or of the default ones."""
        ...
