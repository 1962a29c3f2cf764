"""Which worker this process is."""

from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

if TYPE_CHECKING:
    from wool_jupyter.worker.cell.inner_call import InnerCalls


class Identity(NamedTuple):
    uid: UUID
    directory: str  # of its pool
    inner_calls: "InnerCalls"


_own: Identity | None = None


def become(identity: Identity) -> None:
    """Once, when the process begins to serve."""
    global _own
    _own = identity


def own() -> Identity | None:
    """None where no worker runs."""
    return _own
