"""Whatever ends the kernel, nothing of its pool stays; and what does not end it leaves the pool alone."""

import itertools
import os
import signal
import subprocess
import sys

import pytest

from tests.support import pools
from tests.support.kernel import Kernel
from tests.support.pools import lives
from tests.support.waiting import wait_until
from wool_jupyter.discovery import root

GONE_S = 10
LOAD = "%load_ext wool_jupyter"

# Each outlasts every test, unless it is ended.
HELD_IN_C = "print('begun', flush=True)\nsorted(range(200_000_000), key=lambda n: -n)"
COUNTING_IN_C = "print('begun', flush=True)\n3 ** 300_000_000"
WAITING = "import threading\nprint('begun', flush=True)\nthreading.Event().wait()"
WITH_A_CHILD = (
    "import subprocess, sys\nchild = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'])\n"
    "print('begun', flush=True)\nchild.wait()"
)

every_activity = pytest.mark.parametrize(
    "body",
    [
        pytest.param(None, id="idle"),
        pytest.param(WAITING, id="waiting"),
        pytest.param(COUNTING_IN_C, id="holding-the-gil"),
    ],
)


@pytest.fixture
def kernel(tmp_path):
    """In an empty folder."""
    kernel = Kernel(cwd=str(tmp_path))
    try:
        kernel.ok(LOAD)
        yield kernel
    finally:
        kernel.shutdown(now=True)


def value_of(kernel: Kernel, code: str) -> str | None:
    return kernel.ok(code).value


def pool_processes(kernel: Kernel):
    return pools.pool_processes(kernel.manager.provisioner.pid)


def pool_directories(kernel: Kernel):
    return pools.pool_directories(root.kernel_namespace(kernel.manager.connection_file))


def pool_of(kernel: Kernel, body: str | None = None):
    """Its processes and directories, which are there: idle after one cell, or with a cell that runs `body`."""
    assert value_of(kernel, "%%wool\nmade = 1\nmade + 1") == "2"
    # The first worker and the spare, beside the nursery and what it forks from; and nothing between that and a worker any more.
    wait_until(
        lambda: len(pools.pool_workers(kernel.manager.provisioner.pid)) == 2 and len(pool_processes(kernel)) == 4
    )
    if body is not None:
        kernel.begin(f"%%wool\n{body}").wait_for("begun")
    processes, directories = pool_processes(kernel), pool_directories(kernel)
    assert all(map(lives, processes))
    assert directories
    return processes, directories


def wait_until_gone(processes, directories) -> None:
    wait_until(lambda: not any(map(lives, processes)), GONE_S)
    wait_until(lambda: not any(path.exists() for path in directories), GONE_S)


@every_activity
def test_shutdown_leaves_nothing(kernel, body):
    pool = pool_of(kernel, body)
    kernel.manager.shutdown_kernel(now=False)
    wait_until_gone(*pool)


def test_shutdown_is_quiet(capfd, kernel):
    pool = pool_of(kernel)
    kernel.manager.shutdown_kernel(now=False)
    wait_until_gone(*pool)
    assert capfd.readouterr().err == ""


@every_activity
def test_restart_leaves_nothing_of_the_kernel_before(kernel, body):
    pool = pool_of(kernel, body)
    kernel.restart(now=False)
    wait_until_gone(*pool)
    assert not pool_processes(kernel)


@every_activity
def test_restart_now_leaves_nothing_of_the_kernel_before(kernel, body):
    pool = pool_of(kernel, body)
    kernel.restart(now=True)
    wait_until_gone(*pool)
    assert not pool_processes(kernel)


@every_activity
def test_sigkill_of_the_kernel_leaves_nothing(kernel, body):
    pool = pool_of(kernel, body)
    os.kill(kernel.manager.provisioner.pid, signal.SIGKILL)
    wait_until_gone(*pool)
    assert not pool_directories(kernel)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGABRT, signal.SIGSEGV], ids=lambda number: number.name)
def test_fatal_signal_to_the_kernel_leaves_nothing(kernel, number):
    pool = pool_of(kernel)
    os.kill(kernel.manager.provisioner.pid, number)
    if number == signal.SIGTERM:  # ipykernel lets it pass, like a terminal's hang-up
        kernel.manager.shutdown_kernel(now=False)
    wait_until_gone(*pool)


def test_sigkill_takes_the_children_of_a_cell_too(kernel):
    pool = pool_of(kernel, WITH_A_CHILD)
    assert len(pool[0]) == 5  # the nursery, what it forks workers from, two of them, and the child
    os.kill(kernel.manager.provisioner.pid, signal.SIGKILL)
    wait_until_gone(*pool)


def test_sort_in_c_does_not_outlive_the_kernel(kernel):
    pool = pool_of(kernel, HELD_IN_C)
    os.kill(kernel.manager.provisioner.pid, signal.SIGKILL)
    wait_until_gone(*pool)


def test_stop_while_the_kernel_goes_on_leaves_no_worker_and_a_home_that_goes_with_the_kernel(kernel):
    processes, directories = pool_of(kernel)
    nursery = processes[0]
    assert "stopped" in kernel.run("%wool stop").stdout
    wait_until(lambda: not any(lives(process) for process in processes if process != nursery), GONE_S)
    assert lives(nursery)
    assert pool_directories(kernel) == directories
    os.kill(kernel.pid, signal.SIGKILL)
    wait_until_gone(processes, directories)


def test_files_that_a_cell_removes_cost_the_pool_and_not_the_next_cell(kernel):
    """Or a cleaner of temporary files."""
    processes, (directory, *_) = pool_of(kernel)
    kernel.ok(f"import shutil; kept = 5; shutil.rmtree({str(directory.parent)!r})")
    result = kernel.run("%%wool\nkept + 1")
    assert (result.status, result.value, result.stderr) == ("ok", "6", "")
    wait_until(lambda: not any(map(lives, processes)), GONE_S)
    assert directory not in pool_directories(kernel)


def test_a_pool_that_was_stopped_starts_again_in_the_same_home(kernel):
    processes, directories = pool_of(kernel)
    kernel.ok("%wool stop")
    assert value_of(kernel, "%%wool\n1 + 1") == "2"
    assert pool_directories(kernel) == directories
    assert len([process for process in pool_processes(kernel) if process in processes]) == 1  # the nursery


@pytest.mark.parametrize(
    ("now", "rounds"),
    [(True, 5), (False, 5), pytest.param(True, 50, marks=[pytest.mark.thorough, pytest.mark.timeout(900)])],
)
def test_cell_right_after_a_restart_works_every_time(kernel, now, rounds):
    processes = []
    for round_number in range(rounds):
        assert value_of(kernel, f"%%wool\nn = {round_number}\nn") == str(round_number)
        processes.append(pool_processes(kernel))
        kernel.restart(now=now)
        kernel.ok(LOAD)
    assert value_of(kernel, "%%wool\n'works'") == "'works'"
    wait_until(lambda: not any(map(lives, itertools.chain(*processes))), GONE_S)
    assert len({path.name for path in pool_directories(kernel)}) == len(pool_directories(kernel))
    assert all(map(lives, pool_processes(kernel)))


def test_restart_right_after_the_first_cell_was_sent_leaves_nothing(kernel):
    """The pool is starting, so the nursery may not even have said that it is up."""
    for _ in range(5):
        kernel.begin("%%wool\n1")
        kernel.restart(now=True)
        kernel.ok(LOAD)
    assert not pool_processes(kernel)
    wait_until(lambda: not pool_directories(kernel), GONE_S)
    assert value_of(kernel, "%%wool\n'works'") == "'works'"


# Kernels that fork. `same` is the pool's processes before and after.


@pytest.fixture
def same(kernel):
    processes, _ = pool_of(kernel)

    def check() -> None:
        assert value_of(kernel, "%%wool\nmade + 1") == "2"
        assert all(map(lives, processes))
        assert pool_processes(kernel) == processes

    return check


def test_forked_child_that_exits_leaves_the_pool_alone(kernel, same):
    code = "import os\nchild = os.fork()\nif not child:\n    os._exit(7)\nos.waitstatus_to_exitcode(os.waitpid(child, 0)[1])"
    assert value_of(kernel, code) == "7"
    same()


def test_multiprocessing_with_fork_works_beside_a_pool(capfd, kernel, same):
    code = (
        "import multiprocessing\n"
        "def square(n):\n    return n * n\n"
        "with multiprocessing.get_context('fork').Pool(2) as forks:\n    squares = forks.map(square, range(4))\n"
        "squares"
    )
    assert value_of(kernel, code) == "[0, 1, 4, 9]"
    same()
    assert capfd.readouterr().err == ""  # gRPC's hooks would log


FORKED_CELL = (
    "import multiprocessing\n"
    "fork = multiprocessing.get_context('fork')\n"
    "answers = fork.Queue()\n"
    "def in_child():\n"
    "    try:\n"
    "        get_ipython().run_cell_magic('wool', '', 'y = 1')\n"
    "    except BaseException as error:\n"
    "        answers.put(f'{type(error).__name__}: {error}')\n"
    "    else:\n"
    "        answers.put('no error')\n"
    "child = fork.Process(target=in_child)\n"
    "child.start()\n"
    "said = answers.get(timeout=20)\n"
    "child.join(20)\n"
    "said, child.exitcode"
)


def test_cell_in_a_forked_child_is_a_clear_error(kernel, same):
    said = value_of(kernel, FORKED_CELL)
    assert "WoolError: " in said
    assert "forked" in said
    assert said.endswith(", 0)")
    same()


def test_pool_command_in_a_forked_child_is_harmless(kernel, same):
    code = FORKED_CELL.replace(
        "get_ipython().run_cell_magic('wool', '', 'y = 1')", "get_ipython().run_line_magic('wool', 'stop')"
    )
    assert value_of(kernel, code).endswith(", 0)")
    same()


def test_forked_child_before_any_pool_does_not_disturb_a_later_one(kernel):
    code = "import os\nchild = os.fork()\nif not child:\n    os._exit(7)\nos.waitpid(child, 0)[0] == child"
    assert value_of(kernel, code) == "True"
    pool_of(kernel)


FORKS_AND_EXITS = """\
import gc, os, sys
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "wool_jupyter")
shell.run_cell_magic("wool", "", "x = 20")
child = os.fork()
if child == 0:
    gc.collect()  # what the child drops of the pool would complain now
    sys.exit(7)
print("child ended with", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
shell.run_cell_magic("wool", "", "x += 1")
print("x is", shell.user_ns["x"])
"""


def test_forked_child_that_leaves_by_sys_exit_leaves_the_pool_alone(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", FORKS_AND_EXITS],
        cwd=tmp_path,
        check=False,
        env={**os.environ, "IPYTHONDIR": str(tmp_path), "VIRTUAL_ENV": sys.prefix},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.splitlines() == [
        "wool: started a pool of 2 worker processes for this notebook",
        "child ended with 7",
        "x is 21",
    ], done.stderr
    assert (done.returncode, done.stderr) == (0, "")


def test_fork_that_holds_the_sockets_open_does_not_keep_the_pool_alive(kernel, tmp_path):
    pool = pool_of(kernel)
    code = "import os, signal\nchild = os.fork()\nif not child:\n    signal.pause()\n    os._exit(0)\nchild"
    fork_pid = int(value_of(kernel, code))
    try:
        os.kill(kernel.manager.provisioner.pid, signal.SIGKILL)
        wait_until_gone(*pool)
        assert os.getpgid(fork_pid)
    finally:
        os.kill(fork_pid, signal.SIGKILL)


# Pools that do not start.

BROKEN = """\
import os, sys
if {module!r} in sys.orig_argv:
    print("sitecustomize is broken on purpose", file=sys.stderr, flush=True)
    os._exit(3)
"""


@pytest.mark.parametrize("module", ["wool_jupyter.nursery", "wool_jupyter.worker"])
def test_start_that_fails_says_why_once_and_the_next_one_works(kernel, tmp_path, module):
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(BROKEN.format(module=module))
    value_of(kernel, f"import os\nos.environ['PYTHONPATH'] = {str(site)!r}")

    error = kernel.wool_error("x = 1")
    assert error.ename == "StartFailed"
    assert "code 3" in error.evalue
    assert "sitecustomize is broken on purpose" in error.evalue.splitlines()[-1]
    assert error.traceback.count("StartFailed") == 1
    assert "wool_jupyter/" not in error.traceback
    wait_until(lambda: not pool_processes(kernel), GONE_S)
    wait_until(lambda: not pool_directories(kernel), GONE_S)

    (site / "sitecustomize.py").unlink()
    assert value_of(kernel, "%%wool\nx = 1\nx + 1") == "2"


@pytest.mark.parametrize("name", ["random", "json", "signal", "asyncio", "numpy"])
def test_file_beside_the_notebook_named_like_a_library_does_no_harm(kernel, tmp_path, name):
    (tmp_path / f"{name}.py").write_text("raise RuntimeError('not the library')")
    assert value_of(kernel, "%%wool\nmade = 1\nmade + 1") == "2"
