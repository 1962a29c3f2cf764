"""What is measured, each in a fresh kernel: a function returns (%%wool, plain) durations in seconds by row name."""

import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter

from tests.support.kernel import Kernel

Measured = dict[str, tuple[float, float | None]]

LOAD = "%load_ext wool_jupyter"

_LOADING = """
import sys, time
_modules, _began = len(sys.modules), time.perf_counter()
get_ipython().run_line_magic("load_ext", "wool_jupyter")
print(time.perf_counter() - _began, len(sys.modules) - _modules)
"""

_GRID_SEARCH = """
search = GridSearchCV(SVC(), {"C": [1, 3, 10, 30], "gamma": [5e-4, 1e-3, 2e-3]}, cv=3).fit(X, y)
"""


@contextmanager
def fresh_kernel(*before: str) -> Iterator[Kernel]:
    with tempfile.TemporaryDirectory() as folder:
        kernel = Kernel(cwd=folder)
        try:
            for code in before:
                kernel.ok(code)
            yield kernel
        finally:
            kernel.shutdown(now=True)


def took_s(kernel: Kernel, code: str) -> float:
    """From the request to idle, as the front end sees it."""
    began = perf_counter()
    kernel.ok(code)
    return perf_counter() - began


def loading() -> Measured:
    with fresh_kernel() as kernel:
        seconds, modules = kernel.ok(_LOADING).stdout.split()
    return {"%load_ext": (float(seconds), None), "modules it imports": (float(modules), None)}


def first_cell() -> Measured:
    with fresh_kernel(LOAD, "x = 1", "x = 1") as kernel:
        plain = took_s(kernel, "x = 1")
        return {"first cell, beyond a plain one": (took_s(kernel, "%%wool\nx = 1") - plain, None)}


def trivial_cell(count: int) -> Measured:
    """In turns, so that both see the same machine."""
    wool, plain = [], []
    with fresh_kernel(LOAD, *["%%wool\nx = 1"] * 5) as kernel:
        for _ in range(count):
            plain.append(took_s(kernel, "x = 1"))
            wool.append(took_s(kernel, "%%wool\nx = 1"))
    p95 = [statistics.quantiles(each, n=20)[-1] for each in (wool, plain)]
    over = statistics.median(wool) - statistics.median(plain)
    return {
        "x = 1, median": (statistics.median(wool), statistics.median(plain)),
        "x = 1, 95 of 100 below": (p95[0], p95[1]),
        "x = 1, beyond a plain one": (over, None),
    }


def large_array() -> Measured:
    """256 MB."""
    with fresh_kernel(LOAD, "import numpy as np\narray = np.random.default_rng(1).random(32_000_000)", "%%wool\n1") as k:
        read = [took_s(k, "float(array[0])"), took_s(k, "%%wool\nfloat(array[0])"), took_s(k, "%%wool\nfloat(array[1])")]
        made = "import numpy as np\nmade = np.zeros(32_000_000); made += 1"
        k.ok(made)
        k.ok("del made")
        plain = took_s(k, made)
        k.ok("del made")
        return {
            "256 MB array in, first": (read[1], read[0]),
            "256 MB array in, unchanged": (read[2], read[0]),
            "256 MB array out": (took_s(k, f"%%wool\n{made}"), plain),
        }


def printed_lines() -> Measured:
    code = "for n in range(10_000): print('line', n)"
    with fresh_kernel(LOAD, "%%wool\n1", "print(1)") as kernel:
        plain = took_s(kernel, code)
        return {"10,000 printed lines": (took_s(kernel, f"%%wool\n{code}"), plain)}


def grid_search() -> Measured:
    """Both warm: the imports and a fit have happened on either side."""
    data = (
        "from sklearn.datasets import load_digits\nfrom sklearn.model_selection import GridSearchCV\n"
        "from sklearn.svm import SVC\nX, y = load_digits(return_X_y=True)\nSVC().fit(X, y)"
    )
    with fresh_kernel(LOAD, data, "%%wool\nSVC().fit(X, y)") as kernel:
        plain = took_s(kernel, _GRID_SEARCH)
        return {"grid search on the digits": (took_s(kernel, f"%%wool{_GRID_SEARCH}"), plain)}


Benchmark = Callable[[], Measured]
