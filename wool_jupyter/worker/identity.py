"""Which worker this process is."""

from typing import NamedTuple
from uuid import UUID


class Identity(NamedTuple):
    uid: UUID
    directory: str  # of its pool


_own: Identity | None = None


def become(identity: Identity) -> None:
    """Once, when the process begins to serve."""
    global _own
    _own = identity


def own() -> Identity | None:
    """None where no worker runs."""
    return _own
