"""What a balancer is asked, and how it hears what came of it."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable
from uuid import UUID

from wool_jupyter.balance.context import LoadBalancerContextView


@dataclass(frozen=True, slots=True)
class Task:
    """What is to be placed, as far as that goes."""

    routine: str


@runtime_checkable
class LoadBalancerLike(Protocol):
    def delegate(self, task: Task, *, context: LoadBalancerContextView) -> AsyncGenerator[UUID, UUID | None]:
        """Yields uids of candidates, best first, for one call; ends when there is nobody left to ask.

        The driver asks for the first candidate with `anext`, and then says what became of it: `athrow(error)` when it was asked and
        failed, and may have been evicted; `asend(None)` or `anext` when it had left and was not asked; `asend(uid)` when it took
        the call, after which the generator must end: to yield again is a RuntimeError for the caller. A cancelled call closes
        it, or throws the cancellation in. One that lets a failure pass has nobody else to name; what it raises on its own account
        ends the call.

        The context is live, and so may differ at each step; a uid that is not in it any more is skipped by the driver.
        """
        ...
