"""What is measured of each peer, and what is aimed at."""

import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median, quantiles
from time import perf_counter

from tests.benchmarks.cells import took_s
from tests.benchmarks.peers.session import Cannot, Session

MB = 2**20

Figure = float | str  # a text says in a word or two why there is no number

_WARM = 10
_CELLS = 100
GROUPS = ("calls", "data", "memory")


@dataclass(frozen=True)
class Aim:
    at_most: float
    of: str | None = None  # the peer whose figure is the measure; None: seconds or bytes


@dataclass(frozen=True)
class Row:
    name: str
    aims: tuple[Aim, ...] = ()
    unit: str = "s"


@dataclass(frozen=True)
class Work:
    group: str  # those of one group are measured in the same kernel, one after the other
    rows: tuple[Row, ...]
    measure: Callable[[Session], Sequence[Figure]]  # a figure a row; `Cannot`


def _timed(function: str) -> Callable[[Session], Sequence[Figure]]:
    def measure(session: Session) -> Sequence[Figure]:
        found = session.value(f"timed.{function}(peer, bodies)")
        return found if isinstance(found, tuple) else (found,)

    return measure


def _start(session: Session) -> Sequence[Figure]:
    return (session.value("started_s"),)


def _trivial_cell(session: Session) -> Sequence[Figure]:
    """As the front end sees it, in turns with a plain one, whose time is the notebook's own."""
    plain, took = [], []
    for number in range(_WARM + _CELLS):
        cell = session.cell(f"x = {number}")
        plain.append(took_s(session.kernel, "y = 1"))
        took.append(took_s(session.kernel, cell))
    session.expect("x", number)
    del plain[:_WARM], took[:_WARM]
    return median(took), quantiles(took, n=20)[-1], median(took) - median(plain)


def _next_cell(session: Session) -> Sequence[Figure]:
    """After the worker of the last cell has been killed. A cell that fails because of that is run again."""
    cell = session.cell("x = 'next'")
    if not session.value("peer.replaces_the_dead"):
        raise Cannot("no new one")
    session.value("timed.worker_pids(peer, bodies)")  # all are there
    session.kernel.ok(session.cell("import os; pid = os.getpid()"))
    os.kill(session.variable("pid"), signal.SIGKILL)
    began = perf_counter()
    for _ in range(50):
        if session.kernel.run(cell, timeout=60).status == "ok":
            took = perf_counter() - began
            session.expect("x", "next")
            return (took,)
    raise Cannot("its cells fail")


WORKS = (
    Work("calls", (Row("start to the first result", (Aim(0.6, "dask"),)),), _start),
    Work(
        "calls",
        (
            Row("trivial cell, from request to idle"),
            Row("trivial cell, 95 of 100 below"),
            Row("trivial cell, beyond a plain one", (Aim(0.4, "ipyparallel"), Aim(0.005))),
        ),
        _trivial_cell,
    ),
    Work("calls", (Row("small call", (Aim(0.4, "ray"), Aim(2, "loky"))),), _timed("small_call")),
    Work(
        "calls",
        (
            Row("2,000 small calls by map", (Aim(0.5, "loky"),)),
            Row("2,000 small calls, submitted one by one", (Aim(0.5, "loky"),)),
        ),
        _timed("many_calls"),
    ),
    Work("calls", (Row("100 calls of 50 ms", (Aim(1, "loky"),)),), _timed("naps")),
    Work(
        "data",
        (
            Row("256 MB in, the first", (Aim(1, "ray"),)),
            Row("256 MB in, the second time", (Aim(0.3, "ray"),)),
            Row("256 MB in, from then on", (Aim(0.3, "ray"),)),
            Row("256 MB in, a few numbers changed"),
            Row("256 MB in, others of that size", (Aim(1, "ray"),)),
            Row("256 MB in, placed by hand before"),
        ),
        _timed("array_in"),
    ),
    Work("data", (Row("256 MB out", (Aim(1, "ray"),)),), _timed("array_out")),
    Work("memory", (Row("memory of an idle worker", (Aim(40 * MB),), "bytes"),), _timed("idle_bytes")),
    Work("memory", (Row("memory of 256 MB that both read", (Aim(1.15 * 256 * MB),), "bytes"),), _timed("held_bytes")),
    Work("memory", (Row("killed worker to the next cell", (Aim(0.3),)),), _next_cell),
    Work(
        "memory",
        (Row("killed worker to the next result", (Aim(0.3),)), Row("killed worker until all are at work again")),
        _timed("next_result"),
    ),
)
