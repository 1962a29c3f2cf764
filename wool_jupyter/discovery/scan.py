"""What changed between two looks at a registry. Pure: no files, no clock."""

import logging
from collections.abc import Iterable
from uuid import UUID

from wool_jupyter.discovery.registry import BLOCK, record_in
from wool_jupyter.errors import in_words
from wool_jupyter.records import DiscoveryEvent, WorkerMetadata
from wool_jupyter.wire.codec import decode_worker

_TOLERATED_FAILURES = 3  # in a row; a block that is being written is whole the next time

_log = logging.getLogger(__name__)


class Scan:
    """What one subscription has seen.

    A block that can't be read counts as unchanged: its worker was not dropped, for its slot is there. One that was never read
    is not reported. From the fourth failure in a row on, each is logged.
    """

    def __init__(self) -> None:
        self._known: dict[UUID, WorkerMetadata] = {}
        self._headers: dict[UUID, bytes] = {}  # of blocks that were read
        self._failures: dict[UUID, int] = {}

    @property
    def complete(self) -> bool:
        """Every block could be read the last time."""
        return not self._failures

    def take(self, blocks: Iterable[tuple[UUID, bytes | OSError]]) -> list[DiscoveryEvent]:
        """All registered workers' blocks, or why one can't be read; returns what is new since the last time."""
        present: set[UUID] = set()
        changed: list[DiscoveryEvent] = []
        for uid, block in blocks:
            present.add(uid)
            try:
                if isinstance(block, OSError):
                    raise block
                changed += self._read(uid, block)
            except (OSError, ValueError, MemoryError) as error:
                self._failed(uid, error)
        gone = [uid for uid in {**self._known, **self._failures} if uid not in present]
        dropped = [DiscoveryEvent("worker-dropped", self._known[uid]) for uid in gone if uid in self._known]
        for uid in gone:
            self._known.pop(uid, None)
            self._headers.pop(uid, None)
            self._failures.pop(uid, None)
        return dropped + changed

    def _read(self, uid: UUID, block: bytes) -> list[DiscoveryEvent]:
        record = record_in(block)
        header = block[: BLOCK.size]
        if self._headers.get(uid) != header:
            metadata = decode_worker(record)
            if metadata.uid != uid:
                raise ValueError(f"the record is that of the worker {metadata.uid}")
            before = self._known.get(uid)
            self._known[uid], self._headers[uid] = metadata, header
            self._failures.pop(uid, None)
            if before is None:
                return [DiscoveryEvent("worker-added", metadata)]
            if before != metadata:
                return [DiscoveryEvent("worker-updated", metadata)]
        self._failures.pop(uid, None)
        return []

    def _failed(self, uid: UUID, error: Exception) -> None:
        self._failures[uid] = self._failures.get(uid, 0) + 1
        if self._failures[uid] > _TOLERATED_FAILURES:
            state = "is not reported yet" if uid not in self._known else "is reported as it was"
            _log.warning(
                "the record of the worker %s could not be read %d times in a row, and it %s: %s",
                uid, self._failures[uid], state, in_words(error),
            )  # fmt: skip
