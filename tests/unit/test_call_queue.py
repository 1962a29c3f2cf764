"""Which call is next, where, and how many go together (`pool.call_queue`), in virtual time and without a process."""

import asyncio
from collections import Counter
from concurrent.futures import CancelledError
from contextlib import asynccontextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.loops import run_virtual, settle, until
from tests.support.virtual_pool import WAY_S, Origin, VirtualPool
from wool_jupyter.errors import NoWorkersAvailable, WorkerDied
from wool_jupyter.pool.call_run import _FUNCTIONS
from wool_jupyter.pool.pacing import Ahead, Cost
from wool_jupyter.settings import RECALL_S, REST_S, RUN_S
from wool_jupyter.wire import calls

# How far ahead.


def known(mean_s, calls=1000):
    cost = Cost()
    for _ in range(calls):
        cost.took(mean_s)
    return cost


def sent_at_once(cost, share):
    ahead = Ahead()
    while ahead.has_room(cost, share=share):
        ahead.sent(cost)
    return ahead.calls


@pytest.mark.parametrize(
    ("cost", "share", "calls"),
    [
        pytest.param(Cost(), 100, 1, id="nothing is known"),
        pytest.param(known(0.001, 1), 100, 3, id="one was measured"),
        pytest.param(known(0.001, 10), 1000, 21, id="ten were measured"),
        pytest.param(known(0.00099), 1000, 101, id="as many as take a tenth of a second"),
        pytest.param(known(0.001), 7, 7, id="no more than its share"),
        pytest.param(known(0.09), 100, 2, id="a second one hides the way there and back"),
        pytest.param(known(0.2), 100, 1, id="unless they are long"),
    ],
)
def test_a_worker_is_sent_calls_ahead_by_what_they_took_before(cost, share, calls):
    assert sent_at_once(cost, share) == calls


def test_what_is_over_makes_room_and_what_is_left_counts_by_what_is_known_of_it_now():
    short, long = known(0.001), known(0.06)
    ahead = Ahead()
    for cost in (long, short, short):
        ahead.sent(cost)
    assert not ahead.has_room(long, share=100)
    ahead.over(long)
    assert (ahead.calls, ahead.seconds) == (2, pytest.approx(0.002))
    assert ahead.has_room(long, share=100)
    short.takes_at_least(0.05)
    ahead.over(short)
    assert ahead.seconds == pytest.approx(0.05)
    ahead.over(short)
    assert (ahead.calls, ahead.seconds) == (0, 0)


@given(st.floats(0, 10), st.integers(0, 50), st.integers(1, 10_000))
def test_nobody_behind_them_waits_much_longer_than_for_a_run(mean_s, measured, share):
    cost = known(mean_s, measured)
    calls = sent_at_once(cost, share)
    assert 1 <= calls <= max(1, share)
    assert calls <= 1 + 2 * measured
    if calls > 2:
        assert calls * cost.mean_s <= RUN_S * 1.001
    else:
        assert calls == 1 or cost.mean_s <= RUN_S


# In a pool.


def in_pool(workers, durations=None):
    """For a test that is a coroutine: it gets the pool."""

    def decorate(test):
        def runs():
            async def main():
                async with pool_of(workers, durations) as pool:
                    await test(pool)

            run_virtual(main())

        runs.__name__, runs.__doc__ = test.__name__, test.__doc__
        return runs

    return decorate


@asynccontextmanager
async def pool_of(workers, durations=None):
    pool = VirtualPool(workers, durations)
    try:
        yield pool
    finally:
        await pool.close()


def now():
    return asyncio.get_running_loop().time()


def names(prefix, count, pool, seconds):
    found = [f"{prefix}{n}" for n in range(count)]
    pool.durations.update(dict.fromkeys(found, seconds))
    return found


def results(futures):
    return [future.result(timeout=0) for future in futures]


@in_pool(1)
async def test_calls_begin_in_the_order_in_which_they_came(pool):
    mine, other = Origin("mine"), Origin("other")
    wanted = names("a", 50, pool, 0.001) + names("b", 3, pool, 0.5) + names("c", 50, pool, 0.001)
    futures = [
        future
        for n, name in enumerate(wanted)
        for future in pool.put(name, origin=mine if n % 7 else other, function=name[0])
    ]
    await pool.all_done(futures)
    assert [name for name, _ in pool.began] == wanted == results(futures)
    assert (mine.unfinished, other.unfinished) == (0, 0)


@in_pool(4)
async def test_thousands_of_small_calls_are_few_messages_and_lose_little_time(pool):
    futures = pool.put(*names("a", 4000, pool, 0.001), origin=Origin())
    await pool.all_done(futures)
    assert now() < 1.0 * 1.3
    assert pool.messages < 1000
    shares = Counter(worker for _, worker in pool.began)
    assert min(shares.values()) > 500


@in_pool(2)
async def test_the_last_calls_are_shared_out(pool):
    """None is idle while another has several to run."""
    await pool.all_done(pool.put(*names("a", 50, pool, 0.01), origin=Origin()))
    began = now()
    futures = pool.put(*names("b", 10, pool, 0.01), origin=Origin())
    await pool.all_done(futures)
    assert now() - began < 0.05 + 0.02
    assert Counter(worker for name, worker in pool.began if name[0] == "b") == {0: 5, 1: 5}


@in_pool(2)
async def test_what_waits_behind_a_call_that_takes_unexpectedly_long_is_taken_back(pool):
    origin = Origin()
    await pool.all_done(pool.put(*names("a", 200, pool, 0.001), origin=origin))
    began = now()
    (long,) = pool.put(*names("long", 1, pool, 60), origin=origin)
    short = pool.put(*names("b", 60, pool, 0.001), origin=origin)
    await pool.all_done(short)
    assert now() - began < 2 * RECALL_S + 0.2
    assert not long.done()
    assert max(Counter(name for name, _ in pool.began).values()) == 1


@in_pool(1)
async def test_the_outcome_of_a_call_that_has_taken_its_time_waits_for_no_other(pool):
    """The end of its worker would lose it."""
    origin = Origin()
    await pool.all_done(pool.put(*names("a", 20, pool, 0.04), origin=origin))
    began = now()
    first, _ = futures = pool.put(*names("b", 2, pool, 0.04), origin=origin)
    await until(first.done)
    assert now() - began < 0.04 + 6 * WAY_S  # `until` looks every five
    await pool.all_done(futures)


@in_pool(2)
async def test_calls_that_come_back_are_first_again_in_their_order(pool):
    mine, other = Origin("mine"), Origin("other")
    await pool.all_done(pool.put(*names("w", 100, pool, 0.001), origin=mine))
    held = pool.put(*names("held", 1, pool, 5), origin=other, function="other")
    unexpected = pool.put(*names("a", 1, pool, 5), *names("b", 10, pool, 0.001), origin=mine)
    later = pool.put(*names("c", 10, pool, 0.001), origin=other, function="another")
    await pool.all_done([*held, *unexpected, *later])
    order = [name for name, _ in pool.began][100:]
    for each in "bc":
        assert [name for name in order if name[0] == each] == [f"{each}{n}" for n in range(10)]
    assert order.index("b0") < order.index("c0")


@in_pool(1)
async def test_who_comes_between_waits_for_no_more_than_two_runs(pool):
    """A cell stands in the same line as the calls: behind the run that has the main thread, and the one that waits for it."""
    calls = pool.put(*names("a", 1000, pool, 0.01), origin=Origin())
    await asyncio.sleep(1)
    began = now()
    await pool.line.take("a cell")
    assert now() - began < 2 * RUN_S + 0.02
    later = pool.put(*names("b", 5, pool, 0.01), origin=Origin())
    pool.line.add()
    await pool.all_done([*calls, *later])
    order = [name for name, _ in pool.began]
    assert order == sorted(order, key=lambda name: (name[0], int(name[1:])))


@in_pool(1)
async def test_calls_that_came_behind_a_cell_do_not_overtake_it(pool):
    origin = Origin()
    await pool.all_done(pool.put(*names("a", 50, pool, 0.001), origin=origin))
    first = pool.put(*names("held", 1, pool, 0.5), origin=origin, function="other")
    await asyncio.sleep(0.1)
    first += pool.put(*names("second", 2, pool, 0.001), origin=origin)  # their turn stands in the line before the cell
    await settle()
    cell = asyncio.ensure_future(pool.line.take("a cell"))
    await settle()
    behind = pool.put(*names("b", 5, pool, 0.001), origin=origin)
    await cell
    assert [name for name, _ in pool.began][50:] == ["held0", "second0", "second1"]
    pool.line.add()
    await pool.all_done([*first, *behind])


# Runs that rest.


@in_pool(2)
async def test_calls_one_after_the_other_are_one_run_until_a_pause(pool):
    origin = Origin()
    for n in range(10):
        await pool.all_done(pool.put(*names(f"{n}-", 1, pool, 0.001), origin=origin))
        await asyncio.sleep(REST_S / 2)
    assert pool.runs == 1
    await asyncio.sleep(REST_S)
    await pool.all_done(pool.put(*names("late", 1, pool, 0.001), origin=origin))
    assert pool.runs == 2
    assert Counter(worker for _, worker in pool.began) == {0: 11}


@in_pool(1)
async def test_a_run_that_rests_holds_no_main_thread(pool):
    origin = Origin()
    await pool.all_done(pool.put(*names("a", 1, pool, 0.001), origin=origin))
    assert pool.line.take_at_once()  # a cell
    later = pool.put(*names("b", 2, pool, 0.001), origin=origin)
    await asyncio.sleep(1)
    assert [name for name, _ in pool.began] == ["a0"]
    pool.line.add()
    await pool.all_done(later)
    assert (pool.runs, pool.line.free) == (2, 1)


@in_pool(2)
async def test_many_calls_for_a_run_that_rests_are_shared_with_other_workers(pool):
    origin = Origin()
    await pool.all_done(pool.put(*names("a", 40, pool, 0.01), origin=origin))
    began = now()
    await pool.all_done(pool.put(*names("b", 20, pool, 0.01), origin=origin))
    assert now() - began < 0.1 + 0.03
    assert Counter(worker for name, worker in pool.began if name[0] == "b") == {0: 10, 1: 10}


@in_pool(1)
async def test_a_call_that_was_cancelled_wakes_no_run_that_rests(pool):
    origin = Origin()
    await pool.all_done(pool.put(*names("a", 1, pool, 0.001), origin=origin))
    items = pool.items(*names("b", 2, pool, 0.001), origin=origin)
    assert all(item.future.cancel() for item in items)
    pool.queue.put(items)
    await settle()
    assert (origin.unfinished, pool.line.free) == (0, 1)
    await pool.all_done(pool.put(*names("c", 1, pool, 0.001), origin=origin))
    assert [name for name, _ in pool.began] == ["a0", "c0"]


@in_pool(1)
async def test_a_worker_keeps_a_bounded_number_of_functions_for_one_run(pool):
    origin, functions = Origin(), []
    for n in range(_FUNCTIONS + 1):
        (item,) = pool.items(*names(f"{n}-", 1, pool, 0.001), origin=origin)
        item.function = calls.PackedFunction(abs, calls.Data(()))
        functions.append(item.function)  # each is another one
        pool.queue.put([item])
        await pool.all_done([item.future])
    assert pool.runs == 2


@in_pool(2)
async def test_calls_of_two_cells_never_go_together(pool):
    """What they print belongs under two cells, and their processes' state differs."""
    one, two, other_state = Origin("one"), Origin("two"), {"cwd": b"elsewhere"}
    await pool.all_done(pool.put(*names("w", 100, pool, 0.001), origin=one))
    sent = []
    for n in range(60):
        name = names(f"{n}-", 1, pool, 0.001)
        sent += pool.put(*name, origin=(one, two)[n % 2], ambient=other_state if n % 3 else None)
    await pool.all_done(sent)
    assert len(results(sent)) == 60


@in_pool(2)
async def test_cancelled_calls_never_begin_and_hold_nobody_up(pool):
    origin = Origin()
    held = pool.put(*names("held", 2, pool, 1.0), origin=origin)
    waiting = pool.put(*names("a", 10, pool, 0.01), origin=origin)
    await asyncio.sleep(0.1)
    assert all(future.cancel() for future in waiting[:9])
    pool.queue.prune()
    await settle()
    assert origin.unfinished == 3
    await pool.all_done([*held, *waiting])
    assert {name for name, _ in pool.began} == {"held0", "held1", "a9"}


@in_pool(1)
async def test_an_interrupt_ends_what_is_meant_and_nothing_else(pool):
    mine, other = Origin("mine"), Origin("other")
    await pool.all_done(pool.put(*names("w", 50, pool, 0.001), origin=mine))
    running, *ahead = pool.put(*names("long", 1, pool, 60), *names("a", 20, pool, 0.001), origin=mine)
    others = pool.put(*names("b", 3, pool, 0.001), origin=other)
    await asyncio.sleep(0.1)
    pool.queue.interrupt(lambda item: item.origin is mine)
    await pool.all_done([running, *ahead, *others])
    assert isinstance(running.exception(), KeyboardInterrupt)
    for future in ahead:
        with pytest.raises(CancelledError):
            future.result()
    assert results(others) == ["b0", "b1", "b2"]
    assert not [name for name, _ in pool.began if name.startswith("a")]


@in_pool(1)
async def test_the_end_of_the_pool_ends_all_calls_in_words(pool):
    (running, waiting) = pool.put(*names("a", 2, pool, 60), origin=Origin())
    await asyncio.sleep(1)
    await pool.queue.stop()
    with pytest.raises(WorkerDied, match="a0 may have run in part"):
        running.result(timeout=0)
    with pytest.raises(NoWorkersAvailable, match="before a1 had begun"):
        waiting.result(timeout=0)
    (late,) = pool.put("a0", origin=Origin())
    with pytest.raises(NoWorkersAvailable):
        late.result(timeout=0)


seconds = st.one_of(st.floats(0, 0.002), st.floats(0, 0.2), st.floats(0, 3))
bursts = st.lists(  # seconds until it comes, its origin, seconds of each of its calls
    st.tuples(st.floats(0, 0.5), st.integers(0, 2), st.lists(seconds, max_size=40)), max_size=8
)


@settings(deadline=None, max_examples=60)
@given(workers=st.integers(1, 4), plan=bursts)
def test_whatever_comes_each_call_runs_once_and_no_worker_is_idle_for_long(workers, plan):
    async def main():
        async with pool_of(workers) as pool:
            origins, futures, work_s = [Origin(str(n)) for n in range(3)], [], 0.0
            for number, (pause_s, origin, takes) in enumerate(plan):
                await asyncio.sleep(pause_s)
                called = [f"{number}-{n}" for n in range(len(takes))]
                pool.durations.update(zip(called, takes, strict=True))
                work_s += sum(takes)
                futures += pool.put(*called, origin=origins[origin])
            await pool.all_done(futures)
            assert sorted(name for name, _ in pool.began) == sorted(results(futures))
            assert len(pool.began) == len(futures)
            assert [origin.unfinished for origin in origins] == [0, 0, 0]
            # Graham's bound for a greedy list, with what calls wait behind a longer one until they are taken back.
            longest = max(pool.durations.values(), default=0)
            came_s = sum(pause_s for pause_s, _, _ in plan)
            lost_s = (2 * RECALL_S + RUN_S) * (1 + sum(took > RUN_S for took in pool.durations.values()))
            assert now() <= came_s + work_s / workers + longest + lost_s + 6 * WAY_S * len(futures)

    run_virtual(main())
