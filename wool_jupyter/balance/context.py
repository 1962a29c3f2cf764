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
    """Live and read-only."""

    def __init__(self, workers: Mapping[UUID, Candidate]) -> None:
        self._workers = MappingProxyType(workers)

    @property
    def workers(self) -> Mapping[UUID, Candidate]:
        return self._workers


class LoadBalancerContext:
    def __init__(self) -> None:
        self._workers: dict[UUID, Candidate] = {}
        self.view = LoadBalancerContextView(self._workers)

    def add_worker(self, metadata: WorkerMetadata, connection: ConnectionLike) -> None:
        """Admits, or overwrites the entry of the same uid in its place."""
        self._workers[metadata.uid] = Candidate(metadata, connection)

    def remove_worker(self, uid: UUID) -> None:
        """An absent uid is no error."""
        self._workers.pop(uid, None)
