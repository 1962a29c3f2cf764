"""What a balancer is asked, and what a connection offers to whoever orders candidates."""

from collections.abc import AsyncGenerator
from typing import Protocol, runtime_checkable
from uuid import UUID

from wool_jupyter.balance.context import LoadBalancerContextView


@runtime_checkable
class LoadBalancerLike(Protocol):
    def delegate(self, *, context: LoadBalancerContextView) -> AsyncGenerator[UUID, UUID | None]:
        """Yields uids of candidates, best first.

        The driver asks with `anext`; a candidate that failed comes as `athrow`, one that took the call as `asend(uid)`, after
        which the generator must end. `asend(None)` says that a candidate had left and was not asked.
        """
        ...
