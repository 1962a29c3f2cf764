"""A loop of users' coroutines on a thread of its own."""

import asyncio
import threading
from contextlib import asynccontextmanager

import pytest

from tests.support.loops import run, until
from wool_jupyter.balance.protocol import Task
from wool_jupyter.worker.routine_lane import RoutineLane


@asynccontextmanager
async def lane():
    it = RoutineLane()
    it.start()
    try:
        yield it
    finally:
        await asyncio.to_thread(it.close)
        assert not it._thread.is_alive()


def raising(error):
    def function(*_):
        raise error

    return function


def test_what_is_asked_runs_on_its_own_thread():
    async def main():
        async with lane() as it:
            assert await it.ask(threading.get_ident) != threading.get_ident()

    run(main())


@pytest.mark.parametrize(
    "error", [LookupError("x"), SystemExit(3), KeyboardInterrupt(), GeneratorExit(), StopIteration()], ids=repr
)
def test_nothing_that_is_raised_there_ends_either_loop(error):
    async def main():
        async with lane() as it:
            with pytest.raises(Exception, match=type(error).__name__ if not isinstance(error, LookupError) else "x"):
                await it.ask(raising(error))
            it.post(raising(error))
            assert await it.ask(lambda: 5) == 5

    run(main())


async def later(active, task):
    await asyncio.sleep(0)
    return active > 1


@pytest.mark.parametrize("hook", [lambda active, task: active > 1, later], ids=["plain", "async"])
def test_a_hook_is_asked_on_its_thread_and_may_be_of_either_kind(hook):
    threads = []

    def noted(*args):
        threads.append(threading.current_thread().name)
        return hook(*args)

    async def main():
        async with lane() as it:
            assert [await it.ask_hook(noted, n, Task("call")) for n in (0, 2)] == [False, True]
            assert set(threads) == {"wool-routines"}

    run(main())


@pytest.mark.parametrize("error", [LookupError("in the hook"), SystemExit("in the hook")], ids=repr)
def test_a_hook_that_raises_is_an_exception_for_who_asks(error):
    async def main():
        async with lane() as it:
            with pytest.raises((LookupError, RuntimeError), match="in the hook"):
                await it.ask_hook(raising(error), 0, Task("call"))
            assert await it.ask(lambda: 5) == 5

    run(main())


def test_closing_cancels_what_runs_and_then_does_what_is_to_be_done_last():
    async def main():
        done, started = [], threading.Event()

        async def runs():
            started.set()
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                done.append("cancelled")

        async def last():
            done.append("last")

        async with lane() as it:
            it.at_end(last)
            it.post(lambda: it.tasks.start(runs(), "runs"))
            await until(started.is_set)
        assert done == ["cancelled", "last"]
        it.post(lambda: done.append("after"))
        with pytest.raises(RuntimeError):
            await it.ask(lambda: 5)
        assert done == ["cancelled", "last"]

    run(main())


def test_a_lane_that_is_stuck_in_a_routine_holds_up_nobody_who_closes_it():
    go_on = threading.Event()
    it = RoutineLane()
    it.start()
    it.post(go_on.wait)
    it.close()
    go_on.set()
    it._thread.join(10)
    assert not it._thread.is_alive()
