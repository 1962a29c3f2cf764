"""An even spread: each call begins after the worker at which the last one stopped."""

from collections.abc import AsyncGenerator, Collection, Container
from uuid import UUID
from weakref import WeakKeyDictionary

from wool_jupyter.balance.context import LoadBalancerContextView
from wool_jupyter.balance.protocol import Task


class RoundRobinLoadBalancer:
    """Every present worker in turn, busy or not; within a call each one once. One instance serves any number of contexts."""

    def __init__(self) -> None:
        self._cursors: WeakKeyDictionary[LoadBalancerContextView, _Cursor] = WeakKeyDictionary()

    def __reduce__(self) -> tuple[type["RoundRobinLoadBalancer"], tuple[()]]:
        """Without its places: they are of contexts, which stay."""
        return type(self), ()

    async def delegate(self, task: Task, *, context: LoadBalancerContextView) -> AsyncGenerator[UUID, UUID | None]:  # noqa: ARG002
        cursor = self._cursors.setdefault(context, _Cursor())
        offered: set[UUID] = set()
        while (uid := cursor.advance(context.workers.keys(), past=offered)) is not None:
            offered.add(uid)
            try:
                taken = yield uid
            except Exception:  # noqa: BLE001 (the candidate failed: the next one)
                continue
            if taken is not None:
                return


class _Cursor:
    """A place in a ring of uids that all calls of a context share, so that calls at the same time get different workers.

    The ring is a snapshot, taken when it has been gone through: who joins meanwhile is in the next one.
    """

    def __init__(self) -> None:
        self._ring: list[UUID] = []
        self._place = 0

    def advance(self, present: Collection[UUID], *, past: Container[UUID]) -> UUID | None:
        """The next uid that is present and not in `past`; None if the rest of this ring and a new one have none."""
        found = self._rest(present, past)
        if found is None:
            self._ring, self._place = list(present), 0
            found = self._rest(present, past)
        return found

    def _rest(self, present: Container[UUID], past: Container[UUID]) -> UUID | None:
        while self._place < len(self._ring):
            uid = self._ring[self._place]
            self._place += 1
            if uid in present and uid not in past:
                return uid
        return None
