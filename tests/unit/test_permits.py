"""How many calls a worker is given at a time."""

import asyncio

import pytest

from tests.support.loops import begun, run, settle
from wool_jupyter.dispatch.permits import Permits


def test_first_come_first_served():
    async def main():
        permits, served = Permits(1), []

        async def one(name):
            await permits.take()
            served.append(name)

        await permits.take()
        waiting = await begun(*map(one, "abc"))
        for count in range(1, 4):
            permits.give_back()
            await settle()
            assert served == list("abc"[:count])
        await asyncio.gather(*waiting)
        assert permits.free == 0

    run(main())


def test_who_takes_one_at_once_is_waited_for():
    async def main():
        permits = Permits(1)
        await permits.take()
        permits.take_at_once()
        assert permits.free == -1
        (waiting,) = await begun(permits.take())
        permits.give_back()
        await settle()
        assert not waiting.done()
        permits.give_back()
        await waiting
        assert permits.free == 0

    run(main())


@pytest.mark.parametrize("first", ["given back", "cancelled"])
def test_a_turn_that_comes_as_its_owner_gives_up_goes_to_the_next(first):
    async def main():
        permits = Permits(1)
        await permits.take()
        gives_up, next_one = await begun(permits.take(), permits.take())
        for what in ("given back", "cancelled") if first == "given back" else ("cancelled", "given back"):
            if what == "given back":
                permits.give_back()
            else:
                gives_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gives_up
        await next_one
        assert permits.free == 0

    run(main())
