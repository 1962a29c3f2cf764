"""Buttons work while a cell runs: with each pair of these releases of ipykernel and JupyterLab, in an environment of its own."""

import shutil
import subprocess
import sys
import venv

import pytest

from tests.support.browser import ROOT

expect = pytest.importorskip("playwright.sync_api", reason="run `make test-browser`").expect

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(1200)]  # an environment takes minutes on a busy machine

RELEASES = [(ipykernel, lab) for ipykernel in ("7.4", "7.1") for lab in ("4.6", "4.4")]
LOAD = "%load_ext wool_jupyter\n%wool start -n 1"
SHOW = "import wool_jupyter; wool_jupyter.dashboard()"
VERSIONS = "import ipykernel, jupyterlab; print(ipykernel.__version__, jupyterlab.__version__)"


@pytest.fixture(scope="module", params=RELEASES, ids=lambda pair: "ipykernel {}, JupyterLab {}".format(*pair))
def release(request, tmp_path_factory):
    """The two releases, and an interpreter that has them."""
    ipykernel, lab = request.param
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=True)
    python = str(folder / "bin" / "python")
    wanted = ["--editable", f"{ROOT}[widget]", f"ipykernel=={ipykernel}.*", f"jupyterlab=={lab}.*"]
    subprocess.run(
        [python, "-m", "pip", "install", "-qq", "--disable-pip-version-check", *wanted], check=True, stdout=sys.stderr
    )
    yield ipykernel, lab, python
    shutil.rmtree(folder)  # 400 MB


@pytest.fixture
def page(release, open_page, gate):
    """A cell waits at the gate there, and the notebook shows the widget."""
    ipykernel, lab, python = release
    page = open_page(python=python).open([VERSIONS, LOAD, SHOW, f"%%wool\n{gate.cell}"])
    shown = page.run(0).split()
    assert shown[0].startswith(f"{ipykernel}.")
    assert shown[1].startswith(f"{lab}.")
    assert "started a pool" in page.run(1)
    page.run(2)
    page.begin(3)
    return page


@pytest.mark.parametrize("where", ["panel", "widget"])
def test_buttons_work_while_a_cell_runs(page, where):
    pool = page.panel() if where == "panel" else page.widget(2)
    expect(pool.rows("busy")).to_have_count(1)
    pool.button("Add a worker").click()
    expect(pool.rows("idle")).to_have_count(1)
    assert page.is_busy(3)
    pool.rows("busy").get_by_role("button", name="Interrupt").click()
    assert "KeyboardInterrupt" in page.ended(3)


def test_the_panel_s_buttons_work_after_the_page_was_loaded_anew_while_a_cell_runs(page):
    expect(page.panel().rows("busy")).to_have_count(1)
    page.save()
    page.reload()
    pool = page.panel()
    pool.rows("busy").get_by_role("button", name="Interrupt").click()
    expect(pool.rows("busy")).to_have_count(0)
    expect(page.badge(3)).to_contain_text("interrupted")
