"""For everybody: themes, narrow places, keyboards and screen readers."""

import os
import re
import signal

import pytest

from tests.support.waiting import wait_until

expect = pytest.importorskip("playwright.sync_api", reason="run `make test-browser`").expect

LOAD = "%load_ext wool_jupyter"
START = "%wool start -n 2"
SHOW = "import wool_jupyter; wool_jupyter.dashboard()"
THEMES = {"JupyterLab Light": "light", "JupyterLab Dark": "dark"}

AXE = """async selector => (await axe.run(selector, { resultTypes: ['violations'] })).violations
    .filter(each => ['serious', 'critical'].includes(each.impact))
    .map(each => `${each.id}: ${each.nodes.map(node => node.html + ' ' + node.failureSummary).join(' | ')}`)"""
GROUND = r"""node => { let each = node, colour;
    do { colour = getComputedStyle(each).backgroundColor; each = each.parentElement } while (/, 0\)$/.test(colour));
    return colour }"""
TEXT = "node => getComputedStyle(node).color"


def brightness(colour):
    """Of `rgb(…)`; 0 to 1."""
    return sum(float(part) for part in re.findall(r"[\d.]+", colour)[:3]) / 765


@pytest.mark.parametrize("theme", THEMES)
def test_panel_widget_and_badge_have_no_serious_finding(open_page, axe, gate, theme):
    page = open_page(theme=theme)
    page.open([LOAD, START, SHOW, "%%wool\n1 / 0", "%%wool\n" + gate.cell])
    panel = page.panel()
    for index in range(4):
        page.run(index)
    expect(panel.rows("idle")).to_have_count(2)
    page.begin(4)
    expect(panel.rows("busy")).to_have_count(1)
    panel.rows("busy").get_by_role("button", name="Restart").click()  # it asks
    os.kill(panel.pid(panel.uids("idle")[0]), signal.SIGKILL)
    expect(panel.rows("dead")).to_have_count(1)
    expect(page.badge(3)).to_contain_text("error")
    page.page.evaluate(axe)
    for ours in (".jp-WoolPanel", ".jp-OutputArea .jp-Wool", ".jp-WoolBadge", ".jp-WoolStatus"):
        assert page.page.evaluate(AXE, ours) == []


@pytest.mark.parametrize("theme", THEMES)
def test_panel_and_widget_are_as_dark_as_the_theme(open_page, theme):
    page = open_page(theme=theme)
    page.open([LOAD, START, SHOW])
    panel = page.panel()
    for index in range(3):
        page.run(index)
    expect(panel.rows("idle")).to_have_count(2)
    for node in (panel.node, page.widget(2).node):
        ground = brightness(node.evaluate(GROUND))
        text = brightness(node.locator(".jp-Wool-uid").first.evaluate(TEXT))
        assert (ground < 0.3 and text > 0.7) if THEMES[theme] == "dark" else (ground > 0.9 and text < 0.3)


def test_nothing_is_cut_off_in_350_pixels(lab):
    lab.open([LOAD, START, SHOW])
    for index in range(3):
        lab.run(index)
    widget = lab.widget(2)
    expect(widget.rows("idle")).to_have_count(2)
    widget.node.evaluate("node => { node.style.width = '350px' }")
    over = widget.node.evaluate(
        """root => Array.from(root.querySelectorAll('.jp-Wool-who, .jp-Wool-facts, .jp-Wool-meter, button, .jp-Wool-state'))
        .filter(node => node.scrollWidth > node.clientWidth + 1 || node.getBoundingClientRect().right
                > root.getBoundingClientRect().right).map(node => node.className)"""
    )
    assert over == []
    assert widget.node.bounding_box()["width"] == 350


def test_the_keyboard_reaches_everything_and_the_focus_stays(lab, gate):
    lab.open([LOAD, START, "%%wool\n" + gate.cell])
    panel = lab.panel()
    lab.run(0)
    lab.run(1)
    expect(panel.rows("idle")).to_have_count(2)
    lab.begin(2)
    expect(panel.rows("busy")).to_have_count(1)
    [uid] = panel.uids("busy")
    panel.button("Remove a worker").focus()
    interrupt = panel.row(uid).get_by_role("button", name="Interrupt")
    for _ in range(10):
        lab.page.keyboard.press("Tab")
        if interrupt.evaluate("node => node === document.activeElement"):
            break
    expect(interrupt).to_be_focused()
    reached_s = panel.elapsed_s()
    wait_until(lambda: panel.elapsed_s() > reached_s + 2, timeout_s=120)  # snapshots came meanwhile
    expect(interrupt).to_be_focused()
    lab.page.keyboard.press("Enter")
    assert "KeyboardInterrupt" in lab.ended(2)
    expect(panel.row(uid)).to_have_attribute("data-state", "idle")
    expect(interrupt).to_be_focused()
