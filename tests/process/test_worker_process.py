"""A worker process as the nursery starts it."""

import asyncio
import fcntl
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from tests.support.channels import opened
from tests.support.loops import run, until
from tests.support.requests import cell_request
from tests.support.waiting import wait_until
from wool_jupyter.errors import WorkerRefused
from wool_jupyter.notebook.outputs import TextReader
from wool_jupyter.records import WorkerMetadata
from wool_jupyter.wire import cells, layout
from wool_jupyter.wire.credentials import read_token

# The process that starts a worker is its parent by a thread that lives as long as it does.
PARENT = """
import os, sys
log, write, *command = sys.argv[1:]
actions = [
    (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
    (os.POSIX_SPAWN_DUP2, 1, 2),
    (os.POSIX_SPAWN_DUP2, int(write), 3),
    (os.POSIX_SPAWN_CLOSE, int(write)),
]
pid = os.posix_spawn(sys.executable, [*command, str(os.getpid())], os.environ, file_actions=actions)
os.close(int(write))
print(pid, flush=True)
_, status = os.waitpid(pid, 0)
print(os.waitstatus_to_exitcode(status), flush=True)
"""


@pytest.fixture
def pool():
    with tempfile.TemporaryDirectory(prefix="w", dir="/tmp") as root:
        directory = Path(root) / "pool"
        for path in (directory, *(directory / folder for folder in layout.FOLDERS)):
            path.mkdir(mode=0o700)
        layout.token(directory).write_text(secrets.token_hex(32))
        yield directory


class Worker:
    def __init__(self, pool, parent, pid, report, ready_pipe):
        self.pool, self.parent, self.pid, self.report = pool, parent, pid, report
        self.ready_pipe = ready_pipe
        self.uid = uuid4()

    def exit_code(self):
        return int(self.parent.stdout.readline())

    @property
    def log(self):
        return (self.pool / "log").read_text()

    @property
    def metadata(self):
        return WorkerMetadata(self.uid, self.report["address"], self.pid, "1")

    async def run(self, source):
        """A cell without inputs: its outcome and its text."""
        directory = self.pool / "calls" / uuid4().hex[:8]
        directory.mkdir()
        text = TextReader(str(directory))
        async with opened(self.metadata, read_token(str(self.pool))) as channel:
            call = channel.call(self.metadata, "cell", cell_request(source, directory))
            event = None
            while not call.ended:
                event = cells.decode_event(await call.step())
        said = "".join(part for _, part in text.rest())
        text.close()
        return event, said


@contextmanager
def started(pool, *, cwd="/", uid=None):
    read, low = os.pipe()
    write = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, 10)  # not 3 itself
    os.close(low)
    uid = uid or str(uuid4())
    command = [sys.executable, "-P", "-m", "wool_jupyter.worker", uid, str(pool)]
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(pool / "log"), str(write), *command],
        stdout=subprocess.PIPE,
        text=True,
        pass_fds=[write],
        cwd=cwd,
    )
    os.close(write)
    with parent, os.fdopen(read) as ready:
        pid = int(parent.stdout.readline())
        try:
            line = ready.readline()
            rest = ready.read() if line else ""
            assert line, f"not ready: {(pool / 'log').read_text()}"
            assert rest == "", "the pipe is closed after one line"
            yield Worker(pool, parent, pid, json.loads(line), str(Path(f"/proc/self/fd/{read}").readlink()))
        finally:
            parent.kill()
            wait_until(lambda: ended(pid))


def ended(pid):
    """A zombie has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_it_reports_ready_with_its_address_and_pid(pool):
    uid = str(uuid4())
    with started(pool, uid=uid) as worker:
        assert worker.report == {"address": f"unix:{pool}/s/{uid[:8]}", "pid": worker.pid}
        assert (pool / "s" / uid[:8]).is_socket()


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


def test_an_interrupt_reaches_the_main_thread_only(pool):
    """A side thread that took it would leave a blocking call in the main thread alone."""
    with started(pool) as worker:
        wait_until(lambda: len(list(Path(f"/proc/{worker.pid}/task").iterdir())) > 1)
        open_to_sigint = []
        for task in Path(f"/proc/{worker.pid}/task").iterdir():
            status = dict(line.split(":\t", 1) for line in (task / "status").read_text().splitlines())
            if not int(status["SigBlk"], 16) >> (signal.SIGINT - 1) & 1:
                open_to_sigint.append(int(task.name))
        assert open_to_sigint == [worker.pid]


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
