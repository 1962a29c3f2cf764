"""A notebook's pool, used from another interpreter."""

import os
import signal
from contextlib import contextmanager
from time import monotonic

import pytest

from tests.support.kernel import Kernel
from tests.support.pool_process import PoolProcess
from tests.support.pools import lives, pool_processes, pool_workers
from tests.support.waiting import wait_until
from wool_jupyter.discovery.root import kernel_namespace
from wool_jupyter.settings import LIVENESS_INTERVAL_S

GONE = "DiscoveryNamespaceNotFound"
HELD = f"NoWorkersAvailable from {GONE}"  # nobody was there to say that the workers are gone

WAITS_FOR_GO = """%%wool
import os, threading
print("begun", flush=True)
while not os.path.exists("go"):
    threading.Event().wait(0.02)
"""


@pytest.fixture
def kernel(tmp_path):
    kernel = Kernel(cwd=str(tmp_path))
    try:
        kernel.ok("%load_ext wool_jupyter\n%wool start -n 2")
        yield kernel
    finally:
        kernel.shutdown(now=True)


@contextmanager
def borrower(kernel, **environment):
    namespace = kernel_namespace(kernel.manager.connection_file)
    with PoolProcess("borrow", namespace, env={**os.environ, **environment}) as process:
        yield process


def workers(kernel):
    return {process.pid for process in pool_workers(kernel.pid)}


def answers_until_gone(borrower):
    began, answers = monotonic(), set()
    while (answer := borrower.ask("ask")) not in (GONE, HELD):
        answers.add(answer)
        assert monotonic() - began < LIVENESS_INTERVAL_S + 5, answers
    assert borrower.ask("ask") == answer
    return answers, answer


def test_its_workers_run_routines_of_others_beside_its_cells(kernel):
    with borrower(kernel) as other:
        cell = kernel.begin("%%wool\nimport threading\nprint('begun', flush=True)\nthreading.Event().wait()")
        cell.wait_for("begun")
        wait_until(lambda: len(workers(kernel)) == 2)
        answered = set()
        wait_until(lambda: answered.add(int(other.ask("ask"))) or answered == workers(kernel))
        kernel.interrupt()
        assert cell.result().error.ename == "KeyboardInterrupt"
        assert int(other.ask("ask")) in workers(kernel)
        assert other.end() == 0
    kernel.wool("x = 2")
    assert kernel.value("x") == 2


def test_a_cell_does_not_take_the_paths_of_borrowers_home(kernel, tmp_path):
    before = kernel.value("__import__('sys').path")
    with borrower(kernel, PYTHONPATH=str(tmp_path / "elsewhere")) as other:
        cell = kernel.begin(WAITS_FOR_GO)
        cell.wait_for("begun")
        wait_until(lambda: len(workers(kernel)) == 2)
        answered = set()
        wait_until(lambda: answered.add(int(other.ask("ask"))) or answered == workers(kernel))
        (tmp_path / "go").touch()
        assert cell.result().status == "ok"
        assert other.end() == 0
    assert kernel.value("__import__('sys').path") == before


@pytest.mark.parametrize("ending", ["killed", "restarted", "stopped"])
def test_its_end_is_told_to_who_borrows_it(kernel, ending, tmp_path):
    with borrower(kernel) as idle, borrower(kernel) as holding:
        assert int(idle.ask("ask")) in workers(kernel)
        holding.say(f"hold {tmp_path}")
        wait_until((tmp_path / "inside").exists)
        processes = pool_processes(kernel.pid)
        if ending == "killed":
            os.kill(kernel.pid, signal.SIGKILL)
        elif ending == "restarted":
            kernel.restart()
        else:
            kernel.shutdown()
        assert holding.hear(timeout_s=10) == "WorkerDied"
        for each in (idle, holding):
            meanwhile, at_last = answers_until_gone(each)
            assert meanwhile <= {"WorkerDied", "NoWorkersAvailable"}
            assert at_last == (HELD if ending == "killed" else GONE)
        assert (idle.end(), holding.end()) == (0, 0)
    wait_until(lambda: not any(map(lives, processes)))
