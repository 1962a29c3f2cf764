"""A worker keeps a run of calls for the next one, and is everybody's meanwhile."""

import os
import signal

import pytest

from tests.support import call_bodies
from tests.support.executors import pool_of
from tests.support.pools import hold_still
from tests.support.waiting import wait_until
from wool_jupyter.pool import crew, kernel_pool, rest

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(autouse=True)
def rests_long(monkeypatch):
    monkeypatch.setattr(rest, "REST_S", 600.0)


def rests(bench, pid):
    wait_until(lambda: bench.on_loop(lambda: bench.pool.line.free) == len(bench.workers()))
    assert not bench.on_loop(lambda: bench.pool.calls.next(lambda _: True))
    return pid


def test_the_next_call_goes_on_where_the_one_before_was(monkeypatch):
    placed, run = [], kernel_pool.KernelPool.run

    def counted(self, *args, **options):
        placed.append(1)
        return run(self, *args, **options)

    monkeypatch.setattr(kernel_pool.KernelPool, "run", counted)
    with pool_of(2) as bench, bench.executor() as executor:
        assert len({executor.submit(call_bodies.pid).result(60) for _ in range(50)}) == 1
        assert len(placed) == 1


def test_a_cell_has_the_worker_at_once(monkeypatch, tmp_path):
    """And calls that come meanwhile wait until it ends."""
    monkeypatch.setattr(kernel_pool, "AGAIN_S", 600.0)  # until a free worker that is not named is looked for again
    with pool_of(1) as bench, bench.executor() as executor:
        pid = rests(bench, executor.submit(call_bodies.pid).result(60))
        gate = tmp_path / "gate"
        cell = bench.begin_cell(
            tmp_path / "cell",
            f"import os, time\nopen({str(tmp_path / 'begun')!r}, 'w').close()\n"
            f"while not os.path.exists({str(gate)!r}): time.sleep(0.01)\nopen({str(tmp_path / 'ended')!r}, 'w').close()",
        )
        wait_until((tmp_path / "begun").exists)
        behind = executor.submit(os.path.exists, tmp_path / "ended")
        wait_until(lambda: bench.on_loop(lambda: bench.pool.line.waiting) == 1)
        gate.touch()
        assert cell.result(60) == pid
        assert behind.result(60)
        assert rests(bench, executor.submit(call_bodies.pid).result(60)) == pid


def test_a_cell_that_comes_with_the_next_call_has_another_worker(tmp_path):
    """Behind it, it would wait though that one is free; and who has begun on a worker is known of one run at a time."""
    with pool_of(2) as bench, bench.executor() as executor:
        wait_until(lambda: len(bench.workers()) == 2)
        pid = rests(bench, executor.submit(call_bodies.pid).result(60))

        def both():
            call = executor.submit(call_bodies.until_there, tmp_path / "gate")
            return call, bench.begin_cell(tmp_path / "cell", "pass")

        call, cell = bench.on_loop(both)
        assert cell.result(60) != pid
        (tmp_path / "gate").touch()
        call.result(60)


@pytest.mark.parametrize("is_known", [True, False])
def test_the_end_of_the_worker_costs_no_call(is_known, tmp_path):
    with pool_of(1) as bench, bench.executor() as executor:
        pid = rests(bench, executor.submit(call_bodies.pid).result(60))
        os.kill(pid, signal.SIGKILL)
        if is_known:
            wait_until(lambda: pid not in {worker.pid for worker in bench.workers()})
        assert [executor.submit(call_bodies.leaves_mark, tmp_path, n).result(60) for n in range(3)] == [0, 1, 2]
        assert call_bodies.marks_of(tmp_path) == {0: 1, 1: 1, 2: 1}


def test_a_worker_that_is_stopped_meanwhile_gets_no_call(monkeypatch):
    monkeypatch.setattr(crew, "_WELL_S", 0.0)
    with pool_of(2) as bench, bench.executor() as executor:
        pid = rests(bench, executor.submit(call_bodies.pid).result(60))
        hold_still(pid)
        assert executor.submit(call_bodies.pid).result(60) != pid
        os.kill(pid, signal.SIGCONT)


def test_a_worker_that_is_let_go_goes_and_another_takes_the_calls(monkeypatch):
    monkeypatch.setattr(rest, "REST_S", 1.0)
    with pool_of(2) as bench, bench.executor() as executor:
        pid = rests(bench, executor.submit(call_bodies.pid).result(60))
        bench.bridge.enter(bench.pool.crew.scale(0)).result(60)
        wait_until(lambda: bench.workers() == [])
        bench.bridge.enter(bench.pool.crew.scale(1)).result(60)
        assert executor.submit(call_bodies.pid).result(60) != pid


def test_an_interrupt_hits_nothing():
    with pool_of(1) as bench, bench.executor() as executor:
        pid = rests(bench, executor.submit(call_bodies.pid).result(60))
        executor.interrupt()
        assert executor.submit(call_bodies.pid).result(60) == pid
