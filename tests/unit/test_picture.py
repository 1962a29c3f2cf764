"""What is told of a pool, in whatever order it comes, makes one picture."""

from uuid import UUID

import pytest

from wool_jupyter import host
from wool_jupyter.notebook.picture import DEAD_SHOWN_S, Picture
from wool_jupyter.notebook.snapshot import EMPTY_POOL
from wool_jupyter.pool import events
from wool_jupyter.records import DiscoveryEvent, WorkerMetadata

ONE, TWO, OTHER = UUID(int=1), UUID(int=2), UUID(int=9)
MIB = 1 << 20


def metadata(uid, tags=("k1",)):
    return WorkerMetadata(uid, "unix:/nowhere", 4000 + uid.int, "1.0", frozenset(tags))


def added(uid, **options):
    return DiscoveryEvent("worker-added", metadata(uid, **options))


def dropped(uid):
    return DiscoveryEvent("worker-dropped", metadata(uid))


class Told:
    """A picture, and a clock that goes on by a second with each thing that is told."""

    def __init__(self):
        self.picture = Picture()
        self.now = 1000.0
        self.picture.pool_starts("k1", self.now)

    def __call__(self, *told):
        for each in told:
            self.now += 1
            if isinstance(each, DiscoveryEvent):
                self.picture.announced(each, self.now)
            else:
                self.picture.see(each, self.now)
        return self

    @property
    def snapshot(self):
        return self.picture.snapshot(self.now)

    @property
    def workers(self):
        return {UUID(worker.uid): worker for worker in self.snapshot.workers}

    @property
    def states(self):
        return {uid.int: worker.state for uid, worker in self.workers.items()}

    @property
    def cells(self):
        return {cell.cell: cell for cell in self.snapshot.cells}


@pytest.fixture
def told():
    told = Told()
    told(events.MostChanged(4), events.Starting(ONE), added(ONE), events.Starting(TWO), added(TWO))
    told.picture.pool_runs()
    return told


def cell(name="a", **options):
    return events.About("cell", "In[5]", name, **options)


def running(call, uid=ONE):
    return events.Waits(call), events.Placed(call, uid)


def test_nothing_is_told_of_no_pool():
    assert Picture().snapshot(5.0).pool == EMPTY_POOL


def test_a_worker_starts_serves_works_and_is_idle_again():
    told = Told()(events.Starting(ONE))
    assert told.states == {1: "starting"}
    assert told.workers[ONE].pid is None
    told(added(ONE))
    assert told.states == {1: "idle"}
    assert (told.workers[ONE].pid, told.workers[ONE].tags) == (4001, ("k1",))
    call = cell(bytes_in=10)
    told(*running(call))
    worker = told.workers[ONE]
    assert (worker.state, worker.running.label, worker.running.since) == ("busy", "In[5]", told.now)
    told(events.Over(call, ONE), events.Brought(call, ONE, "ok", 7))
    worker = told.workers[ONE]
    assert (worker.state, worker.running, worker.done, worker.bytes_in, worker.bytes_out) == ("idle", None, 1, 10, 7)


def test_a_death_says_why_and_stays_for_a_while_at_its_place(told):
    told(events.Ended(ONE, "exited with code 3"), dropped(ONE), events.Starting(UUID(int=3)))
    assert told.states == {1: "dead", 2: "idle", 3: "starting"}
    dead = told.workers[ONE]
    assert (dead.why, dead.since) == ("exited with code 3", 1006.0)
    assert told.snapshot.pool.size == 2
    assert told.picture.clear_away(1006.0 + DEAD_SHOWN_S - 3) == 3
    assert ONE in told.workers
    assert told.picture.clear_away(1006.0 + DEAD_SHOWN_S) is None
    assert ONE not in told.workers


@pytest.mark.parametrize("order", [pytest.param((0, 1), id="announced first"), pytest.param((1, 0), id="ended first")])
def test_an_end_and_its_announcement_may_come_in_any_order(told, order):
    ending = events.Ended(ONE, "exited with code 3"), dropped(ONE)
    told(*(ending[which] for which in order))
    assert told.states == {1: "dead", 2: "idle"}


def test_an_announcement_that_comes_after_the_end_brings_nobody_back(told):
    told(events.Ended(ONE, ""), added(ONE))
    assert told.states == {2: "idle"}
    told(events.Ended(TWO, "exited with code 1"), added(TWO))
    assert told.states == {2: "dead"}


def test_one_that_was_let_go_is_gone_at_once(told):
    told(events.Drains(ONE, drains=True))
    assert told.states == {1: "draining", 2: "idle"}
    assert told.snapshot.pool.size == 1
    told(events.Ended(ONE, ""))
    assert told.states == {2: "idle"}


def test_one_that_drains_may_stay_after_all(told):
    told(events.Drains(ONE, drains=True), events.Drains(ONE, drains=False))
    assert told.states == {1: "idle", 2: "idle"}


def test_one_of_another_owner_is_borrowed_and_dies_when_it_is_dropped(told):
    told(added(OTHER, tags=("gpu", "big")))
    worker = told.workers[OTHER]
    assert (worker.own, worker.state, worker.tags, worker.since) == (False, "idle", ("big", "gpu"), told.now)
    assert told.snapshot.pool.size == 2
    told(dropped(OTHER))
    assert told.states[9] == "dead"
    assert "owner" in told.workers[OTHER].why
    told(added(OTHER))
    assert told.states[9] == "idle"


def test_an_own_worker_that_somebody_dropped_is_shown_as_what_it_is(told):
    """Its process runs, and the pool announces it again."""
    told(dropped(ONE))
    assert told.states == {1: "idle", 2: "idle"}


def test_a_start_that_failed_says_so_and_one_that_was_given_up_does_not():
    told = Told()(events.Starting(ONE), events.NotStarted(ONE, "A worker was not ready after 3 s"))
    assert told.states == {1: "dead"}
    assert told.workers[ONE].why == "did not start: A worker was not ready after 3 s"
    told(events.Starting(TWO), events.NotStarted(TWO, ""))
    assert told.states == {1: "dead"}


def test_bodies_in_the_line_are_counted(told):
    first, second = cell("a"), cell("b")
    told(events.Waits(first), events.Waits(second))
    assert told.snapshot.pool.waiting == 2
    assert told.picture.is_busy
    told(events.Placed(first, ONE), events.Over(second, None))
    assert told.snapshot.pool.waiting == 0
    assert told.cells["b"].state == "waiting"  # until its caller says what came of it
    told(events.Brought(second, None, "interrupted", 0))
    assert told.cells["b"].state == "interrupted"


def test_a_cell_that_runs_again_is_a_new_run_and_the_youngest(told):
    first, other, again = cell("a"), cell("b"), cell("a")
    told(*running(first), events.Over(first, ONE), events.Brought(first, ONE, "ok", 5), *running(other, TWO))
    began = told.cells["a"].since
    told(*running(again))
    assert list(told.cells) == ["b", "a"]
    assert told.cells["a"].state == "running"
    assert told.cells["a"].since > began
    told(events.Brought(first, ONE, "error", 1))  # late, of the run before
    assert told.cells["a"].state == "running"


def test_the_last_hundred_cells_are_known(told):
    for number in range(130):
        told(events.Waits(cell(str(number))))
    assert list(told.cells) == [str(number) for number in range(30, 130)]


def test_a_call_of_no_cell_has_no_badge(told):
    call = events.About("call", "score")
    told(*running(call))
    assert told.cells == {}
    assert told.workers[ONE].running.kind == "call"
    assert not told.picture.blocks_the_kernel
    told(*running(cell(""), TWO))
    assert told.picture.blocks_the_kernel


def test_values_that_live_on_a_worker_alone_are_counted(told):
    told.picture.keeps({ONE: 2})
    assert [worker.keeps for worker in told.snapshot.workers] == [2, 0]


def test_use_is_news_when_it_changes_and_is_forgotten(told):
    usage = host.Usage(1.0, 5 * MIB, 6 * MIB)
    assert told.picture.processes() == {ONE: 4001, TWO: 4002}
    assert told.picture.used(ONE, usage, 0.5)
    assert not told.picture.used(ONE, usage, 0.5004)
    worker = told.workers[ONE]
    assert (worker.cpu, worker.rss, worker.peak) == (0.5, 5 * MIB, 6 * MIB)
    told(events.Ended(ONE, "was killed by SIGKILL"))
    assert (told.workers[ONE].cpu, told.workers[ONE].rss, told.workers[ONE].peak) == (None, None, 6 * MIB)
    assert told.picture.processes() == {TWO: 4002}
    assert not told.picture.used(ONE, usage, 0.7)
    told.picture.forget_usage()
    assert told.workers[ONE].peak is None


def test_a_lost_pool_says_why_and_an_ended_one_leaves_the_cells(told):
    call = cell()
    told(*running(call), events.Ended(ONE, "ended"), events.Lost("all is lost"))
    assert (told.snapshot.pool.state, told.snapshot.pool.why) == ("lost", "all is lost")
    told(events.Brought(call, ONE, "died", 0))
    told.picture.pool_ended()
    assert told.snapshot.pool == EMPTY_POOL
    assert told.snapshot.workers == ()
    assert told.cells["a"].state == "died"
    told(events.Lost("late"))
    assert told.snapshot.pool == EMPTY_POOL


def test_a_pool_that_did_not_start_says_why():
    told = Told()
    told.picture.pool_ended("no room")
    assert (told.snapshot.pool.state, told.snapshot.pool.why) == ("none", "no room")
    told.picture.pool_starts("k1", 2000.0)
    assert told.snapshot.pool.why == ""
