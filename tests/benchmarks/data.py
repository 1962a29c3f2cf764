"""256 MB to workers and back, and how often they are in memory: beside loky's `submit` in the same kernel, whose number is the
second of each pair.

"First" is a new array each time, "again" the same one; whoever reads it touches each page. Both sides have done as much before."""

import ast
from statistics import median

from tests.benchmarks.cells import LOAD, Measured, fresh_kernel, took_s
from tests.support.kernel import Kernel

_PREPARE = """
import os, threading
import numpy as np, psutil, wool_jupyter
from joblib.externals.loky import get_reusable_executor
COUNT = 1 << 25
def read(array):
    return float(array[::512].sum())
def make(seed):
    return np.arange(seed, seed + COUNT)
def look_after(array, folder):  # holds it until both workers have it
    read(array)
    open(f"{folder}/{os.getpid()}", "w").close()
    while len(os.listdir(folder)) < 2: threading.Event().wait(0.005)
    return sum(getattr(psutil.Process(pid).memory_full_info(), "pss") for pid in map(int, os.listdir(folder)))
pools = {"wool": wool_jupyter.pool(), "loky": get_reusable_executor(max_workers=2, timeout=None)}
small = np.arange(10.0)
for pool in pools.values():
    [future.result() for future in [pool.submit(read, small) for _ in range(20)]]
"""
_WAYS = {
    "256 MB in, first": (
        "array = np.random.default_rng(len(str(array)) + TURN).random(COUNT)",
        "submit(read, array).result()",
    ),
    "256 MB in, again": ("", "submit(read, array).result()"),
    "256 MB in, one number changed": ("array[TURN] += 1", "submit(read, array).result()"),
    "256 MB out": ("del came", "submit(make, TURN).result()"),
}
_IN_TURNS = 3


def large_array() -> Measured:
    measured: Measured = {}
    with fresh_kernel(LOAD, "%config Wool.workers = 2", _PREPARE, "array = np.zeros(COUNT); came = None") as kernel:
        for name, (before, call) in _WAYS.items():
            took: dict[str, list[float]] = {"wool": [], "loky": []}
            for turn in range(_IN_TURNS):
                for pool, times in took.items():
                    kernel.ok(before.replace("TURN", str(turn * len(took) + len(pool))) or "0")
                    times.append(took_s(kernel, f"came = pools[{pool!r}].{call.replace('TURN', str(turn))}"))
            measured[name] = median(took["wool"]), median(took["loky"])
        plain = [took_s(kernel, f"{drop}came = make({turn})") for turn, drop in enumerate(["", "", "del came\n"])]
        measured["256 MB made here, which is a part of the way out"] = plain[-1], None
    return measured


def held_twice_bytes() -> tuple[int, int]:
    """What two workers take more, of which each holds the same 256 MB: the pool's, and loky's."""
    with fresh_kernel(
        LOAD, "%config Wool.workers = 2", _PREPARE, "array = np.random.default_rng(1).random(COUNT)"
    ) as kernel:
        return _grown(kernel, "wool"), _grown(kernel, "loky")


def _grown(kernel: Kernel, pool: str) -> int:
    found = []
    for array in ("small", "array"):
        kernel.ok(f"""
            import tempfile
            with tempfile.TemporaryDirectory() as folder:
                futures = [pools[{pool!r}].submit(look_after, {array}, folder) for _ in range(2)]
                taken = max(future.result() for future in futures)
        """)
        found.append(ast.literal_eval(kernel.ok("print(taken)").stdout))
    return int(found[1] - found[0])
