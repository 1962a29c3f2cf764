"""When snapshots are taken, on a clock that jumps: on change, not too often, and now and then in between."""

import asyncio
import os
from uuid import UUID

import pytest

from tests.support.loops import run_virtual, settle
from wool_jupyter.errors import DiscoveryNamespaceNotFound
from wool_jupyter.notebook.feed import (
    HEARTBEAT_S,
    IDLE_HEARTBEAT_S,
    INTERVAL_S,
    LOOKED_S,
    USAGE_S,
    Feed,
)
from wool_jupyter.notebook.picture import DEAD_SHOWN_S
from wool_jupyter.pool import events
from wool_jupyter.records import DiscoveryEvent, WorkerMetadata

ONE = UUID(int=1)


class Shown:
    """Takes snapshots as `Displays` does."""

    def __init__(self, *, anybody=True):
        self.any = anybody
        self.taken = []

    def show(self, snapshot):
        self.taken.append(snapshot)

    @property
    def times(self):
        return [round(snapshot.time, 3) for snapshot in self.taken]


class Announcements:
    def __init__(self, *events, end=None):
        self.events = list(events)
        self.more = asyncio.Event()
        self.end = end
        self.open = 0

    def announce(self, *events):
        self.events += events
        self.more.set()

    async def __aiter__(self):
        self.open += 1
        try:
            while True:
                while self.events:
                    yield self.events.pop(0)
                if self.end is not None:
                    raise self.end
                self.more.clear()
                await self.more.wait()
        finally:
            self.open -= 1


def of(kind, pid=None):
    return DiscoveryEvent(kind, WorkerMetadata(ONE, "unix:/nowhere", pid or os.getpid(), "1.0"))


def on_a_feed(test, **options):
    """Runs `test(feed, shown)` in virtual time."""

    async def main():
        shown = Shown(**options)
        loop = asyncio.get_running_loop()
        feed = Feed(shown, clock=loop.time)
        await test(feed, shown)
        feed.pool_ended()
        shown.any = False
        await asyncio.sleep(LOOKED_S + HEARTBEAT_S)

    run_virtual(main())


def lost(number):
    return events.Lost(str(number))


def test_the_first_change_is_shown_at_once_and_those_that_follow_together():
    async def test(feed, shown):
        await asyncio.sleep(10)
        for number in range(5):
            feed.see(lost(number))
        await settle()
        assert shown.times == [10]
        feed.see(lost(6))
        await asyncio.sleep(INTERVAL_S / 2)
        feed.see(lost(7))
        await asyncio.sleep(INTERVAL_S / 2)
        assert shown.times == [10, 10 + INTERVAL_S]

    on_a_feed(test)


def test_a_flood_of_changes_makes_five_snapshots_a_second():
    async def test(feed, shown):
        for number in range(1000):
            feed.see(lost(number))
            await asyncio.sleep(0.01)
        assert 49 <= len(shown.taken) <= 51

    on_a_feed(test)


def test_nothing_is_taken_when_nobody_is_there():
    async def test(feed, shown):
        feed.see(lost(1))
        await asyncio.sleep(100)
        assert shown.taken == []
        shown.any = True
        feed.show_soon()
        await settle()
        assert len(shown.taken) == 1

    on_a_feed(test, anybody=False)


def test_a_heartbeat_is_slow_and_slower_when_nobody_looks():
    async def test(feed, shown):
        feed.looked()
        await asyncio.sleep(LOOKED_S - 1)
        beats = [later - earlier for earlier, later in zip(shown.times, shown.times[1:], strict=False)]
        assert set(map(round, beats)) == {round(HEARTBEAT_S)}
        await asyncio.sleep(10)
        seen = len(shown.taken)
        await asyncio.sleep(10 * IDLE_HEARTBEAT_S)
        assert len(shown.taken) - seen == 10

    on_a_feed(test)


def test_membership_comes_from_the_subscription_until_the_pool_ends():
    async def test(feed, shown):
        announced = Announcements(of("worker-added"))
        feed.pool_starts("k1", 0.0, announced)
        await asyncio.sleep(1)
        assert [worker.own for worker in shown.taken[-1].workers] == [False]
        announced.announce(of("worker-dropped"))
        await asyncio.sleep(INTERVAL_S)
        assert [worker.state for worker in shown.taken[-1].workers] == ["dead"]
        feed.pool_ended()
        await settle()
        assert announced.open == 0

    on_a_feed(test)


def test_the_end_of_the_namespace_is_no_failure(capfd):
    async def test(feed, shown):
        feed.pool_starts("k1", 0.0, Announcements(end=DiscoveryNamespaceNotFound("k1")))
        await settle()

    on_a_feed(test)
    assert capfd.readouterr().err == ""


def test_a_dead_worker_goes_out_of_the_picture_without_anything_else_happening():
    async def test(feed, shown):
        feed.pool_starts("k1", 0.0, Announcements())
        feed.see(events.Starting(ONE))
        feed.see(events.Ended(ONE, "exited with code 3"))
        await settle()
        assert len(shown.taken[-1].workers) == 1
        await asyncio.sleep(DEAD_SHOWN_S + INTERVAL_S)
        assert shown.taken[-1].workers == ()

    on_a_feed(test)


@pytest.fixture
def reads(monkeypatch):
    """Counts each look at a process."""
    from wool_jupyter import host

    read = []

    def usage(pid):
        read.append(pid)
        return host.Usage(float(len(read)), 1, 2)

    monkeypatch.setattr("wool_jupyter.notebook.feed.host.process_usage", usage)
    return read


def with_a_worker(feed):
    feed.pool_starts("k1", 0.0, Announcements(of("worker-added", 4711)))
    feed.pool_runs()


def test_processes_are_looked_at_only_while_somebody_looks(reads):
    async def test(feed, shown):
        with_a_worker(feed)
        await asyncio.sleep(60)
        assert reads == []
        feed.looked()
        await asyncio.sleep(LOOKED_S + 1)
        seen = len(reads)
        assert LOOKED_S / USAGE_S - 2 <= seen <= LOOKED_S / USAGE_S + 3
        assert shown.taken[-1].workers[0].rss is None
        await asyncio.sleep(60)
        assert len(reads) == seen

    on_a_feed(test)


def test_the_share_of_the_cpu_is_that_since_the_look_before(reads):
    async def test(feed, shown):
        with_a_worker(feed)
        await settle()
        feed.looked()
        await asyncio.sleep(5.1)
        assert shown.taken[-1].workers[0].cpu == 1.0  # a second of the CPU at each look, once a second

    on_a_feed(test)


def test_whoever_says_it_again_goes_on_being_served(reads):
    async def test(feed, shown):
        with_a_worker(feed)
        for _ in range(10):
            feed.looked()
            await asyncio.sleep(10)
        assert len(reads) >= 95

    on_a_feed(test)


@pytest.mark.parametrize(("deaf", "goes_on"), [(True, True), (False, False)])
def test_who_can_not_be_heard_while_the_kernel_is_busy_is_not_forgotten_then(reads, deaf, goes_on):
    async def test(feed, shown):
        with_a_worker(feed)
        await settle()
        call = events.About("cell", "In[1]")
        feed.looked(deaf=deaf)
        feed.see(events.Waits(call))
        feed.see(events.Placed(call, ONE))
        await asyncio.sleep(10 * LOOKED_S)
        seen = len(reads)
        await asyncio.sleep(10)
        assert (len(reads) > seen) == goes_on
        feed.see(events.Over(call, ONE))
        await asyncio.sleep(2 * LOOKED_S)
        seen = len(reads)
        await asyncio.sleep(60)
        assert len(reads) == seen

    on_a_feed(test)


def test_a_single_look_measures_and_leaves_no_trace(reads):
    async def test(feed, shown):
        with_a_worker(feed)
        await settle()
        snapshot = await feed.take()
        assert snapshot.workers[0].cpu is not None
        assert len(reads) == 2
        assert feed.now().workers[0].cpu is None
        await asyncio.sleep(60)
        assert len(reads) == 2

    on_a_feed(test, anybody=False)
