"""A pool that is made larger and smaller under work: no call is lost, and every main thread is counted once."""

import asyncio
import os
import random

import pytest

from tests.process.test_kernel_pool import finish, pool_of, run, to_end
from tests.support.loops import settle, until
from tests.support.pools import lives, pool_workers
from wool_jupyter.pool import events


def pids(bench):
    return {worker.pid for worker in bench.pool.crew.snapshot()}


async def all_serve(bench, workers):
    """And nobody else."""
    await until(lambda: len(bench.pool.crew.snapshot()) == workers and not bench.pool.crew.starting)


async def fits(bench, workers):
    """And nobody looks for a main thread that is not there."""
    await all_serve(bench, workers)
    assert bench.pool.crew.slots.free == workers
    await bench.fits(workers)


def test_idle_workers_are_let_go_the_least_used_first():
    async def main():
        async with pool_of(3) as bench:
            await all_serve(bench, 3)
            used = await bench.works()
            await bench.pool.crew.scale(1)
            assert bench.pool.crew.size == 1
            await until(lambda: pids(bench) == {used})
            await fits(bench, 1)

    run(main())


def test_busy_workers_end_when_their_calls_have():
    async def main():
        async with pool_of(2) as bench:
            held = await bench.inside_all(2)
            await bench.pool.crew.scale(1)
            assert bench.pool.crew.size == 1
            waits, asking = bench.begin()
            await settle()
            assert len(pids(bench)) == 2
            assert all(await bench.end(held))
            await until(lambda: len(pids(bench)) == 1)
            call = await asking  # by the one that stays
            await until(lambda: waits in bench.stage.inside)
            bench.stage.order(waits)
            assert await finish(call)
            await fits(bench, 1)

    run(main())


def test_one_that_drains_takes_no_further_call():
    async def main():
        async with pool_of(2) as bench:
            held = await bench.inside_all(2)
            await bench.pool.crew.scale(1)
            stays = {m.metadata.pid for m in bench.pool.crew._roster if not m.drains}
            asked = [bench.begin() for _ in range(3)]
            assert all(await bench.end(held))
            for name, asking in asked:
                call = await asking
                assert call.worker.pid in stays
                await until(lambda name=name: name in bench.stage.inside)
                bench.stage.order(name)
                assert await finish(call)
            await fits(bench, 1)

    run(main())


def test_one_that_is_about_to_leave_is_not_asked_though_it_ran_the_last_call():
    """Also while its end can't be announced, as somebody else is writing."""

    async def main():
        pins = set()
        async with pool_of(2, pinned=pins.__contains__) as bench:
            (first, stays), (last, leaves) = await bench.inside_all(2)
            pins.add(stays.worker.uid)
            await bench.pool.crew.scale(1)
            name, asking = bench.begin()
            await settle()
            for body, call in ((first, stays), (last, leaves)):
                bench.stage.order(body)
                await to_end(call)
            async with bench.pool.crew._announcer._one_at_a_time:
                await leaves.close()
                await stays.close()
                call = await asking
            assert call.worker.uid == stays.worker.uid
            await until(lambda: name in bench.stage.inside)
            bench.stage.order(name)
            assert await finish(call)
            await fits(bench, 1)

    run(main())


def test_growing_again_keeps_those_that_drain():
    async def main():
        async with pool_of(3) as bench:
            await all_serve(bench, 3)
            before = pids(bench)
            held = await bench.inside_all(3)
            await bench.pool.crew.scale(1)
            assert bench.pool.crew.size == 1
            await bench.pool.crew.scale(3)
            assert (bench.pool.crew.size, bench.pool.crew.starting) == (3, 0)
            assert all(await bench.end(held))
            await fits(bench, 3)
            assert pids(bench) == before

    run(main())


def test_starts_that_are_not_needed_any_more_are_given_up():
    async def main():
        async with pool_of(1) as bench:
            (first,) = pids(bench)
            await bench.pool.crew.scale(4)
            assert bench.pool.crew.starting == 3
            await bench.pool.crew.scale(1)
            assert (bench.pool.crew.size, bench.pool.crew.starting) == (1, 0)
            await fits(bench, 1)
            assert pids(bench) == {first}

    run(main())


def test_a_pinned_worker_stays_and_goes_when_nothing_pins_it_any_more():
    async def main():
        pins = set()
        async with pool_of(3, pinned=pins.__contains__) as bench:
            await all_serve(bench, 3)
            pins |= {worker.uid for worker in bench.pool.crew.snapshot()[:2]}
            await bench.pool.crew.scale(1)
            await until(lambda: len(pids(bench)) == 2)
            assert {worker.uid for worker in bench.pool.crew.snapshot()} == pins
            await fits(bench, 2)
            pins.pop()
            bench.pool.crew.supervise()
            await until(lambda: len(pids(bench)) == 1)
            await fits(bench, 1)

    run(main())


def test_a_worker_that_is_pinned_by_the_call_for_which_it_drains_stays():
    async def main():
        pins = set()
        async with pool_of(2, pinned=pins.__contains__) as bench:
            held = await bench.inside_all(2)
            await bench.pool.crew.scale(1)
            pins |= {call.worker.uid for _, call in held}
            assert all(await bench.end(held))
            await fits(bench, 2)
            assert {worker.uid for worker in bench.pool.crew.snapshot()} == pins

    run(main())


def test_a_draining_worker_that_dies_is_not_replaced():
    async def main():
        async with pool_of(2) as bench:
            held = await bench.inside_all(2)
            await bench.pool.crew.scale(1)
            await bench.end(held, "import os; os._exit(3)")
            await all_serve(bench, 1)
            await fits(bench, 1)

    run(main())


def test_one_that_was_let_go_leaves_no_process():
    async def main():
        async with pool_of(2) as bench:
            await all_serve(bench, 2)
            before = pool_workers(os.getpid())
            await bench.pool.crew.scale(1)
            await until(lambda: len(pids(bench)) == 1)
            assert sum(map(lives, before)) == 1

    run(main())


def test_an_unused_worker_that_was_restarted_by_hand_is_replaced():
    """Its end says nothing about the start of others."""

    async def main():
        async with pool_of(1) as bench:
            (worker,) = bench.pool.crew.snapshot()
            await bench.pool.crew.restart(worker.uid)
            await all_serve(bench, 1)
            assert worker.pid not in pids(bench)
            await fits(bench, 1)

    run(main())


def test_what_happens_is_told_in_order():
    async def main():
        told = []
        async with pool_of(1, tell=told.append) as bench:
            told.clear()
            about = events.About("cell", "In[1]", "a", 17)
            name, asking = bench.begin(about=about)
            call = await asking
            await until(lambda: name in bench.stage.inside)
            waits, asking = bench.begin()
            await settle()
            bench.stage.order(name)
            await finish(call)
            call = await asking
            await until(lambda: waits in bench.stage.inside)
            bench.stage.order(waits, "import os; os._exit(7)")
            await finish(call)
            await all_serve(bench, 1)
            first, second = call.worker.uid, bench.pool.crew.snapshot()[0].uid
            mine = [event for event in told if getattr(event, "call", about) is about]
            assert mine == [
                events.Waits(about),
                events.Placed(about, first),
                events.Over(about, first),
                events.Ended(first, "exited with code 7"),
                events.Starting(second),
            ]
            other = [event for event in told if event not in mine]
            assert [type(event) for event in other] == [events.Waits, events.Placed, events.Over]
            assert {event.call.label for event in other} == {"cell"}

    run(main())


def test_one_in_the_line_that_gives_up_is_told_to_be_over():
    async def main():
        told = []
        async with pool_of(1, tell=told.append) as bench:
            held = await bench.inside_all(1)
            told.clear()
            _, asking = bench.begin()
            await settle()
            asking.cancel()
            await asyncio.wait({asking})
            assert [type(event) for event in told] == [events.Waits, events.Over]
            assert told[-1].worker is None
            assert all(await bench.end(held))

    run(main())


@pytest.mark.parametrize("seed", range(2))
def test_scaling_at_random_under_work_loses_no_call_and_no_main_thread(seed):
    async def main():
        choice = random.Random(seed)
        async with pool_of(2) as bench:
            held, asked = [], []
            for _ in range(40):
                match choice.choice(["scale", "begin", "begin", "end", "end"]):
                    case "scale":
                        await bench.pool.crew.scale(choice.randint(1, 3))
                    case "begin" if len(asked) + len(held) < 5:
                        asked.append(bench.begin())
                    case "end":
                        for name, asking in [each for each in asked if each[1].done()]:
                            await until(lambda name=name: name in bench.stage.inside)
                            held.append((name, await asking))
                            asked.remove((name, asking))
                        if held:
                            assert all(await bench.end([held.pop(choice.randrange(len(held)))]))
                await settle()
            while asked or held:
                assert all(await bench.end(held))
                held.clear()
                await until(lambda: not asked or any(asking.done() for _, asking in asked))
                for name, asking in [each for each in asked if each[1].done()]:
                    await until(lambda name=name: name in bench.stage.inside)
                    held.append((name, await asking))
                    asked.remove((name, asking))
            await bench.pool.crew.scale(2)
            await all_serve(bench, 2)
            await fits(bench, 2)

    run(main())
