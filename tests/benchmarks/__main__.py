"""`python -m tests.benchmarks [--runs N | --quick] [--only GROUP] [--json FILE]`: what `%%wool` costs, in real kernels, what
joblib's backend and discovery do, what it costs to be looked at, and how calls, large data and memory are beside the peers.

Numbers are medians over fresh kernels, or over repetitions."""

import argparse
import compileall
import json
import os
import platform
import sys
from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import Any

import wool_jupyter
from tests.benchmarks import cells, discovery, feed, frames, joblib_backends
from tests.benchmarks.peers import report
from tests.benchmarks.peers.compare import Comparison
from tests.benchmarks.peers.works import GROUPS as OF_PEERS
from tests.benchmarks.table import Row, as_text

AIMS = {
    "%load_ext": "< 150 ms",
    "first cell, beyond a plain one": "< 1.5 s",
    "10,000 printed lines": "ratio about 1",
    "200,000 printed lines": "ratio about 1",
    "1,000 pictures of 50 kB": "ratio below 2",
    "grid search on the digits": "ratio about 1",
    **dict.fromkeys(("grid search, cold", "forest of 200 trees, cold"), "ratio at most 1"),
    **dict.fromkeys(("grid search, warm", "forest of 200 trees, warm"), "ratio about 1"),
    "four heavy cells with --bg": "ratio about 0.5 on two CPUs",
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
    asked = _asked()
    # As an installed package is: who may not write bytecode compiles 200 modules anew in each process, which doubles its start.
    compileall.compile_dir(Path(wool_jupyter.__file__).parent, quiet=1)
    runs = 1 if asked.quick else asked.runs
    found: dict[str, Any] = {"machine": _machine(), "runs": runs}
    if groups := _groups(asked.quick, asked.only):
        rows = [row for group in groups.values() for benchmark in group for row in _rows(benchmark, runs)]
        found["rows"] = [row.as_json() for row in rows]
        print(as_text(rows))
        _remarks(groups)
    if asked.only in (None, "peers", *OF_PEERS):
        comparison = Comparison(asked.only if asked.only in OF_PEERS else None, runs)
        found["peers"] = report.as_json(comparison)
        print(report.as_text(comparison))
    found["load_after"] = os.getloadavg()[0]
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(
        f"Medians of {runs} run{'s' * (runs > 1)}, each afresh, where nothing else is said; {os.cpu_count()} "
        f"CPUs, Python {platform.python_version()}, load "
        f"{found['machine']['load_before']:.1f} before and {found['load_after']:.1f} after."
    )
    return 0


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--runs", type=int, default=5, metavar="N", help="fresh kernels for each work, of which the median counts"
    )
    parser.add_argument("--quick", action="store_true", help="one fresh kernel each, and fewer cells")
    parser.add_argument(
        "--only",
        choices=["cells", "joblib", "discovery", "feed", "peers", *OF_PEERS],
        help=f"one group; peers are {', '.join(OF_PEERS)}",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="where all figures are written, too")
    asked = parser.parse_args()
    if asked.json and not asked.json.absolute().parent.is_dir():
        parser.error(f"{asked.json.parent} is no folder")
    return asked


def _groups(quick: bool, only: str | None) -> dict[str, list[cells.Benchmark]]:
    """Those of this product alone."""
    cell_count = 40 if quick else 200
    groups: dict[str, list[cells.Benchmark]] = {
        "cells": [
            cells.loading,
            cells.first_cell,
            cells.many_names,
            cells.large_array,
            cells.large_dict,
            cells.printed_lines,
            cells.floods,
            cells.grid_search,
            cells.background_cells,
        ],
        "joblib": [
            joblib_backends.grid_search,
            joblib_backends.forest,
            joblib_backends.small_tasks,
            joblib_backends.large_array,
        ],
        "discovery": [discovery.publishing, discovery.scanning, discovery.latency, discovery.idling],
        "feed": [
            feed.reading_processes,
            feed.snapshots,
            feed.seeing,
            partial(feed.trivial_cell, cell_count),
            feed.being_looked_at,
            frames.sixty_four_workers,
        ],
    }
    return {name: group for name, group in groups.items() if only in (None, name)}


def _machine() -> dict[str, Any]:
    return {
        "cpus": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "load_before": os.getloadavg()[0],
    }


def _remarks(groups: Collection[str]) -> None:
    if "feed" in groups and not frames.is_possible():
        print(f"\n{frames.MISSING}")
    if "joblib" in groups:
        print("\nIn the rows that are cold and warm, plain is joblib's default backend, loky.")
    if "cells" in groups:
        print(f"\n%load_ext imports {cells.modules_loaded()} modules that the kernel did not have.")
        wool, plain = (cells.left_in_kernel_bytes(magic) / 1e6 for magic in ("%%wool\n", ""))
        print(f"200,000 printed lines leave {wool:.0f} MB in the kernel; {plain:.0f} MB those of a plain cell.")
        wool, plain = (cells.drawn_chars(magic) / 1e6 for magic in ("%%wool\n", ""))
        print(
            f"JupyterLab draws {wool:.0f} million characters for them; {plain:.0f} million for those of a plain cell."
        )


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
