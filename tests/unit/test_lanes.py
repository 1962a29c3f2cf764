import asyncio
import gc
import signal
import threading
import weakref
from contextlib import asynccontextmanager, contextmanager

import pytest

from tests.support.loops import run, until
from wool_jupyter.worker.lanes import MainLane


@pytest.fixture(autouse=True)
def unfrozen():
    yield
    gc.unfreeze()


@asynccontextmanager
async def served():
    lane = MainLane()
    thread = threading.Thread(target=lane.serve)
    thread.start()
    try:
        yield lane
    finally:
        lane.close()
        await asyncio.to_thread(thread.join)


def raising(error):
    def body():
        raise error

    return body


def test_a_body_gets_its_arguments_and_gives_its_value():
    async def main():
        async with served() as lane:
            assert await lane.submit(divmod, 17, 5).done == (3, 2)

    run(main())


def test_bodies_run_one_at_a_time_on_the_serving_thread_in_order():
    async def main():
        running, most, order, threads = [], [], [], set()

        def body(number):
            running.append(number)
            most.append(len(running))
            order.append(number)
            threads.add(threading.get_ident())
            running.remove(number)

        async with served() as lane:
            await asyncio.gather(*(lane.submit(body, number).done for number in range(20)))
        assert most == [1] * 20
        assert order == list(range(20))
        assert len(threads) == 1
        assert threads != {threading.get_ident()}

    run(main())


def test_an_error_arrives_as_it_is_and_the_lane_goes_on():
    async def main():
        async with served() as lane:
            error = LookupError("no such thing")
            with pytest.raises(LookupError) as caught:
                await lane.submit(raising(error)).done
            assert caught.value is error
            assert await lane.submit(abs, -3).done == 3

    run(main())


@pytest.mark.parametrize(
    "error",
    [SystemExit(3), KeyboardInterrupt("pressed"), GeneratorExit(), asyncio.CancelledError("by the body")],
    ids=lambda error: type(error).__name__,
)
def test_a_bodys_base_exception_arrives_and_ends_neither_the_lane_nor_the_loop(error):
    """Raised into a task as it is, it would end the loop, or pass for a cancellation of the waiter."""

    async def main():
        async with served() as lane:
            with pytest.raises(RuntimeError, match=type(error).__name__):
                await lane.submit(raising(error)).done
            assert await lane.submit(abs, -3).done == 3

    run(main())


def test_a_bodys_stop_iteration_arrives():
    """asyncio refuses to put one into a future."""

    async def main():
        async with served() as lane:
            with pytest.raises(Exception, match="StopIteration"):
                await asyncio.wait_for(lane.submit(raising(StopIteration("the end"))).done, 2)

    run(main())


def test_a_cancelled_caller_leaves_its_body_running_and_the_next_waits_for_it():
    async def main():
        entered, go_on = threading.Event(), threading.Event()
        order = []

        def body():
            entered.set()
            go_on.wait()
            order.append("first")

        async with served() as lane:
            first = lane.submit(body).done
            await asyncio.to_thread(entered.wait)
            first.cancel()
            second = lane.submit(order.append, "second").done
            with pytest.raises(asyncio.CancelledError):
                await first
            go_on.set()
            await second
        assert order == ["first", "second"]

    run(main())


def test_an_idle_lane_collects_cyclic_garbage():
    """What the last cell left must not wait for the next one."""

    class Node:
        pass

    died = threading.Event()

    def body():
        node = Node()
        node.itself = node
        weakref.finalize(node, died.set)

    async def main():
        async with served() as lane:
            await lane.submit(body).done
            assert await asyncio.to_thread(died.wait, 20)

    gc.disable()
    try:
        run(main())
    finally:
        gc.enable()


def test_a_lane_that_is_closed_first_ends_at_once():
    lane = MainLane()
    lane.close()
    lane.serve()


@contextmanager
def sigints_counted():
    """On the main thread, as a worker has it: the test's loop runs on a thread of its own."""
    hits = []
    before = signal.signal(signal.SIGINT, lambda *_: hits.append(1))
    try:
        yield hits
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_interrupt_reaches_the_body_that_runs_and_one_that_waits_never_begins():
    lane, begun, go_on = MainLane(), threading.Event(), threading.Event()
    order = []

    def first():
        begun.set()
        go_on.wait(10)
        order.append("first")

    async def main():
        jobs = [lane.submit(first), lane.submit(order.append, "second"), lane.submit(order.append, "third")]
        await asyncio.to_thread(begun.wait)
        lane.interrupt(jobs[1])
        assert jobs[1].done.cancelled()
        assert hits == []
        lane.interrupt(jobs[0])
        await until(lambda: hits)
        go_on.set()
        await jobs[0].done
        lane.interrupt(jobs[0])
        await jobs[2].done
        assert (order, len(hits)) == (["first", "third"], 1)

    with sigints_counted() as hits:
        side = threading.Thread(target=lambda: [run(main()), lane.close()])
        side.start()
        lane.serve()
        side.join()
    assert order == ["first", "third"]


def test_an_interrupt_never_reaches_the_next_body(monkeypatch):
    """Not even if it is sent in the very moment in which its own body ends."""
    lane, hit, running = MainLane(), [], [""]
    sending, second_began = threading.Event(), threading.Event()
    kill = signal.pthread_kill

    def kill_late(thread, number):
        sending.set()
        second_began.wait(0.3)
        kill(thread, number)

    def first():
        running[0] = "first"
        sending.wait(10)

    def second():
        running[0] = "second"
        second_began.set()

    async def main():
        jobs = [lane.submit(first), lane.submit(second)]
        await until(lambda: running[0] == "first")
        await asyncio.to_thread(lane.interrupt, jobs[0])
        await asyncio.gather(*(job.done for job in jobs))

    monkeypatch.setattr(signal, "pthread_kill", kill_late)
    before = signal.signal(signal.SIGINT, lambda *_: hit.append(running[0]))
    try:
        side = threading.Thread(target=lambda: [run(main()), lane.close()])
        side.start()
        lane.serve()
        side.join()
    finally:
        signal.signal(signal.SIGINT, before)
    assert hit == ["first"]
