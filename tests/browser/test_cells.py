"""What can be seen at a cell that runs on a worker, and what its commands do."""

import re

import pytest

expect = pytest.importorskip("playwright.sync_api", reason="run `make test-browser`").expect

LOAD = "%load_ext wool_jupyter"
COMMANDS = [
    "Run Cell on Wool",
    "Toggle %%wool on Cell",
    "Interrupt Wool Worker",
    "Restart Wool Worker",
    "Open Wool Dashboard",
]


def test_a_cell_is_run_on_wool_by_one_press_in_its_toolbar(page):
    """Nothing has to be loaded before."""
    page.open(["import os, multiprocessing\nprint(os.getpid())", "import os\nprint(os.getpid())"])
    page.select(0)
    page.cell(0).locator('.jp-cell-toolbar [data-command="wool-jupyter:run-cell"]').click()
    elsewhere = page.ended(0).splitlines()[-1]  # a line says that a pool was started
    assert page.source(0) == "%%wool\nimport os, multiprocessing\nprint(os.getpid())"
    assert elsewhere.isdigit()
    assert page.run(1) != elsewhere
    expect(page.badge(0)).to_have_text(re.compile(r"worker [0-9a-f]{8} · ok · [0-9.]+ s"))
    expect(page.badge(1)).to_have_count(0)


def test_a_badge_tells_what_becomes_of_its_cell(page, gate):
    page.open([LOAD, "%wool start -n 1", "%%wool\n" + gate.cell, "%%wool\n1 / 0", "%%wool\nimport os; os._exit(3)"])
    page.run(0)
    page.run(1)
    page.begin(2)
    expect(page.badge(2)).to_have_text(re.compile(r"worker [0-9a-f]{8} · running · [1-9]\d* (s|min)"))
    page.command("wool-jupyter:interrupt-worker")
    assert "KeyboardInterrupt" in page.ended(2)
    expect(page.badge(2)).to_contain_text("· interrupted ·")
    page.run(3)
    expect(page.badge(3)).to_contain_text("· error ·")
    page.run(4)
    expect(page.badge(4)).to_contain_text("· died ·")
    page.restart_kernel()
    expect(page.badge(2)).to_have_count(0)


def test_a_badge_stands_between_code_and_output_and_does_not_cover_them(page):
    page.open([LOAD, "%%wool\nprint('seen')"])
    page.run(0)
    page.run(1)
    stands_between_code_and_output(page, 1)


def test_the_badge_of_a_cell_that_comes_on_screen_later_stands_there_too(page):
    """JupyterLab makes the parts of a cell when they are first seen."""
    page.open([LOAD, *["\n" * 30] * 20, "%%wool\nprint('seen')"])
    page.run(0)
    page.run(21)
    page.save()
    page.reload()
    expect(page.panel().rows("idle").first).to_be_visible()  # the badges are there
    page.select(21)
    page.cell(21).scroll_into_view_if_needed()
    stands_between_code_and_output(page, 21)


def stands_between_code_and_output(page, index):
    expect(page.badge(index)).to_contain_text("ok")
    expect(page.cell(index).locator(".jp-OutputArea-output")).to_be_visible()
    tops_and_ends = page.cell(index).evaluate(
        """cell => ['.jp-InputArea', '.jp-WoolBadge', '.jp-OutputArea-output'].map(part => {
            const { top, bottom } = cell.querySelector(part).getBoundingClientRect(); return [top, bottom] })"""
    )
    (_, code_ends), (badge_begins, badge_ends), (output_begins, _) = tops_and_ends
    assert code_ends <= badge_begins + 1
    assert badge_ends <= output_begins + 1


def test_wool_is_put_on_a_cell_and_taken_off(page):
    page.open(["%%time\nx = 1"])
    page.select(0)
    page.command("wool-jupyter:toggle-cell")
    page.page.wait_for_function("() => document.querySelector('.jp-Cell').textContent.includes('%%wool')")
    assert page.source(0) == "%%time\n%%wool\nx = 1"
    page.command("wool-jupyter:toggle-cell")
    page.page.wait_for_function("() => !document.querySelector('.jp-Cell').textContent.includes('%%wool')")
    assert page.source(0) == "%%time\nx = 1"


def test_a_worker_is_restarted_by_command_while_its_cell_runs(lab, gate):
    lab.open([LOAD, "%wool start -n 1", "%%wool\n" + gate.cell])
    panel = lab.panel()
    lab.run(0)
    lab.run(1)
    lab.begin(2)
    expect(panel.rows("busy")).to_have_count(1)
    [uid] = panel.uids("busy")
    lab.command("wool-jupyter:restart-worker")
    assert "WorkerDied" in lab.ended(2)
    expect(panel.rows("idle")).to_have_count(1)
    assert panel.uids("idle") != [uid]


def test_commands_are_in_palette_and_context_menu(lab, gate):
    """JupyterLab's palette has no entry for a command that is of no use at the time: without a worker that runs there are fewer."""
    lab.open([LOAD, "%wool start -n 1", "%%wool\n" + gate.cell])
    lab.run(0)
    lab.run(1)
    lab.begin(2)
    expect(lab.page.locator(".jp-WoolStatus-button")).to_have_text("Wool: 1 busy")
    lab.cell(0).locator(".jp-InputArea-editor").click(button="right")
    menu = lab.page.locator(".lm-Menu")
    for command in COMMANDS:
        expect(menu.get_by_text(command, exact=True)).to_be_visible()
    lab.page.keyboard.press("Escape")
    lab.command("apputils:activate-command-palette")
    lab.page.locator(".lm-CommandPalette-input").fill("wool")
    for command in COMMANDS:
        expect(lab.page.locator(".lm-CommandPalette-itemLabel", has_text=command)).to_be_visible()


def test_the_status_bar_counts_workers_and_opens_the_panel(lab, gate):
    lab.open([LOAD, "%wool start -n 2", "%%wool\n" + gate.cell])
    status = lab.page.locator(".jp-WoolStatus-button")
    expect(status).to_be_hidden()
    lab.run(0)
    lab.run(1)
    expect(status).to_have_text("Wool: 2 idle")
    lab.begin(2)
    expect(status).to_have_text("Wool: 1 busy, 1 idle")
    status.click()
    expect(lab.page.locator(".jp-WoolPanel")).to_be_visible()
    gate.open()
    lab.ended(2)
    expect(status).to_have_text("Wool: 2 idle")
