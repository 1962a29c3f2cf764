"""What discovery and balance both speak of."""

from dataclasses import dataclass, field
from uuid import UUID


@dataclass(frozen=True, slots=True)
class WorkerMetadata:
    """A worker as others see it. Its uid is its identity: hash by uid, equality by every field."""

    uid: UUID
    address: str  # `unix:/path` or `host:port`
    pid: int
    version: str
    tags: frozenset[str] = field(default=frozenset())

    def __hash__(self) -> int:
        return hash(self.uid)
