"""`%wool doctor` and `%wool logs`: what a user pastes into a report."""

import io
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import nbformat
import psutil
import pytest

from tests.support.kernel import wool
from tests.support.waiting import wait_until
from wool_jupyter.discovery import claim
from wool_jupyter.discovery import root as roots
from wool_jupyter.notebook import doctor, logs

SECTIONS = ["versions", "places", "limits", "pool", "formatters and linters", "leftovers of dead pools"]


def sections(text):
    """Titles with their facts, each a label and a value."""
    found = {}
    for line in text.splitlines():
        if not line.startswith(" "):
            facts = found[line] = {}
        else:
            label, _, value = line.strip().partition("  ")
            facts[label] = value.strip()
    return found


@pytest.fixture
def only_place(tmp_path, monkeypatch):
    """The one candidate."""
    monkeypatch.setattr(roots, "default_candidates", lambda: [tmp_path])
    monkeypatch.setattr(roots, "temporary_directories", list)
    return tmp_path


def test_report_before_any_pool(fresh_kernel):
    report = sections(fresh_kernel.ok("%wool doctor").stdout)
    assert list(report) == SECTIONS
    assert report["versions"]["python"].startswith("3.")
    for name in ("wool_jupyter", "ipython", "ipykernel", "grpcio", "cloudpickle", "msgspec"):
        assert re.match(r"\d+\.\d+", report["versions"][name])
    assert sum(said.startswith("the root, ") for said in report["places"].values()) == 1
    assert re.match(r"\d+ usable: \d+ by affinity of \d+, (no quota|quota [\d.]+)$", report["limits"]["CPUs"])
    assert re.match(r"[\d.]+ [GM]B available, ", report["limits"]["memory"])
    assert re.search(r", \d+ used$", report["limits"]["open files"])
    assert report["pool"] == {"state": "no pool runs"}
    assert fresh_kernel.ok("%wool logs").stdout == "wool: no pool runs, so there is no log\n"
    assert fresh_kernel.value("'grpc' in __import__('sys').modules") is False
    assert psutil.Process(fresh_kernel.pid).children() == []


def test_report_of_a_pool_names_its_processes(fresh_kernel):
    fresh_kernel.ok("%wool start -n 1")
    pid = fresh_kernel.wool("import os; os.getpid()").value
    pool = sections(fresh_kernel.ok("%wool doctor").stdout)["pool"]
    (worker,) = [said for label, said in pool.items() if label.startswith("worker ")]
    assert re.fullmatch(rf"pid {pid}  idle  \d+ s old  sleeping  RSS [\d.]+ MB", worker)
    nursery = int(re.match(r"pid (\d+)  sleeping  RSS", pool["nursery"])[1])
    assert nursery in [child.pid for child in psutil.Process(fresh_kernel.pid).children()]
    assert pool["directory"].endswith(", there")
    assert pool["membership"] == "watched"


def test_report_of_a_pool_that_was_lost(fresh_kernel):
    fresh_kernel.ok("%wool start -n 1")
    (nursery,) = psutil.Process(fresh_kernel.pid).children()
    nursery.kill()
    wait_until(lambda: "no pool runs" in fresh_kernel.ok("%wool status").stdout)
    wait_until(lambda: nursery.status() == psutil.STATUS_ZOMBIE)  # its socket closes first, on its way out
    report = sections(fresh_kernel.ok("%wool doctor").stdout)
    assert report["pool"]["state"] == "lost: its nursery has ended"
    assert report["pool"]["nursery"].endswith("has ended")
    assert fresh_kernel.wool("print('works')").stdout.endswith("works\n")


def test_report_touches_no_object_of_the_user(kernel):
    kernel.ok("class Bad:\n    def __repr__(self): raise SystemError('touched')\nbad = Bad(); names = set(dir())")
    kernel.ok("%wool doctor")
    assert kernel.value("set(dir()) - names <= {'names', '_i', '_ii', '_iii'} | {f'_i{n}' for n in range(9)}")


def test_candidates_that_are_not_usable_have_reasons(only_place):
    (only_place / f"wool-{os.geteuid()}").write_text("in the way")
    report = sections(doctor.render(doctor.gather(None)))
    assert report["places"][str(only_place)] == f"not usable: wool-{os.geteuid()}: Not a directory"
    assert roots.OVERRIDE in report["places"]["root"]
    assert report["leftovers of dead pools"] == {"none": ""}


def test_leftovers_are_named_with_their_size(tmp_path_factory, monkeypatch):
    short = Path("/tmp", f"wd{os.getpid()}")
    short.mkdir()
    try:
        monkeypatch.setattr(roots, "default_candidates", lambda: [short])
        root = roots.choose_root({}, [short])
        dead, alive = root / "k0", root / "k1"
        dead.mkdir()
        (dead / "big").write_bytes(b"x" * (3 << 20))
        owned = claim.claim(alive, give_up=threading.Event())
        owned.stage(lambda _fd: None)
        left = sections(doctor.render(doctor.gather(None)))["leftovers of dead pools"]
        owned.release()
        assert list(left) == [str(dead)]
        assert re.fullmatch(r"3(\.\d+)? MB", left[str(dead)])
    finally:
        subprocess.run(["rm", "-r", str(short)], check=True)


def test_a_part_that_fails_costs_only_itself(only_place, monkeypatch):
    monkeypatch.setattr(doctor.host, "usable_cpus", lambda: 1 // 0)
    report = sections(doctor.render(doctor.gather(None)))
    assert list(report) == SECTIONS
    assert report["limits"]["not to be had"].startswith("ZeroDivisionError")


def test_a_system_without_proc_is_no_error(only_place, tmp_path):
    report = sections(doctor.render(doctor.gather(None, proc=tmp_path / "missing")))
    assert list(report) == SECTIONS


def test_a_pool_whose_files_can_not_be_watched_says_so(fresh_kernel):
    """And works: its membership is looked at instead."""
    fresh_kernel.ok("from wool_jupyter import host\nhost.watches_files = lambda: False\n%wool start -n 1")
    assert "looked at every 0.1 s" in sections(fresh_kernel.ok("%wool doctor").stdout)["pool"]["membership"]
    wait_until(lambda: "idle" in fresh_kernel.ok("%wool status").stdout)


def test_what_the_report_says_of_ruff_is_so(tmp_path, only_place):
    """Its names would be unknown in other cells."""
    cells = [nbformat.v4.new_code_cell(source) for source in ("%%wool\nx = 1", "print(x)")]
    notebook = nbformat.v4.new_notebook(cells=cells, metadata={"language_info": {"name": "python"}})
    nbformat.write(notebook, tmp_path / "notebook.ipynb")
    ruff = [sys.executable, "-m", "ruff", "check", "--no-cache"]
    told = sections(doctor.render(doctor.gather(None)))["formatters and linters"]["ruff"]
    table, _, setting = told.partition(": ")[2].partition("] ")
    assert subprocess.run([*ruff, "--isolated", tmp_path], check=False, capture_output=True).returncode == 1
    (tmp_path / "pyproject.toml").write_text(f"{table}]\n{setting}\n")
    assert subprocess.run([*ruff, tmp_path], check=False, capture_output=True).returncode == 0


# %wool logs


def test_logs_show_what_a_worker_wrote_outside_of_cells(fresh_kernel, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nif 'wool_jupyter.worker' in sys.orig_argv:\n    print('said at the start', file=sys.stderr)\n"
    )
    fresh_kernel.ok(f"import os; os.environ['PYTHONPATH'] = {str(tmp_path)!r}\n%wool start -n 1")
    first, *rest = fresh_kernel.ok("%wool logs").stdout.splitlines()
    assert re.fullmatch(r"wool: /\S+/log", first)
    assert Path(first.removeprefix("wool: ")).exists()
    assert rest == ["said at the start"]
    fresh_kernel.ok("%wool stop")
    assert fresh_kernel.ok("%wool logs").stdout.splitlines() == [first, *rest]


def test_logs_show_where_a_worker_crashed(fresh_kernel):
    fresh_kernel.ok("%wool start -n 1")
    assert "nothing was written outside of cells so far" in fresh_kernel.ok("%wool logs").stdout
    number = fresh_kernel.ok("import ctypes\ndef crash(call):\n    call(0)").execution_count
    error = fresh_kernel.wool_error("crash(ctypes.string_at)")
    assert "`%wool logs`" in error.evalue
    _, report = fresh_kernel.ok("%wool logs").stdout.split("\nwool: ")
    said, what, _, thread, *frames = report.splitlines()
    told = re.fullmatch(r"worker ([0-9a-f]{8}) crashed; the whole report is in (/\S+/crash-\1)", said)
    assert told
    assert what == "Fatal Python error: Segmentation fault"
    assert thread.startswith("Current thread ")
    assert re.fullmatch(r'  File ".*ctypes/__init__.py", line \d+ in string_at', frames[0])
    assert frames[1:] == [f"  Cell In[{number}], line 3 in crash", f"  Cell In[{number + 1}], line 2 in <module>"]
    whole = Path(told[2]).read_text()
    assert "wool_jupyter/worker" in whole
    assert "\nThread " in whole
    few = fresh_kernel.ok("%wool logs -n 2").stdout
    assert re.search(r"Segmentation fault\n\n\.\.\. \d+ lines more\n$", few)


def test_a_crash_in_lines_of_this_package_is_shown_whole(tmp_path):
    """As when a value's own code crashes where it is pickled."""
    frames = [f'  File "{logs.__file__}", line 3 in dump', '  File "/usr/lib/runpy.py", line 88 in _run_code']
    (tmp_path / "crash-0123abcd").write_text(
        "\n".join(["Fatal Python error: Aborted", "", "Thread 0x1:", "  other", "", "Current thread 0x2:", *frames])
    )
    assert logs.show(tmp_path).splitlines()[2:] == ["Fatal Python error: Aborted", "", "Current thread 0x2:", *frames]


def test_a_crash_of_no_python_thread_is_shown_whole(tmp_path):
    report = ["Fatal Python error: Aborted", "", "Thread 0x1:", "  other"]
    (tmp_path / "crash-0123abcd").write_text("\n".join(report))
    assert logs.show(tmp_path).splitlines()[2:] == report


def test_number_of_lines_has_to_be_one_that_can_be_shown(kernel):
    for line in ("logs -n 0", "doctor -n 3", "status -n 3"):
        assert kernel.run(f"%wool {line}").stderr.startswith("UsageError: ")
    kernel.ok("%wool logs -n 3")
    assert kernel.value("get_ipython().magics_manager.registry['Wool'].workers") is None


def test_last_lines_are_shown_and_the_rest_is_counted(tmp_path):
    (tmp_path / "log").write_text("".join(f"line {number}\n" for number in range(10)) + "\n\n")
    assert logs.show(tmp_path, lines=2).splitlines()[1:] == ["... 8 lines before", "line 8", "line 9"]
    assert logs.show(tmp_path, lines=10).splitlines()[1:] == [f"line {number}" for number in range(10)]


def test_log_of_odd_bytes_and_progress_bars_is_readable(tmp_path):
    (tmp_path / "log").write_bytes(b"\xff\xfe bytes\r\n 10%\r 20%\rdone\r\nlast")
    assert logs.show(tmp_path).splitlines()[1:] == ["�� bytes", "done", "last"]


def test_large_log_is_read_from_its_end():
    text = logs.text_of(io.BytesIO(b"x" * (1 << 20) + b"\nlast\n"))
    assert len(text) <= 256 << 10
    assert text.endswith("x\nlast\n")


def test_log_that_is_missing_is_said(tmp_path):
    assert logs.show(tmp_path) == f"wool: {tmp_path}/log can't be read: No such file or directory"


def test_log_of_a_pool_that_was_lost_can_be_read(fresh_kernel):
    fresh_kernel.ok("%wool start -n 1")
    fresh_kernel.run(wool("import ctypes; ctypes.string_at(0)"))
    nursery = psutil.Process(fresh_kernel.pid).children()[0]
    nursery.send_signal(signal.SIGKILL)
    wait_until(lambda: "no pool runs" in fresh_kernel.ok("%wool status").stdout)
    assert "Segmentation fault" in fresh_kernel.ok("%wool logs").stdout
