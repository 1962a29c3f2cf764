"""What `%%wool --bg` gives to the user."""

import asyncio
import html
import time
import uuid
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from IPython.display import display
from IPython.utils.capture import CapturedIO

from wool_jupyter.notebook.execution import Execution

if TYPE_CHECKING:
    from wool_jupyter.notebook.background import Background

_LOOK_S = 0.05
_NAMES = 8  # are listed; of more, the number
_LOOK = (  # and the place of text that is printed, in JupyterLab and elsewhere
    "padding-left: 7px; font-family: var(--jp-code-font-family, monospace); font-size: var(--jp-code-font-size, 13px); "
    "line-height: var(--jp-code-line-height, 1.3)"
)
_COLORS = {"running": "#1976d2", "done": "#2e7d32", "failed": "#c62828"}


class Job:
    """A cell that runs in the background. Its names are bound when the kernel is idle, and before the next cell runs."""

    def __init__(self, execution: Execution, background: "Background") -> None:
        self.execution = execution  # not for users
        self._background = background
        self._display_id = f"wool-job-{uuid.uuid4().hex}"
        self._is_displayed = False

    @property
    def number(self) -> int:
        return self.execution.number

    @property
    def state(self) -> str:
        """waiting (for a worker), running, done, failed or cancelled."""
        return self.execution.state

    def done(self) -> bool:
        """Whether it has ended, however it did."""
        return self.state not in ("waiting", "running")

    def cancel(self) -> bool:
        """As ■ does with a cell, or out of the line; called again, it ends the worker. False if the job has ended already."""
        return self.execution.cancel()

    def result(self, timeout: float | None = None) -> Any:
        """The value of its last expression, once its names are bound. Raises what the cell raised; `JobCancelled`; `TimeoutError`
        after `timeout` seconds.

        Off the main thread it waits until the main thread has bound the names, which it does between two cells.
        """
        __tracebackhide__ = True
        self._background.wait_for(self.execution, timeout)
        return self._background.result_of(self.execution)

    def __await__(self) -> Generator[Any, None, Any]:
        """As `result`. ■ is noticed at once."""
        while not self._background.is_settled(self.execution):
            yield from asyncio.sleep(_LOOK_S).__await__()  # a wait for a future alone would not let ■ through
        return self._background.result_of(self.execution)

    @property
    def output(self) -> CapturedIO:
        """What it has shown so far, as `%%capture` gives it. `%wool output` shows it in its order."""
        return self.execution.output.record.captured()

    def __repr__(self) -> str:
        return f"<Job {self.number}: {self.state}, {duration_in_words(self.execution.elapsed_s())}>"

    def _ipython_display_(self) -> None:
        """Where the job is shown, it stays up to date: in a saved notebook, too."""
        bundle = self._bundle()
        display(bundle, raw=True, metadata=self._metadata(), display_id=self._display_id)
        self._is_displayed = True
        if self._bundle() != bundle:  # news that came in between were of a display that nobody knew
            self.show_news()

    def has_told_here(self) -> bool:
        """Its news stand in the running cell, too."""
        return self._is_displayed and self.execution.output.place.is_everywhere

    def show_news(self) -> None:
        """Where it is displayed already."""
        if self._is_displayed:
            self.execution.output.place.update(self._display_id, self._bundle(), self._metadata())

    def _metadata(self) -> dict[str, Any]:
        """Is saved with the notebook: by it a page that is loaded anew knows the job's line, and what shows again what the job has
        shown."""
        again = {} if self.execution.output.record.is_empty() else {"again": f"%wool output {self.number}"}
        return {"wool": {"job": self._display_id, "ended": self.done(), **again}}

    def _bundle(self) -> dict[str, str]:
        lines = [self.sentence(), *self.execution.lines]
        color = _COLORS.get(self.state, "#757575")
        head = f'<span style="color: {color}">●</span> {html.escape(lines[0])}'
        return {
            "text/plain": "\n".join(f"wool: {line}" for line in lines),
            "text/html": f'<div style="{_LOOK}">{head}{"".join(map(_in_html, lines[1:]))}</div>',
        }

    def sentence(self) -> str:
        """True also when it is read later."""
        execution, took = self.execution, duration_in_words(self.execution.elapsed_s())
        who = f"job {execution.number}"
        bound = _listed([name for name in execution.bound if not name.startswith("_")])
        match execution.state:
            case "waiting":
                why = f": {execution.why_it_waits}" if execution.why_it_waits else ""
                return f"{who} waits for a worker{why}"
            case "running":
                return (
                    f"{who} runs since {time.strftime('%H:%M:%S', time.localtime(time.time() - execution.elapsed_s()))}"
                )
            case "done":
                return f"{who} is done after {took}" + (f": bound {bound}" if bound else "")
            case state:
                ended = f"{who} {'failed' if state == 'failed' else 'was cancelled'} after {took}"
                reason = f": {execution.reason.splitlines()[0].removesuffix(': ')}" if execution.reason else ""
                return ended + reason + (f" (before that it bound {bound})" if bound else "")


def _in_html(line: str) -> str:
    return f"<br>{html.escape(line)}"


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return ", ".join(f"`{name}`" for name in names[:_NAMES]) + more


def duration_in_words(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
