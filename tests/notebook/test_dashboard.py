"""The dashboard's Python half: what it shows where, that it lives while the kernel is busy, and what it does when asked."""

import json
import runpy
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbconvert import HTMLExporter

from tests.support.kernel import TIMEOUT_S, Kernel
from tests.support.panel import Panel
from wool_jupyter.notebook import snapshot

ROOT = Path(__file__).parents[2]
WIDGET = "application/vnd.jupyter.widget-view+json"


class Widget(Panel):
    """One view of a dashboard that a cell shows. What it asks goes by its comm, on a subshell unless it is to do without."""

    def __init__(self, kernel, code="%wool dashboard", *, subshell=True):
        super().__init__(kernel)
        self.subshell = self._new_subshell() if subshell else None
        shown = kernel.ok(code).data
        self.bundle = shown
        self.kernel.strays += [m for _, m in kernel.messages()]
        self.comm = shown[WIDGET]["model_id"]

    def _new_subshell(self):
        client = self.kernel.client
        asked = client.session.msg("create_subshell_request")
        client.control_channel.send(asked)
        while True:
            reply = client.control_channel.get_msg(timeout=TIMEOUT_S)
            if reply["parent_header"].get("msg_id") == asked["header"]["msg_id"]:
                return reply["content"]["subshell_id"]

    def say(self, **request):
        content = {"comm_id": self.comm, "data": {"method": "custom", "content": request}}
        message = self.kernel.client.session.msg("comm_msg", content)
        if self.subshell is not None:
            message["header"]["subshell_id"] = self.subshell
        self.kernel.client.shell_channel.send(message)

    def _take(self, message):
        content = message["content"]
        if message["msg_type"] == "comm_msg" and content["comm_id"] == self.comm:
            match content["data"]:
                case {"method": "update", "state": {"snapshot": taken}}:
                    self.snapshots.append(snapshot.decode(json.dumps(taken)))
                case {"method": "custom", "content": answer}:
                    self.answers.append(answer)
        else:
            self.kernel.strays.append(message)


@pytest.mark.parametrize("code", ["%wool dashboard", "import wool_jupyter\nwool_jupyter.dashboard()"])
def test_it_is_a_widget_a_table_and_a_text(kernel, code):
    bundle = kernel.ok(code).data
    assert set(bundle) == {WIDGET, "text/html", "text/plain"}
    assert bundle["text/plain"].startswith("worker ")
    assert bundle["text/html"].startswith("<table><caption>wool: pool k")


def test_the_pool_itself_is_a_table_of_the_moment(kernel):
    bundle = kernel.ok("import wool_jupyter\nwool_jupyter.pool()").data
    assert set(bundle) == {"text/html", "text/plain"}
    assert bundle["text/plain"].startswith("worker ")
    assert kernel.value("repr(wool_jupyter.pool())").startswith("worker ")


def test_calls_are_seen_on_their_workers(fresh_kernel):
    fresh_kernel.ok("%wool start -n 1\nimport wool_jupyter, threading")
    panel = Panel(fresh_kernel)
    panel.hello()
    fresh_kernel.ok("waits = wool_jupyter.pool().submit(lambda: __import__('threading').Event().wait())")
    worker = panel.shows(lambda taken: [each.state for each in taken.workers] == ["busy"]).workers[0]
    assert worker.running.kind == "call"
    assert panel.ask("interrupt", worker=worker.uid) == ""
    panel.shows(lambda taken: [each.state for each in taken.workers] == ["idle"])


def test_before_there_is_a_pool_it_says_so_and_starts_none(fresh_kernel):
    bundle = fresh_kernel.ok("view = %wool dashboard\nview").data
    assert bundle["text/plain"] == "wool: no pool runs; the next %%wool cell starts one"
    assert fresh_kernel.value("'grpc' in __import__('sys').modules") is False
    fresh_kernel.ok("%wool start -n 1")
    assert fresh_kernel.ok("view").data["text/plain"].startswith("worker ")


def test_it_follows_the_pool_while_the_main_thread_is_busy(fresh_kernel):
    fresh_kernel.ok("%wool start -n 1")
    widget = Widget(fresh_kernel)
    cell = fresh_kernel.begin("%%wool\nimport threading\nprint('begun', flush=True)\nthreading.Event().wait()")
    cell.wait_for("begun")
    busy = widget.shows(lambda taken: [each.state for each in taken.workers] == ["busy"]).workers[0]
    widget.shows(lambda taken: taken.workers[0].cpu is not None)
    assert widget.ask("scale", workers=2) == ""
    widget.shows(lambda taken: sorted(each.state for each in taken.workers) == ["busy", "idle"])
    assert widget.ask("interrupt", worker=busy.uid) == ""
    assert cell.result().error.ename == "KeyboardInterrupt"
    assert "not understood" in widget.ask("dance")


def test_one_that_was_closed_is_sent_nothing_more(fresh_kernel):
    widget = Widget(fresh_kernel, "view = %wool dashboard\nview")
    fresh_kernel.ok("%wool start -n 1")
    widget.shows(lambda taken: taken.pool.state == "running")
    fresh_kernel.ok("view.close()\nview.close()")
    widget.take_in()
    seen = len(widget.snapshots)
    fresh_kernel.wool("x = 1")
    fresh_kernel.ok("import threading; threading.Event().wait(1)")
    widget.take_in()
    assert len(widget.snapshots) == seen
    assert fresh_kernel.value("__import__('wool_jupyter').notebook.feed.door()._displays.any") is False


def test_it_is_one_for_all_cells_that_show_it_until_it_is_closed(fresh_kernel):
    fresh_kernel.ok("import wool_jupyter\nfirst = wool_jupyter.dashboard()\nsecond = %wool dashboard")
    assert fresh_kernel.value("first is second")
    fresh_kernel.ok("first.close()\nthird = wool_jupyter.dashboard()\nfourth = wool_jupyter.dashboard()")
    assert fresh_kernel.value("third is not first and fourth is third")
    fresh_kernel.ok("%wool start -n 1")
    fresh_kernel.ok("import threading; threading.Event().wait(0.5)")
    assert fresh_kernel.value("third.snapshot['pool']['state']") == "running"
    assert fresh_kernel.value("first.snapshot['pool']['state']") == "none"


def test_an_observer_that_fails_stops_it_until_it_is_asked_for_again_and_nothing_else(fresh_kernel):
    panel = Panel(fresh_kernel)
    panel.hello()
    fresh_kernel.ok("view = %wool dashboard\nfail = lambda change: 1 / 0\nview.observe(fail, 'snapshot')")
    fresh_kernel.ok("%wool start -n 1")
    assert fresh_kernel.wool("print('ran')").stdout == "ran\n"
    panel.shows(lambda taken: [each.state for each in taken.workers] == ["idle"])
    assert fresh_kernel.value("view.snapshot['pool']['state']") != "running"
    fresh_kernel.ok("view.unobserve(fail, 'snapshot')\nagain = %wool dashboard")
    fresh_kernel.ok("import threading; threading.Event().wait(0.5)")
    assert fresh_kernel.value("view.snapshot['pool']['state']") == "running"


def test_without_anywidget_it_says_what_to_install_and_shows_the_moment(fresh_kernel):
    fresh_kernel.ok("import sys\nsys.modules['anywidget'] = None\n%wool start -n 1")
    result = fresh_kernel.ok("%wool dashboard")
    assert "pip install anywidget" in result.stdout
    assert set(result.data) == {"text/html", "text/plain"}
    assert result.data["text/plain"].startswith("worker ")


def executed(tmp_path, *sources):
    """As a headless run leaves it."""
    path = tmp_path / "notebook.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources]), path)
    return runpy.run_path(str(ROOT / "notebooks" / "show.py"))["client_for"](path).execute()


def test_a_saved_notebook_and_its_html_show_the_table(tmp_path):
    ran = executed(tmp_path, "%load_ext wool_jupyter\n%wool start -n 1", "%wool dashboard")
    del ran.metadata["widgets"]  # as it is saved by JupyterLab
    html, _ = HTMLExporter().from_notebook_node(ran)
    assert "<caption>wool: pool k" in html


def test_a_notebook_without_a_dashboard_has_nothing_of_widgets(tmp_path, caplog):
    ran = executed(tmp_path, "%load_ext wool_jupyter", "%%wool\nx = 1", "x")
    assert "widgets" not in ran.metadata
    assert [output.output_type for cell in ran.cells for output in cell.outputs] == ["stream", "execute_result"]
    assert caplog.text == ""


def test_a_plain_python_process_has_the_text():
    code = "import wool_jupyter; print(repr(wool_jupyter.dashboard()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "wool: no pool runs; the next %%wool cell starts one\n"


def test_the_kernel_ends_at_once_with_a_dashboard():
    kernel = Kernel()
    try:
        kernel.ok("%load_ext wool_jupyter\n%wool start -n 1")
        widget = Widget(kernel)
        widget.shows(lambda taken: taken.pool.state == "running")
    finally:
        kernel.shutdown()
