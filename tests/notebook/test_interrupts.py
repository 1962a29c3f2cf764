"""■ pressed more than once, and ■ that can't reach the cell."""

import os
import signal
from pathlib import Path

import pytest

from tests.support.kernel import wool
from tests.support.waiting import wait_until

UNREACHABLE = (
    "import os, signal, time\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\n"  # as a C call that does not return
    "x = 1\nprint('busy', os.getpid(), flush=True)\ntime.sleep(600)"
)


def pid_of(running):
    return int(running.wait_for("busy").stdout.split()[1])


def is_gone(pid):
    return not Path(f"/proc/{pid}").exists()


def test_a_cell_that_works_on_for_twelve_seconds_after_an_interrupt_ends_well(kernel):
    """Longer than the grace: what has reached the cell is not escalated."""
    body = (
        "import time\ntry:\n    print('busy', flush=True)\n    time.sleep(600)\nexcept KeyboardInterrupt:\n"
        "    end = time.monotonic() + 12\n    while time.monotonic() < end:\n        time.sleep(0.1)\n    saved = True"
    )
    running = kernel.begin(wool(body))
    running.wait_for("busy")
    kernel.interrupt()
    result = running.result()
    assert (result.status, result.stderr) == ("ok", "")
    assert kernel.value("saved")


def test_a_cell_with_a_handler_of_its_own_stops_in_its_own_time(kernel):
    """As training loops do, which end the epoch first. It is longer than the grace, and the cell does not see KeyboardInterrupt."""
    body = """
        import signal, time
        stop = []
        signal.signal(signal.SIGINT, lambda *_: stop.append(time.monotonic()))
        print("busy", flush=True)
        while not stop or time.monotonic() < stop[0] + 12:
            time.sleep(0.1)
        saved = len(stop)
    """
    running = kernel.begin(wool(body))
    running.wait_for("busy")
    kernel.interrupt()
    result = running.result()
    assert (result.status, result.stderr) == ("ok", "")
    assert kernel.value("saved") == 1


def test_the_handler_that_a_cell_replaces_is_python_s_own(kernel):
    kernel.wool("import signal\nold = signal.signal(signal.SIGINT, print)\nsignal.signal(signal.SIGINT, old)")
    assert kernel.value("old is __import__('signal').default_int_handler")
    running = kernel.begin(
        wool("signal.signal(signal.SIGINT, old); import time; print('busy', flush=True); time.sleep(600)")
    )
    running.wait_for("busy")
    kernel.interrupt()
    assert running.result().error.ename == "KeyboardInterrupt"


def test_a_cell_that_ignores_interrupts_works_on(kernel):
    body = """
        import signal, time
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        print("busy", flush=True)
        end = time.monotonic() + 12
        while time.monotonic() < end:
            time.sleep(0.1)
        saved = True
    """
    running = kernel.begin(wool(body))
    running.wait_for("busy")
    kernel.interrupt()
    result = running.result()
    assert (result.status, result.stderr) == ("ok", "")
    assert kernel.value("saved")


def test_a_second_press_says_where_the_cell_stands(kernel, tmp_path):
    gate = tmp_path / "gate"
    body = (
        "import time\ntry:\n    print('busy', flush=True)\n    time.sleep(600)\nexcept KeyboardInterrupt:\n"
        "    print('handled', flush=True)\n    while not ready(): time.sleep(0.05)\nx = 3"
    )
    kernel.ok(f"import os\ndef ready(): return os.path.exists({str(gate)!r})")
    running = kernel.begin(wool(body))
    running.wait_for("busy")
    kernel.interrupt()
    running.wait_for("handled")
    kernel.interrupt()
    running.wait_for("was interrupted")
    gate.touch()
    result = running.result()
    assert result.status == "ok"
    assert "works on; ■ once more ends its worker" in result.stderr


def test_an_interrupt_that_takes_longer_than_a_look_at_the_cell_is_not_lost(fresh_kernel):
    """Under a debugger, say, or on a busy machine, where it comes just before the look."""
    fresh_kernel.ok(
        """
        import sys, time
        def traced(frame, event, arg):
            if "interrupts.py" in frame.f_code.co_filename: time.sleep(0.2)
        sys.settrace(traced)
        """
    )
    running = fresh_kernel.begin(wool("import time\nprint('begun', flush=True)\ntime.sleep(600)"))
    running.wait_for("begun")
    fresh_kernel.interrupt()
    assert running.result().error.ename == "KeyboardInterrupt"


def has_pending_interrupt(pid):
    masks = [line.split()[1] for line in Path(f"/proc/{pid}/status").read_text().splitlines() if "Pnd:" in line]
    return any(int(mask, 16) >> (signal.SIGINT - 1) & 1 for mask in masks)


def test_a_third_press_ends_the_worker_at_once(fresh_kernel):
    """In a worker without numpy, one of whose threads would take the signal."""
    fresh_kernel.ok("%wool start")
    running = fresh_kernel.begin(wool(UNREACHABLE))
    pid = pid_of(running)
    fresh_kernel.interrupt()
    wait_until(lambda: has_pending_interrupt(pid))  # presses that come together count as one
    fresh_kernel.interrupt()
    running.wait_for("has not reached the cell")
    fresh_kernel.interrupt()
    result = running.result()
    assert result.error.ename == "KeyboardInterrupt"
    assert "in a call that does not return" not in result.stderr
    assert "its worker was ended and is replaced" in result.stderr
    assert is_gone(pid)
    assert fresh_kernel.wool("1 + 1").value == "2"


@pytest.mark.parametrize("stopped", [False, True], ids=["masked", "stopped"])
def test_an_interrupt_that_does_not_reach_the_cell_ends_its_worker(kernel, stopped):
    running = kernel.begin(wool(UNREACHABLE))
    pid = pid_of(running)
    if stopped:
        os.kill(pid, signal.SIGSTOP)  # not even SIGTERM reaches it
    kernel.interrupt()
    result = running.result()
    assert result.error.ename == "KeyboardInterrupt"
    why = "its worker is stopped" if stopped else "it is in a call that does not return"
    assert f"the interrupt has not reached the cell in 10 s: {why}\n" in result.stderr
    assert "its worker was ended and is replaced" in result.stderr
    wait_until(lambda: is_gone(pid))
    assert kernel.wool("1 + 1").value == "2"


STORM = """
import os, random, signal, threading

def run(body):
    return get_ipython().run_cell_magic('wool', '', body)

untouched, ended = [], 0
for n in range(120):
    press = threading.Timer(random.Random(n).uniform(0, 0.03), os.kill, (os.getpid(), signal.SIGINT))
    try:  # it may come at once
        press.start()
    except KeyboardInterrupt:
        pass
    try:
        run("for i in range(300): sum(range(1000))")
    except KeyboardInterrupt:
        ended += 1
    try:  # a late one: here it is the plain cell's
        press.join()
        sum(range(1000))
    except KeyboardInterrupt:
        pass
    untouched.append(run("n = 'untouched'\\nn"))
"""


def test_an_interrupt_at_any_moment_never_reaches_another_cell(kernel):
    kernel.ok("import os")
    pid = kernel.wool("import os; os.getpid()").value
    kernel.ok(STORM)
    assert kernel.value("untouched") == ["untouched"] * 120
    assert kernel.value("0 < ended < 120")
    assert kernel.wool("os.getpid()").value == pid


def test_a_handler_of_a_cell_is_gone_with_the_cell(fresh_kernel):
    fresh_kernel.ok("%wool start -n 1")
    fresh_kernel.wool("""
        import signal
        signal.signal(signal.SIGINT, lambda *_: print("old"))
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    """)
    running = fresh_kernel.begin(wool("import os, time; print('busy', os.getpid(), flush=True)\ntime.sleep(600)"))
    pid_of(running)
    fresh_kernel.interrupt()
    result = running.result()
    assert (result.error.ename, result.stderr) == ("KeyboardInterrupt", "")
    assert "old" not in result.stdout


def test_results_that_never_end_are_given_up(kernel, tmp_path):
    fifo = tmp_path / "packs"
    os.mkfifo(fifo)
    running = kernel.begin(
        wool(f"""
            import time
            class Endless:
                def __getstate__(self):
                    open({str(fifo)!r}, "w").close()
                    while True: time.sleep(1)
            e = Endless()
        """)
    )
    fifo.read_text()
    kernel.interrupt()
    result = running.result()
    assert result.error.ename == "KeyboardInterrupt"
    assert "its worker was ended and is replaced" in result.stderr


PRESSES_DURING_AN_IMPORT = """
import importlib.abc, os, signal, sys
class Press(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "numpy.exceptions":  # after its core, which can be loaded once per process
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)
            for _ in range(1000): pass
sys.meta_path.insert(0, Press())
del Press
"""


@pytest.mark.parametrize("use", ["data = np.ones(3)", "np.random.seed(1); data = None"], ids=["inputs", "state"])
def test_an_interrupt_while_a_library_is_imported_for_the_inputs_leaves_the_worker_whole(fresh_kernel, use):
    fresh_kernel.ok("%wool start -n 1")
    fresh_kernel.wool(PRESSES_DURING_AN_IMPORT)
    fresh_kernel.ok(f"import numpy as np\n{use}")
    assert fresh_kernel.wool_error("ran = data").ename == "KeyboardInterrupt"
    assert not fresh_kernel.value("'ran' in globals()")
    assert fresh_kernel.wool("data; import numpy as np; np.isnan(np.ones(2)).any()").value == "np.False_"
