"""Blocking calls on the notebook's pool, beside loky and the standard library's pool of processes, each in a fresh kernel."""

import ast

from tests.benchmarks.cells import Measured, fresh_kernel

_EXECUTORS = {
    "wool": "import wool_jupyter\nexecutor = wool_jupyter.pool().executor()",
    "loky": "from joblib.externals.loky import get_reusable_executor\nexecutor = get_reusable_executor(max_workers=2, timeout=300)",
    "the standard library": "from concurrent.futures import ProcessPoolExecutor\nexecutor = ProcessPoolExecutor(2)",
}

_FUNCTION = """
import statistics, time
OFFSET = 1
def small(x):
    return x + OFFSET
"""

_MEASURE = """
def took(run):
    began = time.perf_counter()
    run()
    return time.perf_counter() - began

list(executor.map(small, range(20)))  # the workers are there
print([
    statistics.median(took(lambda: executor.submit(small, 1).result()) for _ in range(300)),
    took(lambda: list(executor.map(small, range(2000)))),
    took(lambda: [f.result() for f in [executor.submit(small, n) for n in range(2000)]]),
    took(lambda: list(executor.map(time.sleep, [0.05] * 100))),
])
"""
MEASURED = (
    "a small call and back",
    "2,000 small calls by map",
    "2,000 small calls by submit",
    "100 calls of 50 ms",
)


def calls() -> Measured:
    """Two workers each."""
    found: dict[str, list[float]] = {}
    for name, made in _EXECUTORS.items():
        load = ["%load_ext wool_jupyter\n%config Wool.workers = 2"] if name == "wool" else []
        with fresh_kernel(*load, _FUNCTION, made) as kernel:
            found[name] = ast.literal_eval(kernel.ok(_MEASURE, timeout=120).stdout)
    return {
        f"{what}, beside {other}": (ours, its)
        for other in ("loky", "the standard library")
        for what, ours, its in zip(MEASURED, found["wool"], found[other], strict=True)
    }
