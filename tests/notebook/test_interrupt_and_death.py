"""■, and workers that die."""

# ruff: noqa: E501 (a case is a line)

import re
import signal

import psutil
import pytest

from tests.support.kernel import wool
from tests.support.pools import nursery_of
from tests.support.waiting import wait_until

BUSY = [
    pytest.param("import time; time.sleep(600)", id="sleep"),
    pytest.param("while True: pass", id="loop"),
    pytest.param("while True: sum(range(1000))", id="sums"),
    pytest.param("import subprocess; subprocess.run(['sleep', '600'])", id="child"),
    pytest.param("!sleep 600", id="shell"),
    pytest.param("import asyncio; await asyncio.sleep(600)", id="await"),
    pytest.param("import asyncio; asyncio.run(asyncio.sleep(600))", id="asyncio.run"),
    pytest.param("import threading; threading.Event().wait()", id="event"),
    pytest.param("import queue; queue.Queue().get()", id="queue"),
    pytest.param("import select, os; select.select([os.pipe()[0]], [], [])", id="select"),
    pytest.param("import re; wait()", id="function of the notebook"),
]


@pytest.mark.parametrize("busy", BUSY)
def test_an_interrupted_cell_ends_with_its_names_on_the_same_worker(kernel, busy):
    kernel.ok("def wait():\n    import time\n    while True: time.sleep(0.01)")
    kernel.wool("import os; before = os.getpid()")
    running = kernel.begin(wool(f"x = [1]\nprint('busy', flush=True)\n{busy}\ny = 2"))
    running.wait_for("busy")
    kernel.interrupt()
    result = running.result()
    if busy == "!sleep 600":
        assert result.status in ("ok", "error")
    else:
        assert (result.status, result.error.ename) == ("error", "KeyboardInterrupt")
        assert not re.search("wool_jupyter|interactiveshell", result.error.traceback)
    assert kernel.value("x") == [1]
    assert kernel.wool("os.getpid() == before").value == "True"


def test_a_cell_that_handles_the_interrupt_ends_well(kernel):
    running = kernel.begin(
        wool(
            "import time\ntry:\n    print('busy', flush=True)\n    time.sleep(600)\nexcept KeyboardInterrupt:\n    print('saved')\nok = True\n'value'"
        )
    )
    running.wait_for("busy")
    kernel.interrupt()
    result = running.result()
    assert (result.status, result.stdout, result.value) == ("ok", "busy\nsaved\n", "'value'")
    assert kernel.value("ok")


def test_an_interrupted_cell_keeps_changes_of_its_inputs(kernel):
    kernel.ok("xs = []; alias = xs")
    running = kernel.begin(wool("import time\nxs.append(1)\nprint('busy', flush=True)\ntime.sleep(600)"))
    running.wait_for("busy")
    kernel.interrupt()
    running.result()
    assert kernel.value("(alias, alias is xs)") == ([1], True)


def test_an_interrupt_ends_the_question_of_a_cell(kernel):
    running = kernel.begin(wool("x = 1\nprint('asks', flush=True)\ninput('?')"), allow_stdin=True, answers=[])
    with pytest.raises(AssertionError, match="the cell asked"):
        running.wait_for("never")
    kernel.interrupt()
    assert running.result().error.ename == "KeyboardInterrupt"
    assert kernel.value("x") == 1
    assert kernel.wool("1").value == "1"


def test_an_interrupt_between_cells_harms_nothing(kernel):
    kernel.wool("x = 1")
    kernel.interrupt()
    assert kernel.run(wool("x += 1; x")).status in ("ok", "error")
    assert kernel.wool("'fine'").value == "'fine'"


def test_an_interrupt_while_the_pool_starts_ends_the_cell(fresh_kernel):
    running = fresh_kernel.begin(wool("import time; print('busy', flush=True); time.sleep(600)"))
    running.wait_for("busy")
    fresh_kernel.interrupt()
    assert running.result().error.ename == "KeyboardInterrupt"
    assert fresh_kernel.wool("1").value == "1"


def test_the_cells_that_follow_an_interrupt_are_not_run(kernel):
    running = kernel.begin(wool("import time; print('busy', flush=True); time.sleep(600)"))
    queued = kernel.begin("print('ran')")
    running.wait_for("busy")
    kernel.interrupt()
    assert running.result().status == "error"
    queued_status = next((m["content"].get("status") for m in kernel.strays if m["msg_type"] == "execute_reply"), None)
    assert queued_status in ("aborted", None)
    assert not any(m["msg_type"] == "stream" for m in kernel.strays)
    del queued


def test_a_third_interrupt_kills_a_worker_that_does_not_listen(kernel):
    kernel.wool("import os, signal; before = os.getpid()")
    running = kernel.begin(
        wool(
            "import os, time\nprint('busy', flush=True)\nwhile True:\n    try: time.sleep(600)\n    except KeyboardInterrupt: print('no', flush=True)"
        )
    )
    running.wait_for("busy")
    kernel.interrupt()
    running.wait_for("no\n")
    kernel.interrupt()
    running.wait_for("once more")
    kernel.interrupt()
    assert running.result().error.ename == "KeyboardInterrupt"
    assert kernel.wool("import os; os.getpid() != before").value == "True"


DEATHS = [
    pytest.param("import os; os._exit(3)", "exit code 3|ended with 3|exited with (code )?3|status 3", id="_exit"),
    pytest.param("import os; os._exit(0)", "0", id="_exit 0"),
    pytest.param("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "SIGKILL", id="SIGKILL"),
    pytest.param("import ctypes; ctypes.string_at(0)", "SIGSEGV", id="SIGSEGV"),
    pytest.param("import os; os.abort()", "SIGABRT", id="SIGABRT"),
    pytest.param("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", "SIGTERM", id="SIGTERM"),
    pytest.param(
        "import os, threading\nthreading.Thread(target=os._exit, args=(4,)).start()\nthreading.Event().wait()",
        "4",
        id="thread",
    ),
]


@pytest.mark.parametrize(("death", "words"), DEATHS)
def test_the_death_of_a_worker_ends_its_cell_in_words(kernel, death, words):
    kernel.ok("x = 'old'; xs = []")
    result = kernel.run(
        wool(f"x = 'new'\nxs.append(1)\nprint('shown')\nimport sys; print('err', file=sys.stderr)\n{death}")
    )
    assert (result.status, result.error.ename) == ("error", "WorkerDied")
    assert re.search(words, result.error.evalue)
    assert len(result.error.traceback.splitlines()) == 1
    assert result.stdout == "shown\n"
    assert "err\n" in result.stderr
    assert kernel.value("(x, xs)") == ("old", [])
    assert kernel.wool("x = 1; x").value == "1"


def test_text_that_was_written_without_a_flush_is_shown_after_a_death(kernel):
    result = kernel.run(wool("import os\nfor i in range(2000): print('line', i)\nos.kill(os.getpid(), 9)"))
    assert result.stdout.splitlines()[-1] == "line 1999"


def test_a_worker_that_dies_between_cells_is_replaced(kernel):
    pid = int(kernel.wool("import os; os.getpid()").value)
    psutil.Process(pid).send_signal(signal.SIGKILL)
    wait_until(lambda: not psutil.pid_exists(pid))
    assert int(kernel.wool("import os; os.getpid()").value) != pid


def test_deaths_in_a_row_never_use_up_the_pool(kernel):
    for _ in range(4):
        assert kernel.run(wool("import os; os._exit(1)")).error.ename == "WorkerDied"
    assert kernel.wool("'alive'").value == "'alive'"


def test_the_death_of_the_nursery_is_told_and_the_next_cell_starts_anew(fresh_kernel):
    fresh_kernel.wool("x = 1")
    nursery_of(fresh_kernel.pid).kill()
    wait_until(lambda: "no pool runs" in fresh_kernel.ok("%wool status").stdout)
    assert fresh_kernel.wool("print(x)").stdout.endswith("1\n")


def test_running_out_of_memory_is_an_error_of_the_cell(kernel):
    error = kernel.wool_error("import numpy as np\nnp.ones(10 ** 16)")
    assert error.ename in ("MemoryError", "_ArrayMemoryError")
    assert kernel.wool("1").value == "1"
