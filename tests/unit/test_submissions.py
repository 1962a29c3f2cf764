"""What one cell has submitted (`notebook.submissions`), with a home and a loop of its own and no worker."""

import io
import threading
from uuid import uuid4

import pytest
from IPython.core.interactiveshell import InteractiveShell

from tests.support.waiting import wait_until
from wool_jupyter.discovery.root import kernel_namespace
from wool_jupyter.notebook.bridge import bridge
from wool_jupyter.notebook.runtime import Runtime
from wool_jupyter.notebook.submissions import Submissions
from wool_jupyter.pool.home import Home
from wool_jupyter.wire import ambient, batches, pickling
from wool_jupyter.worker.cell.spool import Spool


@pytest.fixture
def runtime(tmp_path):
    made = Runtime("unused")
    made._home = bridge().enter(Home.enter(kernel_namespace(str(tmp_path)), within=tmp_path)).result(20)
    yield made
    made.end()


@pytest.fixture
def shell():
    made = InteractiveShell()
    yield made
    made.history_manager.end_session()
    InteractiveShell.clear_instance()


@pytest.fixture
def ended():
    return []


@pytest.fixture
def printed(monkeypatch):
    """By the cell that submits."""
    stream = io.StringIO()
    monkeypatch.setattr("sys.stdout", stream)
    return stream


@pytest.fixture
def submissions(runtime, shell, ended, printed):
    return Submissions(
        runtime, shell, output_budget_bytes=None, interrupt=lambda _: None, ended=lambda: ended.append("ended")
    )


def on_loop(function, *args, **options):
    async def asked():
        return function(*args, **options)

    return bridge().enter(asked()).result(20)


def report(submissions, worker):
    on_loop(submissions.ready, worker)
    on_loop(submissions.printed, worker, (), goes_on=False, is_idle=True)


def test_a_report_that_comes_when_all_is_over_finds_nothing_to_show(submissions, shell, ended):
    """A worker ends its run with one that has no outcomes, where what was to follow has been cancelled."""
    worker = uuid4()
    submissions.submitted(1)
    report(submissions, worker)
    submissions.settled(1)
    shell.events.trigger("post_run_cell", None)
    assert ended == ["ended"]
    report(submissions, worker)
    assert ended == ["ended"]


def test_what_changes_while_it_is_read_is_read_again(submissions, monkeypatch):
    read = ambient.of_calls

    def changed_by_another_thread():
        monkeypatch.setenv("WOOL_TEST_VARIABLE", "1")
        return read()

    with monkeypatch.context() as patched:
        patched.setattr(ambient, "of_calls", changed_by_another_thread)
        submissions.ambient()
    monkeypatch.delenv("WOOL_TEST_VARIABLE")
    seen = submissions.ambient()
    assert "WOOL_TEST_VARIABLE" not in pickling.loads(seen["environment"])
    assert submissions.ambient() is seen


def test_it_is_over_when_the_cell_and_all_its_calls_have_ended(submissions, shell, ended, printed):
    worker = uuid4()
    for number in range(2):
        submissions.submitted(number)
    on_loop(submissions.ready, worker)
    spool = Spool(batches.text_directory(submissions.directory, str(worker)))
    shell.events.trigger("post_run_cell", None)
    submissions.settled(0)
    assert on_loop(list, ended) == []
    spool.write(0, "late\n")
    submissions.settled(1)
    wait_until(lambda: ended == ["ended"])
    assert on_loop(list, ended) == ["ended"]
    assert printed.getvalue() == "late\n"


def test_a_cell_waits_for_the_end_of_a_call_whose_result_it_has_and_not_for_others(submissions, shell, ended):
    """The loop settles a call just after whoever waits for its result has been woken."""
    submissions.submitted(1)
    bridge().post(lambda: (threading.Event().wait(0.2), submissions.settled(1)))
    shell.events.trigger("post_run_cell", None)
    assert ended == ["ended"]


def test_a_cell_does_not_wait_for_calls_that_go_on(submissions, shell, ended):
    submissions.submitted(1)
    shell.events.trigger("post_run_cell", None)
    assert ended == []
    on_loop(submissions.settled, 1)
    wait_until(lambda: ended == ["ended"])
