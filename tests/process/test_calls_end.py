"""Blocking calls on real workers that are killed, busy or stopped: each call ends, and none runs twice."""

import os
import random
import signal
import threading
from collections import Counter
from concurrent.futures import CancelledError, as_completed, wait
from contextlib import suppress

import pytest

from tests.support import call_bodies
from tests.support.executors import Submitter, pool_of
from tests.support.waiting import wait_until
from wool_jupyter import host
from wool_jupyter.errors import NoWorkersAvailable, WorkerDied
from wool_jupyter.pool.kernel_pool import PoolCall

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "marks"
    made.mkdir()
    return made


def is_begun(folder, number):
    return number in call_bodies.marks_of(folder)


def held_by(executor, tmp_path, count):
    """Calls that have the main threads, until their gates open."""
    futures = [executor.submit(call_bodies.passes, tmp_path, number) for number in range(count)]
    wait_until(lambda: len(list(tmp_path.glob("*.begun"))) == count, 60)
    return futures


def let_go(tmp_path):
    for number in range(10):
        (tmp_path / f"{number}.gate").touch()


class Killer(threading.Thread):
    """Of whichever worker is there, every now and then, until the block ends or enough have been killed."""

    def __init__(self, bench, every_s, *, most=4):
        super().__init__(daemon=True)
        self._bench, self._every_s, self._most = bench, every_s, most
        self._enough = threading.Event()
        self._random = random.Random(1)
        self.killed = 0

    def run(self):
        while self.killed < self._most and not self._enough.wait(self._every_s):
            if workers := self._bench.workers():
                with suppress(ProcessLookupError):
                    os.kill(self._random.choice(workers).pid, signal.SIGKILL)
                    self.killed += 1

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self._enough.set()
        self.join()


@pytest.mark.parametrize("seconds", [0.0, 0.05])
def test_a_storm_of_kills_loses_no_call_and_runs_none_twice(folder, seconds):
    with pool_of(4) as bench, bench.executor() as executor:
        with Killer(bench, 0.3) as killer:
            futures = [executor.submit(call_bodies.leaves_mark, folder, n, seconds) for n in range(200)]
            wait_until(lambda: killer.killed >= 3, 60)
            assert wait(futures, timeout=150).not_done == set()
        marks = call_bodies.marks_of(folder)
        died = 0
        for number, future in enumerate(futures):
            error = future.exception()
            if error is None:
                assert (future.result(), marks[number]) == (number, 1)
                continue
            assert type(error) is WorkerDied
            died += 1
            if "had not begun" in str(error):
                assert number not in marks
            else:
                assert "had begun, and may have run in part" in str(error) or "its result is lost" in str(error)
                assert marks.get(number, 0) <= 1
        assert died <= killer.killed * (1 if seconds else 200)
        wait_until(lambda: len(bench.workers()) == 4, 60)
        assert executor.submit(abs, -1).result(timeout=60) == 1


def test_with_retries_a_storm_costs_no_call(folder):
    with pool_of(4) as bench, bench.executor(retries=100) as executor:
        with Killer(bench, 0.4) as killer:
            futures = [executor.submit(call_bodies.leaves_mark, folder, n, 0.02) for n in range(200)]
            assert [future.result(timeout=150) for future in futures] == list(range(200))
            wait_until(lambda: killer.killed >= 2, 60)
        assert call_bodies.marks_of(folder).keys() == set(range(200))
        wait_until(lambda: len(bench.workers()) == 4, 60)


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_a_long_storm(folder):
    with pool_of(4) as bench, bench.executor() as executor:
        with Killer(bench, 0.15, most=1000) as killer:
            for base in range(0, 5000, 500):
                futures = [executor.submit(call_bodies.leaves_mark, folder, base + n, 0.002) for n in range(500)]
                assert wait(futures, timeout=240).not_done == set()
        marks = call_bodies.marks_of(folder)
        assert max(marks.values()) == 1
        assert killer.killed > 5
        wait_until(lambda: len(bench.workers()) == 4, 60)


def test_a_worker_that_dies_takes_one_call_with_it_and_not_those_behind(folder):
    with pool_of(1) as bench, bench.executor() as executor:
        for _ in executor.map(call_bodies.leaves_mark, [folder] * 60, range(1000, 1060)):
            pass  # what these take is known now: many are sent together
        numbers = range(40)
        futures = [executor.submit(call_bodies.kills_itself_or_not, folder, n, dies=False) for n in range(-40, 0)]
        wait(futures, timeout=60)
        futures = [executor.submit(call_bodies.kills_itself_or_not, folder, n, dies=n == 5) for n in numbers]
        assert wait(futures, timeout=60).not_done == set()
        errors = {n: future.exception() for n, future in zip(numbers, futures, strict=True) if future.exception()}
        assert "had begun, and may have run in part" in str(errors[5])
        assert all("has run before, and its result is lost" in str(error) for n, error in errors.items() if n < 5)
        assert not [n for n in errors if n > 5]
        assert Counter(call_bodies.marks_of(folder)[n] for n in numbers) == {1: 40}


def test_a_call_is_run_again_only_if_that_was_asked_for(tmp_path):
    with pool_of(1) as bench:
        with bench.executor() as executor:
            future = executor.submit(call_bodies.dies_once, tmp_path / "a")
            with pytest.raises(WorkerDied, match=r"was killed.*had begun, and may have run in part"):
                future.result(timeout=60)
        with bench.executor(retries=1) as executor:
            assert executor.submit(call_bodies.dies_once, tmp_path / "b").result(timeout=60) > 0
            with pytest.raises(WorkerDied, match="exited with code 7"):
                executor.submit(call_bodies.exits, 7).result(timeout=60)
        with pytest.raises(ValueError, match="retries"):
            bench.executor(retries=-1)


def test_short_calls_do_not_wait_behind_one_that_takes_unexpectedly_long(folder, tmp_path):
    with pool_of(2) as bench, bench.executor() as executor:
        quick = [executor.submit(call_bodies.waits_if_told, folder, n, waits=False) for n in range(-60, 0)]
        wait(quick, timeout=60)
        held = held_by(executor, tmp_path, 2)  # all that follow are there when a main thread is free
        long = executor.submit(call_bodies.waits_if_told, folder, 0, waits=True)
        short = [executor.submit(call_bodies.waits_if_told, folder, n, waits=False) for n in range(1, 60)]
        wait_until(lambda: bench.on_loop(lambda: len(bench.pool.calls._waiting)) == 60)
        let_go(tmp_path)
        wait(held, timeout=60)
        assert [future.result(timeout=60) for future in short] == list(range(1, 60))
        assert not long.done()
        (folder.parent / f"{folder.name}.gate").touch()
        assert long.result(timeout=60) == 0
        assert set(call_bodies.marks_of(folder).values()) == {1}


# One line.


def stands_in_line(bench, turns):
    wait_until(lambda: bench.on_loop(lambda: bench.pool.line.waiting) == turns)


def test_cells_and_calls_have_their_turns_as_they_came(tmp_path):
    order = tmp_path / "order"
    with pool_of(1) as bench, bench.executor() as executor:
        (held,) = held_by(executor, tmp_path, 1)
        asked = []
        for name in ("call-1", "cell-2", "call-3", "cell-4", "call-5"):
            if name.startswith("call"):
                asked.append(executor.submit(call_bodies.appends, order, name))
            else:
                source = f"with open({str(order)!r}, 'a') as file: file.write('{name} ')"
                asked.append(bench.begin_cell(tmp_path / name, source))
            stands_in_line(bench, len(asked))
        let_go(tmp_path)
        wait([held, *asked], timeout=60)
        assert order.read_text().split() == ["call-1", "cell-2", "call-3", "cell-4", "call-5"]


def test_a_cell_among_thousands_of_calls_gets_a_main_thread_soon(tmp_path):
    with pool_of(2) as bench, bench.executor() as executor:
        held_by(executor, tmp_path, 2)  # or the calls may be done as fast as they are submitted
        futures = [executor.submit(abs, -n) for n in range(10_000)]
        cell, were_done = bench.begin_cell(tmp_path / "cell", "x = 1"), []
        cell.add_done_callback(lambda _: were_done.append(futures[-1].done()))
        let_go(tmp_path)
        cell.result(60)
        assert were_done == [False]
        assert sum(future.result(timeout=60) for future in futures) == sum(range(10_000))


def test_many_small_calls_are_few_messages(monkeypatch):
    steps = Counter()
    step = PoolCall.step

    def counted(self, answer=None):
        steps["all"] += 1
        return step(self, answer)

    monkeypatch.setattr(PoolCall, "step", counted)
    with pool_of(2) as bench, bench.executor() as executor:
        assert list(executor.map(abs, range(5000))) == list(range(5000))
    assert steps["all"] < 1000


def test_a_short_call_goes_to_whoever_falls_idle_first(tmp_path):
    with pool_of(2) as bench, bench.executor() as executor:
        held = held_by(executor, tmp_path, 2)
        short = [executor.submit(call_bodies.pid) for _ in range(10)]
        (tmp_path / "1.gate").touch()
        assert len({future.result(timeout=60) for future in short}) == 1
        assert not held[0].done()
        let_go(tmp_path)
        assert [future.result(timeout=60) for future in held] == [0, 1]


def test_calls_that_wait_grow_the_pool_up_to_the_usable_cpus(monkeypatch, tmp_path):
    monkeypatch.setattr(host, "usable_cpus", lambda: 3)
    with pool_of() as bench, bench.executor() as executor:
        held = held_by(executor, tmp_path, 3)
        more = [executor.submit(abs, -n) for n in range(10)]
        assert bench.on_loop(lambda: bench.pool.crew.size) == 3
        assert executor.main_threads == 3
        let_go(tmp_path)
        assert [future.result(timeout=60) for future in [*held, *more]] == [0, 1, 2, *range(10)]


# Their end from outside.


def test_stopping_the_pool_ends_every_call_in_words(tmp_path):
    with pool_of(1) as bench:
        executor = bench.executor()
        (held,) = held_by(executor, tmp_path, 1)
        waiting = [executor.submit(abs, -1) for _ in range(5)]
        bench.bridge.enter(bench.pool.stop()).result(30)
        assert wait([held, *waiting], timeout=30).not_done == set()
        with pytest.raises(WorkerDied, match=r"The pool was stopped\. `\w+\(.*\)` may have run in part"):
            held.result()
        for future in waiting:
            with pytest.raises(NoWorkersAvailable, match=r"the pool was stopped before `abs\(-1\)` had begun"):
                future.result()
        with pytest.raises(NoWorkersAvailable, match="stopped"):
            executor.submit(abs, -1).result(timeout=30)
        executor.shutdown()


def test_an_interrupt_cancels_what_waits_and_reaches_what_runs_and_nobody_else(tmp_path):
    other_gate = tmp_path / "other"
    other_gate.mkdir()
    with pool_of(2) as bench, bench.executor() as executor, bench.executor() as other:
        (kept,) = held_by(other, other_gate, 1)
        (running,) = held_by(executor, tmp_path, 1)
        waiting = [executor.submit(abs, -n) for n in range(5)]
        others = [other.submit(abs, -n) for n in range(5)]
        executor.interrupt()
        assert wait([running, *waiting], timeout=30).not_done == set()
        assert isinstance(running.exception(), KeyboardInterrupt)
        assert all(future.cancelled() for future in waiting)
        assert [future.result(timeout=30) for future in others] == list(range(5))
        let_go(other_gate)
        assert kept.result(timeout=30) == 0
        assert executor.submit(abs, -1).result(timeout=30) == 1


def test_calls_that_were_sent_together_are_interrupted_together(folder, caplog):
    with pool_of(1) as bench, bench.executor() as executor:
        quick = [executor.submit(call_bodies.waits_if_told, folder, n, waits=False) for n in range(-60, 0)]
        wait(quick, timeout=60)
        futures = [executor.submit(call_bodies.waits_if_told, folder, n, waits=n == 0) for n in range(50)]
        wait_until(lambda: is_begun(folder, 0))
        executor.interrupt()
        assert len(list(as_completed(futures, timeout=30))) == 50
        assert isinstance(futures[0].exception(), KeyboardInterrupt)
        for future in futures[1:]:
            with pytest.raises(CancelledError):
                future.result()
        assert not any(is_begun(folder, n) for n in range(1, 50))
        assert executor.submit(abs, -1).result(timeout=30) == 1
    assert caplog.records == []  # each of them has ended once


def test_a_call_that_tidies_up_after_an_interrupt_has_no_second_signal(tmp_path):
    folders = [tmp_path / name for name in ("one", "other")]
    for folder in folders:
        folder.mkdir()
    with pool_of(2) as bench, bench.executor() as executor, bench.executor() as other:
        futures = [
            each.submit(call_bodies.tidies_up, folder) for each, folder in zip((executor, other), folders, strict=True)
        ]
        for folder in folders:
            wait_until((folder / "begun").exists)
        executor.interrupt()
        wait_until((folders[0] / "interrupted").exists)
        executor.interrupt()
        other.interrupt()  # whose signal would come after that one
        wait_until((folders[1] / "interrupted").exists)
        for folder in folders:
            (folder / "go").touch()
        assert [future.result(timeout=60) for future in futures] == ["tidy", "tidy"]


def test_a_call_that_does_not_answer_an_interrupt_is_ended_with_its_worker(tmp_path):
    flag = tmp_path / "begun"
    with pool_of(1) as bench, bench.executor(grace_s=0.5) as executor:
        future = executor.submit(call_bodies.ignores_interrupts, flag)
        wait_until(flag.exists)
        executor.interrupt()
        with pytest.raises(WorkerDied, match="as it had not answered an interrupt"):
            future.result(timeout=60)
        assert executor.submit(abs, -1).result(timeout=60) == 1


def test_what_calls_print_comes_in_order_and_before_their_results(tmp_path):
    with pool_of(2) as bench, bench.executor() as executor:
        futures = [executor.submit(call_bodies.prints, n) for n in range(12)]
        for number, future in enumerate(futures):
            future.result(timeout=60)
            assert f"call {number} end" in "".join(bench.submitter.text.values())
        text = "".join(bench.submitter.text.values())
        for n in range(12):
            lines = [
                *(f"call {n} line {line}" for line in range(3)),
                f"call {n} raw",
                f"call {n} child",
                f"call {n} end",
            ]
            assert "\n".join(lines) in text


def test_a_thread_of_a_call_is_known_as_its_submitters_after_calls_of_another_one(tmp_path):
    folder, directory = tmp_path / "gates", tmp_path / "other"
    folder.mkdir()
    directory.mkdir()
    with pool_of(1) as bench:
        other = Submitter((str(directory),), bench.submitter.store)
        with bench.executor() as own, bench.executor(submitter=other) as others:
            own.submit(call_bodies.leaves_thread, folder, 1).result(60)
            others.submit(abs, -1).result(60)
            own.submit(abs, -1).result(60)
            assert bench.submitter.go_on
            assert not other.go_on
            (folder / "1.gate").touch()
            wait_until(lambda: own.submit(abs, -1).result(60) and not bench.submitter.go_on, 60)
        other.close()
        assert list(bench.submitter.text.values()) == ["late 1\n"]
        assert set(other.text.values()) == {""}
