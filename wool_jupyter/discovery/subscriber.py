"""Follows the registry of a namespace."""

import asyncio
import math
from collections.abc import AsyncGenerator
from pathlib import Path

from wool_jupyter.discovery import checks, generation, registry
from wool_jupyter.discovery.protocol import Marked
from wool_jupyter.discovery.registry import Binding
from wool_jupyter.discovery.scan import Scan
from wool_jupyter.discovery.subscription import SubscriberMeta, unmarked
from wool_jupyter.discovery.watcher import Watch
from wool_jupyter.errors import DiscoveryNamespaceNotFound
from wool_jupyter.records import DiscoveryEvent
from wool_jupyter.settings import COUNTER_POLL_S, LIVENESS_INTERVAL_S


def _sharing(
    _: type,
    namespace: str,
    *,
    poll_interval: float | None = None,
    liveness_interval_s: float = LIVENESS_INTERVAL_S,
    root: Path | None = None,
) -> tuple[object, ...]:
    """What makes two subscriptions one feed. Checks the arguments: the subscriber itself is made much later."""
    checks.interval("poll_interval", poll_interval)
    checks.interval("liveness_interval_s", liveness_interval_s)
    return generation.checked(namespace), poll_interval, liveness_interval_s, checks.root(root)


class LocalSubscriber(metaclass=SubscriberMeta, key=_sharing):
    """A namespace's workers: first those that are there, then only what changes. DiscoveryNamespaceNotFound once the owner is gone,
    within `liveness_interval_s`, and at once if there is none; iterating again binds to a successor.

    `poll_interval` in seconds: looks at the whole registry that often, too; None relies on being told.
    """

    def __init__(
        self,
        namespace: str,
        *,
        poll_interval: float | None = None,
        liveness_interval_s: float = LIVENESS_INTERVAL_S,
        root: Path | None = None,
    ) -> None:
        self._namespace = namespace
        self._poll_interval = poll_interval
        self._liveness_interval_s = liveness_interval_s
        self._root = root

    @staticmethod
    def check(namespace: str, *, root: Path | None = None, **_: object) -> None:
        """DiscoveryNamespaceNotFound if nobody serves the namespace now."""
        registry.bind(namespace, root).close()

    def __aiter__(self) -> AsyncGenerator[DiscoveryEvent, None]:  # noqa: PYI058 (it can be closed)
        return unmarked(self.marked())

    async def marked(self) -> AsyncGenerator[Marked, None]:
        binding = registry.bind(self._namespace, self._root)
        try:
            watch = self._watch(binding)
            try:
                scan, looked = Scan(), False
                while True:
                    watch.clear()
                    counter = binding.counter()
                    events = scan.take(binding.blocks())
                    binding.check()
                    for event in events:
                        yield event
                        binding.check()
                    if not looked and scan.complete:
                        looked = True
                        yield None
                    await self._until_changed(binding, watch, counter, complete=scan.complete)
            finally:
                watch.close()
        finally:
            binding.close()

    def _watch(self, binding: Binding) -> Watch:
        try:
            return Watch(binding.directory)
        except FileNotFoundError as error:
            raise DiscoveryNamespaceNotFound(self._namespace) from error

    async def _until_changed(self, binding: Binding, watch: Watch, counter: int, *, complete: bool) -> None:
        """Since a look that began at that counter."""
        loop = asyncio.get_running_loop()
        liveness_s = self._liveness_interval_s if watch.watched else min(COUNTER_POLL_S, self._liveness_interval_s)
        again = [] if self._poll_interval is None else [self._poll_interval]
        if not complete:  # nobody may write again to a block that could not be read
            again.append(self._liveness_interval_s)
        look_at = loop.time() + min(again, default=math.inf)
        while binding.counter() == counter and (left_s := look_at - loop.time()) > 0:
            await watch.wait(min(liveness_s, left_s))
            watch.clear()
            binding.check()
