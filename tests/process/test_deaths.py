"""How the death of a worker is told: what is known, in words."""

import os
import re
import signal
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.loops import run, until
from tests.support.pools import pool_in
from tests.support.requests import cell_request
from tests.unit.test_host import make_cgroup
from wool_jupyter import host
from wool_jupyter.discovery.root import kernel_namespace
from wool_jupyter.errors import WorkerDied
from wool_jupyter.pool.home import Home
from wool_jupyter.settings import PoolSettings
from wool_jupyter.wire import cells


class Deaths:
    def __init__(self, pool, directory):
        self.pool, self.directory, self._number = pool, directory, 0

    async def begin(self, source):
        self._number += 1
        calls = self.directory / "calls" / str(self._number)
        calls.mkdir()
        return await self.pool.run("cell", cell_request(source, calls))

    async def end(self, source):
        """Its outcome."""
        return await self.outcome(await self.begin(source))

    async def outcome(self, call):
        try:
            return cells.decode_event(await call.step())
        finally:
            await call.close()

    async def obituary(self, source):
        """Without the sentence's begin, which names the pid."""
        call = await self.begin(source)
        return await self.obituary_of(call)

    async def obituary_of(self, call):
        with pytest.raises(WorkerDied) as caught:
            await self.outcome(call)
        begin = f"The worker (pid {call.worker.pid}) "
        assert str(caught.value).startswith(begin)
        return str(caught.value).removeprefix(begin)


@asynccontextmanager
async def deaths():
    with tempfile.TemporaryDirectory(prefix="w", dir="/tmp") as top:
        home = await Home.enter(kernel_namespace("/run/kernel.json"), within=Path(top))
        pool = await pool_in(home, PoolSettings(workers=1))
        try:
            yield Deaths(pool, home.directory)
        finally:
            await pool.stop()
            await home.leave()


SMALL = r"\d\d(\.\d)? MB"  # what a worker has that has run nothing
KILLED = r"was killed by SIGKILL, as the system does when memory runs out; its peak was {}"
WHERE = "; `%wool logs` shows where"

ENDS = [
    ("import os; os._exit(0)", "exited with code 0"),
    ("import os; os._exit(7)", "exited with code 7"),
    ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", "was killed by SIGTERM"),
    ("import os, signal; os.kill(os.getpid(), signal.SIGRTMIN + 3)", f"was killed by signal {signal.SIGRTMIN + 3}"),
    ("import ctypes; ctypes.string_at(0)", "was killed by SIGSEGV" + WHERE),
    ("import os; os.abort()", "was killed by SIGABRT" + WHERE),
    ("import faulthandler, ctypes; faulthandler.disable(); ctypes.string_at(0)", "was killed by SIGSEGV"),
    ("import os; os.kill(os.getpid(), 9)", KILLED.format(SMALL)),
    ("data = bytearray(b'1') * 300_000_000\nimport os; os.kill(os.getpid(), 9)", KILLED.format(r"3\d\d MB")),
    ("data = bytearray(b'1') * 1_200_000_000\nimport os; os.kill(os.getpid(), 9)", KILLED.format(r"1\.[23]\d? GB")),
]


def test_each_death_is_told_by_what_is_known():
    async def main():
        async with deaths() as workers:
            for source, words in ENDS:
                said = await workers.obituary(source)
                assert re.fullmatch(words, said), (source, said)

    run(main(), 60)


def test_kill_that_was_asked_for_is_not_laid_to_memory():
    async def main():
        async with deaths() as workers:
            call = await workers.begin("import signal; signal.pause()")
            await workers.pool.crew.kill(call.worker.uid)
            assert await workers.obituary_of(call) == "was killed by SIGKILL, as was asked"

    run(main())


def test_strike_of_the_out_of_memory_killer_since_the_start_is_told(monkeypatch, tmp_path):
    """Counted when a worker starts, not per cell, and compared when one is killed."""
    counted = []
    make_cgroup(tmp_path, "0::/a\n", {"a/memory.events": "max 3\noom 2\noom_kill 2\n"})
    (tmp_path / "proc/vmstat").write_text("nr_free_pages 1\noom_kill 5\n")
    count = host.oom_kills

    def counting():
        counted.append(count(tmp_path))
        return counted[-1]

    monkeypatch.setattr(host, "oom_kills", counting)

    async def main():
        async with deaths() as workers:
            assert counted == [7]
            for _ in range(3):
                assert isinstance(await workers.end("1"), cells.Outcome)
            assert counted == [7]
            call = await workers.begin("import signal; signal.pause()")
            member = workers.pool.crew.member(call.worker.uid)
            await until(lambda: member.ledger.has_begun(call._call.number))
            (tmp_path / "proc/vmstat").write_text("nr_free_pages 1\noom_kill 6\n")
            os.kill(call.worker.pid, signal.SIGKILL)
            said = await workers.obituary_of(call)
            assert re.fullmatch(rf"was killed by SIGKILL: the system ran out of memory; its peak was {SMALL}", said)
            await until(lambda: counted == [7, 8, 8])
            assert re.fullmatch(KILLED.format(SMALL), await workers.obituary("import os; os.kill(os.getpid(), 9)"))

    run(main())


@pytest.mark.parametrize(
    ("membership", "files", "count"),
    [
        pytest.param("0::/\n", {}, 0, id="no-files"),
        pytest.param("0::/a\n", {"a/memory.events": "low 0\noom 9\noom_kill 3\noom_group_kill 1\n"}, 3, id="v2"),
        pytest.param("0::/../b\n", {"memory.events": "oom_kill 4\n"}, 4, id="v2-namespace"),
        pytest.param("0::/a\n", {"unified/a/memory.events": "oom_kill 2\n"}, 2, id="v2-hybrid"),
        pytest.param("4:memory:/a\n0::/\n", {"memory/a/memory.oom_control": "under_oom 0\noom_kill 5\n"}, 5, id="v1"),
        pytest.param("0::/a\n", {"a/memory.events": "rubbish"}, 0, id="unreadable"),
    ],
)
def test_strikes_are_counted_by_the_system_and_by_the_group(tmp_path, membership, files, count):
    make_cgroup(tmp_path, membership, files)
    assert host.oom_kills(tmp_path) == count
    (tmp_path / "proc/vmstat").write_text("nr_free_pages 7\noom_kill 10\n")
    assert host.oom_kills(tmp_path) == count + 10


LIMITED = """\
import resource
now = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
limits = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (now + (64 << 20), limits[1]))
try:
    data = bytearray(256 << 20)
finally:
    resource.setrlimit(resource.RLIMIT_AS, limits)
"""


def test_memory_over_a_limit_of_the_process_is_an_error_of_the_cell(tmp_path):
    async def main():
        async with deaths() as workers:
            (before,) = workers.pool.crew.snapshot()
            outcome = await workers.end(LIMITED)
            assert isinstance(outcome, cells.Outcome)
            assert b"MemoryError" in cells.encode(outcome)
            assert [worker.pid for worker in workers.pool.crew.snapshot()] == [before.pid]
            assert isinstance(await workers.end("1"), cells.Outcome)

    run(main())


@pytest.fixture
def memory_group():
    """A cgroup of its own, of either version, with a limit of 256 MB."""
    top = Path("/sys/fs/cgroup")
    top = top / "memory" if (top / "memory").is_dir() else top
    group = top / f"wool-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"this user may make no cgroup: {error}")
    try:
        limit = next((group / n for n in ("memory.max", "memory.limit_in_bytes") if (group / n).exists()), None)
        if limit is None:
            pytest.skip("cgroups here limit no memory")
        limit.write_text(str(256 << 20))
        yield group
    finally:
        group.rmdir()


def test_memory_over_the_limit_of_a_group_is_told_as_that(memory_group):
    async def main():
        async with deaths() as workers:
            (worker,) = workers.pool.crew.snapshot()
            (memory_group / "cgroup.procs").write_text(str(worker.pid))
            said = await workers.obituary("data = bytearray(b'1') * (1 << 30)")
            # With the pages that it shares with others, which the group does not count.
            assert re.fullmatch(r"was killed by SIGKILL: the system ran out of memory; its peak was [23]\d\d MB", said)
            assert isinstance(await workers.end("1"), cells.Outcome)

    run(main())
