"""The panel follows the notebook that the user looks at, and its kernel, through reloads and restarts."""

import os
import signal
from time import monotonic

import pytest

from tests.support.waiting import wait_until

expect = pytest.importorskip("playwright.sync_api", reason="run `make test-browser`").expect

TARGET = b"wool-jupyter"  # of all questions
LOAD = "%load_ext wool_jupyter"
START = "%wool start -n 2"


def test_before_anything_is_loaded_the_panel_says_so_and_loads_it(page):
    page.open([START])
    panel = page.panel()
    expect(panel.node).to_contain_text("Wool is not loaded in this kernel.")
    panel.button("Load wool_jupyter in this kernel").click()
    expect(panel.node).to_contain_text("No pool")
    expect(panel.button("Start a pool")).not_to_have_attribute("aria-disabled", "true")
    page.run(0)
    expect(panel.rows("idle")).to_have_count(2)


def test_a_page_that_is_reloaded_while_a_cell_runs_shows_it_again(page, gate):
    page.open([LOAD + "\n%wool start -n 1", "%%wool\n" + gate.cell])
    page.run(0)
    page.begin(1)
    panel = page.panel()
    expect(panel.rows("busy")).to_have_count(1)
    [uid] = panel.uids("busy")
    wait_until(lambda: panel.elapsed_s() >= 3, timeout_s=120)
    page.save()
    loading = monotonic()
    page.reload()
    panel = page.panel()
    expect(panel.row(uid)).to_have_attribute("data-state", "busy")
    # It counts since the cell began, not since the page was loaded.
    wait_until(lambda: panel.elapsed_s() > monotonic() - loading + 1, timeout_s=120)
    expect(page.badge(1)).to_contain_text(f"worker {uid[:8]} · running")
    panel.button("Add a worker").click()  # and the kernel hears it
    expect(panel.rows("idle")).to_have_count(1)
    expect(panel.row(uid)).to_have_attribute("data-state", "busy")
    gate.open()
    expect(panel.row(uid)).to_have_attribute("data-state", "idle")
    expect(page.badge(1)).to_contain_text(f"worker {uid[:8]} · ok")


def test_a_cell_is_interrupted_from_a_page_that_was_loaded_while_it_ran(page, gate):
    page.open([LOAD, "%%wool\n" + gate.cell])
    page.run(0)
    page.begin(1)
    expect(page.panel().rows("busy")).to_have_count(1)
    page.save()
    page.reload()
    panel = page.panel()
    panel.rows("busy").get_by_role("button", name="Interrupt").click()
    expect(panel.rows("busy")).to_have_count(0)
    expect(page.badge(1)).to_contain_text("interrupted")


def test_a_pool_that_was_there_before_the_page_is_found(page):
    page.open([LOAD, START])
    page.run(0)
    page.run(1)
    page.save()
    page.reload()
    expect(page.panel().rows("idle")).to_have_count(2)


def test_a_pool_that_code_has_started_is_found_also_by_the_next_page(page):
    page.open(["import wool_jupyter\npool = wool_jupyter.pool()"])
    panel = page.panel()
    page.run(0)
    expect(panel.rows("idle").first).to_be_visible()
    uids = set(panel.uids())
    page.save()
    page.reload()
    panel = page.panel()
    expect(panel.rows("idle").first).to_be_visible()
    assert uids & set(panel.uids())


def test_a_restarted_kernel_has_no_pool_until_it_is_loaded_again(page):
    page.open([LOAD, START])
    panel = page.panel()
    page.run(0)
    page.run(1)
    expect(panel.rows("idle")).to_have_count(2)
    before = set(panel.uids())
    page.restart_kernel()
    expect(panel.node).to_contain_text("Wool is not loaded in this kernel.")
    page.run(0)
    page.run(1)
    expect(panel.rows("idle")).to_have_count(2)
    assert not before & set(panel.uids())


def test_each_notebook_has_its_own_pool(lab):
    lab.open([LOAD, "%wool start -n 1"], "one.ipynb")
    panel = lab.panel()
    lab.run(0)
    lab.run(1)
    expect(panel.rows("idle")).to_have_count(1)
    [first] = panel.uids()
    lab.open_beside([LOAD, START], "two.ipynb")
    expect(panel.node).to_contain_text("two.ipynb")
    expect(panel.node).to_contain_text("Wool is not loaded in this kernel.")
    lab.run(0)
    lab.run(1)
    expect(panel.rows("idle")).to_have_count(2)
    lab.show_notebook("one.ipynb")
    expect(panel.node).to_contain_text("one.ipynb")
    assert panel.uids() == [first]
    os.kill(panel.pid(first), signal.SIGKILL)
    expect(panel.row(first)).to_have_attribute("data-state", "dead")


def test_a_notebook_without_wool_is_left_alone(lab):
    """Its kernel may be of another language, and not know such questions."""
    asked = []

    def note(frame):
        asked.append(frame if isinstance(frame, bytes) else frame.encode())

    lab.page.on("websocket", lambda socket: socket.on("framesent", note))
    lab.open(["1 + 1"])
    panel = lab.panel()
    lab.run(0)
    expect(panel.node).to_contain_text("Wool is not loaded in this kernel.")
    assert not any(TARGET in frame for frame in asked)
    panel.button("Load wool_jupyter in this kernel").click()
    expect(panel.node).to_contain_text("No pool")
    assert any(TARGET in frame for frame in asked)
