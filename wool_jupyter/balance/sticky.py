"""The notebook's default: warm imports, caches and a GPU context are worth more than an even load."""

from collections.abc import AsyncGenerator
from uuid import UUID

from wool_jupyter.balance.context import LoadBalancerContextView
from wool_jupyter.balance.protocol import Task


class Sticky:
    """Free workers only: the one that ran the last call first, then the most recently used, then the others as they joined."""

    def __init__(self) -> None:
        self._recent: list[UUID] = []  # latest last

    async def delegate(self, task: Task, *, context: LoadBalancerContextView) -> AsyncGenerator[UUID, UUID | None]:  # noqa: ARG002
        present = context.workers
        self._recent = [uid for uid in self._recent if uid in present]
        newcomers = [uid for uid in present if uid not in self._recent]
        for uid in [*reversed(self._recent), *newcomers]:
            candidate = present.get(uid)
            if candidate is None or candidate.connection.load:
                continue
            try:
                taken = yield uid
            except Exception:  # noqa: BLE001 (the candidate failed: the next one)
                continue
            if taken is not None:
                self._recent = [*(known for known in self._recent if known != uid), uid]
                return
