"""What a pool says of its workers to a discovery, one thing after the other."""

import asyncio
import logging

from wool_jupyter.discovery.protocol import DiscoveryPublisherLike
from wool_jupyter.records import DiscoveryEventType, WorkerMetadata
from wool_jupyter.settings import ANNOUNCE_S

_log = logging.getLogger(__name__)


class Announcer:
    """On one loop. Does not close the publisher."""

    def __init__(self, publisher: DiscoveryPublisherLike) -> None:
        self._publisher = publisher
        self._one_at_a_time = asyncio.Lock()  # a worker's place has to be free before its successor's is taken

    async def added(self, metadata: WorkerMetadata) -> None:
        """Raises what the publisher raises."""
        await self._publish("worker-added", metadata)

    async def added_again(self, metadata: WorkerMetadata) -> None:
        try:
            await self._publish("worker-added", metadata)
        except Exception:  # noqa: BLE001 (said in the log: it is tried again)
            _log.warning("worker %s could not be announced again", metadata.uid, exc_info=True)

    async def dropped(self, metadata: WorkerMetadata, *, timeout_s: float | None = ANNOUNCE_S) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await self._publish("worker-dropped", metadata)
        except Exception:  # noqa: BLE001 (said in the log: the worker's end is not to depend on it)
            _log.warning("the end of worker %s could not be announced", metadata.uid, exc_info=True)

    async def _publish(self, event: DiscoveryEventType, metadata: WorkerMetadata) -> None:
        async with self._one_at_a_time:
            await self._publisher.publish(event, metadata)
