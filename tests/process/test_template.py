"""Workers that are forked from a process which has imported libraries: like those that are started, only sooner there."""

import asyncio
import json
import os
import re
import signal
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import psutil
import pytest

from tests.support.loops import until
from tests.support.pools import lives, pool_in, pool_processes, spawned
from tests.support.waiting import wait_until
from tests.support.worker_process import Worker, pool_directory
from wool_jupyter.nursery.client import Nursery
from wool_jupyter.pool.home import Home
from wool_jupyter.settings import PoolSettings
from wool_jupyter.wire import layout
from wool_jupyter.wire.start_ledger import StartLedger

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers are forked on Linux only")

TIMEOUT_S = 60
PYTHON = [sys.executable, "-P", "-X", "faulthandler", "-m"]


class Bench:
    def __init__(self, nursery, pool):
        self.nursery, self.pool = nursery, pool
        self.log = layout.log(pool)

    async def prepares(self, *modules, environment=None):
        command = [*PYTHON, "wool_jupyter.worker.template", str(self.nursery.pid), *modules]
        self.nursery.prepare(command, environment=environment or os.environ, log=self.log)
        await self.nursery.prepared()

    async def worker(self, *, environment=None):
        uid = str(uuid4())
        StartLedger.create(layout.ledger(self.pool, uid))
        child = await spawned(
            self.nursery,
            uid,
            [*PYTHON, "wool_jupyter.worker"],
            [uid, str(self.pool), str(self.nursery.pid)],
            environment=environment or os.environ,
            log=self.log,
            timeout_s=TIMEOUT_S,
        )
        return child, Worker(self.pool, None, child.pid, child.report, None)

    async def says(self, source, *, state=None, **options):
        """What a cell prints on a new worker, and how that process came to be."""
        child, worker = await self.worker(**options)
        outcome, text = await worker.run(source, state)
        assert not outcome.error, outcome.error
        return text.strip(), self.way_of(child.pid)

    @staticmethod
    def way_of(pid):
        """Of one that was forked the beginning of its name stands where that of the template stood."""
        arguments = psutil.Process(pid).cmdline()
        (short,) = re.findall("^[0-9a-f]{8}", arguments[arguments.index("wool_jupyter.worker") + 1])
        return "forked" if short in arguments else "started"


@asynccontextmanager
async def bench_of(*modules):
    with pool_directory() as pool:
        nursery = await Nursery.launch([pool], log=layout.log(pool), environment=os.environ)
        try:
            bench = Bench(nursery, pool)
            await bench.prepares(*modules)
            yield bench
        finally:
            await nursery.shutdown()


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 2 * TIMEOUT_S))


PROCESS = """
import json, os, pathlib, signal, sys
numbers = set(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP}
status = pathlib.Path("/proc/self/status").read_text()
print(json.dumps({
    "parent": os.getppid(),
    "leads": (os.getsid(0), os.getpgid(0)) == (os.getpid(), os.getpid()),
    "cwd": os.getcwd(),
    "environment": sorted(os.environ.items()),
    "path": sys.path,
    "signals": {n: str(signal.getsignal(n)).partition(" at 0x")[0] for n in sorted(numbers)},
    "masks": [line for line in status.splitlines() if line.startswith(("SigBlk", "SigIgn"))],
    "descriptors": sorted(pathlib.Path(os.readlink(f"/proc/self/fd/{n}")).name.partition(":")[0] for n in range(3)),
    "open": len(os.listdir("/proc/self/fd")),
    "umask": os.umask(0o22),
    "streams": [(stream.encoding, stream.errors) for stream in (sys.__stdout__, sys.__stderr__)],
    "argv": sys.argv,
    "main": sorted(vars(sys.modules["__main__"])),
}))
"""


def test_a_forked_worker_is_like_one_that_was_started():
    async def main():
        async with bench_of() as bench:
            forked, way = await bench.says(PROCESS)
            assert way == "forked"
            os.kill(bench.nursery.template_pid, signal.SIGKILL)
            await asyncio.to_thread(wait_until, lambda: bench.nursery.template_pid is None)
            started, way = await bench.says(PROCESS)
            assert way == "started"
            assert json.loads(forked) == json.loads(started)
            assert json.loads(forked)["parent"] == bench.nursery.pid

    run(main())


def test_each_process_of_a_pool_is_known_by_its_name():
    async def main():
        async with bench_of("numpy") as bench:
            (forked, _), (started, _) = await bench.worker(), await bench.worker(environment={**os.environ, "A": "1"})
            nursery, template = bench.nursery.pid, bench.nursery.template_pid
            seen = [psutil.Process(pid) for pid in (nursery, template, forked.pid, started.pid)]
            assert [each.name() for each in seen] == ["wool nursery", "wool template", "wool worker", "wool worker"]
            given = [str(nursery), "numpy"]
            assert seen[1].cmdline() == [*PYTHON, "wool_jupyter.worker.template", *given]
            assert seen[2].cmdline() == [*PYTHON, "wool_jupyter.worker", forked.uid[:8], *given]

    run(main())


@pytest.mark.parametrize("variables", [{}, {"OPENBLAS_NUM_THREADS": "2"}, {"OMP_NUM_THREADS": "1"}])
def test_blas_has_the_threads_that_a_started_worker_gives_it(variables, monkeypatch):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    source = (
        "import numpy, os, threadpoolctl\n"
        "print([each['num_threads'] for each in threadpoolctl.threadpool_info()],"
        " [os.environ.get(n) for n in ('OPENBLAS_NUM_THREADS', 'JE_ARROW_MALLOC_CONF')])\n"
    )

    async def main():
        async with bench_of("numpy") as bench:
            started, way = await bench.says(source, environment={**os.environ, "OTHER": "1"})
            assert way == "started"
            assert await bench.says(source) == (started, "forked")

    run(main())


def test_another_environment_or_a_template_that_is_not_up_yet_is_a_plain_start():
    async def main():
        async with bench_of() as bench:
            assert (await bench.says("pass", environment={**os.environ, "MORE": "1"}))[1] == "started"
            assert (await bench.says("pass"))[1] == "forked"
            os.kill(bench.nursery.template_pid, signal.SIGSTOP)
            assert (await bench.says("pass"))[1] == "started"  # it does not answer
            assert bench.nursery.template_pid is None

    run(main())


@pytest.fixture
def modules_at(tmp_path, monkeypatch):
    def write(**sources):
        for name, source in sources.items():
            (tmp_path / f"{name}.py").write_text(source)
        monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{Path.cwd()}")

    return write


def test_libraries_are_there_and_nobody_shares_random_numbers(modules_at):
    modules_at(draws="import numpy.random\nnumpy.random.random()\n")  # as older versions do when they are imported
    source = (
        "import sys, uuid\n"
        "there = 'numpy' in sys.modules\n"
        "import numpy\n"
        "print(there, numpy.random.random(), uuid.uuid4())"
    )

    async def main():
        async with bench_of("draws") as bench:
            (one, way), (other, _) = [
                await bench.says(source, state={}) for _ in range(2)
            ]  # without this process's numbers
            assert way == "forked"
            assert one.startswith("True ")
            assert not set(one.split()[1:]) & set(other.split()[1:])

    run(main())


def test_a_module_that_starts_a_thread_or_can_not_be_imported_is_left_out(modules_at):
    modules_at(
        spins="import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n",
        breaks="raise OSError('no licence')\n",
        fine="",
    )

    async def main():
        async with bench_of("breaks", "spins", "fine") as bench:
            said = await bench.says("import sys; print([n for n in ('breaks', 'spins', 'fine') if n in sys.modules])")
            assert said == ("['fine']", "forked")
            log = bench.log.read_text()
            assert "breaks is not preloaded: OSError: no licence" in log
            assert "spins is not preloaded: its import starts threads" in log

    run(main())


def test_a_module_that_crashes_when_it_is_imported_costs_the_forks_only(modules_at):
    modules_at(crashes="import ctypes\nctypes.string_at(0)\n")

    async def main():
        async with bench_of("crashes") as bench:
            assert bench.nursery.template_pid is None
            assert (await bench.says("pass"))[1] == "started"

    run(main())


def test_a_thread_that_comes_later_ends_the_forks(modules_at):
    modules_at(
        waits="import signal, threading\n"
        "signal.signal(signal.SIGUSR1, lambda *_: threading.Thread(target=threading.Event().wait, daemon=True).start())\n"
    )

    async def main():
        async with bench_of("waits") as bench:
            template = psutil.Process(bench.nursery.template_pid)
            template.send_signal(signal.SIGUSR1)
            await asyncio.to_thread(wait_until, lambda: template.num_threads() > 1)
            assert (await bench.says("pass"))[1] == "started"

    run(main())


def test_its_end_is_told_with_code_and_signal_and_nothing_is_left_of_it():
    async def main():
        async with bench_of() as bench:
            child, _ = await bench.worker()
            os.kill(child.pid, signal.SIGSEGV)
            assert (await asyncio.wait_for(child.exited, TIMEOUT_S)).signal == signal.SIGSEGV
            child, _ = await bench.worker()
            template = psutil.Process(bench.nursery.template_pid)
            nursery = psutil.Process(bench.nursery.pid)
            assert {each.pid for each in nursery.children(recursive=True)} == {template.pid, child.pid}  # no go-between
            bench.nursery.kill(child.uid)
            assert (await asyncio.wait_for(child.exited, TIMEOUT_S)).signal == signal.SIGKILL

    run(main())


def test_it_outlives_the_template_and_not_the_nursery():
    async def main():
        async with bench_of() as bench:
            child, worker = await bench.worker()
            template = psutil.Process(bench.nursery.template_pid)
            template.kill()
            await asyncio.to_thread(wait_until, lambda: bench.nursery.template_pid is None)
            assert (await worker.run("print(1 + 1)"))[1] == "2\n"
            await bench.prepares()
            template = psutil.Process(bench.nursery.template_pid)
            os.kill(bench.nursery.pid, signal.SIGKILL)
            await asyncio.to_thread(wait_until, lambda: not lives(template) and not psutil.pid_exists(child.pid))

    run(main())


def test_what_the_children_of_a_worker_leave_is_reaped():
    orphan = (
        "import os\n"
        "if os.fork() == 0:\n"
        "    pid = os.fork()\n"
        "    if pid == 0:\n"
        "        os.setsid(); os._exit(0)\n"
        "    print(pid, flush=True); os._exit(0)\n"
        "_ = os.wait()"
    )

    async def main():
        async with bench_of() as bench:
            pid = int((await bench.says(orphan))[0])
            await asyncio.to_thread(wait_until, lambda: not psutil.pid_exists(pid))

    run(main())


def test_a_pool_forks_its_spare_and_what_it_replaces():
    async def main():
        home = await Home.enter()
        try:
            pool = await pool_in(home, PoolSettings(workers=2))
            try:
                gone = set()
                for _ in range(2):
                    await until(lambda gone=gone: len({each.pid for each in pool.crew.snapshot()} - gone) == 2)
                    *_, latest = pool.crew.snapshot()
                    assert Bench.way_of(latest.pid) == "forked"
                    gone = {pool.crew.snapshot()[0].pid}
                    os.kill(*gone, signal.SIGKILL)
            finally:
                await pool.stop()
            await until(lambda: len(pool_processes(os.getpid())) == 1)  # the nursery stays for the next pool
        finally:
            await home.leave()

    run(main())
