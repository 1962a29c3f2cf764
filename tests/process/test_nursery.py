import asyncio
import json
import os
import signal
import subprocess
import sys
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from tests.support.pools import spawned
from tests.support.waiting import wait_until
from wool_jupyter.errors import StartFailed
from wool_jupyter.nursery.client import Nursery
from wool_jupyter.nursery.exits import Exit

TIMEOUT_S = 30

READY = """\
import json, os, signal, subprocess, sys
def ready(**report):
    os.write(3, json.dumps(report).encode() + b"\\n")
"""
IDLE = READY + "ready(pid=os.getpid())\nsignal.pause()\n"


@pytest.fixture
def directory(tmp_path):
    path = tmp_path / "namespace" / "generation"
    (path / "s").mkdir(parents=True)
    (path / "token").write_text("secret")
    return path


def alive(pid: int) -> bool:
    """A zombie has ended: its memory and files are gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@asynccontextmanager
async def nursery_of(directory: Path, **environment: str):
    environment = {**os.environ, **environment}
    nursery = await Nursery.launch([directory], log=directory.parent.parent / "nursery.log", environment=environment)
    try:
        yield nursery
    finally:
        await nursery.shutdown()


async def spawn(nursery: Nursery, script: str, *arguments: str, log: Path, uid: str = "w", **options):
    command = [sys.executable, "-c", script, *arguments]
    return await spawned(nursery, uid, command, log=log, **options)


async def until_exit(child) -> Exit:
    return await asyncio.wait_for(child.exited, TIMEOUT_S)


def test_worker_that_reports_is_ready(directory, tmp_path):
    async def main():
        async with nursery_of(directory) as nursery:
            child = await spawn(nursery, READY + "ready(port=7, name='ü')\nsignal.pause()\n", log=tmp_path / "log")
            assert child.report == {"port": 7, "name": "ü"}
            assert alive(child.pid)
            assert os.getsid(child.pid) == child.pid
            assert os.getsid(nursery.pid) == nursery.pid
            assert (tmp_path / "log").stat().st_mode & 0o777 == 0o600
        assert not alive(child.pid)
        assert (await until_exit(child)).signal == signal.SIGKILL

    asyncio.run(main())


def test_worker_starts_as_a_plain_process_would(directory, tmp_path):
    script = READY + (
        "dispositions = [signal.getsignal(n) in (signal.SIG_DFL, signal.default_int_handler)"
        " for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)]\n"
        "mask = os.umask(0)\n"
        "ready(argv=sys.argv[1:], cwd=os.getcwd(), mask=mask, blocked=len(signal.pthread_sigmask(0, [])),"
        " own=all(dispositions), variable=os.environ.get('SET_FOR_IT'), stdin=sys.stdin.read(),"
        " fds=sorted(int(fd) for fd in os.listdir('/proc/self/fd'))[:-1])\n"
    )

    async def main():
        async with nursery_of(directory) as nursery:
            environment = {**os.environ, "SET_FOR_IT": "caf\udce9"}
            options = {"environment": environment, "directory": tmp_path}
            child = await spawn(nursery, script, "a b", log=tmp_path / "log", **options)
            mask = os.umask(0)
            os.umask(mask)
            assert child.report == {
                "argv": ["a b"],
                "cwd": str(tmp_path),
                "mask": mask,
                "blocked": 0,
                "own": True,
                "variable": "caf\udce9",
                "stdin": "",
                "fds": [0, 1, 2, 3],
            }

    asyncio.run(main())


HELD = """\
import sys
if "wool_jupyter.nursery" in sys.orig_argv:
    class Held:
        def find_spec(self, name, path, target=None):
            if name == {module!r}:
                open({fifo!r}).read()
    sys.meta_path.insert(0, Held())
"""


def test_a_first_worker_does_not_wait_for_what_the_nursery_needs_later(directory, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    held = HELD.format(module="wool_jupyter.discovery.claim", fifo=str(fifo))
    (tmp_path / "sitecustomize.py").write_text(held)
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}

    async def main():
        log = tmp_path / "log"
        nursery = await Nursery.launch([directory], log=log, environment=environment)
        try:
            command = [sys.executable, "-c", IDLE]
            order = nursery.order("w", command, environment=os.environ, log=log)
            child = await nursery.delivered(order, timeout_s=TIMEOUT_S)
            assert alive(child.pid)
            with await asyncio.to_thread(fifo.open, "w"):  # the nursery reads it
                pass
        finally:
            await nursery.shutdown()

    asyncio.run(main())


def test_a_nursery_that_does_not_come_up_is_told_to_each_who_has_ordered(directory, tmp_path):
    async def main():
        nursery = await Nursery.launch([directory], log=tmp_path / "log", environment={"PYTHONHOME": "/nonexistent"})
        asking = [spawn(nursery, IDLE, log=tmp_path / "log", uid=uid) for uid in ("a", "b")]
        for error in await asyncio.gather(*asking, return_exceptions=True):
            assert isinstance(error, StartFailed)
            assert str(error).startswith("The process that looks after the workers exited with code 1")
        with pytest.raises(StartFailed, match="is gone"):
            await spawn(nursery, IDLE, log=tmp_path / "log")

    asyncio.run(main())


@pytest.mark.parametrize(
    ("script", "words"),
    [
        pytest.param("sys.exit(3)", "exited with code 3 before it was ready", id="code"),
        pytest.param("sys.exit(0)", "exited with code 0 before it was ready", id="in-order"),
        pytest.param("os.kill(os.getpid(), 9)", "was killed by SIGKILL before it was ready", id="signal"),
        pytest.param("os.write(3, b'{}')\nsys.exit(4)", "exited with code 4", id="half-a-report"),
        pytest.param("os.write(3, b'rubbish\\n')\nsignal.pause()", "not JSON", id="rubbish"),
    ],
)
def test_end_before_the_report_is_told_with_the_log(directory, tmp_path, script, words):
    async def main():
        async with nursery_of(directory) as nursery:
            noise = "for n in range(50): print('line', n, flush=True)\nprint('why', file=sys.stderr, flush=True)\n"
            with pytest.raises(StartFailed, match=words) as caught:
                await spawn(nursery, READY + noise + script, log=tmp_path / "log")
            lines = str(caught.value).splitlines()
            assert lines[-2:] == ["  line 49", "  why"]
            assert len(lines) == 16

    asyncio.run(main())


def test_worker_that_reports_too_late_is_killed(directory, tmp_path):
    script = "import os, signal; print(os.getpid(), flush=True); signal.pause()"

    async def main():
        log = tmp_path / "log"
        async with nursery_of(directory) as nursery:
            with pytest.raises(StartFailed, match=r"was not ready after 1\.5 s") as caught:
                await spawn(nursery, script, log=log, timeout_s=1.5)
            pid = int(str(caught.value).split()[-1])
            await asyncio.to_thread(wait_until, lambda: not alive(pid))

    asyncio.run(main())


def test_cancelled_start_leaves_no_worker(directory, tmp_path):
    script = "import os, signal; print(os.getpid(), flush=True); signal.pause()"

    async def main():
        log = tmp_path / "log"
        async with nursery_of(directory) as nursery, asyncio.TaskGroup() as tasks:
            starting = tasks.create_task(spawn(nursery, script, log=log))
            await asyncio.to_thread(wait_until, lambda: log.exists() and log.read_text().endswith("\n"))
            starting.cancel()
            await asyncio.to_thread(wait_until, lambda: not alive(int(log.read_text())))

    asyncio.run(main())


@pytest.mark.parametrize("fault", ["command", "directory", "log"])
def test_worker_that_cannot_be_started_says_why(directory, tmp_path, fault):
    async def main():
        async with nursery_of(directory) as nursery:
            missing = tmp_path / "missing" / "missing"
            command = [str(missing) if fault == "command" else sys.executable, "-c", IDLE]
            log = missing if fault == "log" else tmp_path / "log"
            where = missing if fault == "directory" else tmp_path
            with pytest.raises(StartFailed, match=r"can't be started: .*No such file or directory"):
                await spawned(nursery, "w", command, log=log, directory=where)
            child = await spawn(nursery, IDLE, log=tmp_path / "log")
            assert alive(child.pid)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("ending", "code", "number", "words"),
    [
        pytest.param("sys.exit(0)", 0, None, "exited with code 0", id="in-order"),
        pytest.param("os._exit(77)", 77, None, "exited with code 77", id="code"),
        pytest.param("os.kill(os.getpid(), 11)", None, signal.SIGSEGV, "was killed by SIGSEGV", id="signal"),
        pytest.param("os.kill(os.getpid(), 40)", None, 40, "was killed by signal 40", id="nameless-signal"),
    ],
)
def test_exit_is_reported_exactly(directory, tmp_path, ending, code, number, words):
    async def main():
        async with nursery_of(directory) as nursery:
            script = READY + "block = b'x' * (64 << 20)\nready()\n" + ending
            ended = await until_exit(await spawn(nursery, script, log=tmp_path / "log"))
            assert (ended.code, ended.signal, ended.in_words()) == (code, number, words)
            assert 64 << 20 < ended.peak_rss_bytes < 256 << 20

    asyncio.run(main())


BROKEN = """\
import sys
class Broken:
    def find_spec(self, name, path=None, target=None):
        if name == "wool_jupyter.nursery.sweeping":
            raise ImportError("a broken environment")
sys.meta_path.insert(0, Broken())
"""


def test_a_nursery_that_cannot_import_how_to_sweep_keeps_its_workers(directory, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(BROKEN)

    async def main():
        async with nursery_of(directory, PYTHONPATH=str(tmp_path)) as nursery:
            for uid in ("first", "second"):  # it tries when one is ready
                child = await spawn(nursery, IDLE, log=tmp_path / "log", uid=uid)
                assert await nursery.signal(uid, signal.SIGUSR1) is True
                assert (await until_exit(child)).signal == signal.SIGUSR1

    asyncio.run(main())
    assert "a broken environment" in (tmp_path / "nursery.log").read_text()


def test_signal_reaches_the_worker_and_is_acknowledged(directory, tmp_path):
    script = READY + "signal.signal(signal.SIGUSR1, lambda *_: os._exit(5))\nready()\nwhile True: signal.pause()\n"

    async def main():
        async with nursery_of(directory) as nursery:
            child = await spawn(nursery, script, log=tmp_path / "log")
            assert await nursery.signal("w", signal.SIGUSR1) is True
            assert (await until_exit(child)).code == 5
            assert await nursery.signal("w", signal.SIGUSR1) is False
            assert await nursery.signal("unknown", signal.SIGUSR1) is False

    asyncio.run(main())


def test_interrupt_of_the_worker_is_a_keyboard_interrupt(directory, tmp_path):
    script = READY + "try:\n    ready(); signal.pause()\nexcept KeyboardInterrupt:\n    sys.exit(6)\n"

    async def main():
        async with nursery_of(directory) as nursery:
            child = await spawn(nursery, script, log=tmp_path / "log")
            await nursery.signal("w", signal.SIGINT)
            assert (await until_exit(child)).code == 6

    asyncio.run(main())


def test_workers_are_independent(directory, tmp_path):
    async def main():
        async with nursery_of(directory) as nursery:
            starts = [spawn(nursery, IDLE, log=tmp_path / name, uid=name) for name in "abc"]
            first, second, third = await asyncio.gather(*starts)
            nursery.kill("b")
            assert (await until_exit(second)).signal == signal.SIGKILL
            assert alive(first.pid)
            assert alive(third.pid)
            with pytest.raises(ValueError, match="runs already"):
                await spawn(nursery, IDLE, log=tmp_path / "log", uid="a")
            again = await spawn(nursery, IDLE, log=tmp_path / "log", uid="b")
            assert alive(again.pid)

    asyncio.run(main())


WITH_CHILD = READY + (
    "child = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'])\n"
    "ready(child=child.pid)\nsignal.pause()\n"
)


@pytest.mark.parametrize("ending", ["exit", "kill", "shutdown"])
def test_children_of_a_worker_go_with_it(directory, tmp_path, ending):
    async def main():
        async with nursery_of(directory) as nursery:
            child = await spawn(nursery, WITH_CHILD, log=tmp_path / "log")
            assert alive(child.report["child"])
            if ending == "exit":
                os.kill(child.pid, signal.SIGTERM)
            elif ending == "kill":
                nursery.kill("w")
            else:
                await nursery.shutdown()
            await until_exit(child)
            await asyncio.to_thread(wait_until, lambda: not alive(child.report["child"]))

    asyncio.run(main())


def test_shutdown_ends_all_processes_and_leaves_the_files_to_the_kernel(directory, tmp_path):
    async def main():
        async with nursery_of(directory) as nursery:
            child = await spawn(nursery, IDLE, log=tmp_path / "log")
            await nursery.shutdown()
            assert not alive(nursery.pid)
            assert not alive(child.pid)
            assert nursery.lost.done()
            assert directory.exists()
            await nursery.shutdown()
            with pytest.raises(StartFailed, match="is gone"):
                await spawn(nursery, IDLE, log=tmp_path / "log")
            assert await nursery.signal("w", signal.SIGINT) is False

    asyncio.run(main())


def test_nursery_that_hangs_is_killed(directory, tmp_path):
    script = f"from wool_jupyter.host import die_with_parent; die_with_parent({{}})\n{IDLE}"

    async def main():
        async with nursery_of(directory) as nursery:
            child = await spawn(nursery, script.format(nursery.pid), log=tmp_path / "log")
            os.kill(nursery.pid, signal.SIGSTOP)
            await asyncio.wait_for(nursery.shutdown(), TIMEOUT_S)
            assert not alive(nursery.pid)
            assert await until_exit(child) == Exit(None, None, None)
            await asyncio.to_thread(wait_until, lambda: not alive(child.pid))

    asyncio.run(main())


def test_killed_nursery_takes_its_workers_along(directory, tmp_path):
    script = f"from wool_jupyter.host import die_with_parent; die_with_parent({{}})\n{IDLE}"

    async def main():
        async with nursery_of(directory) as nursery:
            child = await spawn(nursery, script.format(nursery.pid), log=tmp_path / "log")
            os.kill(nursery.pid, signal.SIGKILL)
            await asyncio.wait_for(nursery.lost, TIMEOUT_S)
            assert "ended with the process that looks after" in child.exited.result().in_words()
            await asyncio.to_thread(wait_until, lambda: not alive(child.pid))

    asyncio.run(main())


def test_terminated_nursery_takes_its_workers_along_and_is_named_as_the_cause(directory, tmp_path):
    async def main():
        async with nursery_of(directory) as nursery:
            child = await spawn(nursery, IDLE, log=tmp_path / "log")
            os.kill(nursery.pid, signal.SIGINT)
            os.kill(nursery.pid, signal.SIGTERM)
            await asyncio.wait_for(nursery.lost, TIMEOUT_S)
            assert not alive(child.pid)
            assert "ended with the process that looks after" in child.exited.result().in_words()
            assert directory.exists()

    asyncio.run(main())


def test_nursery_that_does_not_come_up_shows_its_log(directory, tmp_path):
    async def main():
        environment = {**os.environ, "PYTHONHOME": "/nonexistent"}
        nursery = await Nursery.launch([directory], log=tmp_path / "log", environment=environment)
        with pytest.raises(StartFailed, match=r"exited with code 1\n(.|\n)*No module named 'encodings'"):
            await spawn(nursery, IDLE, log=tmp_path / "log")
        assert nursery.lost.done()
        assert directory.exists()

    asyncio.run(main())


# A stand-in for a kernel: starts a nursery and a worker in the middle of a C call, says who they are, and stays.
KERNEL = """\
import asyncio, json, os, signal, sys
from pathlib import Path
from wool_jupyter.nursery.client import Nursery

BUSY = '''
import os, threading
os.write(3, b"{}\\\\n")
3 ** 300_000_000  # minutes
'''

async def main(directory, mode):
    log = Path(directory).parent.parent / "log"
    nursery = await Nursery.launch([Path(directory)], log=log, environment=os.environ)
    command = [sys.executable, "-c", BUSY]
    order = nursery.order("w", command, environment=os.environ, log=log)
    child = await nursery.delivered(order, timeout_s=30)
    fork = None
    if "fork" in mode:
        fork = os.fork()
        if fork == 0:
            if mode == "disowning-fork":
                nursery.disown()
                os._exit(0)
            signal.pause()
        if mode == "disowning-fork":
            os.waitpid(fork, 0)
    alive = await nursery.signal("w", 0)
    print(json.dumps({"nursery": nursery.pid, "worker": child.pid, "fork": fork, "alive": alive}), flush=True)
    if mode == "leaving":
        return
    await asyncio.Event().wait()

# A shell starts background jobs with SIGINT ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
asyncio.run(main(*sys.argv[1:]))
"""


def start_kernel(directory: Path, mode: str):
    command = [sys.executable, "-c", KERNEL, str(directory), mode]
    kernel = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    assert kernel.stdout is not None
    return kernel, json.loads(kernel.stdout.readline())


def test_a_kernel_that_was_killed_is_swept_by_links_and_not_through_them(directory, tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "kept").touch()
    (directory / "link").symlink_to(tmp_path / "outside")
    kernel, pids = start_kernel(directory, "alone")
    with kernel:
        kernel.kill()
        everything_is_gone(pids, directory)
    assert (tmp_path / "outside" / "kept").exists()


def everything_is_gone(pids: dict, directory: Path) -> None:
    wait_until(lambda: not alive(pids["worker"]))
    wait_until(lambda: not alive(pids["nursery"]))
    assert not directory.parent.exists()


def test_killed_kernel_leaves_nothing_though_the_worker_sits_in_c(directory):
    kernel, pids = start_kernel(directory, "alone")
    with kernel:
        assert alive(pids["worker"])
        assert directory.exists()
        kernel.kill()
        everything_is_gone(pids, directory)


def test_kernel_that_leaves_without_a_word_leaves_nothing(directory):
    kernel, pids = start_kernel(directory, "leaving")
    with kernel:
        everything_is_gone(pids, directory)


def test_fork_that_holds_the_socket_does_not_keep_it_alive(directory):
    kernel, pids = start_kernel(directory, "with-fork")
    try:
        with kernel:
            kernel.kill()
            kernel.wait()
            assert alive(pids["fork"])
            everything_is_gone(pids, directory)
            assert alive(pids["fork"])
            os.kill(pids["fork"], signal.SIGKILL)
    finally:
        with suppress(ProcessLookupError):
            os.kill(pids["fork"], signal.SIGKILL)


def test_fork_that_disowns_leaves_the_nursery_alone(directory):
    kernel, pids = start_kernel(directory, "disowning-fork")
    with kernel:
        assert pids["alive"] is True
        assert alive(pids["nursery"])
        assert alive(pids["worker"])
        kernel.kill()
        everything_is_gone(pids, directory)


def test_interrupt_of_the_kernel_s_group_reaches_neither(directory):
    kernel, pids = start_kernel(directory, "alone")
    with kernel:
        assert os.getpgid(pids["nursery"]) != kernel.pid
        assert os.getpgid(pids["worker"]) not in {kernel.pid, os.getpgid(pids["nursery"])}
        os.killpg(kernel.pid, signal.SIGINT)
        kernel.wait()
        everything_is_gone(pids, directory)
