"""Who can be asked: uid → record and connection, written by the proxy, read by balancers."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol
from uuid import UUID

from wool_jupyter.records import WorkerMetadata


class ConnectionLike(Protocol):
    @property
    def load(self) -> int:
        """Calls under way."""
        ...


@dataclass(frozen=True, slots=True)
class Candidate:
    metadata: WorkerMetadata
    connection: ConnectionLike


class LoadBalancerContextView:
    """What a balancer sees: live, and read-only. One for the life of its context."""

    def __init__(self, workers: Mapping[UUID, Candidate]) -> None:
        self._workers = MappingProxyType(workers)

    @property
    def workers(self) -> Mapping[UUID, Candidate]:
        return self._workers


class LoadBalancerContext:
    """One entry for each uid; the last writer wins, also with an older record. A refreshed entry keeps its place in the order.

    A connection that is displaced is not closed: its channel may serve the new entry as well, and belongs to whoever opened it.
    """

    def __init__(self) -> None:
        self._workers: dict[UUID, Candidate] = {}
        self.view = LoadBalancerContextView(self._workers)

    @property
    def workers(self) -> Mapping[UUID, Candidate]:
        return self.view.workers

    def add_worker(self, metadata: WorkerMetadata, connection: ConnectionLike) -> None:
        """Admits, or overwrites the entry of the same uid."""
        self._workers[metadata.uid] = Candidate(metadata, connection)

    def update_worker(self, metadata: WorkerMetadata, connection: ConnectionLike) -> None:
        """Overwrites the entry of the same uid. If there is none, nothing: an update brings nobody back who was evicted."""
        if metadata.uid in self._workers:
            self._workers[metadata.uid] = Candidate(metadata, connection)

    def remove_worker(self, uid: UUID) -> None:
        """Evicts, whatever the record says by now. An absent uid is no error."""
        self._workers.pop(uid, None)
