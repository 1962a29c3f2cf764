"""What happens in a kernel's pool, told as it happens, on the pool's loop: for whoever shows it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias
from uuid import UUID

CallKind: TypeAlias = Literal["cell", "call", "job"]
CallEnd: TypeAlias = Literal["ok", "error", "interrupted", "died"]


@dataclass(eq=False, slots=True)
class About:
    """What is shown of a call, and its identity: one for each attempt."""

    kind: CallKind
    label: str
    cell: str = ""  # the notebook's id of it
    bytes_in: int = 0  # with what lies beside the message
    press: Callable[[], object] | None = None  # as ■ does, for a call that counts them; on any thread


@dataclass(frozen=True, slots=True)
class MostChanged:
    most: int  # own workers that the pool may have


@dataclass(frozen=True, slots=True)
class Starting:
    worker: UUID


@dataclass(frozen=True, slots=True)
class NotStarted:
    worker: UUID
    why: str


@dataclass(frozen=True, slots=True)
class Ended:
    worker: UUID
    why: str  # completes a sentence that begins with the worker; "" when it was let go


@dataclass(frozen=True, slots=True)
class Drains:
    """It takes no more calls, and ends when those that it has are over; or it is to stay after all."""

    worker: UUID
    drains: bool


@dataclass(frozen=True, slots=True)
class Lost:
    why: str


@dataclass(frozen=True, slots=True)
class Waits:
    call: About


@dataclass(frozen=True, slots=True)
class Placed:
    call: About
    worker: UUID


@dataclass(frozen=True, slots=True)
class Over:
    """Nobody waits for it any more. `worker` is None when it has never had one."""

    call: About
    worker: UUID | None


@dataclass(frozen=True, slots=True)
class Brought:
    """What its caller makes of it, once it has the outcome: before or after `Over`."""

    call: About
    worker: UUID | None
    end: CallEnd
    bytes_out: int


PoolEvent: TypeAlias = MostChanged | Starting | NotStarted | Ended | Drains | Lost | Waits | Placed | Over | Brought
Tell: TypeAlias = Callable[[PoolEvent], object]


def to_nobody(event: PoolEvent) -> None:
    """For a pool that nobody looks at."""
