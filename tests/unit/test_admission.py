"""Which calls a worker takes, and since when it has none."""

import asyncio

import pytest

from tests.support.loops import run, settle
from wool_jupyter.worker.admission import Admission, Refusal


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def asking(answer):
    async def ask(active, task):
        return answer(active, task)

    return ask


def test_the_count_follows_those_that_enter_and_leave():
    async def main():
        it = Admission()
        assert [await it.enter("call"), await it.enter("cell")] == [None, None]
        assert it.active == 2
        it.leave()
        it.leave()
        assert it.active == 0

    run(main())


def test_idle_is_the_time_since_the_last_call_left():
    async def main():
        clock = Clock()
        it = Admission(clock=clock)
        clock.now += 3
        assert it.idle_s == 3
        await it.enter("call")
        await it.enter("call")
        clock.now += 5
        it.leave()
        assert it.idle_s == 0
        it.leave()
        clock.now += 2
        assert it.idle_s == 2

    run(main())


def test_a_call_that_was_turned_away_leaves_the_idle_time_alone():
    async def main():
        clock = Clock()
        it = Admission(asking(lambda *_: True), clock=clock)
        clock.now += 3
        assert await it.enter("call") == Refusal("the worker has enough to do", transient=True)
        assert (it.active, it.idle_s) == (0, 3)

    run(main())


def test_the_hook_hears_how_many_are_under_way_and_what_comes():
    async def main():
        heard = []
        it = Admission(asking(lambda active, task: heard.append((active, task.routine))))
        await it.enter("call")
        await it.enter("cell")
        it.leave()
        await it.enter("call")
        assert heard == [(0, "call"), (1, "cell"), (1, "call")]

    run(main())


def test_a_burst_does_not_pass_a_slow_hook():
    """Each of ten that come at once would see an empty worker."""

    async def main():
        go_on = asyncio.Event()

        async def at_most_two(active, task):
            await go_on.wait()
            return active >= 2

        it = Admission(at_most_two)
        burst = [asyncio.ensure_future(it.enter("call")) for _ in range(10)]
        await settle()
        go_on.set()
        outcomes = await asyncio.gather(*burst)
        assert 1 <= outcomes.count(None) <= 2
        assert it.active == outcomes.count(None)

    run(main())


@pytest.mark.parametrize("error", [LookupError("in the hook"), TimeoutError()], ids=lambda error: type(error).__name__)
def test_a_hook_that_fails_turns_away_for_good(error):
    def fails(*_):
        raise error

    async def main():
        refusal = await Admission(asking(fails)).enter("call")
        assert type(error).__name__ in refusal.reason
        assert not refusal.transient

    run(main())


def test_a_call_that_is_given_up_while_the_hook_thinks_counts_no_more():
    async def main():
        heard = []

        async def first_never(active, task):
            heard.append(active)
            if len(heard) == 1:
                await asyncio.get_running_loop().create_future()

        it = Admission(first_never)
        first = asyncio.ensure_future(it.enter("call"))
        await settle()
        first.cancel()
        await settle()
        assert (await it.enter("call"), it.active, heard) == (None, 1, [0, 0])

    run(main())


def test_who_stops_lets_nobody_in_not_even_one_that_the_hook_is_asked_for():
    async def main():
        go_on = asyncio.Event()

        async def slow(active, task):
            await go_on.wait()

        it = Admission(slow)
        asked = asyncio.ensure_future(it.enter("call"))
        await settle()
        it.stop()
        go_on.set()
        assert [await asked, await it.enter("call")] == [Refusal("the worker is stopping", transient=True)] * 2
        assert it.active == 0

    run(main())


def test_who_waits_for_it_to_be_empty_hears_of_the_last_one_that_leaves():
    async def main():
        it = Admission()
        await it.emptied()
        await it.enter("call")
        await it.enter("call")
        waiting = asyncio.ensure_future(it.emptied())
        it.leave()
        await settle()
        assert not waiting.done()
        it.leave()
        await waiting

    run(main())
