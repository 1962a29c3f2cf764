"""What the pool of a process has on this machine: processes and directories."""

import os
import signal
from pathlib import Path

import psutil

from tests.support.waiting import wait_until
from wool_jupyter.discovery import root
from wool_jupyter.pool.kernel_pool import KernelPool
from wool_jupyter.pool.processes import Processes

NURSERY = "wool_jupyter.nursery"
TEMPLATE = "wool_jupyter.worker.template"


def nursery_of(owner_pid: int) -> psutil.Process:
    (nursery,) = _nurseries(owner_pid)
    return nursery


def _nurseries(owner_pid: int) -> list[psutil.Process]:
    # Its children only: what a nursery starts has its arguments, too, until it has become another program.
    return [child for child in psutil.Process(owner_pid).children() if NURSERY in child.cmdline()]


def pool_processes(owner_pid: int) -> list[psutil.Process]:
    """The nursery, its workers, the process that they are forked from, and what cells have started."""
    return [process for nursery in _nurseries(owner_pid) for process in (nursery, *nursery.children(recursive=True))]


def pool_workers(owner_pid: int) -> list[psutil.Process]:
    """And what cells have started. A worker counts once it has its own arguments: before, nobody can tell it from the nursery or
    from the process that it is forked from."""
    return [process for process in pool_processes(owner_pid) if _is_worker(process)]


def _is_worker(process: psutil.Process) -> bool:
    try:
        return {NURSERY, TEMPLATE}.isdisjoint(process.cmdline())
    except psutil.NoSuchProcess:  # it stood between the template and what that forks
        return False


def pool_directories(namespace: str) -> list[Path]:
    """Of all its generations, wherever they may lie."""
    bases = (root.root_under(base, os.geteuid()) for base in root.default_candidates())
    return [path for base in bases for path in (base / namespace).glob("*") if not path.is_symlink()]


def lives(process: psutil.Process) -> bool:
    """A zombie has ended: its memory and files are gone."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def hold_still(pid: int) -> None:
    """Returns when none of its threads runs: after the signal is sent they may go on for a moment, in which a call may begin."""
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: all(_is_stopped(task) for task in Path(f"/proc/{pid}/task").iterdir()))


def _is_stopped(task: Path) -> bool:
    return (task / "stat").read_text().rpartition(") ")[2][0] == "T"


def names_in(directory: str) -> list[str]:
    return sorted(path.name for path in Path(directory).iterdir())


async def pool_in(home, settings, *, environment=os.environ, **options):
    """As a kernel starts it."""
    return await KernelPool.start(home, settings, await Processes.begun(home, environment=environment), **options)


async def spawned(nursery, uid, command, arguments=(), *, environment=None, log, timeout_s=30, directory=Path("/")):
    """The child of an order, once it is delivered."""
    environment = environment or os.environ
    order = nursery.order(uid, command, arguments, environment=environment, log=log, directory=directory)
    return await nursery.delivered(order, timeout_s=timeout_s)
