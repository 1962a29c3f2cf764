"""`concurrent.futures.Executor` on real workers: what code that knows the standard library's may rely on."""

import asyncio
import concurrent.futures
import itertools
import logging
import operator
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import weakref
from concurrent.futures import CancelledError, as_completed, wait
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from tests.support import call_bodies
from tests.support.executors import pool_of
from tests.support.waiting import wait_until
from wool_jupyter.errors import CannotShip

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def pool():
    with pool_of(2) as bench:
        yield bench


@pytest.fixture
def executor(pool):
    with pool.executor() as made:
        yield made


@pytest.fixture
def gates(tmp_path, pool):
    """Calls that hold both main threads until `open`."""
    pool.forget_costs()

    class Gates:
        def hold(self, executor, count=2):
            futures = [executor.submit(call_bodies.passes, tmp_path, number) for number in range(count)]
            wait_until(lambda: len(list(tmp_path.glob("*.begun"))) == min(count, 2))
            return futures

        def open(self, *numbers):
            for number in numbers or range(20):
                (tmp_path / f"{number}.gate").touch()

    made = Gates()
    yield made
    made.open()


def test_results_and_exceptions_are_the_futures(executor):
    assert executor.submit(pow, 2, 8).result() == 256
    assert executor.submit(call_bodies.divides, b=2, a=6).result() == 3
    failed = executor.submit(call_bodies.divides, 1, 0)
    assert isinstance(failed.exception(), ZeroDivisionError)
    with pytest.raises(ZeroDivisionError) as caught:
        failed.result()
    assert caught.traceback[-1].name == "divides"
    assert caught.traceback[-1].path == Path(call_bodies.__file__)


def test_a_result_that_is_asked_for_again_is_the_same_object_and_the_traceback_does_not_grow(executor):
    future = executor.submit(list, "ab")
    assert future.result() is future.result()
    failed = executor.submit(call_bodies.divides, 1, 0)
    lengths = []
    for _ in range(3):
        with pytest.raises(ZeroDivisionError) as caught:
            failed.result()
        lengths.append(len(caught.traceback))
    assert len(set(lengths)) == 1


@pytest.mark.parametrize("error", [KeyboardInterrupt("a"), SystemExit(3), GeneratorExit(), StopIteration(4)])
def test_exceptions_that_end_loops_are_data(executor, error):
    future = executor.submit(call_bodies.raises, error)
    found = future.exception()
    assert (type(found), found.args) == (type(error), error.args)
    assert executor.submit(abs, -1).result() == 1


def test_map_is_ordered_and_stops_at_the_first_error(executor):
    assert list(executor.map(pow, range(10), range(10))) == [n**n for n in range(10)]
    results = executor.map(call_bodies.divides, [1, 1, 1], [1, 0, 1])
    assert next(results) == 1
    with pytest.raises(ZeroDivisionError):
        next(results)
    assert list(results) == []


def test_map_of_nothing(executor):
    assert list(executor.map(abs, [])) == []
    assert list(executor.map(pow, [1, 2], [])) == []


def test_map_times_out(executor, tmp_path, gates):
    results = executor.map(call_bodies.passes, [tmp_path, tmp_path], [0, 1], timeout=0.5)
    gates.open(0)
    assert next(results) == 0
    with pytest.raises(TimeoutError):
        next(results)


def test_as_completed_and_wait(executor, gates):
    slow, other = gates.hold(executor)
    gates.open(1)
    assert next(as_completed([slow, other], timeout=30)) is other
    done, waiting = wait([slow, other], timeout=0)
    assert (done, waiting) == ({other}, {slow})
    gates.open(0)
    assert wait([slow, other], timeout=30).not_done == set()
    failed = executor.submit(call_bodies.divides, 1, 0)
    assert failed in wait([failed], return_when=concurrent.futures.FIRST_EXCEPTION, timeout=30).done


def test_result_times_out_and_comes_later(executor, gates):
    slow, _ = gates.hold(executor)
    with pytest.raises(TimeoutError):
        slow.result(timeout=0.05)
    assert slow.running()
    gates.open()
    assert slow.result(timeout=30) == 0


def test_one_that_waits_is_cancelled_and_one_that_runs_is_not(executor, gates):
    running = gates.hold(executor)
    waiting = [executor.submit(abs, -1) for _ in range(20)]
    assert not running[0].cancel()
    assert all(future.cancel() for future in waiting[1:])
    assert wait(waiting[1:], timeout=30).not_done == set()  # told at once, behind calls that run
    assert set(as_completed(waiting[1:], timeout=30)) == set(waiting[1:])
    with pytest.raises(CancelledError):
        waiting[1].result()
    gates.open()
    assert waiting[0].result() == 1
    assert [future.result() for future in running] == [0, 1]


def test_after_shutdown_nothing_is_taken(pool):
    executor = pool.executor()
    executor.shutdown()
    executor.shutdown()
    with pytest.raises(RuntimeError, match="cannot schedule new futures after shutdown"):
        executor.submit(abs, -1)
    with pytest.raises(RuntimeError, match="cannot schedule new futures after shutdown"):
        executor.map(abs, [1])
    with pool.executor() as other:
        assert other.submit(abs, -1).result() == 1


def test_shutdown_waits_or_not(pool, gates):
    executor = pool.executor()
    futures = gates.hold(executor, 4)
    executor.shutdown(wait=False)
    assert not any(future.done() for future in futures)
    waiter = threading.Thread(target=executor.shutdown)
    waiter.start()
    gates.open(0, 1, 2)
    assert wait(futures[:3], timeout=30).not_done == set()
    assert waiter.is_alive()
    gates.open()
    waiter.join(30)
    assert not waiter.is_alive()
    assert [future.result() for future in futures] == [0, 1, 2, 3]


def test_shutdown_can_cancel_what_waits(pool, gates):
    executor = pool.executor()
    futures = gates.hold(executor, 10)
    executor.shutdown(wait=False, cancel_futures=True)
    assert wait(futures[2:], timeout=30).not_done == set()
    assert all(future.cancelled() for future in futures[2:])
    gates.open()
    assert [future.result(timeout=30) for future in futures[:2]] == [0, 1]


def test_callbacks_run_in_order_and_may_wait_and_submit(executor, caplog):
    heard, done = [], threading.Event()

    def waits(future):
        heard.append(("waits", future.result(), executor.submit(abs, -7).result(timeout=30)))

    def fails(future):
        raise LookupError("in a callback")

    def last(future):
        heard.append(("last", future.result()))
        done.set()

    future = executor.submit(pow, 3, 2)
    with caplog.at_level(logging.ERROR, "concurrent.futures"):
        for callback in (waits, fails, last):
            future.add_done_callback(callback)
        assert done.wait(30)
    assert heard == [("waits", 9, 7), ("last", 9)]
    future.add_done_callback(last)  # at once
    assert heard[-1] == ("last", 9)


def test_a_callback_that_fails_is_logged_and_the_next_one_runs(executor, caplog, gates):
    slow, _ = gates.hold(executor)
    done = threading.Event()
    with caplog.at_level(logging.ERROR, "concurrent.futures"):
        slow.add_done_callback(lambda _: 1 / 0)
        slow.add_done_callback(lambda _: done.set())
        gates.open()
        assert done.wait(30)
    assert "exception calling callback" in caplog.text


def test_a_future_can_be_awaited_and_its_waiter_cancelled(executor, gates):
    async def main():
        assert await executor.submit(pow, 2, 3) == 8
        assert await asyncio.gather(*(executor.submit(abs, -n) for n in range(20))) == list(range(20))
        with pytest.raises(ZeroDivisionError):
            await executor.submit(call_bodies.divides, 1, 0)
        assert await asyncio.get_running_loop().run_in_executor(executor, abs, -4) == 4
        held = gates.hold(executor)
        waits = executor.submit(abs, -1)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await waits
        assert waits.cancelled()
        gates.open()
        assert [await each for each in held] == [0, 1]

    asyncio.run(main())


def test_what_can_not_be_shipped_is_the_futures_error(executor):
    with Path(os.devnull).open() as file:
        future = executor.submit(abs, file)
        with pytest.raises(CannotShip, match=r"`argument 1` \(_io\.TextIOWrapper\) of `abs` can't be shipped"):
            future.result()
        results = executor.map(operator.truth, [1, file, 0])
        assert next(results) is True
        with pytest.raises(CannotShip):
            next(results)
    with pytest.raises(CannotShip, match=r"generator.*can't be shipped"):
        executor.submit(eval, "(n for n in ())").result()
    assert executor.submit(abs, -1).result() == 1


class Refuses:
    def __setstate__(self, state):
        raise LookupError("not here")

    def __getstate__(self):
        return {"any": 1}


def test_what_can_not_be_loaded_is_the_futures_error(executor):
    with pytest.raises(LookupError, match="not here"):
        executor.submit(type, Refuses()).result()
    assert executor.submit(abs, -1).result() == 1


def test_submit_from_many_threads(executor):
    def submits(base):
        return [executor.submit(operator.add, base, n) for n in range(50)]

    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        made = list(threads.map(submits, range(8)))
    assert [[future.result() for future in row] for row in made] == [[b + n for n in range(50)] for b in range(8)]


def test_an_exception_of_the_iterable_comes_after_the_results_before_it(executor):
    def rows():
        yield from (1, 2)
        raise LookupError("no third")

    results = executor.map_lazily(operator.neg, (rows(),), timeout_s=None, retries=0)
    assert [next(results), next(results)] == [-1, -2]
    with pytest.raises(LookupError, match="no third"):
        next(results)
    assert list(results) == []


def test_an_endless_iterable_is_taken_as_it_is_needed(executor):
    taken = itertools.count()
    results = executor.map_lazily(operator.neg, (taken,), timeout_s=None, retries=0)
    assert [next(results) for _ in range(5000)] == [-n for n in range(5000)]
    results.close()
    assert next(taken) < 12_000
    assert list(results) == []


def test_one_array_that_a_generator_gives_again_and_again_is_taken_as_it_is_each_time(executor):
    def rows():
        array = np.zeros(400_000)
        for n in range(30):
            array[:] = n
            yield array

    assert list(executor.map_lazily(np.max, (rows(),), timeout_s=None, retries=0)) == list(range(30))
    assert list(executor.map(np.max, rows())) == list(range(30))


def test_what_a_generator_changes_of_the_process_is_so_for_the_rows_that_follow(executor, monkeypatch):
    def rows():
        for n in range(3):
            monkeypatch.setenv("WOOL_TEST_ROW", str(n))
            yield "WOOL_TEST_ROW"

    assert list(executor.map(os.getenv, rows())) == ["0", "1", "2"]
    assert list(executor.map(os.getenv, ["WOOL_TEST_ROW"] * 3)) == ["2"] * 3
    monkeypatch.setenv("WOOL_TEST_ROW", "3")
    assert list(executor.map(os.getenv, ["WOOL_TEST_ROW"] * 3)) == ["3"] * 3


def test_an_interrupt_of_the_iterable_leaves_nothing_of_what_it_gave(executor, pool):
    def rows():
        yield np.zeros(30_000)
        yield np.zeros(30_000)
        raise KeyboardInterrupt

    def files():
        return {file for place in pool.submitter.places for file in Path(place).rglob("*") if file.is_file()}

    before = files()
    with pytest.raises(KeyboardInterrupt):
        executor.map(np.max, rows())
    assert files() == before


def test_an_interrupt_while_a_call_is_put_into_the_line_stops_no_later_one(pool, monkeypatch):
    """At each step of it: what was half done is over, and whoever waits for all of them does not wait for that."""
    post = pool.intake._post

    def interrupted(*args):
        raise KeyboardInterrupt

    def done_and_interrupted(*args):
        post(*args)
        raise KeyboardInterrupt

    for place, name, step in (
        (pool.submitter, "submitted", interrupted),
        (pool.intake, "_post", interrupted),
        (pool.intake, "_post", done_and_interrupted),
    ):
        executor = pool.executor()
        with monkeypatch.context() as patched:
            real = getattr(place, name)

            def once(*args, step=step, patched=patched, name=name, place=place, real=real):
                patched.setattr(place, name, real)
                step(*args)

            patched.setattr(place, name, once)
            with pytest.raises(KeyboardInterrupt):
                executor.submit(call_bodies.pid)
        assert executor.submit(operator.neg, 1).result(60) == -1
        executor.shutdown()
    wait_until(lambda: not pool.submitter.unfinished)


# One that comes inside of a finalizer is only told of, and one between `open` and its `with` leaves the file to the collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_interrupts_at_any_moment_of_a_submit_leave_a_pool_that_works(pool):
    is_submitting, over, main = threading.Event(), threading.Event(), threading.get_ident()

    def press(*_):
        if is_submitting.is_set():
            is_submitting.clear()
            raise KeyboardInterrupt

    def presses():
        pauses = random.Random(1)
        while not over.wait(pauses.uniform(0, 0.0005)):
            signal.pthread_kill(main, signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, press)
    pressing = threading.Thread(target=presses)
    pressing.start()
    interrupted = 0
    try:
        while interrupted < 200:
            executor = pool.executor()
            with suppress(KeyboardInterrupt):
                try:
                    is_submitting.set()
                    executor.submit(operator.neg, 1)
                    is_submitting.clear()
                except KeyboardInterrupt:
                    interrupted += 1
            executor.shutdown()
    finally:
        over.set()
        pressing.join()
        signal.signal(signal.SIGUSR1, before)
    assert pool.executor().submit(operator.neg, 1).result(60) == -1


def test_sized_arguments_give_the_number_of_results(executor):
    assert len(executor.map(pow, [1, 2, 3], (4, 5))) == 2
    assert not hasattr(executor.map(abs, iter([1])), "__len__")


def test_nothing_holds_a_result_that_nobody_has(executor):
    class Here:
        pass

    future = executor.submit(set, [1])
    future.result()
    gone = weakref.ref(future)
    del future
    wait_until(lambda: gone() is None)


def test_a_future_does_not_travel(executor):
    with pytest.raises(TypeError):
        pickle.dumps(executor.submit(abs, 1))


# What the standard library's own tests ask of an executor, beyond that.


def test_arguments_may_have_any_name(executor):
    assert executor.submit(call_bodies.takes, 1, self=2, fn=3, label=4).result() == (
        (1,),
        {"self": 2, "fn": 3, "label": 4},
    )
    with pytest.raises(TypeError):
        executor.submit(fn=abs)


class Made:
    def method(self):
        pass


def test_neither_what_a_call_got_nor_what_it_gave_is_held(executor):
    made = Made()
    gone = weakref.ref(made)
    executor.submit(made.method)
    del made
    wait_until(lambda: gone() is None)
    for found in executor.map(call_bodies.made, range(20)):
        gone = weakref.ref(found)
        del found
        assert gone() is None


def test_wait_returns_when_it_was_asked_to(executor, gates):
    slow, quick = gates.hold(executor)
    gates.open(1)
    found = wait([slow, quick], return_when=concurrent.futures.FIRST_COMPLETED, timeout=30)
    assert (found.done, found.not_done) == ({quick}, {slow})
    found = wait([slow, quick], return_when=concurrent.futures.FIRST_COMPLETED)
    assert found.done == {quick}
    failed = executor.submit(call_bodies.divides, 1, 0)
    wait([failed], timeout=30)
    found = wait([slow, quick, failed], return_when=concurrent.futures.FIRST_EXCEPTION)
    assert (found.done, found.not_done) == ({quick, failed}, {slow})
    later = executor.submit(call_bodies.divides, 1, 0)
    assert later in wait([slow, later], return_when=concurrent.futures.FIRST_EXCEPTION, timeout=30).done
    assert slow.running()


def test_as_completed_gives_each_once_and_says_how_many_are_missing(executor, gates):
    slow, quick = gates.hold(executor)
    gates.open(1)
    wait([quick], timeout=30)
    with pytest.raises(TimeoutError, match=r"1 \(of 2\) futures unfinished"):
        list(as_completed([slow, quick, quick], timeout=0.3))
    gates.open()
    assert sorted(future.result() for future in as_completed([slow, quick, slow], timeout=30)) == [0, 1]


def test_a_future_that_is_cancelled_tells_whoever_waits_for_it(executor, gates):
    held = gates.hold(executor)
    cancelled = executor.submit(abs, -1)
    heard, raised = [], []

    def waits():
        try:
            cancelled.result(timeout=30)
        except CancelledError as error:
            raised.append(error)

    waiter = threading.Thread(target=waits)
    waiter.start()
    cancelled.add_done_callback(heard.append)
    assert "pending" in repr(cancelled)
    assert "running" in repr(held[0])
    assert cancelled.cancel()
    assert cancelled.cancel()
    waiter.join(30)
    wait_until(lambda: heard == [cancelled])
    assert len(raised) == 1
    assert (cancelled.cancelled(), cancelled.done(), cancelled.running()) == (True, True, False)
    assert "cancelled" in repr(cancelled)
    with pytest.raises(CancelledError):
        cancelled.exception()
    cancelled.add_done_callback(heard.append)  # at once
    assert heard == [cancelled, cancelled]
    gates.open()
    assert wait(held, timeout=30).not_done == set()
    assert not held[0].cancel()
    assert "done" in repr(held[0])


def test_shutdown_with_calls_that_nobody_has_asked_for(pool):
    for _ in range(10):
        executor = pool.executor()
        executor.map(str, range(5))
        executor.shutdown()
    executor = pool.executor()
    futures = [executor.submit(operator.neg, n) for n in range(50)]
    executor.shutdown()
    assert [future.result(timeout=0) for future in futures] == [-n for n in range(50)]


def test_shutdown_that_cancels_and_waits_leaves_nothing_undone(pool, gates):
    executor = pool.executor()
    futures = gates.hold(executor, 12)
    ending = threading.Thread(target=lambda: executor.shutdown(cancel_futures=True))
    ending.start()
    wait_until(lambda: all(future.done() for future in futures[4:]))
    assert ending.is_alive()
    gates.open()
    ending.join(30)
    assert all(future.done() for future in futures)
    assert [future.result() for future in futures if not future.cancelled()][:2] == [0, 1]


def test_a_program_that_ends_with_calls_under_way_ends_soon_and_says_what_became_of_them():
    program = """
import time
import wool_jupyter
executor = wool_jupyter.pool().executor()
future = executor.submit(time.sleep, 600)
while not future.running(): time.sleep(0.01)
executor.shutdown(wait=False)
future.add_done_callback(lambda future: print(future.exception(), flush=True))
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert "The pool was stopped. `sleep(600)` may have run in part" in ended.stdout
