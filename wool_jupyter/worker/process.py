"""A worker process, by its threads, with the ready pipe on descriptor 3.

side thread      the loop that talks to clients: no user code
another          the loop of async routines, many at a time
main thread      blocking bodies, one at a time
"""

import asyncio
import faulthandler
import gc
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import UUID

from wool_jupyter import host
from wool_jupyter.balance.protocol import Task
from wool_jupyter.dispatch import setups
from wool_jupyter.import_hook import when_imported
from wool_jupyter.wire import layout
from wool_jupyter.wire.credentials import read_token
from wool_jupyter.wire.start_ledger import StartLedger
from wool_jupyter.worker import identity
from wool_jupyter.worker.admission import Admission
from wool_jupyter.worker.batch_routine import batch_routine
from wool_jupyter.worker.call_routine import call_routine
from wool_jupyter.worker.cell import spool
from wool_jupyter.worker.cell.call_runner import CallRunner
from wool_jupyter.worker.cell.inner_call import InnerCalls
from wool_jupyter.worker.cell.routine import cell_routine
from wool_jupyter.worker.cell.runner import CellRunner
from wool_jupyter.worker.lanes import MainLane
from wool_jupyter.worker.pinned_loop import PinnedLoop
from wool_jupyter.worker.routine_lane import RoutineLane
from wool_jupyter.worker.service import WorkerService

_READY_FD = 3


async def _serve(
    lane: MainLane, routines: RoutineLane, runner: CellRunner, directory: str, uid: str, *, installed: "Future[None]"
) -> None:
    """Until a client stops the worker, or the nursery ends this process. `installed`: the main thread has made the process what
    bodies expect, and crashes are reported."""
    runner.gate.watch(asyncio.get_running_loop())
    handlers = {
        "cell": cell_routine(lane, runner),
        "batch": batch_routine(lane, CallRunner(runner, uid)),
        "call": call_routine(routines),
    }
    handlers["lent"] = handlers["batch"]
    setup = setups.read(Path(directory))
    ledger = StartLedger.open(layout.ledger(Path(directory), uid))
    service = WorkerService(
        handlers,
        token=read_token(directory),
        admission=Admission(_asks(lane, await routines.hook(setup))),
        begins=ledger.begins,
        options=setup.options,
    )
    socket = layout.socket(Path(directory), uid)
    address = layout.address(socket)
    await service.start(address, direct=layout.direct(socket))
    await asyncio.wrap_future(installed)
    report = {"address": address, "pid": os.getpid()}
    with os.fdopen(_READY_FD, "w", encoding="utf-8") as ready:
        ready.write(json.dumps(report) + "\n")
    await service.stopped()
    await service.close()


_Ask = Callable[[int, Task], Awaitable[bool]]


def _asks(lane: MainLane, ask: _Ask | None) -> _Ask:
    """Who waits for a main thread must not keep another one busy that waits, too: a call that is lent finds an idle one or none."""

    async def enough(active: int, task: Task) -> bool:
        if task.routine == "lent" and lane.is_busy:
            return True
        return ask is not None and await ask(active, task)

    return enough


class _SideThread(threading.Thread):
    """Serves; when it can't any more, the main thread must not wait for ever."""

    def __init__(self, lane: MainLane, serve: Callable[[], Coroutine[Any, Any, None]]) -> None:
        super().__init__(name="wool-rpc", daemon=True)
        self._lane = lane
        self._serve = serve
        self.stopped = False

    def run(self) -> None:
        spool.serve()
        loop = PinnedLoop()
        asyncio.set_event_loop(loop)
        try:
            loop.run_until_complete(self._serve())
            self.stopped = True
        except BaseException:  # noqa: BLE001 (said in the log before the process ends)
            traceback.print_exc(file=sys.__stderr__)
        finally:  # a cell may have broken even what prints
            self._lane.close()


def main(uid: str, directory: str, nursery_pid: str) -> None:
    host.die_with_parent(int(nursery_pid))
    host.name_process("wool worker")
    os.set_inheritable(_READY_FD, False)
    # The side threads, and gRPC's where they come, inherit a mask without SIGINT, which so reaches the main thread alone.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    lane, routines, runner = MainLane(), RoutineLane(), CellRunner()
    identity.become(identity.Identity(UUID(uid), directory, InnerCalls(runner.gate)))
    routines.start()
    installed: Future[None] = Future()
    thread = _SideThread(lane, partial(_serve, lane, routines, runner, directory, uid, installed=installed))
    thread.start()
    faulthandler.enable(_crash_report(directory, uid))
    sys.stdin = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115 (for the life of the process)
    sys.argv = [""]
    when_imported("joblib.parallel", _offer_threads)
    runner.install()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    gc.freeze()  # later collections look at the bodies' objects only
    gc.enable()
    installed.set_result(None)
    lane.serve()
    routines.close()
    sys.exit(0 if thread.stopped else "this worker can't serve")


def _offer_threads(parallel: ModuleType) -> None:
    from wool_jupyter.worker.joblib_threads import NAME, ThreadsInstead

    parallel.register_parallel_backend(NAME, ThreadsInstead)


def _crash_report(directory: str, uid: str) -> int:
    """A descriptor of its own: descriptor 2 belongs to the running cell."""
    return os.open(
        layout.crash_report(Path(directory), uid), os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o600
    )
