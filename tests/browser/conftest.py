"""A browser for all tests, and a page for each.

They run in a pytest process of their own (`make test-browser`): Playwright's loop runs on the main thread from the first test
to the last, and what uses asyncio there would fail.
"""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.browser import CHROMIUM_ARGS, ROOT, TIMEOUT_MS, Gate, JupyterServer, NotebookPage, find_chromium

HERE = Path(__file__).parent
if os.environ.get("CI") and find_spec("playwright") is None:
    raise RuntimeError("playwright is not installed: run `make test-browser`")

APPS = ("jupyterlab", "notebook")


def pytest_collection_modifyitems(items):
    ours = [item for item in items if HERE in item.path.parents]
    for item in ours:
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(600))
        if len(ours) < len(items):
            item.add_marker(pytest.mark.skip(reason="needs a pytest process of its own: `make test-browser`"))


def unavailable(reason):
    if os.environ.get("CI"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def browser():
    """Without one, tests are skipped; where CI is set they fail."""
    executable = find_chromium()
    if executable is None:
        unavailable("there is no browser: install Debian's package chromium, or name one in CHROMIUM")
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=TIMEOUT_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=CHROMIUM_ARGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def servers(tmp_path_factory):
    """`servers(app)`: started when it is first asked for; `python`: in the environment of that interpreter."""
    running = {}

    def server(app, theme="JupyterLab Light", python=sys.executable):
        if (app, theme, python) not in running:
            running[app, theme, python] = JupyterServer(tmp_path_factory.mktemp(app), app, theme=theme, python=python)
        return running[app, theme, python]

    yield server
    for each in running.values():
        each.stop()


@pytest.fixture
def open_page(browser, servers):
    """`open_page(app)`: a page on a new profile. Errors in its console fail the test in the end."""
    pages = []

    def page(app="jupyterlab", *, theme="JupyterLab Light", width=1280, python=sys.executable):
        server = servers(app, theme, python)
        context = browser.new_context(viewport={"width": width, "height": 900})
        pages.append(NotebookPage(server, context.new_page()))
        return pages[-1]

    yield page
    for each in pages:
        each.page.context.close()
        each.server.end_kernels()
    assert [complaint for each in pages for complaint in each.complaints] == []


@pytest.fixture(params=APPS)
def page(request, open_page):
    """In JupyterLab and in Notebook 7."""
    return open_page(request.param)


@pytest.fixture
def lab(open_page):
    return open_page("jupyterlab")


@pytest.fixture(scope="session")
def axe():
    """The source of axe-core."""
    path = ROOT / "labextension" / "node_modules" / "axe-core" / "axe.min.js"
    if not path.is_file():
        unavailable("axe-core is not installed: run `make web`")
    return path.read_text(encoding="utf-8")


@pytest.fixture
def gate(tmp_path):
    """What a cell waits for, and when it goes on."""
    return Gate(tmp_path / "gate")
