"""The panel and the widget show the same pool, and act on it, in JupyterLab and in Notebook 7."""

import os
import re
import signal

import pytest

from tests.support.waiting import wait_until

expect = pytest.importorskip("playwright.sync_api", reason="run `make test-browser`").expect

APPS = ("jupyterlab", "notebook")
LOAD = "%load_ext wool_jupyter"
START = "%wool start -n 2"
SHOW = "import wool_jupyter; wool_jupyter.dashboard()"


EVERYWHERE = [(app, where) for app in APPS for where in ("panel", "widget")]
ONCE_EACH = [("jupyterlab", "panel"), ("notebook", "widget")]  # what is the same code behind the same button


@pytest.fixture
def shown(open_page):
    """`shown(app, where, cell)`: a notebook whose fourth cell that is, and a picture of the two workers of its pool."""

    def shown(app, where, cell):
        page = open_page(app).open([LOAD, START, SHOW, cell])
        page.run(0)
        page.run(1)
        if where == "widget":
            page.run(2)
        pool = page.panel() if where == "panel" else page.widget(2)
        expect(pool.rows("idle")).to_have_count(2)
        return page, pool

    return shown


@pytest.mark.parametrize(("app", "where"), EVERYWHERE)
def test_the_workers_are_shown_and_one_that_is_killed_turns_dead_and_is_replaced(shown, app, where):
    page, pool = shown(app, where, "%%wool\nimport os; print(os.getpid())")
    pid = int(page.run(3))
    before = set(pool.uids())
    for uid in before:
        expect(pool.row(uid)).to_contain_text(uid[:8])
        expect(pool.row(uid).get_by_role("meter", name="Memory")).to_have_attribute("aria-valuetext", re.compile("MB"))
    expect(pool.node).to_contain_text(re.compile(r"k\w+ · up"))
    [victim] = [uid for uid in before if pool.pid(uid) == pid]
    os.kill(pool.pid(victim), signal.SIGKILL)
    expect(pool.node.locator(f'li[data-state="dead"][data-uid="{victim}"]')).to_contain_text("SIGKILL")
    expect(pool.rows("idle")).to_have_count(2)
    assert len(set(pool.uids("idle")) - before) == 1
    expect(pool.row(victim)).to_have_count(0)


@pytest.mark.parametrize(("app", "where"), EVERYWHERE)
def test_a_busy_cell_ticks_and_is_interrupted_while_the_kernel_is_busy(shown, app, where, gate):
    page, pool = shown(app, where, "%%wool\n" + gate.cell)
    page.begin(3)
    expect(pool.rows("busy")).to_have_count(1)
    busy = pool.rows("busy")
    expect(busy).to_contain_text(re.compile(r"In\[[34]\]"))
    first = pool.elapsed_s()
    wait_until(lambda: pool.elapsed_s() > first, timeout_s=120)
    wait_until(lambda: pool.elapsed_s() > first + 1, timeout_s=120)
    assert page.is_busy(3)
    busy.get_by_role("button", name="Interrupt").click()
    assert "KeyboardInterrupt" in page.ended(3)
    expect(pool.rows("idle")).to_have_count(2)


@pytest.mark.parametrize(("app", "where"), EVERYWHERE)
def test_a_worker_is_restarted_while_the_kernel_is_busy(shown, app, where, gate):
    page, pool = shown(app, where, "%%wool\n" + gate.cell)
    page.begin(3)
    expect(pool.rows("busy")).to_have_count(1)
    [victim] = pool.uids("busy")
    pool.row(victim).get_by_role("button", name="Restart").click()
    expect(pool.row(victim)).to_contain_text("A restart ends In[")
    assert page.is_busy(3)  # nothing has happened yet
    pool.row(victim).get_by_role("button", name="Restart", exact=True).click()
    assert "WorkerDied" in page.ended(3)
    expect(pool.rows("idle")).to_have_count(2)
    assert victim not in pool.uids("idle")


@pytest.mark.parametrize(("app", "where"), ONCE_EACH)
def test_workers_are_added_and_removed_while_the_kernel_is_busy(shown, app, where, gate):
    page, pool = shown(app, where, gate.cell)
    page.begin(3)
    page.note_statuses_from("busy")
    pool.button("Add a worker").click()
    expect(pool.rows("idle")).to_have_count(3)
    expect(pool.node).to_contain_text("3 workers")
    pool.button("Remove a worker").click()
    expect(pool.node).to_contain_text("2 workers")
    expect(pool.rows("idle")).to_have_count(2)
    assert page.is_busy(3)
    if where == "panel":  # of a widget's messages JupyterLab takes the end for that of the cell
        assert page.statuses() == []
    gate.open()
    assert page.ended(3) == "went on"


@pytest.mark.parametrize(("app", "where"), ONCE_EACH)
def test_a_pool_is_stopped_and_started(shown, app, where):
    _, pool = shown(app, where, "1")
    before = set(pool.uids())
    pool.button("Stop the pool").click()
    expect(pool.node).to_contain_text("No pool")
    expect(pool.rows("idle", "busy")).to_have_count(0)
    pool.button("Start a pool").click()
    expect(pool.rows("idle")).to_have_count(2)
    assert not before & set(pool.uids("idle"))
