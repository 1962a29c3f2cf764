"""A worker process as the nursery starts it, without a nursery."""

import fcntl
import json
import os
import secrets
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from tests.support.channels import opened
from tests.support.requests import cell_request
from tests.support.waiting import wait_until
from tests.support.workers import VERSION
from wool_jupyter.notebook.outputs import TextReader
from wool_jupyter.records import WorkerMetadata
from wool_jupyter.wire import cells, layout
from wool_jupyter.wire.credentials import read_token
from wool_jupyter.wire.start_ledger import StartLedger

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


@contextmanager
def pool_directory():
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
        return WorkerMetadata(self.uid, self.report["address"], self.pid, VERSION)

    @property
    def token(self):
        return read_token(str(self.pool))

    async def run(self, source, state=None):
        """A cell without inputs: its outcome and its text. `state` is as for `cell_request`."""
        directory = self.pool / "calls" / uuid4().hex[:8]
        directory.mkdir()
        text = TextReader(str(directory))
        async with opened(self.metadata, self.token) as channel:
            call = channel.call(self.metadata, "cell", cell_request(source, directory, state))
            event = None
            while not call.ended:
                event = cells.decode_event(await call.step())
        said = "".join(part for _, part in text.rest())
        text.close()
        return event, said


@contextmanager
def started(pool, *, cwd="/", uid=None, environment=None):
    read, low = os.pipe()
    write = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, 10)  # not 3 itself
    os.close(low)
    uid = uid or str(uuid4())
    StartLedger.create(layout.ledger(pool, uid))
    command = [sys.executable, "-P", "-m", "wool_jupyter.worker", uid, str(pool)]
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(pool / "log"), str(write), *command],
        stdout=subprocess.PIPE,
        text=True,
        pass_fds=[write],
        cwd=cwd,
        env={**os.environ, **(environment or {})},
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
