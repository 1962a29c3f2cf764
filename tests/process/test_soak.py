"""A long day in one kernel: every cell ends, and nothing grows."""

import psutil
import pytest

from tests.support.kernel import Kernel
from tests.support.waiting import wait_until

DAY = """
import os, random, signal, threading
from pathlib import Path
import numpy as np
import psutil
from wool_jupyter.errors import StartFailed, WorkerDied

chance = random.Random(seed)
data, model = [], {"weights": np.zeros(50_000)}
outcomes = {}

def run(body):
    return get_ipython().run_cell_magic("wool", "", body)

def press():
    os.kill(os.getpid(), signal.SIGINT)

def kill_workers():
    # All, for nobody outside can tell which one runs the cell.
    nursery = next(p for p in psutil.Process().children() if "wool_jupyter.nursery" in p.cmdline())
    for worker in nursery.children():
        worker.kill()

KINDS = {
    "names": ("x = 1\\ny = [x]\\nx + 1", None),
    "text": ("for i in range(2000): print('line', i)", None),
    "change": ("data.append(len(data))\\nmodel['weights'][3] += 1", None),
    "large": ("import numpy as np\\nlarge = np.ones(300_000); large.sum()", None),
    "error": ("1 / 0", ZeroDivisionError),
    "display": ("from IPython.display import HTML, display\\nfor i in range(5): display(HTML(str(i)))", None),
    "child": ("!echo hello", None),
    "thread": ("import threading\\nt = threading.Thread(target=print, args=('thread',)); t.start(); t.join(); del t", None),
    "kept": ("import threading\\nlock = threading.Lock()", None),
    "exit": ("import os; os._exit(3)", WorkerDied),
    "interrupted": ("import time; time.sleep(600)", KeyboardInterrupt),
    # A worker that is killed while it starts makes its start fail.
    "killed": ("import time; time.sleep(600)", (WorkerDied, StartFailed)),
    "hit at random": ("for i in range(200): sum(range(500))", (KeyboardInterrupt, WorkerDied, StartFailed, None)),
}

def one_cell():
    kind = chance.choice(list(KINDS))
    body, expected = KINDS[kind]
    timer = None
    if kind in ("interrupted", "killed"):
        timer = threading.Timer(0.2, press if kind == "interrupted" else kill_workers)
    elif kind == "hit at random":
        timer = threading.Timer(chance.uniform(0, 0.02), chance.choice([press, kill_workers]))
    ended = None
    try:
        if timer is not None:
            timer.start()
        try:
            run(body)
        except BaseException as error:
            ended = type(error)
    except KeyboardInterrupt:
        ended = KeyboardInterrupt
    while timer is not None and timer.is_alive():
        try:
            timer.join()
        except KeyboardInterrupt:
            pass
    allowed = expected if isinstance(expected, tuple) else (expected,)
    # A worker that was killed after its cell may be asked before its end is known, or be replaced by one that is.
    assert ended in (*allowed, WorkerDied, StartFailed), (kind, ended)
    outcomes[kind] = outcomes.get(kind, 0) + 1

def standing():
    me = psutil.Process()
    nursery = next(p for p in me.children() if "wool_jupyter.nursery" in p.cmdline())
    folders = [call for pool in nursery.cmdline()[6:] for call in Path(pool, "calls").glob("*")]
    return {"threads": me.num_threads(), "descriptors": me.num_fds(), "memory": me.memory_info().rss, "calls": len(folders)}
"""


@pytest.fixture
def kernel():
    kernel = Kernel()
    yield kernel
    kernel.shutdown()


def day(kernel, cells):
    kernel.ok("%load_ext wool_jupyter")
    kernel.ok("print('x' * 200_000)")  # pyzmq starts its collector, of three threads, with the first large message
    kernel.ok("seed = 7")
    kernel.ok(DAY)
    kernel.ok(f"for _ in range({cells // 5}): one_cell()", timeout=1200)
    early = kernel.value("standing()")
    kernel.ok(f"for _ in range({cells - cells // 5}): one_cell()", timeout=3600)
    return early, kernel.value("standing()")


def check(kernel, cells, early, late):
    assert kernel.value("sum(outcomes.values())") == cells
    assert late["threads"] <= early["threads"] + 2
    assert late["descriptors"] <= early["descriptors"] + 10
    assert late["memory"] <= early["memory"] * 1.3 + 30e6
    assert late["calls"] == 0
    assert not kernel.value("'grpc' in __import__('sys').modules")  # not even for workers that had just died
    pids = [p.pid for p in psutil.Process(kernel.pid).children(recursive=True)]
    assert len(pids) >= 2
    kernel.shutdown()
    wait_until(lambda: not any(map(psutil.pid_exists, pids)))


@pytest.mark.thorough
@pytest.mark.timeout(3600)
def test_a_thousand_cells_all_end_and_nothing_grows(kernel):
    check(kernel, 1000, *day(kernel, 1000))


@pytest.mark.timeout(300)
def test_a_hundred_cells_all_end_and_nothing_grows(kernel):
    check(kernel, 100, *day(kernel, 100))
