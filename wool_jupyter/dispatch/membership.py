"""Who can be asked: as a discovery tells, less those that were evicted here."""

import asyncio
import logging
from uuid import UUID

from wool_jupyter.balance.context import LoadBalancerContext
from wool_jupyter.dispatch import channels
from wool_jupyter.dispatch.connection import WorkerConnection
from wool_jupyter.records import DiscoveryEvent, WorkerMetadata
from wool_jupyter.wire import versions
from wool_jupyter.wire.protocol import package_version

_log = logging.getLogger(__name__)


class Membership:
    """One connection for each member, on one loop. `context` is what a balancer sees of it."""

    def __init__(self, *, lease: int | None, token: str | None) -> None:
        """`lease`: how many there may be (None: any number); one that was turned away stays out until it is announced again."""
        self.context = LoadBalancerContext()
        self._lease = lease
        self._token = token
        self._connections: dict[UUID, WorkerConnection] = {}
        self._announced: dict[UUID, WorkerMetadata] = {}
        self._unfit: dict[UUID, str] = {}  # announced, and never asked from here: why
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._connections)

    def __contains__(self, uid: UUID) -> bool:
        return uid in self._connections

    @property
    def uids(self) -> set[UUID]:
        return set(self._connections)

    def connection(self, uid: UUID) -> WorkerConnection | None:
        return self._connections.get(uid)

    def is_full(self, uid: UUID) -> bool:
        """A member that has as many calls as it takes."""
        connection = self._connections.get(uid)
        return connection is not None and connection.is_full

    def announced(self, uid: UUID) -> WorkerMetadata | None:
        """Its latest record, whether it is a member or not. None for one that can't be asked from here."""
        return self._announced.get(uid)

    @property
    def unfit(self) -> str:
        """Why workers are announced that can't be asked from here; empty if there are none."""
        return "; ".join(dict.fromkeys(self._unfit.values()))

    def see(self, event: DiscoveryEvent) -> bool:
        """False if it can't be asked, or not any more."""
        metadata = event.metadata
        uid = metadata.uid
        flaw = "" if event.type == "worker-dropped" else why_unfit(metadata)
        if flaw and self._unfit.get(uid) != flaw:
            _log.warning("worker %s is not asked: %s", uid, flaw)
        if flaw:
            self._unfit[uid] = flaw
        else:
            self._unfit.pop(uid, None)
        if flaw or event.type == "worker-dropped":
            self._announced.pop(uid, None)
            self.evict(uid)
            return False
        if event.type == "worker-added" or uid in self._announced:
            self._announced[uid] = metadata
        if uid in self._connections or (event.type == "worker-added" and self._has_room):
            self._admit(metadata)
        return True

    @property
    def _has_room(self) -> bool:
        return self._lease is None or len(self._connections) < self._lease

    def _admit(self, metadata: WorkerMetadata) -> None:
        """Under its uid, in place of an earlier record; calls under way there go on."""
        before = self._connections.get(metadata.uid)
        if before is not None and before.metadata == metadata:
            return
        connection = self._connections[metadata.uid] = self.connected(metadata)
        self.context.add_worker(metadata, connection)
        channels.of_this_loop().tell(self._changed)
        if before is not None:
            before.give_way_to(connection)
        self.wake()

    def connected(self, metadata: WorkerMetadata) -> WorkerConnection:
        """For the caller to close."""
        return WorkerConnection(metadata, token=self._token)

    def evict(self, uid: UUID) -> None:
        """Calls under way go on. An absent uid is no error."""
        self.context.remove_worker(uid)
        connection = self._connections.pop(uid, None)
        if connection is not None:
            connection.close()
            self.wake()

    def readmit(self, uid: UUID) -> bool:
        """One that was evicted here and is still announced. False if it is not, or if the lease has no room for it."""
        metadata = self._announced.get(uid)
        if metadata is None or not (uid in self._connections or self._has_room):
            return False
        self._admit(metadata)
        return True

    def clear(self) -> None:
        for uid in list(self._connections):
            self.evict(uid)
        self._announced.clear()
        self._unfit.clear()

    def wake(self) -> None:
        """Whoever waits looks again."""
        self._changed.set()

    async def changed(self) -> None:
        """Returns when somebody has been admitted or evicted, when a call has ended, or at a `wake`."""
        self._changed.clear()
        await self._changed.wait()


def why_unfit(metadata: WorkerMetadata) -> str:
    """By its own word; empty for one that can be asked. It looks at who asks it all the same."""
    if metadata.secure:
        return "it speaks TLS, and this process does not"
    if not versions.suits(metadata.version, package_version()):
        return f"it has version {metadata.version} of wool_jupyter, and this process {package_version()}: start both with the same"
    return ""
