"""What discovery and balance both speak of."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, Literal, TypeAlias
from uuid import UUID


@dataclass(frozen=True, slots=True)
class ChannelOptions:
    """How a worker wants to be spoken to. It advertises them, so that its clients need no configuration."""

    max_receive_bytes: int = 16 << 20  # the largest message that the worker takes
    max_send_bytes: int = 16 << 20  # and the largest that it sends
    # Between pings of a client that hears nothing, at least 1 (gRPC 1.85); None: no pings.
    keepalive_time_s: float | None = None
    keepalive_timeout_s: float = 20.0  # without an answer to a ping the connection has broken
    max_concurrent_streams: int = 100  # calls of one client at a time, which waits with any more
    compression: Literal["none", "deflate", "gzip"] = "none"


@dataclass(frozen=True, slots=True)
class WorkerMetadata:
    """A worker as others see it. Its uid is its identity: hash by uid, equality by every field.

    Look workers up by uid, never by record: a changed record is still the same worker. `tags`, `extra` and `secure` are what the
    worker says of itself, not what anyone has checked.
    """

    uid: UUID
    address: str  # `unix:/path` or `host:port`
    pid: int
    version: str
    tags: frozenset[str] = field(default=frozenset())
    extra: Mapping[str, str] = field(default_factory=dict)  # kept as a read-only copy
    secure: bool = False  # speaks TLS
    options: ChannelOptions = field(default=ChannelOptions())

    def __post_init__(self) -> None:
        object.__setattr__(self, "extra", MappingProxyType(dict(self.extra)))

    def __hash__(self) -> int:
        return hash(self.uid)

    def __reduce__(self) -> tuple[Any, ...]:
        """A read-only map can't be pickled (3.11)."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return type(self), tuple({**values, "extra": dict(self.extra)}.values())


DiscoveryEventType: TypeAlias = Literal["worker-added", "worker-updated", "worker-dropped"]


@dataclass(frozen=True, slots=True)
class DiscoveryEvent:
    """`metadata` of a dropped worker is the last that was known of it."""

    type: DiscoveryEventType
    metadata: WorkerMetadata
