"""What a routine lane makes of commands and cancellations, turn by turn."""

import asyncio
from concurrent.futures import Future
from types import SimpleNamespace

import pytest

from tests.support.loops import run, settle
from wool_jupyter.aio.owned_tasks import OwnedTasks
from wool_jupyter.dispatch.carried import CarriedProxies
from wool_jupyter.wire import calls
from wool_jupyter.wire.frames import Next, Send
from wool_jupyter.worker.call_routine import Running

said = []


@pytest.fixture(autouse=True)
def nothing_said():
    said.clear()


async def plain():
    said.append("begun")
    await asyncio.sleep(0)
    return "done"


async def steps():
    said.append("begun")
    while True:
        try:
            yield len(said)
        except asyncio.CancelledError:
            said.append("cancelled")


def running(function):
    """On this very loop, so that a turn is a turn."""
    lane = SimpleNamespace(tasks=OwnedTasks("lane"))
    packed = calls.pack_call(calls.Invocation(function, (), {}), places=(), proxy=b"")
    it = Running(packed.body, lane, CarriedProxies())
    assert it.load() is None
    return it


def asked(it, command):
    answer = Future()
    it.step(command, answer)
    return answer


async def outcome(answer):
    data, last = await asyncio.wrap_future(answer)
    try:
        return calls.unpack_outcome(data), last
    except BaseException as error:
        return type(error), last


def test_a_coroutine_that_is_cancelled_before_its_first_turn_never_begins():
    async def main():
        it = running(plain)
        answer = asked(it, Next(1))
        it.cancel()
        assert await outcome(answer) == (asyncio.CancelledError, True)
        assert said == []

    run(main())


def test_an_interrupt_before_the_first_turn_is_a_keyboard_interrupt():
    async def main():
        it = running(plain)
        answer = asked(it, Next(1))
        it.interrupt()
        assert await outcome(answer) == (KeyboardInterrupt, True)
        assert said == []

    run(main())


def test_a_generator_that_is_cancelled_before_it_goes_on_hears_of_it_where_it_waits():
    async def main():
        it = running(steps)
        assert await outcome(asked(it, Next(1))) == (1, False)
        answer = asked(it, Next(1))
        it.cancel()
        assert await outcome(answer) == (2, False)
        assert said == ["begun", "cancelled"]
        assert await outcome(asked(it, Next(1))) == (2, False), "that cancellation is over"
        await asyncio.wrap_future(closed(it))

    run(main())


def test_a_cancellation_between_two_commands_has_no_effect():
    async def main():
        it = running(steps)
        await outcome(asked(it, Next(1)))
        it.cancel()
        it.interrupt()
        await settle()
        assert await outcome(asked(it, Next(1))) == (1, False)
        await asyncio.wrap_future(closed(it))

    run(main())


def test_what_a_coroutine_is_sent_is_an_error_of_its_own():
    async def main():
        assert await outcome(asked(running(plain), Send(1, b""))) == (TypeError, True)

    run(main())


def closed(it):
    ended = Future()
    it.close(ended)
    return ended


@pytest.mark.parametrize("function", [plain, steps], ids=["coroutine", "generator"])
def test_one_that_has_not_begun_is_closed_without_a_warning(function):
    async def main():
        assert await asyncio.wrap_future(closed(running(function))) is None
        assert said == []

    run(main())
