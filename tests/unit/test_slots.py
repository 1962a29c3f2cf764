import asyncio

import pytest

from tests.support.loops import run, settle
from wool_jupyter.pool.slots import Slots


async def in_line(slots, count):
    """Tasks that wait for a turn, first in the line first."""
    tasks = []
    for _ in range(count):
        tasks.append(asyncio.create_task(slots.take()))
        await settle()
    return tasks


def done(tasks):
    return [task.done() for task in tasks]


def test_a_free_slot_is_taken_at_once():
    async def main():
        slots = Slots()
        slots.add()
        assert slots.free == 1
        await slots.take()
        assert slots.free == 0

    run(main())


def test_first_come_first_served():
    async def main():
        slots = Slots()
        tasks = await in_line(slots, 3)
        for served in (1, 2, 3):
            slots.add()
            await settle()
            assert done(tasks) == [k < served for k in range(3)]

    run(main())


def test_a_turn_that_was_given_is_not_free_for_others():
    """The first in the line has not run yet when somebody else asks."""

    async def main():
        slots = Slots()
        (first,) = await in_line(slots, 1)
        slots.add()
        late = asyncio.create_task(slots.take())
        await settle()
        assert done([first, late]) == [True, False]
        slots.add()
        await late

    run(main())


def test_a_waiter_that_is_cancelled_leaves_the_line():
    async def main():
        slots = Slots()
        first, second = await in_line(slots, 2)
        first.cancel()
        slots.add()
        await second
        assert first.cancelled()
        assert slots.free == 0

    run(main())


def test_a_turn_that_came_with_the_cancellation_goes_to_the_next():
    async def main():
        slots = Slots()
        first, second = await in_line(slots, 2)
        slots.add()
        first.cancel()
        await second
        assert first.cancelled()
        assert slots.free == 0

    run(main())


def test_cancelled_waiters_cost_no_slot():
    async def main():
        slots = Slots()
        tasks = await in_line(slots, 3)
        for task in tasks:
            task.cancel()
        await settle()
        slots.add()
        assert slots.free == 1
        await slots.take()

    run(main())


def test_a_slot_taken_from_a_worker_that_left_is_a_debt():
    """Its worker went while the slot was on its way to somebody, who will give it back."""

    async def main():
        slots = Slots()
        slots.add()
        await slots.take()
        slots.remove()
        assert slots.free == 0
        (waiter,) = await in_line(slots, 1)
        slots.add()  # the debt is paid
        await settle()
        assert not waiter.done()
        slots.add()
        await waiter

    run(main())


def test_failure_reaches_everyone_in_the_line_and_nobody_later():
    async def main():
        slots = Slots()
        tasks = await in_line(slots, 3)
        tasks[1].cancel()
        slots.fail(LookupError("nobody will come"))
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(o) for o in outcomes] == [LookupError, asyncio.CancelledError, LookupError]
        slots.add()
        await slots.take()
        assert slots.free == 0

    run(main())


def test_failure_and_cancellation_at_once_invent_no_slot():
    async def main():
        slots = Slots()
        (waiter,) = await in_line(slots, 1)
        slots.fail(LookupError())
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
        assert slots.free == 0

    run(main())


def test_when_they_are_closed_the_line_and_who_comes_later_hear_why():
    async def main():
        slots = Slots()
        waiting = await in_line(slots, 2)
        slots.close(LookupError("closed"))
        slots.close(LookupError("closed again"))
        slots.add()
        for task in [*waiting, *await in_line(slots, 1)]:
            with pytest.raises(LookupError, match=r"closed$"):
                await task

    run(main())
