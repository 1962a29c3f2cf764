"""A discovery's events as they come, and its failure for whoever needs what it can't tell any more."""

import asyncio
from collections.abc import AsyncIterator, Callable

from wool_jupyter.aio.closing import close_iterator
from wool_jupyter.aio.failure_report import FailureReport
from wool_jupyter.aio.owned_tasks import OwnedTasks
from wool_jupyter.discovery.protocol import DiscoverySubscriberLike, Marked
from wool_jupyter.records import DiscoveryEvent


class Following:
    """From `start` to `stop`, on one loop. Without a discovery there is nothing to follow, and nothing that fails."""

    def __init__(
        self,
        discovery: DiscoverySubscriberLike | None,
        see: Callable[[DiscoveryEvent], object],
        *,
        woken: Callable[[], object],
    ) -> None:
        """`woken` is called when it has failed, and when it knows all."""
        self._discovery = discovery
        self._see = see
        self._woken = woken
        self._tasks = OwnedTasks("proxy")
        self._sentinel: asyncio.Task[None] | None = None
        self.knows_all = True  # who were there when it began; or there is no telling
        self._failure: FailureReport | None = None
        self._was_told = False

    @property
    def failure(self) -> BaseException | None:
        """Also after its end."""
        return None if self._failure is None else self._failure.failure

    def start(self) -> None:
        """Raises what the discovery says at once. Can be started again after `stop`."""
        if self._discovery is None:
            return
        check = getattr(self._discovery, "check", None)
        if check is not None:
            check()
        self._failure, self._was_told = None, False
        marked = getattr(self._discovery, "marked", None)
        events = None if marked is None else marked()
        self.knows_all = events is None
        self._sentinel = self._tasks.start(self._follow(events or aiter(self._discovery)), "sentinel", awaited=True)
        self._sentinel.add_done_callback(self._ended)

    async def stop(self) -> None:
        sentinel, self._sentinel = self._sentinel, None
        if sentinel is not None:
            sentinel.cancel()
            await asyncio.wait({sentinel})

    async def _follow(self, events: AsyncIterator[Marked]) -> None:
        try:
            async for event in events:
                if event is not None:
                    self._see(event)
                else:
                    self.knows_all = True
                    self._woken()
        finally:
            await close_iterator(events)

    def _ended(self, sentinel: "asyncio.Task[None]") -> None:
        if not sentinel.cancelled() and (failure := sentinel.exception()) is not None:
            self._failure = FailureReport(failure)
        self._woken()

    def tell(self) -> None:
        """Raises the failure, if there is one."""
        if self._failure is not None:
            self._was_told = True
            self._failure.report()

    def tell_once(self) -> None:
        """As `tell`, unless somebody has heard it."""
        if not self._was_told:
            self.tell()

    def told(self) -> BaseException | None:
        """The failure, which the caller passes on."""
        self._was_told = self._was_told or self._failure is not None
        return self.failure
