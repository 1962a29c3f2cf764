"""Where people see the output of cells in the background, in JupyterLab and Notebook 7."""

import json
import re

import pytest

from tests.support.browser import Gate
from tests.support.waiting import wait_until

expect = pytest.importorskip("playwright.sync_api", reason="run `make test-browser`").expect

LOAD = "%load_ext wool_jupyter\n%wool start -n 2"
CAN_BE_CUT_OFF = """
const Socket = window.WebSocket, sockets = [], held = [];
let isCutOff = false;
window.WebSocket = function (url, protocols) {
    if (!url.includes('/channels')) return new Socket(url, protocols);
    const socket = isCutOff ? { close() {} } : new Socket(url, protocols);
    (isCutOff ? held : sockets).push(socket);
    return socket;
};
window.cutOff = () => { isCutOff = true; sockets.forEach(each => each.close(3001)) };
window.letOn = () => { isCutOff = false; held.forEach(each => each.onclose?.({ code: 3001 })) };
window.isWaiting = () => held.length > 0;
"""  # to kernels
ANEW = "the page was loaded anew"
SHOWS = (
    "from IPython.display import HTML, display\n"
    "for n in range(3): print('line', n, flush=True)\n"
    "display(HTML('<i>rich</i>'))\n"
)


@pytest.fixture
def gates(tmp_path):
    return [Gate(tmp_path / f"gate-{n}") for n in range(3)]


def outputs(page, index):
    return page.cell(index).locator(".jp-OutputArea")


def test_output_comes_to_its_own_cell_while_another_runs_and_is_saved(page, gates):
    first, second, other = gates
    job = f"%%wool --bg\n{first.cell}\n{SHOWS}{second.cell}\nx = 41\nx + 1"
    page.open([LOAD, job, f"print('other', flush=True)\n{other.cell}", "x"])
    page.run(0)
    page.run(1)
    expect(outputs(page, 1)).to_contain_text("job 1 runs since")
    page.begin(2)
    expect(outputs(page, 2)).to_contain_text("other")
    first.open()
    expect(outputs(page, 1)).to_contain_text("line 2")
    expect(outputs(page, 1).locator("i")).to_have_text("rich")
    assert page.is_busy(2)
    other.open()
    assert page.ended(2) == "other\nwent on"
    second.open()
    expect(outputs(page, 1)).to_contain_text("42")
    expect(outputs(page, 1)).to_contain_text(re.compile(r"job 1 is done after .*bound .*`x`"))
    assert page.run(3).splitlines()[-1] == "41"
    page.save()
    saved = json.loads((page.server.folder / "test.ipynb").read_text())["cells"][1]["outputs"]
    assert "job 1 is done after" in "".join(saved[0]["data"]["text/plain"])
    assert ANEW not in json.dumps(saved)
    page.reload()
    page.run(2)
    assert ANEW not in outputs(page, 1).inner_text()  # nothing was missed
    assert any("line 0" in "".join(output.get("text", "")) for output in saved)


def test_an_error_is_shown_under_its_own_cell(page):
    page.open([LOAD, "%%wool --bg\nprint('before')\nboom = 1 / 0", "boom"])
    page.run(0)
    page.run(1)
    expect(outputs(page, 1)).to_contain_text("----> 3 boom = 1 / 0")
    expect(outputs(page, 1)).to_contain_text("job 1 failed after")
    assert "`boom` was to be bound by job 1, which failed" in page.run(2)


def test_a_cell_that_reads_a_pending_name_waits_and_stop_leaves_the_job_running(page, gates):
    page.open([LOAD, f"%%wool --bg\n{gates[0].cell}\ny = 5", "y"])
    page.run(0)
    page.run(1)
    page.begin(2)
    expect(outputs(page, 2)).to_contain_text("waits for job 1")
    page.command("notebook:interrupt-kernel")
    shown = page.ended(2)
    assert "goes on; this cell has not run" in shown
    assert "KeyboardInterrupt" in shown
    expect(outputs(page, 1)).to_contain_text("job 1 runs since")
    gates[0].open()
    assert page.run(2).splitlines()[-1] == "5"


def test_what_was_shown_while_the_page_was_loaded_anew_can_be_shown_again(page, gates):
    page.open(
        [
            LOAD,
            f"%%wool --bg\nprint('early', flush=True)\n{gates[0].cell}\nprint('late')",
            "%wool wait",
            "%wool output 1",
        ]
    )
    page.run(0)
    page.run(1)
    expect(outputs(page, 1)).to_contain_text("early")
    page.save()
    page.reload()
    expect(outputs(page, 1)).to_contain_text("early")
    expect(outputs(page, 1)).to_contain_text(f"{ANEW}: `%wool output 1` shows what may be missing here")
    gates[0].open()
    page.run(2)
    expect(outputs(page, 1)).to_contain_text(re.compile(rf"job 1 is done after .*\s*{ANEW}: `%wool output 1`"))
    assert re.match(r"early\nwent on\nlate\nwool: job 1 is done", page.run(3))


def test_a_job_that_ended_while_no_page_was_open_is_seen_to_have_ended_on_the_next_one(page, gates, tmp_path):
    ended = tmp_path / "ended"
    says_so = (
        f"import threading\njob = _\nthreading.Thread(target=lambda: open({str(ended)!r}, job.result() or 'w')).start()"
    )
    page.open([LOAD, f"%%wool --bg\n{gates[0].cell}", says_so])
    for index in range(3):
        page.run(index)
    expect(outputs(page, 1)).to_contain_text("job 1 runs since")
    page.save()
    page.page.goto("about:blank")
    gates[0].open()
    wait_until(ended.exists, timeout_s=120)
    page.visit()
    expect(outputs(page, 1)).to_contain_text("job 1 is done after")


def test_a_job_that_ended_while_the_connection_was_lost_is_seen_to_have_ended_on_the_next_one(open_page, gates):
    """The server keeps for this page what it misses, unless another one is connected."""
    page, other = open_page(), open_page()
    for each in (page, other):  # JupyterLab says so of comms that the other page has opened
        each.not_ours += ("Comm not found for comm id",)
    page.page.add_init_script(CAN_BE_CUT_OFF)
    page.open([LOAD, f"%%wool --bg\nprint('early', flush=True)\n{gates[0].cell}"])
    page.run(0)
    page.run(1)
    expect(outputs(page, 1)).to_contain_text("early")
    page.save()
    other.visit()
    expect(other.panel().rows("busy")).to_have_count(1)
    expect(outputs(other, 1)).to_contain_text(ANEW)
    assert ANEW not in outputs(page, 1).inner_text()  # it has had the same news, and missed nothing
    page.page.evaluate("() => window.cutOff()")
    page.page.wait_for_function("() => window.isWaiting()")
    gates[0].open()
    expect(outputs(other, 1)).to_contain_text("job 1 is done after")
    expect(outputs(page, 1)).to_contain_text("job 1 runs since")
    page.page.evaluate("() => window.letOn()")
    expect(outputs(page, 1)).to_contain_text("job 1 is done after")
    expect(page.panel().rows("idle").first).to_be_visible()
    expect(page.panel().button("Add a worker")).not_to_have_attribute("aria-disabled", "true")


def test_the_badge_of_a_job_s_cell_tells_its_end(page, gates):
    page.open([LOAD, f"%%wool --bg\n{gates[0].cell}", "1"])
    page.run(0)
    page.run(1)
    expect(page.badge(1)).to_contain_text("running")
    gates[0].open()
    expect(page.badge(1)).to_contain_text("· ok ·")
