"""What a worker has shown, by its kind, on the way to wherever the output of its cell is seen.

Flow, cells.Shown ─▶ show, show_rest ─▶ a Screen: of a cell that waits (`replay`), of a job (`job_output`), of calls (`submissions`)
"""

from collections.abc import Iterable
from functools import partial
from typing import Any, Protocol

from wool_jupyter.notebook.cell_run import loaded
from wool_jupyter.notebook.flow import Flow
from wool_jupyter.wire import cells

Text = tuple[str, str]  # stream's name, text


class Screen(Protocol):
    """On one thread at a time."""

    def text(self, parts: Iterable[Text]) -> None: ...
    def fail(self, event: cells.Failure) -> None: ...
    def clear(self, *, wait: bool) -> None: ...
    def say(self, kind: str, comm: str, content: dict[str, Any]) -> None:
        """To a widget."""

    def display(self, content: dict[str, Any]) -> None:
        """`content`: data, metadata, transient and update, as a `DisplayPublisher` takes them."""

    def display_late(self, content: dict[str, Any]) -> None:
        """A figure that the cell has left open: a plain cell shows it after its result or error."""


def show(event: cells.Shown, flow: Flow, screen: Screen) -> None:
    """`flow` decides what of it there is room for."""
    match event:
        case cells.Display(late=late):
            content = loaded(event.content)  # now, for its file goes with the call
            if late:
                screen.display_late(content)
            else:
                flow.display(content, event.content.nbytes, partial(screen.display, content))
        case cells.Clear(wait=wait):
            flow.cleared()
            screen.clear(wait=wait)
        case cells.Failure():
            screen.fail(event)
        case cells.Comm(kind=kind, comm=comm, content=said):
            screen.say(kind, comm, loaded(said))
        case cells.Notice(text=text):
            screen.text([notice(text)])


def show_rest(flow: Flow, screen: Screen) -> None:
    """The text that has not been shown, or a flood's last lines. Where displays were left out, the last one is shown."""
    screen.text(flow.rest())
    for show_it in flow.last_displays():
        show_it()


def notice(text: str) -> Text:
    """A line of ours between the lines of a cell."""
    return "stderr", f"wool: {text}\n"


def traceback_of(event: cells.Failure) -> Text:
    return "stderr", "\n".join([*event.traceback, ""])
