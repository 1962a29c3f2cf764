"""JupyterLab and Notebook 7 in a real browser, with this checkout's extension, and kernels on the interpreter of the server."""

import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import nbformat

from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
TIMEOUT_MS = 120_000  # generous: machines have other work, too
CHROMIUM_ARGS = [
    "--no-sandbox",  # tests run as root in containers
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
NOT_OURS = (
    "reading 'schema'",  # Notebook 7.6 throws it without any extension
    "to activate",  # JupyterLab says so of each plugin when the machine is slow
)


def find_chromium() -> str | None:
    names = ("chromium", "chromium-browser", "google-chrome")
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)


class JupyterServer:
    """One `jupyter lab` (`jupyterlab`) or `jupyter notebook` (`notebook`), with a home of its own. Ended by `stop`."""

    def __init__(
        self, home: Path, app: str, *, theme: str = "JupyterLab Light", python: str | Path = sys.executable
    ) -> None:
        self.app = app
        self._python = str(python)
        self.folder = home / "notebooks"
        self.folder.mkdir(parents=True)
        self.token = secrets.token_hex(16)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.url = f"http://127.0.0.1:{probe.getsockname()[1]}"
        self._log = (home / "server.log").open("wb")
        self._process = subprocess.Popen(
            self._command(),
            cwd=self.folder,
            env=self._environment(home, theme),
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        wait_until(self._answers, timeout_s=180)

    def _command(self) -> list[str]:
        return [
            *(self._python, "-m", self.app, "--no-browser", "--allow-root", "--ip=127.0.0.1"),
            f"--port={self.url.rpartition(':')[2]}",
            "--ServerApp.port_retries=0",
            f"--IdentityProvider.token={self.token}",
            f"--ServerApp.root_dir={self.folder}",
            "--KernelManager.shutdown_wait_time=5",
            "--LabApp.expose_app_in_browser=True",  # as window.jupyterapp
            "--JupyterNotebookApp.expose_app_in_browser=True",
        ]

    def _environment(self, home: Path, theme: str) -> dict[str, str]:
        config, extensions = home / "config" / "labconfig", home / "share" / "labextensions"
        config.mkdir(parents=True)
        extensions.mkdir(parents=True)
        (extensions / "wool-jupyter-labextension").symlink_to(ROOT / "wool_jupyter" / "labextension")
        defaults = {
            "@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False},
            "@jupyterlab/apputils-extension:themes": {"theme": theme},
            "@jupyterlab/docmanager-extension:plugin": {"autosave": False},
        }
        (config / "default_setting_overrides.json").write_text(json.dumps(defaults))
        unwanted = ("JUPYTER_TOKEN", "JPY_SESSION_NAME")
        return {name: value for name, value in os.environ.items() if name not in unwanted} | {
            "HOME": str(home),
            "IPYTHONDIR": str(home / "ipython"),
            "JUPYTER_CONFIG_DIR": str(home / "config"),
            "JUPYTER_DATA_DIR": str(home / "data"),
            "JUPYTER_PATH": str(home / "share"),
            "JUPYTER_PREFER_ENV_PATH": "1",
            "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
            "PYDEVD_DISABLE_FILE_VALIDATION": "1",
            "PYTHONPATH": str(ROOT),
        }

    def _answers(self) -> bool:
        assert self._process.poll() is None, Path(self._log.name).read_text()
        try:
            self.ask("/api/status")
        except OSError:
            return False
        return True

    def ask(self, path: str, method: str = "GET") -> Any:
        request = urllib.request.Request(
            self.url + path, method=method, headers={"Authorization": f"token {self.token}"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            body = answer.read()
        return json.loads(body) if body else None

    def write(self, name: str, cells: list[str]) -> str:
        spec = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
        made = [nbformat.v4.new_code_cell(cell) for cell in cells]
        nbformat.write(nbformat.v4.new_notebook(cells=made, metadata={"kernelspec": spec}), self.folder / name)
        return name

    def end_kernels(self) -> None:
        for session in self.ask("/api/sessions"):
            self.ask(f"/api/sessions/{session['id']}", "DELETE")

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()


class NotebookPage:
    """A browser's page with notebooks. What JupyterLab calls its parts is known here alone."""

    def __init__(self, server: JupyterServer, page: Any) -> None:
        self.server = server
        self.page = page
        self.complaints: list[str] = []
        self.not_ours = NOT_OURS  # texts of messages that are no complaints
        page.set_default_timeout(TIMEOUT_MS)
        page.on("console", lambda message: self._note(message.type, message.text))
        page.on("pageerror", lambda error: self._note("error", str(error)))

    def _note(self, kind: str, text: str) -> None:
        """Errors, and of the warnings (Notebook 7.6 has some by itself) those that speak of us."""
        if any(known in text for known in self.not_ours):
            return
        if kind == "error" or (kind == "warning" and "wool" in text.lower()):
            self.complaints.append(f"{kind}: {text}")

    # Notebooks and their cells.

    def open(self, cells: list[str], name: str = "test.ipynb") -> "NotebookPage":
        self.server.write(name, cells)
        self.visit(name)
        self._when_kernel_is_known()
        return self

    def visit(self, name: str = "test.ipynb") -> None:
        """A notebook that is there, and may have a kernel."""
        where = "notebooks" if self.server.app == "notebook" else "lab/tree"
        self.page.goto(f"{self.server.url}/{where}/{name}?reset&token={self.server.token}")
        self._wait_loaded()

    def open_beside(self, cells: list[str], name: str) -> None:
        """In JupyterLab, as one more tab."""
        self.server.write(name, cells)
        self.command("docmanager:open", {"path": name, "factory": "Notebook", "kernel": {"name": "python3"}})
        self.page.wait_for_function(f"() => {_PANEL}?.context?.path === '{name}'")
        self._when_kernel_is_known()

    def show_notebook(self, name: str) -> None:
        self.page.evaluate(
            """name => { const { shell } = window.jupyterapp;
            shell.activateById(Array.from(shell.widgets('main')).find(each => each.context?.path === name).id) }""",
            name,
        )

    def reload(self) -> None:
        self.page.reload()
        self._wait_loaded()

    def _wait_loaded(self) -> None:
        self.page.wait_for_function("() => !!window.jupyterapp")
        self._await("window.jupyterapp.restored")
        self.page.wait_for_selector(".jp-Notebook .jp-Cell")
        self.page.wait_for_selector("#jupyterlab-splash", state="detached")
        # For a cell that is run before, JupyterLab starts another kernel, and ends the one that the notebook has had.
        self.page.wait_for_function(f"() => !!{_PANEL}?.context?.sessionContext.session?.kernel")

    def _when_kernel_is_known(self) -> None:
        for part in ("ready", "sessionContext.ready", "sessionContext.session.kernel.info"):
            self._await(f"{_PANEL}.context.{part}")

    def _await(self, promise: str) -> None:
        """Not without a limit, as Playwright's `evaluate` does."""
        self.page.evaluate(
            f"""async limit => {{
                const late = new Promise((_, fail) => setTimeout(() => fail(new Error(`not within ${{limit}} ms`)), limit));
                await Promise.race([{promise}, late]) }}""",
            TIMEOUT_MS,
        )

    def save(self) -> None:
        self._await(f"{_PANEL}.context.save()")

    def restart_kernel(self) -> None:
        self._await(f"{_PANEL}.context.sessionContext.restartKernel()")
        # A cell that is sent before the new kernel is known to be there is lost.
        self._when_kernel_is_known()
        self.page.wait_for_function(f"() => {_PANEL}.context.sessionContext.session.kernel.status === 'idle'")

    def command(self, name: str, arguments: dict[str, Any] | None = None) -> None:
        """Waits until there is such a command, and not for its end."""
        self.page.wait_for_function("name => window.jupyterapp.commands.hasCommand(name)", arg=name)
        self.page.evaluate("([c, a]) => { void window.jupyterapp.commands.execute(c, a) }", [name, arguments or {}])

    def select(self, index: int) -> None:
        self.page.evaluate(
            f"i => {{ const {{ content }} = {_PANEL}; content.deselectAll(); content.activeCellIndex = i }}", index
        )

    def begin(self, index: int) -> None:
        self.select(index)
        # What ended before may be seen for a while; `ended` is to wait for this run.
        self.page.evaluate(f"i => {{ {_PANEL}.content.widgets[i].model.executionCount = null }}", index)
        self.command("notebook:run-cell")

    def run(self, index: int) -> str:
        self.begin(index)
        return self.ended(index)

    def ended(self, index: int) -> str:
        """Its output."""
        self.page.wait_for_function(
            f"i => {{ const {{ model }} = {_PANEL}.content.widgets[i];"
            " return model.executionState === 'idle' && model.executionCount !== null }",
            arg=index,
        )
        return self.cell(index).locator(".jp-Cell-outputWrapper").inner_text().strip()

    def cell(self, index: int) -> Any:
        return self.page.locator(f'.jp-Notebook:visible .jp-Cell[data-windowed-list-index="{index}"]')

    def source(self, index: int) -> str:
        return self.page.evaluate(f"i => {_PANEL}.content.widgets[i].model.sharedModel.getSource()", index)

    def is_busy(self, index: int) -> bool:
        return self.page.evaluate(f"i => {_PANEL}.content.widgets[i].model.executionState !== 'idle'", index)

    def note_statuses_from(self, status: str) -> None:
        """The kernel has that one, or will have it soon; `statuses` are those that follow."""
        self.page.wait_for_function(f"s => {_PANEL}.context.sessionContext.session.kernel.status === s", arg=status)
        self.page.evaluate(
            f"""() => {{ window.noted = []; const {{ kernel }} = {_PANEL}.context.sessionContext.session;
            kernel.statusChanged.connect((_, status) => window.noted.push(status)) }}"""
        )

    def statuses(self) -> list[str]:
        return self.page.evaluate("() => window.noted")

    # What is ours.

    def panel(self) -> "PoolPicture":
        self.command("wool-jupyter:open-dashboard")
        panel = self.page.locator(".jp-WoolPanel")
        panel.wait_for(state="visible")
        return PoolPicture(panel)

    def widget(self, index: int) -> "PoolPicture":
        """The one that this cell shows."""
        widget = self.cell(index).locator(".jp-OutputArea .jp-Wool")
        widget.wait_for(state="visible")
        return PoolPicture(widget)

    def badge(self, index: int) -> Any:
        return self.cell(index).locator(".jp-WoolBadge")


class Gate:
    """A cell can wait at it, in whichever process it runs, and the test lets it go on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.cell = f"import os, time\nwhile not os.path.exists({str(path)!r}): time.sleep(0.05)\nprint('went on')"

    def open(self) -> None:
        self._path.touch()


class PoolPicture:
    """A pool as the panel or a widget shows it."""

    def __init__(self, node: Any) -> None:
        self.node = node

    def rows(self, *states: str) -> Any:
        """Of workers in one of these states; without any: of all."""
        return self.node.locator(",".join(f'li[data-state="{state}"]' for state in states) if states else "li")

    def row(self, uid: str) -> Any:
        return self.node.locator(f'li[data-uid="{uid}"]')

    def uids(self, *states: str) -> list[str]:
        return [row.get_attribute("data-uid") for row in self.rows(*states).all()]

    def pid(self, uid: str) -> int:
        found = re.search(r"pid\s(\d+)", self.row(uid).inner_text())
        assert found, self.row(uid).inner_text()
        return int(found[1])

    def elapsed_s(self) -> int:
        """Of the one that is busy, as it is shown."""
        text = self.rows("busy").locator(".jp-Wool-elapsed").inner_text()
        found = re.fullmatch(r"(?:(\d+) min )?(\d+) s", text)
        assert found, text
        return 60 * int(found[1] or 0) + int(found[2])

    def button(self, label: str) -> Any:
        return self.node.get_by_role("button", name=label)


_PANEL = "window.jupyterapp.shell.currentWidget"
