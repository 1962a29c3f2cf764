"""A worker process as the nursery starts it."""

import asyncio
import fcntl
import os
import select
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import pytest

from tests.support.channels import opened
from tests.support.loops import run, until
from tests.support.waiting import wait_until
from tests.support.worker_process import ended, pool_directory, started
from tests.support.workers import VERSION
from wool_jupyter.dispatch import channels
from wool_jupyter.dispatch.grpc_link import GrpcLink
from wool_jupyter.errors import NotReached, WorkerRefused
from wool_jupyter.records import WorkerMetadata
from wool_jupyter.wire import cells, frames, layout
from wool_jupyter.wire.credentials import read_token
from wool_jupyter.wire.start_ledger import StartLedger


@pytest.fixture
def pool():
    with pool_directory() as directory:
        yield directory


def test_it_reports_ready_with_its_address_and_pid(pool):
    uid = str(uuid4())
    with started(pool, uid=uid) as worker:
        assert worker.report == {"address": f"unix:{pool}/s/{uid[:8]}", "pid": worker.pid}
        assert (pool / "s" / uid[:8]).is_socket()


HELD = """\
import faulthandler
def held(*args, enable=faulthandler.enable):
    open({fifo!r}).read()
    enable(*args)
faulthandler.enable = held
"""


async def answers(metadata, token):
    while True:
        with suppress(NotReached):  # it does not listen yet
            async with opened(metadata, token) as channel:
                return await channel.ask(metadata, frames.Idle)
        await asyncio.sleep(0)


def test_it_is_not_ready_before_its_main_thread_is_though_it_answers(pool, tmp_path):
    """Until then a crash leaves no report."""
    fifo, uid = tmp_path / "fifo", uuid4()
    os.mkfifo(fifo)
    (tmp_path / "sitecustomize.py").write_text(HELD.format(fifo=str(fifo)))
    StartLedger.create(layout.ledger(pool, str(uid)))
    socket = layout.socket(pool, str(uid))
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}
    command = [sys.executable, "-P", "-m", "wool_jupyter.worker", str(uid), str(pool), str(os.getpid())]
    read, low = os.pipe()
    write = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, 10)  # not 3 itself
    os.close(low)
    pid = os.posix_spawn(command[0], command, environment, file_actions=[(os.POSIX_SPAWN_DUP2, write, 3)])
    os.close(write)
    try:
        run(answers(WorkerMetadata(uid, f"unix:{socket}", pid, VERSION), read_token(str(pool))))
        assert select.select([read], [], [], 0)[0] == []
        with fifo.open("w"):  # the main thread reads it
            pass
        assert select.select([read], [], [], 20)[0] == [read]
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(read)


def test_it_runs_a_cell_and_needs_the_pools_token(pool):
    with started(pool) as worker:

        async def main():
            with pytest.raises(WorkerRefused, match="token"):
                async with opened(worker.metadata, "wrong"):
                    pass
            outcome, said = await worker.run("print('hello')")
            assert isinstance(outcome, cells.Outcome)
            assert said == "hello\n"

        run(main())


LOADED = """\
import sys
print([name for name in ("grpc", "email") if any(each.startswith(name) for each in sys.modules)])
"""


def test_what_its_first_cell_does_not_need_is_not_imported(pool):
    """Each of these takes milliseconds, for which the first cell would wait."""
    with started(pool) as worker:
        _, said = run(worker.run(LOADED))
        assert said == "[]\n"


@contextmanager
def by_grpc(monkeypatch):
    """Channels that are opened inside."""
    with monkeypatch.context() as patch:
        patch.setattr(channels, "socket_of", lambda target: None)
        yield


def test_it_serves_clients_that_come_by_grpc_and_loads_it_for_the_first(pool, monkeypatch):
    with started(pool) as worker:

        async def main():
            assert (await worker.run(LOADED))[1] == "[]\n"
            with by_grpc(monkeypatch):
                for _ in range(2):
                    outcome, said = await worker.run(LOADED)
                    assert isinstance(outcome, cells.Outcome)
                    assert "grpc" in said

        run(main())
        assert worker.log == ""


def test_a_client_that_comes_by_grpc_while_a_cell_runs_is_no_part_of_the_cell(pool, tmp_path, monkeypatch):
    """gRPC is loaded then, and has threads: a cell goes on as long as one of its own does."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with started(pool) as worker:

        async def main():
            running = asyncio.create_task(worker.run(f"open({str(fifo)!r}).read(); import threading"))
            with await asyncio.to_thread(fifo.open, "w"), by_grpc(monkeypatch):  # the cell reads it
                async with opened(worker.metadata, worker.token) as channel:
                    assert type(channel._link) is GrpcLink
            outcome, _ = await running
            assert not outcome.error
            assert not outcome.goes_on
            assert "Thread" in (await worker.run("import threading; print(threading.enumerate())"))[1]

        run(main())


def test_it_collects_the_garbage_of_cells_and_not_what_it_has_imported(pool):
    with started(pool) as worker:
        _, said = run(worker.run("import gc; print(gc.isenabled(), gc.get_freeze_count() > 20_000)"))
        assert said == "True True\n"


def test_modules_that_lie_in_its_working_directory_do_it_no_harm(pool, tmp_path):
    """Notebooks lie beside files called `random.py`."""
    for name in ("random", "asyncio", "grpc", "json", "wool_jupyter"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong one')\n")
    with started(pool, cwd=tmp_path) as worker:
        assert worker.report["pid"] == worker.pid


def test_an_interrupt_of_an_idle_worker_does_nothing(pool):
    with started(pool) as worker:
        for _ in range(3):
            os.kill(worker.pid, signal.SIGINT)
            _, said = run(worker.run("print('still here')"))
            assert said == "still here\n"
        assert worker.log == ""


def open_to_sigint(pid):
    """Its threads that take one."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        status = dict(line.split(":\t", 1) for line in (task / "status").read_text().splitlines())
        if not int(status["SigBlk"], 16) >> (signal.SIGINT - 1) & 1:
            found.append(int(task.name))
    return found


def test_an_interrupt_reaches_the_main_thread_only(pool):
    """A side thread that took it would leave a blocking call in the main thread alone."""
    with started(pool) as worker:
        wait_until(lambda: worker.pid in open_to_sigint(worker.pid))
        assert open_to_sigint(worker.pid) == [worker.pid]


def test_it_dies_with_its_parent(pool):
    with started(pool) as worker:
        os.kill(worker.parent.pid, signal.SIGKILL)
        wait_until(lambda: ended(worker.pid), 10)


def test_it_dies_with_its_parent_in_the_middle_of_a_c_call(pool):
    """No thread of its own could see to that: the call holds the lock of the interpreter."""
    with started(pool) as worker:

        async def main():
            running = asyncio.create_task(worker.run("print('busy'); sum(range(10**11))"))
            calls = pool / "calls"
            await until(lambda: running.done() or any(path.stat().st_size for path in calls.glob("*/stdout")))
            os.kill(worker.parent.pid, signal.SIGKILL)
            await asyncio.gather(running, return_exceptions=True)

        run(main())
        wait_until(lambda: ended(worker.pid), 10)


def test_it_ends_at_once_when_its_parent_has_died_already(pool):
    """Between its start and its wish to die with it."""
    command = [sys.executable, "-P", "-m", "wool_jupyter.worker", str(uuid4()), str(pool), "1"]
    done = subprocess.run(command, timeout=30, check=False, capture_output=True)
    assert done.returncode == 1
    assert not any((pool / "s").iterdir())


def test_a_worker_that_cannot_serve_ends_instead_of_waiting(pool):
    """Its nursery waits for the end of the pipe."""
    (pool / "token").unlink()
    with pytest.raises(AssertionError, match=r"(?s)not ready.*FileNotFoundError"), started(pool):
        pass


def test_the_pipe_of_the_report_is_not_left_to_child_processes(pool):
    with started(pool) as worker:
        _, said = run(worker.run("import subprocess; print(subprocess.getoutput('ls -l /proc/self/fd'))"))
        assert worker.ready_pipe not in said
        assert "->" in said


def test_a_crash_leaves_its_stack_in_a_file_of_its_own(pool):
    uid = str(uuid4())
    with started(pool, uid=uid) as worker:

        async def main():
            with pytest.raises(Exception, match="broke"):
                await worker.run("import ctypes\nctypes.string_at(0)")

        run(main())
        assert worker.exit_code() == -signal.SIGSEGV
        assert "Segmentation fault" in (pool / f"crash-{uid[:8]}").read_text()
