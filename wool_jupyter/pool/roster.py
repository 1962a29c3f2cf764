"""The workers that serve, and which of their main threads are free: of those that stay, answer, and have no call."""

from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING
from uuid import UUID

from wool_jupyter.pool.members import Member, WorkerSnapshot
from wool_jupyter.pool.slots import Slots

if TYPE_CHECKING:
    import asyncio

_GONE = 64  # ended workers that a call on its way may still name


class Roster:
    """Lives on one loop."""

    def __init__(self, *, wanted: Callable[[], object]) -> None:
        """`wanted` is called when somebody has to wait for a main thread."""
        self.slots = Slots(wanted=wanted)
        self._members: dict[UUID, Member] = {}
        self._gone: deque[Member] = deque(maxlen=_GONE)

    def __iter__(self) -> Iterator[Member]:
        return iter(list(self._members.values()))

    def __len__(self) -> int:
        return len(self._members)

    def member(self, uid: UUID) -> Member | None:
        return self._members.get(uid)

    @property
    def staying(self) -> int:
        return sum(not member.drains for member in self._members.values())

    def snapshot(self) -> list[WorkerSnapshot]:
        """Oldest first."""
        found = [WorkerSnapshot(uid, m.metadata.pid, m.calls > 0, m.started) for uid, m in self._members.items()]
        return sorted(found, key=lambda worker: worker.started)

    def joins(self, member: Member) -> None:
        self._members[member.metadata.uid] = member
        self.slots.add()

    def ends(self, member: Member) -> None:
        if _is_free(member):
            self.slots.remove()
        self._gone.append(self._members.pop(member.metadata.uid))

    def clear(self) -> None:
        """Nobody serves any more, and nobody will."""
        self._members.clear()

    # Calls there.

    def takes(self, uid: UUID) -> Member | None:
        """A call was placed there, with a slot. One that has ended since is told by the call's first step; None for a worker of
        somebody else."""
        member = self._members.get(uid) or next((gone for gone in self._gone if gone.metadata.uid == uid), None)
        if member is None:
            self.slots.add()
            return None
        member.calls += 1
        if member.calls > 1 or uid not in self._members:
            self.slots.add()  # it waits behind another call there, or for nobody: no main thread is taken
        return member

    def takes_again(self, member: Member) -> bool:
        """A call that was released goes on there, if its main thread is still free and nobody waits for one."""
        if (
            self._members.get(member.metadata.uid) is not member
            or not _is_free(member)
            or not self.slots.take_at_once()
        ):
            return False
        member.calls += 1
        return True

    def releases(self, member: Member) -> None:
        member.calls -= 1
        if member.metadata.uid in self._members and _is_free(member):
            self.slots.add()

    # Members that take none for a while, or none any more.

    def falls_ill(self, member: Member, *, care: "asyncio.Task[None]") -> None:
        """It could not be asked. `care` ends when it can be, or has ended."""
        if _is_free(member):
            self.slots.remove()
        member.care = care

    def recovers(self, member: Member) -> None:
        member.care = None
        if _is_free(member):
            self.slots.add()

    def drains(self, member: Member, *, is_busy: bool) -> None:
        """`is_busy`: also with a call that is on its way there, and holds its slot."""
        if not is_busy and _is_free(member):
            self.slots.remove()
        member.drains = True

    def stays(self, member: Member) -> None:
        """One that was to drain."""
        member.drains = False
        if _is_free(member):
            self.slots.add()


def _is_free(member: Member) -> bool:
    return member.calls == 0 and member.care is None and not member.drains
