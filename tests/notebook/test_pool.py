"""The pool of a notebook: when it starts, who runs a cell, and what is left of it."""

# ruff: noqa: E501 (a case is a line)

import os
import re
import signal
from pathlib import Path

import psutil
import pytest

from tests.support.kernel import Kernel
from tests.support.pools import hold_still
from tests.support.waiting import wait_until
from wool_jupyter.discovery.root import kernel_namespace

POOLS = Path(f"/dev/shm/wool-{os.getuid()}/1")
STARTED = r"wool: started a pool .*for this notebook\n"


def pids(kernel):
    return [int(pid) for pid in re.findall(r"pid (\d+)", kernel.ok("%wool status").stdout)]


def family(kernel):
    return psutil.Process(kernel.pid).children(recursive=True)


def pool_directories():
    return {path for path in POOLS.glob("k*/*") if path.is_dir()}


def test_the_first_cell_starts_the_pool_and_says_so(fresh_kernel):
    assert fresh_kernel.ok("%wool status").stdout == "wool: no pool runs; the next %%wool cell starts one\n"
    result = fresh_kernel.wool("print('ran')")
    assert re.fullmatch(STARTED + "ran\n", result.stdout)
    assert fresh_kernel.wool("print('again')").stdout == "again\n"


def test_cells_in_a_row_run_in_one_process_that_is_not_the_kernel(kernel):
    ran_in = {kernel.wool("import os; os.getpid()").value for _ in range(10)}
    assert len(ran_in) == 1
    assert int(ran_in.pop()) != kernel.pid


def test_a_cell_whose_worker_died_before_it_began_runs_on_another_as_if_nothing_was(fresh_kernel):
    pid = int(fresh_kernel.wool("x = 1\nimport os; os.getpid()").value)
    fresh_kernel.ok(
        "from wool_jupyter import host\nhost.is_stopped = lambda pid: False"
    )  # as if it came right after that look
    hold_still(pid)
    cell = fresh_kernel.begin("%%wool\nprint('on', os.getpid())\nx += 1\nimport time; time.sleep(60)")
    namespace = POOLS / kernel_namespace(fresh_kernel.manager.connection_file)
    wait_until(lambda: list(namespace.glob("*/calls/*")))
    os.kill(pid, signal.SIGKILL)
    cell.wait_for("on ")
    fresh_kernel.interrupt()
    result = cell.result()
    assert result.error.ename == "KeyboardInterrupt"
    assert int(result.stdout.split()[-1]) != pid
    assert fresh_kernel.value("x") == 2


def test_the_number_of_workers_can_be_fixed(fresh_kernel):
    assert "started" in fresh_kernel.ok("%wool start -n 2").stdout
    wait_until(lambda: len(pids(fresh_kernel)) == 2)
    assert "runs already" in fresh_kernel.ok("%wool start").stdout
    assert len(pids(fresh_kernel)) == 2


def test_start_with_another_number_is_heeded_or_said(fresh_kernel):
    fresh_kernel.ok("%wool start -n 1")
    text = fresh_kernel.ok("%wool start -n 3").stdout
    if "restart" not in text:
        wait_until(lambda: len(pids(fresh_kernel)) == 3)


BEGINNING = """\
import sys, threading, psutil
from wool_jupyter.notebook import on_demand
with on_demand.beginning():
    print('wool_jupyter.pool.kernel_pool' in sys.modules)
    def of_the_pool():
        return [each for each in psutil.Process().children(recursive=True) if 'wool_jupyter.worker' in each.cmdline()]
    while not (found := of_the_pool()):
        threading.Event().wait(0.01)
    begun = found[0].pid
"""


def test_its_first_worker_starts_while_the_rest_of_the_pool_is_imported_and_is_the_one_that_runs_the_cell(fresh_kernel):
    code = f"{BEGINNING}    get_ipython().run_cell_magic('wool', '', 'import os; ran_in = os.getpid()')"
    assert fresh_kernel.ok(code).stdout.startswith("False\n")
    assert fresh_kernel.value("begun == ran_in")
    assert fresh_kernel.ok("%wool stop").stdout == "wool: stopped the pool\n"


def test_a_pool_that_was_begun_and_not_asked_for_leaves_no_process_and_no_file(fresh_kernel):
    namespace = POOLS / kernel_namespace(fresh_kernel.manager.connection_file)
    assert (
        fresh_kernel.ok(f"{BEGINNING}    began = __import__('os').path.isdir({str(namespace)!r})").stdout == "False\n"
    )
    assert fresh_kernel.value("began")
    assert not namespace.exists()
    wait_until(lambda: not family(fresh_kernel))
    assert fresh_kernel.ok("%wool status").stdout == "wool: no pool runs; the next %%wool cell starts one\n"
    assert fresh_kernel.wool("1 + 1").value == "2"


def test_who_begins_nothing_ends_nothing_that_another_thread_has_begun(fresh_kernel):
    in_passing = """\
    def in_passing():
        with on_demand.beginning():
            pass
    thread = threading.Thread(target=in_passing)
    thread.start()
    thread.join()
    get_ipython().run_cell_magic('wool', '', 'import os; ran_in = os.getpid()')
"""
    fresh_kernel.ok(BEGINNING + in_passing)
    assert fresh_kernel.value("begun == ran_in")


def test_a_first_cell_that_is_no_python_starts_no_pool(fresh_kernel):
    assert fresh_kernel.wool_error("x = (").ename == "SyntaxError"
    wait_until(lambda: not family(fresh_kernel))
    assert fresh_kernel.ok("%wool status").stdout == "wool: no pool runs; the next %%wool cell starts one\n"


def test_stop_ends_the_workers_and_is_idempotent(fresh_kernel):
    fresh_kernel.ok("%wool start -n 2")
    workers = [child for child in family(fresh_kernel) if "wool_jupyter.worker" in child.cmdline()]
    assert len(workers) >= 1
    assert fresh_kernel.ok("%wool stop").stdout == "wool: stopped the pool\n"
    wait_until(lambda: not any(worker.is_running() for worker in workers))
    assert fresh_kernel.ok("%wool stop").stdout == "wool: no pool runs\n"
    assert re.fullmatch(STARTED + "1\n", fresh_kernel.wool("print(1)").stdout)


def test_restart_gives_new_workers(fresh_kernel):
    before = fresh_kernel.wool("import os; os.getpid()").value
    fresh_kernel.ok("%wool restart")
    assert fresh_kernel.wool("import os; os.getpid()").value != before


def test_status_lists_each_worker_on_a_line(fresh_kernel):
    fresh_kernel.ok("%wool start -n 1")
    assert re.fullmatch(r"worker [0-9a-f]{8}  pid \d+  idle  .*  \d+ s old\n", fresh_kernel.ok("%wool status").stdout)


def test_options_by_config(fresh_kernel):
    fresh_kernel.ok("%config Wool.workers = 1")
    fresh_kernel.wool("pass")
    assert len(pids(fresh_kernel)) == 1


@pytest.mark.parametrize("now", [pytest.param(False, id="asked"), pytest.param(True, id="killed")])
def test_a_kernel_that_ends_leaves_no_process_and_no_file(now):
    before = pool_directories()
    kernel = Kernel()
    kernel.ok("%load_ext wool_jupyter")
    kernel.wool("import subprocess\nchild = subprocess.Popen(['sleep', '1000']).pid")
    children = family(kernel)
    made = pool_directories() - before
    assert len(children) >= 3
    assert made
    kernel.shutdown(now=now)
    wait_until(lambda: not any(child.is_running() and child.status() != "zombie" for child in children))
    wait_until(lambda: not any(path.exists() for path in made))


def test_a_kernel_that_ends_during_a_cell_leaves_nothing(tmp_path):
    kernel = Kernel()
    kernel.ok("%load_ext wool_jupyter")
    running = kernel.begin(
        "%%wool\nimport hashlib\nprint('busy', flush=True)\nhashlib.pbkdf2_hmac('sha256', b'a', b'b', 300_000_000)"
    )
    running.wait_for("busy")
    children = family(kernel)
    assert children
    kernel.shutdown(now=True)
    wait_until(lambda: not any(child.is_running() and child.status() != "zombie" for child in children))


def test_a_restarted_kernel_has_no_pool_and_starts_anew(fresh_kernel):
    fresh_kernel.wool("import os; x = os.getpid()")
    children = family(fresh_kernel)
    assert children
    fresh_kernel.restart()
    fresh_kernel.ok("%load_ext wool_jupyter")
    assert "no pool runs" in fresh_kernel.ok("%wool status").stdout
    wait_until(lambda: not any(child.is_running() and child.status() != "zombie" for child in children))
    assert re.fullmatch(STARTED + "1\n", fresh_kernel.wool("print(1)").stdout)


def test_the_kernel_can_fork_while_a_pool_runs(fresh_kernel):
    fresh_kernel.wool("x = 1")
    fresh_kernel.ok(
        "import multiprocessing as mp\ndef square(i): return i * i\nwith mp.get_context('fork').Pool(2) as p: y = p.map(square, [1, 2])"
    )
    assert fresh_kernel.value("y") == [1, 4]
    assert fresh_kernel.wool("print(x)").stdout == "1\n"


def test_shell_commands_of_the_kernel_show_their_own_output_only(fresh_kernel):
    fresh_kernel.wool("x = 1")
    shown = {fresh_kernel.ok("!echo hi").stdout.replace("\r", "") for _ in range(60)}
    assert shown == {"hi\n"}


def test_the_worker_starts_no_user_files_and_writes_none(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    kernel = Kernel(env={**os.environ, "HOME": str(home), "IPYTHONDIR": str(home / "ipython")})
    try:
        kernel.ok("%load_ext wool_jupyter")
        before = set(home.rglob("*"))
        kernel.wool("x = 1")
        assert {path for path in home.rglob("*") if not path.name.startswith("history.sqlite")} <= before
    finally:
        kernel.shutdown()
