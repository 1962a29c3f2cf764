"""What is measured, each in a fresh kernel: a function returns (%%wool, plain) durations in seconds by row name."""

import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import accumulate
from time import perf_counter

import psutil

from tests.support.kernel import Kernel

Measured = dict[str, tuple[float, float | None]]
Benchmark = Callable[[], Measured]

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
        return {"%load_ext": (float(kernel.ok(_LOADING).stdout.split()[0]), None)}


def modules_loaded() -> int:
    """By `%load_ext`, that the kernel did not have."""
    with fresh_kernel() as kernel:
        return int(kernel.ok(_LOADING).stdout.split()[1])


def first_cell() -> Measured:
    with fresh_kernel(LOAD, "x = 1", "x = 1") as kernel:
        plain = took_s(kernel, "x = 1")
        return {"first cell, beyond a plain one": (took_s(kernel, "%%wool\nx = 1") - plain, None)}


def large_array() -> Measured:
    """256 MB. Pages that were never touched cost extra, in a plain cell too: each side has made and freed as much before."""
    array = "import numpy as np\narray = np.random.default_rng(1).random(32_000_000)"
    make = "made = np.zeros(32_000_000); made += 1"
    drop = "del made"
    with fresh_kernel(LOAD, array, "%%wool\nimport numpy as np") as kernel:
        read = [
            took_s(kernel, code) for code in ("float(array[0])", "%%wool\nfloat(array[0])", "%%wool\nfloat(array[0])")
        ]
        changed = [took_s(kernel, f"{magic}array[0] += 1") for magic in ("", "%%wool\n")]
        for code in (make, drop, f"%%wool\nimport numpy as np\n{make}", drop):
            kernel.ok(code)
        made = [took_s(kernel, make)]
        kernel.ok(drop)
        made.append(took_s(kernel, f"%%wool\nimport numpy as np\n{make}"))
    return {
        "256 MB array in, first": (read[1], read[0]),
        "256 MB array in, unchanged": (read[2], read[0]),
        "256 MB array changed in place": (changed[1], changed[0]),
        "256 MB array out": (made[1], made[0]),
    }


def many_names() -> Measured:
    """Of 200 names the cell reads five, one of them through a function."""
    made = "\n".join(f"name_{n} = {{'n': {n}, 'values': list(range(100))}}" for n in range(199))
    reads = "sum(d['n'] for d in (name_1, name_50, name_99)) + use()"
    with fresh_kernel(LOAD, f"{made}\ndef use(): return name_150['n']", f"%%wool\n{reads}") as kernel:
        plain, wool = _in_turns(kernel, reads)
        return {"5 of 200 names read": (wool, plain)}


def large_dict() -> Measured:
    """One million keys."""
    make = "table = {f'key {n}': n / 7 for n in range(1_000_000)}"
    with fresh_kernel(LOAD, make, "%%wool\n1") as kernel:
        read = [took_s(kernel, f"{magic}table['key 7']") for magic in ("", "%%wool\n")]
        changed = [took_s(kernel, f"{magic}table['key 7'] = 0") for magic in ("", "%%wool\n")]
    return {
        "dict of a million keys read": (read[1], read[0]),
        "dict of a million keys changed": (changed[1], changed[0]),
    }


def _in_turns(kernel: Kernel, code: str, count: int = 20) -> tuple[float, float]:
    """Medians of a plain cell and of one under `%%wool`; both see the same machine."""
    plain, wool = zip(*((took_s(kernel, code), took_s(kernel, f"%%wool\n{code}")) for _ in range(count)), strict=True)
    return statistics.median(plain), statistics.median(wool)


def printed_lines() -> Measured:
    code = "for n in range(10_000): print('line', n)"
    with fresh_kernel(LOAD, "%%wool\n1", "print(1)") as kernel:
        plain = took_s(kernel, code)
        return {"10,000 printed lines": (took_s(kernel, f"%%wool\n{code}"), plain)}


_LINES = "for n in range(200_000): print('line', n)"
_PICTURES = "for n in range(1000): display(Image(picture + bytes([n % 256]) * 50_000))"


def floods() -> Measured:
    prepare = "from IPython.display import Image\npicture = bytes.fromhex('89504e470d0a1a0a')"
    with fresh_kernel(LOAD, prepare, "%%wool\nImage, picture") as kernel:
        return {
            name: (took_s(kernel, f"%%wool\n{code}"), took_s(kernel, code))
            for name, code in (("200,000 printed lines", _LINES), ("1,000 pictures of 50 kB", _PICTURES))
        }


def drawn_chars(magic: str) -> int:
    """Of 200,000 printed lines, by a front end that draws all text of a cell anew with each message, as JupyterLab does."""
    with fresh_kernel(LOAD, "%%wool\n1", "print(1)") as kernel:
        cell = kernel.begin(magic + _LINES)
        cell.result()
        return sum(accumulate(cell.streamed))


def left_in_kernel_bytes(magic: str) -> int:
    """By 200,000 printed lines."""
    with fresh_kernel(LOAD, "%%wool\n1", "print(1)") as kernel:
        process = psutil.Process(kernel.pid)
        before = process.memory_info().rss
        kernel.ok(magic + _LINES)
        return int(process.memory_info().rss - before)


def grid_search() -> Measured:
    """Both warm: the imports and a fit have happened on either side."""
    data = (
        "from sklearn.datasets import load_digits\nfrom sklearn.model_selection import GridSearchCV\n"
        "from sklearn.svm import SVC\nX, y = load_digits(return_X_y=True)\nSVC().fit(X, y)"
    )
    with fresh_kernel(LOAD, data, "%%wool\nSVC().fit(X, y)") as kernel:
        plain = took_s(kernel, _GRID_SEARCH)
        return {"grid search on the digits": (took_s(kernel, f"%%wool{_GRID_SEARCH}"), plain)}


def background_cells() -> Measured:
    """Four heavy cells that do not need each other, and one that needs them all, from the first request to the last idle."""
    heavy = "part_{n} = sum(i * i for i in range(12_000_000))"
    whole = "sum((part_0, part_1, part_2, part_3))"
    with fresh_kernel(LOAD, "%wool start -n 2", "%%wool\n1") as kernel:
        took = {}
        for magic in ("", "%%wool --bg\n"):
            began = perf_counter()
            for n in range(4):
                kernel.ok(magic + heavy.format(n=n))
            kernel.ok(whole)
            took[magic] = perf_counter() - began
        return {"four heavy cells with --bg": (took["%%wool --bg\n"], took[""])}
