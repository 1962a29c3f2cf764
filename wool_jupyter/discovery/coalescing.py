"""What a slow reader has missed, in no more events than its workers need."""

from typing import TYPE_CHECKING

from wool_jupyter.records import DiscoveryEvent, WorkerMetadata

if TYPE_CHECKING:
    from uuid import UUID

    from wool_jupyter.discovery.protocol import Marked


class EventQueue:
    """For each worker at most a drop, and what has come of it since: for a reader who knows no more than it has taken.

    A worker that came and went meanwhile leaves nothing. One that the reader knows, and that went and came again, is dropped and
    added: a reader that has evicted it on its own account must admit it again, also behind a filter, which would turn an addition
    of somebody known into an update. An update admits nobody, so that one which comes after the drop is void, and updates that lead
    back to what the reader knows leave nothing either.
    """

    def __init__(self) -> None:
        # By worker, and whether it is a drop, which comes first; a mark (`subscription.Marked`) has no worker.
        self._pending: dict[tuple[UUID, bool] | None, Marked] = {}
        self._told: dict[UUID, WorkerMetadata] = {}  # what the reader knows of workers that it holds for alive

    def __len__(self) -> int:
        return len(self._pending)

    def append(self, event: "Marked") -> None:
        if event is None:
            self._pending[None] = None
            return
        uid = event.metadata.uid
        drop, life = (uid, True), (uid, False)
        earlier = self._pending.get(life)
        if event.type == "worker-dropped":
            self._pending.pop(life, None)
            if uid in self._told or earlier is None:
                self._pending[drop] = event
        elif event.type == "worker-added":
            self._pending[life] = event
        elif earlier is not None:
            self._pending[life] = DiscoveryEvent(earlier.type, event.metadata)
            if earlier.type == "worker-updated" and self._told.get(uid) == event.metadata:
                del self._pending[life]
        elif drop not in self._pending:
            self._pending[life] = event

    def popleft(self) -> "Marked":
        key = next(iter(self._pending))
        if key is None:
            return self._pending.pop(None)
        event = self._pending.pop(key)
        uid, is_drop = key
        if is_drop:
            self._told.pop(uid, None)
        elif event is not None:
            self._told[uid] = event.metadata
        return event
