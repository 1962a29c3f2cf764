"""Hundreds of background jobs in one kernel, with cells between them: every one ends as it should, and nothing grows."""

import random

import psutil
import pytest

from tests.support.kernel import Kernel

GONE = 64  # workers that a pool remembers after their end, with a descriptor each

KINDS = {
    "name": ("made_{n} = {n} * 2", "done"),
    "shared": ("shared = {n}", "done"),
    "text": ("for i in range(500): print('line', {n}, i)", "done"),
    "display": ("from IPython.display import HTML, display\nfor i in range(5): display(HTML(str(i)))", "done"),
    "changed": ("change(data, {n})", "done"),
    "large": ("import numpy as np\nlarge = np.full(100_000, {n})", "done"),
    "value": ("{n} + 1", "done"),
    "error": ("broken_{n} = 1 / 0", "failed"),
    "asks": ("input()", "failed"),
    "dies": ("import os; os._exit(3)", "failed"),
    "cancelled": ("import time; time.sleep(600)", "was cancelled"),
}

BEFORE = """
%load_ext wool_jupyter
%wool start -n 2
import psutil
from pathlib import Path
data = []
def change(items, n): items.append(n)
def standing():
    import gc; gc.collect()
    me = psutil.Process()
    nursery = next(p for p in me.children() if "wool_jupyter.nursery" in p.cmdline())
    folders = [call for pool in nursery.cmdline()[6:] for call in Path(pool, "calls").glob("*")]
    return {"threads": me.num_threads(), "descriptors": me.num_fds(), "memory": me.memory_info().rss, "calls": len(folders)}
print('x' * 200_000)
"""


@pytest.fixture
def kernel():
    kernel = Kernel()
    yield kernel
    kernel.shutdown()


def burst(kernel, chance, first, count):
    """Submits some, does something else, waits for all."""
    expected = {}
    for n in range(first, first + count):
        kind = chance.choice(list(KINDS))
        body, expected[n] = KINDS[kind]
        kernel.ok(f"%%wool --bg\n{body.format(n=n)}")
        if kind == "cancelled":
            kernel.ok(f"%wool cancel {n}")
        if chance.random() < 0.3:
            assert kernel.value(f"{n} + 1") == n + 1
    kernel.run("%wool wait", timeout=120)
    kernel.strays.clear()
    states = {int(line.split()[1]): line for line in kernel.ok("%wool jobs").stdout.splitlines()}
    for n, how in expected.items():
        assert how in states[n], states[n]
        if KINDS["name"][0].format(n=n) in states[n]:
            assert kernel.value(f"made_{n}") == n * 2


def day(kernel, jobs):
    chance = random.Random(11)
    kernel.ok(BEFORE, timeout=60)
    early = None
    for first in range(1, jobs + 1, 10):
        burst(kernel, chance, first, 10)
        if first > jobs // 5 and early is None:
            early = kernel.value("standing()")
    late = kernel.value("standing()")
    assert late["threads"] <= early["threads"] + 4
    assert late["descriptors"] <= early["descriptors"] + 10 + GONE
    assert late["memory"] <= early["memory"] * 1.3 + 60e6
    assert late["calls"] == 0
    pids = [p.pid for p in psutil.Process(kernel.pid).children(recursive=True)]
    kernel.shutdown()
    assert not psutil.wait_procs([psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)], timeout=10)[1]


@pytest.mark.thorough
@pytest.mark.timeout(3600)
def test_five_hundred_jobs_all_end_and_nothing_grows(kernel):
    day(kernel, 500)


@pytest.mark.timeout(300)
def test_fifty_jobs_all_end_and_nothing_grows(kernel):
    day(kernel, 50)
