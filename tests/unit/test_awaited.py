"""What asyncio is done with (`wire.awaited`), there and back again."""

import asyncio
import gc

import pytest

from tests.support.travels import stays, travelled
from wool_jupyter.wire import pickling


async def gives(value):
    return value


async def raises():
    raise ValueError("no")


async def yields():
    yield 1


async def drained(generator):
    return [each async for each in generator]


@pytest.fixture
def said():
    """What asyncio has logged of the loops that `run` makes."""
    return []


@pytest.fixture
def run(said):
    def run(coroutine):
        with asyncio.Runner() as runner:
            runner.get_loop().set_exception_handler(lambda _, context: said.append(context["message"]))
            return runner.run(coroutine)

    return run


async def ended_tasks():
    tasks = [asyncio.create_task(gives(n), name=f"gives {n}") for n in (1, 2)]
    gathered = asyncio.gather(*tasks)
    cancelled = asyncio.create_task(asyncio.Event().wait())
    await gathered
    cancelled.cancel()
    await asyncio.wait([cancelled])
    future, given_up = (asyncio.get_running_loop().create_future() for _ in range(2))
    future.set_result(4)
    given_up.cancel("enough")
    return [*tasks, gathered, future, cancelled, given_up]


def test_tasks_and_futures_that_are_done_have_their_results(run):
    before = run(ended_tasks())
    after = travelled(before)
    assert list(map(type, after)) == list(map(type, before))
    assert list(map(repr, after)) == list(map(repr, before))
    one, _, gathered, future, cancelled, given_up = after
    assert (one.done(), one.result(), one.get_name()) == (True, 1, "gives 1")
    assert (gathered.result(), future.result(), gathered._children[0] is one) == ([1, 2], 4, True)
    assert cancelled.cancelled()
    with pytest.raises(asyncio.CancelledError, match="enough"):
        given_up.result()
    assert not one.cancel()


def test_what_is_done_can_be_awaited_and_called_back_on_whichever_loop(run):
    one, _, gathered, future, *_ = travelled(run(ended_tasks()))

    async def uses():
        called = asyncio.Event()
        one.add_done_callback(lambda _: called.set())
        await called.wait()
        return await one, await gathered, await future, await asyncio.wait([one])

    assert run(uses()) == (1, [1, 2], 4, ({one}, set()))


def test_a_task_that_failed_raises_what_it_did_and_the_original_alone_says_that_nobody_looked(run, said):
    async def fails():
        task = asyncio.create_task(raises())
        await asyncio.wait([task])
        return pickling.loads(pickling.dumps(task)), pickling.dumps(task)

    async def whole():
        task, _ = await fails()
        gc.collect()
        del task
        gc.collect()

    run(whole())
    assert said == ["Task exception was never retrieved"]
    task, data = run(fails())
    for each in (task, pickling.loads(data)):
        assert repr(each.exception()) == "ValueError('no')"
        with pytest.raises(ValueError, match="no"):
            each.result()


def test_a_task_or_future_that_is_not_done_stays(run):
    async def waits():
        task = asyncio.create_task(asyncio.Event().wait())
        stays(task)
        stays(asyncio.get_running_loop().create_future())
        stays(asyncio.gather(task))
        task.cancel()
        await asyncio.wait([task])

    run(waits())


class Subclass(asyncio.Future):
    """May have what nobody sees."""


def test_a_future_of_another_class_stays(run):
    async def done():
        future = Subclass()
        future.set_result(1)
        return future

    stays(run(done()))


def test_a_result_that_does_not_travel_keeps_its_task(run):
    async def lasting():
        task = asyncio.create_task(gives(yields()))
        await task
        return task

    stays(run(lasting()))


def test_a_coroutine_that_was_awaited_can_t_be_again(run):
    coroutine = gives(1)
    stays(coroutine)
    run(coroutine)
    found = travelled(coroutine)
    assert (found.__name__, type(found)) == ("gives", type(coroutine))
    with pytest.raises(RuntimeError, match="already awaited"):
        found.send(None)


def test_an_asynchronous_generator_that_is_used_up_yields_nothing(run):
    generator = yields()
    stays(generator)
    assert run(drained(generator)) == [1]
    found = travelled(generator)
    assert run(drained(found)) == []
    assert (found.__name__, type(found)) == ("yields", type(generator))


def test_a_loop_that_was_closed_is_a_closed_one():
    loop = asyncio.new_event_loop()
    stays(loop)
    loop.close()
    found = travelled(loop)
    assert (type(found), found.is_closed()) == (type(loop), True)
    with pytest.raises(RuntimeError, match="closed"):
        found.call_soon(abs, 1)
