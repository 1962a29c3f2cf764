"""What people do to single workers, by a magic or a button. On the pool's loop; `UsageError` says what was wrong, in words."""

from uuid import UUID

from IPython.core.error import UsageError

from wool_jupyter.notebook.feed import door
from wool_jupyter.notebook.snapshot import Snapshot, Worker
from wool_jupyter.pool.kernel_pool import KernelPool

_NAMES = 8  # are listed


async def interrupt(pool: KernelPool, prefix: str = "") -> list[Worker]:
    """Those whose cell or call was interrupted, as by ■. Without a prefix: all that run something."""
    if not prefix:
        return [worker for worker in _own_alive() if await pool.interrupt(UUID(worker.uid))]
    worker = _own(prefix)
    if not await pool.interrupt(UUID(worker.uid)):
        raise UsageError(f"worker {worker.name} runs nothing that could be interrupted")
    return [worker]


async def restart(pool: KernelPool, prefix: str) -> Worker:
    """Ended, whatever it does; another takes its place. Returns when it has ended."""
    worker = _own(prefix)
    if worker.state == "starting":
        raise UsageError(f"worker {worker.name} is only starting")
    await pool.crew.restart(UUID(worker.uid))
    return worker


def short_uids() -> list[str]:
    """Of the own workers that are alive. From any thread but the loop's."""
    return [worker.name for worker in _alive(door().glance())]


def _own_alive() -> list[Worker]:
    return _alive(door().feed.now())


def _alive(snapshot: Snapshot) -> list[Worker]:
    return [worker for worker in snapshot.workers if worker.own and worker.state != "dead"]


def _own(prefix: str) -> Worker:
    found = [worker for worker in door().feed.now().workers if worker.uid.startswith(prefix.lower())]
    alive = [worker for worker in found if worker.state != "dead"]
    if not alive:
        gone = f"worker {found[0].name} is dead" if found else f"there is no worker `{prefix}`"
        there = _own_alive()
        raise UsageError(f"{gone}; those of the pool are {_listed(there)}" if there else gone)
    if len(alive) > 1:
        raise UsageError(f"`{prefix}` fits several workers: {_listed(alive)}")
    if not alive[0].own:
        raise UsageError(f"worker {alive[0].name} belongs to another process, which alone may end or interrupt it")
    return alive[0]


def _listed(workers: list[Worker]) -> str:
    more = f" and {len(workers) - _NAMES} more (`%wool status`)" if len(workers) > _NAMES else ""
    return ", ".join(worker.name for worker in workers[:_NAMES]) + more
