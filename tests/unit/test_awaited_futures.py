"""Futures of calls that a loop awaits (`pool.futures`), and results of `map` that stop an iteration (`pool.results`)."""

import asyncio
import itertools
import sys
import threading

import pytest

from wool_jupyter.pool.futures import Callbacks, Future
from wool_jupyter.pool.results import Results
from wool_jupyter.wire import calls

LONG_S = 30  # none of these waits takes time


@pytest.fixture
def future():
    callbacks = Callbacks()
    yield Future(callbacks)
    callbacks.close()


def settle_elsewhere(settle, *args):
    """On another thread, as the pool's loop does."""
    thread = threading.Thread(target=settle, args=args)
    thread.start()
    thread.join()


class Stops(StopIteration):
    pass


@pytest.mark.parametrize("error", [StopIteration(3), Stops(3)])
@pytest.mark.parametrize("is_awaited_first", [True, False])
def test_a_call_that_stops_an_iteration_comes_back(future, error, is_awaited_first):
    async def body():
        if not is_awaited_first:
            settle_elsewhere(future.arrive, calls.pack_raised(error))
        task = asyncio.ensure_future(future)
        await asyncio.sleep(0)
        if is_awaited_first:
            settle_elsewhere(future.arrive, calls.pack_raised(error))
        async with asyncio.timeout(LONG_S):
            await task

    with pytest.raises(RuntimeError) as caught:
        asyncio.run(body())
    assert (type(caught.value.__cause__), caught.value.__cause__.value) == (type(error), 3)


def test_a_value_and_an_error_come_to_whoever_awaits_them(future):
    async def body():
        waiting = [asyncio.ensure_future(future) for _ in range(2)]
        await asyncio.sleep(0)
        settle_elsewhere(future.arrive, calls.pack_outcome("value", places=()))
        async with asyncio.timeout(LONG_S):
            return [await each for each in waiting], await future

    assert asyncio.run(body()) == (["value"] * 2, "value")


def test_who_stops_waiting_cancels_the_call(future):
    errors = []

    async def body():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
        task = asyncio.ensure_future(future)
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert asyncio.run(body())
    assert future.cancelled()
    assert errors == []


def test_a_call_that_somebody_cancels_cancels_who_waits(future):
    async def body():
        task = asyncio.ensure_future(future)
        await asyncio.sleep(0)
        settle_elsewhere(future.cancel)
        async with asyncio.timeout(LONG_S):
            await asyncio.wait([task])
        again = asyncio.ensure_future(future)
        await asyncio.wait([again])
        return task.cancelled(), again.cancelled()

    assert asyncio.run(body()) == (True, True)


def test_a_call_may_outlive_the_loop_that_waited(future, caplog):
    async def body():
        waiting = future.__await__()
        next(waiting)
        return waiting  # a closed loop hears of nothing

    waiting = asyncio.run(body())
    told = threading.Event()
    future.add_done_callback(lambda _: told.set())
    settle_elsewhere(future.arrive, calls.pack_outcome("value", places=()))
    assert told.wait(LONG_S)
    assert caplog.records == []
    waiting.close()


def test_a_result_that_stops_an_iteration_does_not_cut_off_those_behind_it(future):
    behind = Future(future._callbacks)
    future.arrive(calls.pack_raised(StopIteration()))
    results = Results(
        lambda rows: [each for each, _ in zip([future, behind], rows, strict=False)],
        iter([(1,), (2,)]),
        ahead=itertools.repeat(sys.maxsize).__next__,
        timeout_s=None,
    )
    with pytest.raises(RuntimeError, match="StopIteration"):
        list(results)
    assert behind.cancelled()
