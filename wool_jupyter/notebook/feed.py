"""When a snapshot is taken, and who gets it.

subscription, pool, system ─▶ Picture ─ at most 5 a second, on change ─▶ Displays ─▶ panel, widgets
                                        └ a heartbeat when nothing changes
"""

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from uuid import UUID

from wool_jupyter import host
from wool_jupyter.aio.closing import close_iterator
from wool_jupyter.aio.owned_tasks import OwnedTasks
from wool_jupyter.discovery.protocol import DiscoverySubscriberLike
from wool_jupyter.errors import DiscoveryNamespaceNotFound
from wool_jupyter.notebook.bridge import bridge
from wool_jupyter.notebook.displays import Display, Displays
from wool_jupyter.notebook.picture import Picture
from wool_jupyter.notebook.snapshot import Snapshot
from wool_jupyter.pool import events

INTERVAL_S = 0.2  # between two snapshots: reads as live
HEARTBEAT_S = 2.0  # a page that was loaded anew while the kernel is busy has nothing else to wait for
IDLE_HEARTBEAT_S = 5.0  # while nobody is known to look and nothing runs: by it a second page finds the pool
LOOKED_S = 30.0  # that a display which does not say so again still counts as looked at; they say it every 10 s
USAGE_S = 1.0  # between two looks at what processes use
FIRST_USAGE_S = 0.2  # a share of the CPU needs two looks


class Feed:
    """Lives on one loop. What is not said to be for any thread is for the loop's."""

    def __init__(self, displays: Displays, *, clock: Callable[[], float] = time.time) -> None:
        self._displays = displays
        self._clock = clock
        self._picture = Picture()
        self._tasks = OwnedTasks("feed")
        self._following: asyncio.Task[None] | None = None
        self._measuring: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._taken_at = float("-inf")  # by the loop's clock
        self._looked_until = float("-inf")
        self._is_deaf = False  # whoever looked can't be heard while the main thread is busy
        self._measured: dict[UUID, tuple[float, float]] = {}  # time of the loop's clock, CPU seconds then

    # The pool.

    def pool_starts(self, namespace: str, since: float, subscriber: DiscoverySubscriberLike) -> None:
        """Follows it until `pool_ended`."""
        self._picture.pool_starts(namespace, since)
        self._following = self._tasks.start(self._follow(subscriber), "membership")
        self._changed()

    def pool_runs(self) -> None:
        self._picture.pool_runs()
        self._changed()

    def pool_ended(self, why: str = "") -> None:
        """`why`: it could not start."""
        following, self._following = self._following, None
        if following is not None:
            following.cancel()
        self._picture.pool_ended(why)
        self._measured.clear()
        self._changed()

    async def _follow(self, subscriber: DiscoverySubscriberLike) -> None:
        announcements = aiter(subscriber)
        try:
            async for event in announcements:
                self._picture.announced(event, self._clock())
                self._changed()
        except DiscoveryNamespaceNotFound:
            pass  # its files were removed from outside: of the pool's end the pool tells
        finally:
            await close_iterator(announcements)

    def see(self, event: events.PoolEvent) -> None:
        self._picture.see(event, self._clock())
        self._changed()

    def keeps(self, kept: Mapping[UUID, int]) -> None:
        self._picture.keeps(kept)
        self._changed()

    # Snapshots.

    def _changed(self) -> None:
        if self._displays.any:
            self._within(max(0.0, self._taken_at + INTERVAL_S - asyncio.get_running_loop().time()))

    def _within(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            if self._timer.when() <= loop.time() + seconds:
                return
            self._timer.cancel()
        self._timer = loop.call_later(seconds, self._show)

    def _show(self) -> None:
        self._timer = None
        self._taken_at = asyncio.get_running_loop().time()
        due_s = self._picture.clear_away(self._clock())
        self._displays.show(self._picture.snapshot(self._clock()))
        if due_s is not None:
            self._within(max(due_s, INTERVAL_S))
        if self._displays.any:
            self._within(HEARTBEAT_S if self._is_looked_at or self._picture.is_busy else IDLE_HEARTBEAT_S)

    def show_soon(self) -> None:
        self._changed()

    async def take(self) -> Snapshot:
        """Of this moment, with what the processes use: takes 0.2 s unless somebody looks anyway."""
        if self._measuring is None:
            self._measure()
            await asyncio.sleep(FIRST_USAGE_S)
            self._measure()
        snapshot = self.now()
        if self._measuring is None:
            self._forget_usage()
        return snapshot

    def now(self) -> Snapshot:
        """Of this moment, with the use of processes that is known."""
        self._picture.clear_away(self._clock())
        return self._picture.snapshot(self._clock())

    # What processes use.

    def looked(self, *, deaf: bool = False) -> None:
        """Somebody looks at a display. `deaf`: it can't say so again while the kernel's main thread is busy."""
        self._looked_until = asyncio.get_running_loop().time() + LOOKED_S
        self._is_deaf = deaf
        if self._measuring is None:
            self._measuring = self._tasks.start(self._measure_while_looked_at(), "usage")
        if self._timer is None:
            self._changed()

    @property
    def _is_looked_at(self) -> bool:
        return asyncio.get_running_loop().time() < self._looked_until

    async def _measure_while_looked_at(self) -> None:
        pause_s = FIRST_USAGE_S
        while self._is_looked_at:
            if self._is_deaf and self._picture.blocks_the_kernel:
                self._looked_until = asyncio.get_running_loop().time() + LOOKED_S
            if self._measure():
                self._changed()
            await asyncio.sleep(pause_s)
            pause_s = USAGE_S
        self._measuring = None
        self._forget_usage()
        self._changed()

    def _measure(self) -> bool:
        """Whether there is news."""
        now, news = asyncio.get_running_loop().time(), False
        processes = self._picture.processes()
        for uid, pid in processes.items():
            usage, cpu = host.process_usage(pid), None
            if usage is not None:
                before = self._measured.get(uid)
                if before is not None and now > before[0]:
                    cpu = max(0.0, usage.cpu_s - before[1]) / (now - before[0])
                self._measured[uid] = now, usage.cpu_s
            news |= self._picture.used(uid, usage, cpu)
        for uid in self._measured.keys() - processes.keys():
            del self._measured[uid]
        return news

    def _forget_usage(self) -> None:
        self._measured.clear()
        self._picture.forget_usage()


class Door:
    """To the feed, for any thread of the notebook."""

    def __init__(self) -> None:
        self._displays = Displays()
        self.feed = Feed(self._displays)

    def tell(self, event: events.PoolEvent) -> None:
        bridge().post(self.feed.see, event)

    def attach(self, display: Display) -> None:
        """It gets a snapshot soon, and each that is taken later, on the displays' thread."""
        self._displays.attach(display)
        self.show_soon()

    def show_soon(self) -> None:
        """Once more, also if nothing has changed."""
        bridge().post(self.feed.show_soon)

    def detach(self, display: Display) -> None:
        self._displays.detach(display)

    def looked(self, *, deaf: bool) -> None:
        bridge().post(lambda: self.feed.looked(deaf=deaf))

    def take(self) -> Snapshot:
        """Of this moment; blocks for 0.2 s unless somebody looks anyway."""
        return bridge().enter(self.feed.take()).result()

    def glance(self) -> Snapshot:
        """Of this moment, at once."""
        return bridge().call(self.feed.now).result()


_door: Door | None = None


def _forget() -> None:
    global _door
    _door = None


os.register_at_fork(after_in_child=_forget)


def door() -> Door:
    """This process's; made when it is first asked for, and light: a panel may look before there is a pool."""
    global _door
    if _door is None:
        _door = Door()
    return _door
