"""What a slow reader has missed, in as few events as there are workers."""

from typing import TYPE_CHECKING

from wool_jupyter.records import DiscoveryEvent

if TYPE_CHECKING:
    from uuid import UUID


class EventQueue:
    """At most one event for each worker: what a reader who knows no more than it has taken must hear to be up to date.

    A worker that came and went meanwhile leaves nothing. One that went and came again is added, and its place in the order is that
    of the first event: a reader that has evicted it on its own account must admit it again. An update admits nobody, so that one
    which comes after the drop is void.
    """

    def __init__(self) -> None:
        self._pending: dict[UUID, DiscoveryEvent] = {}
        self._told: set[UUID] = set()  # workers that the reader holds for alive

    def __len__(self) -> int:
        return len(self._pending)

    def append(self, event: DiscoveryEvent) -> None:
        uid = event.metadata.uid
        earlier = self._pending.get(uid)
        if earlier is None or event.type == "worker-added":
            self._pending[uid] = event
        elif event.type == "worker-updated":
            if earlier.type != "worker-dropped":
                self._pending[uid] = DiscoveryEvent(earlier.type, event.metadata)
        elif uid in self._told:
            self._pending[uid] = event
        else:
            del self._pending[uid]

    def popleft(self) -> DiscoveryEvent:
        uid = next(iter(self._pending))
        event = self._pending.pop(uid)
        if event.type == "worker-dropped":
            self._told.discard(uid)
        else:
            self._told.add(uid)
        return event
