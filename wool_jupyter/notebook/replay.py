"""What a cell shows, shown by this kernel on its main thread, where %%capture and Output widgets see it."""

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from wool_jupyter.notebook import terminal, widgets
from wool_jupyter.notebook.cell_run import loaded
from wool_jupyter.notebook.flow import Flow
from wool_jupyter.notebook.streams import Streams
from wool_jupyter.wire import cells

if TYPE_CHECKING:
    from collections.abc import Callable

    from IPython.core.interactiveshell import InteractiveShell


class Replay:
    """Of one cell."""

    def __init__(self, shell: "InteractiveShell", flow: Flow) -> None:
        self._shell = shell
        self._flow = flow
        self._streams = Streams()
        self._late: list[Callable[[], object]] = []

    def tick(self) -> None:
        """The text that is there by now, but for a part of a flood."""
        self._streams.write(self._flow.due())

    def up_to(self, event: cells.Event) -> None:
        """The text that came before it."""
        if isinstance(event, cells.InPlace):
            self._flow.came()
            self._streams.write(self._flow.ready(event.at))
        else:
            self._streams.write(self._flow.ready())

    def event(self, event: cells.Shown) -> None:
        match event:
            case cells.Display():
                self._display(event)
            case cells.Clear(wait=wait):
                self._flow.cleared()
                self._shell.display_pub.clear_output(wait)
            case cells.Failure():
                self._fail(event)
            case cells.Comm(kind=kind, comm=comm, content=content):
                widgets.say(kind, comm, loaded(content))
            case cells.Notice(text=text):
                self._streams.write([("stderr", f"wool: {text}\n")])

    def _display(self, event: cells.Display) -> None:
        content = loaded(event.content)  # now, for its file goes with the call
        shown = {"transient": content["transient"], "update": content["update"]}
        show = partial(self._shell.display_pub.publish, content["data"], content["metadata"], **shown)
        if event.late:
            self._late.append(show)
        else:
            self._flow.display(content, event.content.nbytes, show)

    def _fail(self, event: cells.Failure) -> None:
        kind = type(event.name, (Exception,), {})
        error: BaseException = kind(event.words)
        if event.error is not None:
            try:
                error = loaded(event.error)
            except Exception:  # noqa: BLE001 (its class is not to be had here)
                pass
            else:
                kind = type(error)
                sys.last_type, sys.last_value, sys.last_traceback = kind, error, error.__traceback__
        self._shell._showtraceback(kind, event.words, list(event.traceback))

    def payload(self, payload: dict[str, Any]) -> None:
        if terminal.is_terminal(self._shell):
            terminal.obey(self._shell, payload)
        else:
            self._shell.payload_manager.write_payload(payload)

    def end(self) -> None:
        """The text that has not been shown, or a flood's last lines. Where displays were left out, the last one is shown."""
        self._streams.write(self._flow.rest())
        for show in self._flow.last_displays():
            show()

    def show_late(self) -> None:
        """A plain cell shows its result or error before the figures that were left open."""
        if not self._late:
            return
        events = self._shell.events

        def show(_result: object) -> None:
            events.unregister("post_run_cell", show)
            for show_it in self._late:
                show_it()

        events.register("post_run_cell", show)
