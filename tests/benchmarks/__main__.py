"""`python -m tests.benchmarks [--quick]`: what `%%wool` costs, in real kernels. Numbers are medians over fresh kernels."""

import argparse
import os
import platform
import sys
from functools import partial

from tests.benchmarks import cells
from tests.benchmarks.table import Row, as_text

AIMS = {
    "%load_ext": "< 150 ms",
    "first cell, beyond a plain one": "< 1.5 s",
    "x = 1, beyond a plain one": "< 5 ms",
    "10,000 printed lines": "ratio about 1",
    "grid search on the digits": "ratio about 1",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one fresh kernel each, and fewer cells")
    quick = parser.parse_args().quick
    benchmarks = [
        cells.loading,
        cells.first_cell,
        partial(cells.trivial_cell, 40 if quick else 200),
        cells.many_names,
        cells.large_array,
        cells.large_dict,
        cells.printed_lines,
        cells.grid_search,
    ]
    runs = 1 if quick else 5
    rows = [row for benchmark in benchmarks for row in _rows(benchmark, runs)]
    print(as_text(rows))
    print(f"\n%load_ext imports {cells.modules_loaded()} modules that the kernel did not have.")
    print(
        f"Medians of {runs} fresh kernel{'s' * (runs > 1)}; {os.cpu_count()} CPUs, Python {platform.python_version()}."
    )
    return 0


def _rows(benchmark: cells.Benchmark, runs: int) -> list[Row]:
    measured = []
    for _ in range(runs):
        measured.append(benchmark())
        print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    rows = []
    for name in measured[0]:
        wool, plain = zip(*(each[name] for each in measured), strict=True)
        rows.append(Row(name, list(wool), None if None in plain else list(plain), AIMS.get(name, "")))
    return rows


if __name__ == "__main__":
    sys.exit(main())
