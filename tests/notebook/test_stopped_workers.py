"""Workers that are stopped from outside (SIGSTOP, a debugger): whoever waits for one is told, and other work goes elsewhere."""

import os
import signal

import pytest

from tests.support.kernel import wool
from tests.support.pools import hold_still
from tests.support.waiting import wait_until

WAITS = """
import os, time
print("busy", os.getpid(), flush=True)
while not os.path.exists({gate!r}):
    time.sleep(0.01)
print("done")
"""

SUBMITS = """
import wool_jupyter

def waits():
    exec({body!r})

wool_jupyter.pool().submit(waits).result()
"""


def pid_in(text):
    return int(text.partition("busy")[2].split()[0])


def line_of(pid):
    return f"wool: worker pid {pid} is stopped, by a signal or a debugger, until it is continued (`kill -CONT {pid}`)\n"


@pytest.mark.parametrize("kind", ["cell", "calls"])
def test_a_cell_whose_worker_is_stopped_says_so_once_and_goes_on_with_it(kernel, tmp_path, kind):
    body = WAITS.format(gate=str(tmp_path / "gate"))
    running = kernel.begin(wool(body) if kind == "cell" else SUBMITS.format(body=body))
    pid = pid_in(running.wait_for("busy").stdout)
    hold_still(pid)
    running.wait_for("(`kill -CONT")
    os.kill(pid, signal.SIGCONT)
    (tmp_path / "gate").touch()
    result = running.result()
    assert result.status == "ok"
    assert result.stdout.endswith("done\n")
    assert result.stderr == line_of(pid)


def test_a_job_whose_worker_is_stopped_says_so_under_its_cell(kernel, tmp_path):
    job = kernel.begin("%%wool --bg\n" + WAITS.format(gate=str(tmp_path / "gate")))
    job.result()
    shown = job.late(lambda result: "busy" in result.stdout)
    pid = pid_in(shown.stdout)
    hold_still(pid)
    shown = job.late(lambda result: result.stderr)
    assert shown.stderr == line_of(pid)
    os.kill(pid, signal.SIGCONT)
    (tmp_path / "gate").touch()
    kernel.ok("%wool wait")
    assert job.late(lambda result: "done" in result.stdout).stderr == line_of(pid)


def test_a_worker_that_is_stopped_while_it_is_idle_gets_no_cell(fresh_kernel):
    fresh_kernel.ok("%wool start -n 2")
    pid = int(fresh_kernel.wool("import os; os.getpid()").value)
    hold_still(pid)
    result = fresh_kernel.wool("os.getpid()")
    assert int(result.value) != pid
    assert result.stderr == ""


def test_a_cell_that_needs_a_stopped_worker_waits_for_it_with_a_line(fresh_kernel):
    pid = int(fresh_kernel.wool("import os; kept = (n for n in range(3)); os.getpid()").value)
    hold_still(pid)
    running = fresh_kernel.begin(wool("print(os.getpid(), list(kept))"))
    assert running.wait_for("(`kill -CONT").stderr == line_of(pid)
    os.kill(pid, signal.SIGCONT)
    result = running.result()
    assert (result.status, result.stdout) == ("ok", f"{pid} [0, 1, 2]\n")


def test_a_job_that_waits_for_stopped_workers_says_why(fresh_kernel):
    fresh_kernel.ok("%wool start -n 1")
    pid = int(fresh_kernel.wool("import os; os.getpid()").value)
    hold_still(pid)
    job = fresh_kernel.begin("%%wool --bg\nfound = os.getpid()")
    job.result()
    why = line_of(pid).removeprefix("wool: ").rstrip()
    job.late(lambda result: result.outputs[-1].text == f"wool: job 1 waits for a worker: {why}")
    assert f"job 1 waits for a worker: {why}  ·  In[" in fresh_kernel.ok("%wool jobs").stdout
    os.kill(pid, signal.SIGCONT)
    fresh_kernel.ok("%wool wait")
    assert fresh_kernel.value("found") == pid
    assert "stopped" not in fresh_kernel.ok("%wool jobs").stdout


def test_calls_that_wait_for_stopped_workers_say_why(fresh_kernel):
    fresh_kernel.ok("%wool start -n 1\nimport os, wool_jupyter\npool = wool_jupyter.pool()")
    pid = fresh_kernel.value("pool.submit(os.getpid).result()")
    hold_still(pid)
    running = fresh_kernel.begin("pool.submit(os.getpid).result()")
    assert running.wait_for("(`kill -CONT").stderr == line_of(pid)
    os.kill(pid, signal.SIGCONT)
    result = running.result()
    assert (int(result.value), result.stderr) == (pid, line_of(pid))


def test_an_awaited_call_runs_inside_the_body_when_the_other_worker_is_stopped(fresh_kernel):
    fresh_kernel.ok("%wool start -n 2\nimport os, wool_jupyter\npool = wool_jupyter.pool()")
    fresh_kernel.ok("from wool_jupyter.notebook.runtime import runtime")
    wait_until(lambda: fresh_kernel.value("len(runtime().workers())") == 2)
    pid = int(fresh_kernel.wool("os.getpid()").value)
    (other,) = set(fresh_kernel.value("[worker.pid for worker in runtime().workers()]")) - {pid}
    assert int(fresh_kernel.wool("await pool.submit(os.getpid)").value) == other
    hold_still(other)
    assert fresh_kernel.wool("os.getpid(), await pool.submit(os.getpid)").value == f"({pid}, {pid})"
    os.kill(other, signal.SIGCONT)
