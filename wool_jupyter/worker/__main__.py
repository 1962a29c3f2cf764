"""A worker process: `python -P -m wool_jupyter.worker UID DIRECTORY NURSERY_PID`, with the ready pipe on descriptor 3.

side thread   the gRPC loop: no user code
main thread   bodies, one at a time
"""

import asyncio
import faulthandler
import json
import os
import signal
import sys
import threading
import traceback
from pathlib import Path

from wool_jupyter import host
from wool_jupyter.wire import layout
from wool_jupyter.wire.credentials import read_token
from wool_jupyter.worker.cell.routine import cell_routine
from wool_jupyter.worker.cell.runner import CellRunner
from wool_jupyter.worker.lanes import MainLane
from wool_jupyter.worker.service import WorkerService

_READY_FD = 3


class RpcLoop(asyncio.SelectorEventLoop):
    """Pins what `nest_asyncio.apply()` in a cell would replace on the base class, under a loop that runs."""

    _run_once = asyncio.SelectorEventLoop._run_once  # type: ignore[attr-defined]
    run_forever = asyncio.SelectorEventLoop.run_forever
    run_until_complete = asyncio.SelectorEventLoop.run_until_complete
    _check_running = asyncio.SelectorEventLoop._check_running  # type: ignore[attr-defined]


_Task = asyncio.Task


async def _serve(lane: MainLane, runner: CellRunner, directory: str, uid: str) -> None:
    runner.gate.watch(asyncio.get_running_loop())
    service = WorkerService({"cell": cell_routine(lane, runner)}, token=read_token(directory))
    address = f"unix:{layout.socket(Path(directory), uid)}"
    await service.start(address)
    report = {"address": address, "pid": os.getpid()}
    with os.fdopen(_READY_FD, "w", encoding="utf-8") as ready:
        ready.write(json.dumps(report) + "\n")
    await asyncio.get_running_loop().create_future()  # until the nursery ends this process


def _side_thread(lane: MainLane, runner: CellRunner, directory: str, uid: str) -> None:
    loop = RpcLoop()
    loop.set_task_factory(lambda loop, coroutine, **options: _Task(coroutine, loop=loop, **options))
    asyncio.set_event_loop(loop)
    try:
        loop.run_until_complete(_serve(lane, runner, directory, uid))
    except BaseException:  # noqa: BLE001 (said in the log before the process ends)
        traceback.print_exc(file=sys.__stderr__)
    finally:  # a cell may have broken even what prints
        lane.close()  # it could not serve: the main thread must not wait for ever


def main(uid: str, directory: str, nursery_pid: str) -> None:
    host.die_with_parent(int(nursery_pid))
    os.set_inheritable(_READY_FD, False)
    # gRPC's threads and the side thread inherit a mask without SIGINT, which so reaches the main thread alone.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    lane, runner = MainLane(), CellRunner()
    thread = threading.Thread(target=_side_thread, args=(lane, runner, directory, uid), name="wool-rpc", daemon=True)
    thread.start()
    faulthandler.enable(_crash_report(directory, uid))
    sys.stdin = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115 (for the life of the process)
    sys.argv = [""]
    runner.install()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    lane.serve()
    sys.exit("this worker can't serve")


def _crash_report(directory: str, uid: str) -> int:
    """A descriptor of its own: descriptor 2 belongs to the running cell."""
    return os.open(
        layout.crash_report(Path(directory), uid), os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o600
    )


if __name__ == "__main__":
    main(*sys.argv[1:4])
