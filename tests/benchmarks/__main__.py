"""`python -m tests.benchmarks [--quick] [--only cells|calls|joblib|data|discovery|feed]`: what `%%wool` costs, in real kernels,
what calls, joblib's backend and discovery do, what large data costs, and what it costs to be looked at.

Numbers are medians over fresh kernels, or over repetitions."""

import argparse
import os
import platform
import sys
from functools import partial

from tests.benchmarks import calls, cells, data, discovery, feed, frames, joblib_backends
from tests.benchmarks.table import Row, as_text

AIMS = {
    "%load_ext": "< 150 ms",
    "first cell, beyond a plain one": "< 1.5 s",
    "x = 1, beyond a plain one": "< 5 ms",
    "10,000 printed lines": "ratio about 1",
    "200,000 printed lines": "ratio about 1",
    "1,000 pictures of 50 kB": "ratio below 2",
    "grid search on the digits": "ratio about 1",
    **dict.fromkeys((f"{name}, beside loky" for name in calls.MEASURED), "ratio at most 1"),
    **dict.fromkeys(("grid search, cold", "forest of 200 trees, cold"), "ratio at most 1"),
    **dict.fromkeys(("grid search, warm", "forest of 200 trees, warm"), "ratio about 1"),
    "four heavy cells with --bg": "ratio about 0.5 on two CPUs",
    **dict.fromkeys(("256 MB in, first", "256 MB out"), "ratio below 0.5 of loky"),
    "256 MB in, again": "ratio below 0.1 of loky",
    "publish": "< 200 µs",
    "look at 128 workers, first": "< 5 ms",
    "look at 128 workers, again": "< 5 ms",
    "publish to event, same process": "< 20 ms",
    "publish to event, another process": "< 20 ms",
    "CPU in 1 s, 8 idle workers": "< 10 ms more",
    "SIGKILL to dead, on iopub": "< 500 ms",
    "x = 1, looked at": "ratio about 1",
    "64 workers drawn, all figures new": "< 16 ms, a frame",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one fresh kernel each, and fewer cells")
    parser.add_argument("--only", choices=["cells", "calls", "joblib", "data", "discovery", "feed"])
    asked = parser.parse_args()
    quick = asked.quick
    of_cells = [
        cells.loading,
        cells.first_cell,
        partial(cells.trivial_cell, 40 if quick else 200),
        cells.many_names,
        cells.large_array,
        cells.large_dict,
        cells.printed_lines,
        cells.floods,
        cells.grid_search,
        cells.background_cells,
    ]
    of_discovery = [discovery.publishing, discovery.scanning, discovery.latency, discovery.idling]
    of_joblib = [
        joblib_backends.grid_search,
        joblib_backends.forest,
        joblib_backends.small_tasks,
        joblib_backends.large_array,
    ]
    of_the_feed = [
        feed.reading_processes,
        feed.snapshots,
        feed.seeing,
        partial(feed.trivial_cell, 40 if quick else 200),
        feed.being_looked_at,
        frames.sixty_four_workers,
    ]
    groups = {
        "cells": of_cells,
        "calls": [calls.calls],
        "joblib": of_joblib,
        "data": [data.large_array],
        "discovery": of_discovery,
        "feed": of_the_feed,
    }
    benchmarks = groups[asked.only] if asked.only else [each for group in groups.values() for each in group]
    runs = 1 if quick else 5
    rows = [row for benchmark in benchmarks for row in _rows(benchmark, runs)]
    print(as_text(rows))
    if asked.only in (None, "feed") and not frames.is_possible():
        print(f"\n{frames.MISSING}")
    if asked.only in (None, "joblib"):
        print(
            "\nIn the rows that are cold and warm, and those of 256 MB in and out, plain is joblib's default backend, loky."
        )
    if asked.only in (None, "cells"):
        print(f"\n%load_ext imports {cells.modules_loaded()} modules that the kernel did not have.")
        wool, plain = (cells.left_in_kernel_bytes(magic) / 1e6 for magic in ("%%wool\n", ""))
        print(f"200,000 printed lines leave {wool:.0f} MB in the kernel; {plain:.0f} MB those of a plain cell.")
        wool, plain = (cells.drawn_chars(magic) / 1e6 for magic in ("%%wool\n", ""))
        print(
            f"JupyterLab draws {wool:.0f} million characters for them; {plain:.0f} million for those of a plain cell."
        )
    if asked.only in (None, "data"):
        wool, loky = (size / 2**28 for size in data.held_twice_bytes())
        print(f"\nTwo workers that hold the same 256 MB take {wool:.2f} times as much, with loky {loky:.2f} times.")
    print(
        f"Medians of {runs} run{'s' * (runs > 1)}, each afresh; {os.cpu_count()} CPUs, Python {platform.python_version()}."
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
