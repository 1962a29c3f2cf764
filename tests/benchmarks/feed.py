"""What it costs to be looked at, and how long it takes until something is seen. (seen, unseen) durations in seconds by row name."""

import os
import signal
import statistics
from time import perf_counter

import psutil

from tests.benchmarks.cells import LOAD, Measured, fresh_kernel
from tests.support.kernel import Kernel
from tests.support.panel import Panel
from tests.support.snapshots import SNAPSHOTS
from wool_jupyter import host
from wool_jupyter.notebook.snapshot import as_builtins

WATCHED_S = 20
WORKERS = 8

_TRIVIAL = """
import time
_took = []
for _ in range({cells}):
    _began = time.perf_counter()
    get_ipython().run_cell_magic("wool", "", "x = 1")
    _took.append(time.perf_counter() - _began)
print(sorted(_took)[{cells} // 2])
"""


def pool_seen_by_a_panel(kernel: Kernel, workers: int) -> Panel:
    panel = Panel(kernel)
    panel.hello()
    kernel.ok(f"%wool start -n {workers}", timeout=120)
    panel.shows(lambda taken: [each.state for each in taken.workers] == ["idle"] * workers, timeout=120)
    return panel


def being_looked_at() -> Measured:
    """The kernel's CPU in a second with eight idle workers: with a panel that looks, and with nobody there."""
    with fresh_kernel(LOAD) as kernel:
        kernel.ok(f"%wool start -n {WORKERS}", timeout=120)
        process = psutil.Process(kernel.pid)
        _wait(kernel, 5)  # until all have started
        unseen = _cpu_s(process, kernel)
        panel = Panel(kernel)
        panel.hello()
        seen = _cpu_s(process, kernel)
        assert panel.latest.workers[0].cpu is not None
        return {"CPU in 1 s, 8 idle workers": (seen / WATCHED_S, unseen / WATCHED_S)}


def _cpu_s(process: psutil.Process, kernel: Kernel) -> float:
    before = sum(process.cpu_times()[:2])
    _wait(kernel, WATCHED_S)
    return sum(process.cpu_times()[:2]) - before


def _wait(kernel: Kernel, seconds: float) -> None:
    kernel.ok(f"import threading; threading.Event().wait({seconds})", timeout=seconds + 30)


def reading_processes() -> Measured:
    pids = [os.getpid()] * WORKERS
    began = perf_counter()
    for _ in range(100):
        for pid in pids:
            host.process_usage(pid)
    return {"use of 8 processes read": ((perf_counter() - began) / 100, None)}


def snapshots() -> Measured:
    taken = SNAPSHOTS["sixty-four"]
    began = perf_counter()
    for _ in range(100):
        as_builtins(taken)
    return {"64 workers made ready to send": ((perf_counter() - began) / 100, None)}


def seeing() -> Measured:
    """From a worker's SIGKILL until a panel has it on iopub, dead and replaced by one that starts."""
    with fresh_kernel(LOAD) as kernel:
        panel = pool_seen_by_a_panel(kernel, 2)
        took = []
        for _ in range(5):
            kernel.ok("%%wool\nx = 1")  # what dies unused is replaced only when work waits
            idle = panel.shows(lambda taken: [e.state for e in taken.workers if e.state != "dead"] == ["idle"] * 2)
            victim = next(each for each in idle.workers if each.state == "idle" and each.done)
            os.kill(victim.pid, signal.SIGKILL)
            began = perf_counter()
            panel.shows(lambda taken, uid=victim.uid: any(e.uid == uid and e.state == "dead" for e in taken.workers))
            took.append(perf_counter() - began)
        return {"SIGKILL to dead, on iopub": (statistics.median(took), None)}


def trivial_cell(cells: int) -> Measured:
    """A cell whose worker is looked at, and one of which nobody knows."""
    code = _TRIVIAL.format(cells=cells)
    with fresh_kernel(LOAD, "%wool start -n 1", "%%wool\nx = 1") as kernel:
        unseen = float(kernel.ok(code, timeout=120).stdout)
        panel = Panel(kernel)
        panel.hello()
        seen = float(kernel.ok(code, timeout=120).stdout)
        assert panel.latest.workers
        return {"x = 1, looked at": (seen, unseen)}
