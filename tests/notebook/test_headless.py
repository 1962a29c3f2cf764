"""Notebooks that nobody watches: nbclient and `jupyter nbconvert --execute`."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError
from nbformat import v4

ROOT = Path(__file__).parents[2]
LOAD = "%load_ext wool_jupyter"


@pytest.fixture(scope="module")
def show():
    return SimpleNamespace(**runpy.run_path(str(ROOT / "notebooks" / "show.py")))


@pytest.fixture
def client_of(show, tmp_path):
    """A client for a notebook of these cells."""

    def make(*sources: str, **options):
        path = tmp_path / "notebook.ipynb"
        nbformat.write(notebook_of(*sources), path)
        client = show.client_for(path, **options)
        client.timeout = 60  # of one cell: what hangs is a failure
        return client

    return make


def notebook_of(*sources: str):
    metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    return v4.new_notebook(metadata=metadata, cells=[v4.new_code_cell(source) for source in sources])


def brief(cell) -> list[tuple]:
    """Its outputs: what kind, and the text."""
    found = []
    for output in cell.outputs:
        match output.output_type:
            case "stream":
                found.append((output.name, output.text))
            case "error":
                found.append(("error", output.ename))
            case kind:
                found.append((kind, output.data["text/plain"]))
    return found


def failure_of(client) -> CellExecutionError:
    with pytest.raises(CellExecutionError) as caught:
        client.execute()
    return caught.value


def traceback_of(show, cell) -> str:
    return show.ANSI.sub("", "\n".join(cell.outputs[-1].traceback))


STARTED = ("stdout", "wool: started a pool of 2 worker processes for this notebook\n")


def test_outputs_are_in_the_cells_that_made_them(client_of):
    client = client_of(
        LOAD,
        "%%wool\nprint('first')",
        "print('plain')",
        "%%wool\nimport sys\nfrom IPython.display import display\nprint('out')\nprint('err', file=sys.stderr)\n"
        "display({'shown': 1})\n'value'",
        "%%wool\n'silent';",
    )
    cells = client.execute().cells
    assert [brief(cell) for cell in cells] == [
        [],
        [("stdout", STARTED[1] + "first\n")],
        [("stdout", "plain\n")],
        [
            ("stdout", "out\n"),
            ("stderr", "err\n"),
            ("display_data", "{'shown': 1}"),
            ("execute_result", "'value'"),
        ],
        [],
    ]


def test_output_of_a_thread_stays_in_the_cell_that_started_it(client_of):
    client = client_of(
        LOAD,
        "%%wool\nimport threading\nend = threading.Event()\n"
        "def late():\n    end.wait(0.2)\n    print('from the thread', flush=True)\n"
        "thread = threading.Thread(target=late)\nthread.start()\nprint('first')\n",
        "%%wool\nimport threading\nthreading.Event().wait(0.6)\nprint('second')",
    )
    _, _, second = client.execute().cells
    assert brief(second) == [("stdout", "second\n")]


def test_numbers_and_results_are_a_plain_notebooks(client_of):
    cells = client_of(LOAD, "%%wool\nx = 20\nx + 1", "_", "Out[2], x", "%%wool\nx + 2", "sorted(Out)").execute().cells
    assert [cell.execution_count for cell in cells] == [1, 2, 3, 4, 5, 6]
    results = {out.execution_count: out.data["text/plain"] for c in cells for out in c.outputs if "data" in out}
    assert results == {2: "21", 3: "21", 4: "(21, 20)", 5: "22", 6: "[2, 3, 4, 5]"}


def test_error_stops_the_run(client_of, show, tmp_path):
    client = client_of(
        LOAD, "%%wool\nok = 1", "%%wool\nprint('before')\nok / 0", "open('went-on', 'w').close()", "%%wool\n1"
    )
    failure = failure_of(client)
    assert (failure.ename, failure.evalue) == ("ZeroDivisionError", "division by zero")
    assert not (tmp_path / "went-on").exists()
    cells = client.nb.cells
    assert brief(cells[2]) == [("stdout", "before\n"), ("error", "ZeroDivisionError")]
    assert "----> 3 ok / 0" in traceback_of(show, cells[2])
    assert [cell.execution_count for cell in cells] == [1, 2, 3, None, None]


def test_allowed_error_lets_the_run_go_on(client_of):
    cells = client_of(LOAD, "%%wool\nmade = 1\n1 / 0", "%%wool\nmade + 1", allow_errors=True).execute().cells
    assert brief(cells[1])[-1] == ("error", "ZeroDivisionError")
    assert brief(cells[2]) == [("execute_result", "2")]


@pytest.mark.parametrize("ask", ["input('who? ')", "__import__('getpass').getpass()"], ids=["input", "getpass"])
def test_question_that_nobody_can_answer_is_an_error_at_once(client_of, show, ask):
    client = client_of(LOAD, f"%%wool\nasked = True\nanswer = {ask}", "asked")
    failure = failure_of(client)
    assert failure.ename == "StdinNotImplementedError"
    assert f"----> 3 answer = {ask}" in traceback_of(show, client.nb.cells[1])


def test_question_that_nobody_can_answer_can_be_handled(client_of):
    body = (
        "%%wool\nfrom IPython.core.error import StdinNotImplementedError\n"
        "try:\n    input()\nexcept StdinNotImplementedError:\n    answer = 'nobody'\nanswer"
    )
    assert brief(client_of(LOAD, body).execute().cells[1])[-1] == ("execute_result", "'nobody'")


@pytest.mark.parametrize(
    ("end", "words"),
    [
        pytest.param("os._exit(3)", "exited with code 3", id="exit"),
        pytest.param("os.kill(os.getpid(), signal.SIGSEGV)", "was killed by SIGSEGV", id="crash"),
        pytest.param("os.kill(os.getpid(), signal.SIGKILL)", "was killed by SIGKILL", id="kill"),
    ],
)
def test_worker_that_dies_ends_the_run_with_an_error(client_of, show, end, words):
    client = client_of(LOAD, f"%%wool\nimport os, signal\nprint('last words')\n{end}", "%%wool\n1")
    failure = failure_of(client)
    assert failure.ename == "WorkerDied"
    assert words in failure.evalue
    died, after = client.nb.cells[1:]
    assert "last words\n" in dict(brief(died))["stdout"]
    assert "wool_jupyter/" not in traceback_of(show, died)
    assert after.execution_count is None


def test_cell_after_a_worker_that_died_runs(client_of):
    cells = client_of(LOAD, "%%wool\nimport os; os._exit(3)", "%%wool\n1 + 1", allow_errors=True).execute().cells
    assert brief(cells[2]) == [("execute_result", "2")]


def test_cell_over_its_time_is_interrupted_like_a_plain_one(client_of):
    client = client_of(
        LOAD, "%%wool\n1", "%%wool\nbegun = True\nimport threading\nthreading.Event().wait()", "%%wool\nbegun",
        interrupt_on_timeout=True, timeout_func=lambda cell: 2 if "begun = True" in cell.source else 60,
        allow_errors=True,
    )  # fmt: skip
    client.timeout = None
    cells = client.execute().cells
    assert brief(cells[2])[-1] == ("error", "KeyboardInterrupt")
    assert brief(cells[3]) == [("execute_result", "True")]


def test_figure_is_a_picture_under_its_cell(client_of):
    cells = client_of(
        "%matplotlib inline\n" + LOAD,
        "%%wool\nimport matplotlib.pyplot as plt\nplt.plot([1, 2]);",
        "%%wool\nplt.get_fignums()",
    ).execute().cells  # fmt: skip
    pictures = [output for output in cells[1].outputs if output.output_type == "display_data"]
    assert [sorted(picture.data) for picture in pictures] == [["image/png", "text/plain"]]
    assert brief(cells[2]) == [("execute_result", "[]")]  # they do not pile up


JOB = "%%wool --bg\nimport time\ntime.sleep(1)\nprint('from the job')\nanswer = {answer}\nanswer"


def test_background_job_is_waited_for_and_its_cell_tells_its_end(client_of):
    cells = client_of(LOAD, JOB.format(answer=6), "print('other')", "answer * 7", "%wool output 1").execute().cells
    assert brief(cells[1])[0] == STARTED
    assert re.fullmatch(r"wool: job 1 is done after \d+\.\d s: bound `answer`, `time`", brief(cells[1])[1][1])
    assert brief(cells[2]) == [("stdout", "other\n")]
    assert brief(cells[3])[-1] == ("execute_result", "42")
    assert brief(cells[4])[:2] == [("stdout", "from the job\n"), ("display_data", "6")]


def test_background_job_that_fails_stops_the_run_where_it_is_waited_for(client_of):
    client = client_of(LOAD, JOB.format(answer="1 / 0"), "print('other')", "%wool wait", "open('went-on', 'w').close()")
    failure = failure_of(client)
    assert failure.ename == "JobFailed"
    assert "job 1 failed after" in failure.evalue
    assert "ZeroDivisionError: division by zero" in failure.evalue
    assert "failed after" in brief(client.nb.cells[1])[1][1]
    assert client.nb.cells[4].execution_count is None


A_THREAD_THAT_OUTLIVES_THE_LAST_CELL = """
import concurrent.futures.thread as pools, threading, time
def end_slowly():
    while not pools._shutdown: time.sleep(0.01)
    time.sleep(0.5)
threading.Thread(target=end_slowly).start()
"""


@pytest.mark.parametrize("last", ["1", A_THREAD_THAT_OUTLIVES_THE_LAST_CELL])
def test_background_job_that_nobody_waits_for_is_not_cut_without_a_word(tmp_path, last):
    path = tmp_path / "notebook.ipynb"
    nbformat.write(notebook_of(LOAD, "%%wool --bg\nimport time; time.sleep(600)", last), path)
    done = nbconvert(path)
    assert done.returncode == 0, done.stderr
    assert "wool: job 1 had not ended: `%wool wait` in the last cell waits" in done.stderr
    assert "Traceback" not in done.stderr


def command(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "JUPYTER_PREFER_ENV_PATH": "1", "IPYTHONDIR": str(path.parent)}
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        env=environment,
        check=False,
        capture_output=True,
        text=True,
        timeout=90,
    )


def nbconvert(path: Path) -> subprocess.CompletedProcess[str]:
    return command(path, "nbconvert", "--execute", "--to", "notebook", "--output", "ran.ipynb", str(path))


def test_nbconvert_executes_a_notebook(tmp_path):
    path = tmp_path / "notebook.ipynb"
    nbformat.write(notebook_of(LOAD, "%%wool\nprint('hello')\nx = 20\nx + 1", "x"), path)
    done = nbconvert(path)
    assert done.returncode == 0, done.stderr
    cells = nbformat.read(tmp_path / "ran.ipynb", as_version=4).cells
    assert brief(cells[1]) == [("stdout", STARTED[1] + "hello\n"), ("execute_result", "21")]
    assert brief(cells[2]) == [("execute_result", "20")]
    assert not re.search(r"Traceback|wool|grpc|fork", done.stderr, re.IGNORECASE)


def test_nbconvert_stops_at_an_error(tmp_path):
    path = tmp_path / "notebook.ipynb"
    nbformat.write(notebook_of(LOAD, "%%wool\n1 / 0", "open('went-on', 'w').close()"), path)
    done = nbconvert(path)
    assert done.returncode != 0
    assert "ZeroDivisionError" in done.stderr
    assert not (tmp_path / "went-on").exists()


def papermill(path: Path) -> subprocess.CompletedProcess[str]:
    ran = path.with_name("ran.ipynb")
    return command(path, "papermill", str(path), str(ran), "-k", "python3", "--no-progress-bar", "-p", "start", "20")


def test_papermill_executes_a_notebook_with_its_parameters(tmp_path):
    path = tmp_path / "notebook.ipynb"
    notebook = notebook_of("start = 1", LOAD, "%%wool\nprint('hello')\nx = start\nx + 1", "x")
    notebook.cells[0].metadata.tags = ["parameters"]
    nbformat.write(notebook, path)
    done = papermill(path)
    assert done.returncode == 0, done.stderr
    cells = nbformat.read(tmp_path / "ran.ipynb", as_version=4).cells
    assert brief(cells[-2]) == [("stdout", STARTED[1] + "hello\n"), ("execute_result", "21")]
    assert brief(cells[-1]) == [("execute_result", "20")]


def test_papermill_stops_at_a_worker_that_dies(tmp_path):
    path = tmp_path / "notebook.ipynb"
    nbformat.write(notebook_of(LOAD, "%%wool\nimport os; os._exit(3)", "open('went-on', 'w').close()"), path)
    done = papermill(path)
    assert done.returncode != 0
    assert "exited with code 3" in done.stderr
    assert not (tmp_path / "went-on").exists()


def test_papermill_waits_for_background_jobs(tmp_path):
    path = tmp_path / "notebook.ipynb"
    notebook = notebook_of("start = 1", LOAD, JOB.format(answer="start"), "%wool wait", "answer")
    notebook.cells[0].metadata.tags = ["parameters"]
    nbformat.write(notebook, path)
    done = papermill(path)
    assert done.returncode == 0, done.stderr
    cells = nbformat.read(tmp_path / "ran.ipynb", as_version=4).cells
    assert "is done after" in brief(cells[-3])[-1][1]
    assert brief(cells[-1]) == [("execute_result", "20")]
