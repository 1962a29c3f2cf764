"""What a cell shows, shown by this kernel on its main thread, where %%capture and Output widgets see it."""

import sys
from typing import TYPE_CHECKING, Any

from wool_jupyter.notebook import screens, terminal, widgets
from wool_jupyter.notebook.cell_run import loaded
from wool_jupyter.notebook.flow import Flow
from wool_jupyter.notebook.streams import Streams
from wool_jupyter.wire import cells

if TYPE_CHECKING:
    from collections.abc import Iterable

    from IPython.core.interactiveshell import InteractiveShell


class Replay:
    """Of one cell: its `Screen`."""

    def __init__(self, shell: "InteractiveShell", flow: Flow) -> None:
        self._shell = shell
        self._flow = flow
        self._streams = Streams()
        self._late: list[dict[str, Any]] = []

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
        screens.show(event, self._flow, self)

    def text(self, parts: "Iterable[screens.Text]") -> None:
        self._streams.write(parts)

    def display(self, content: dict[str, Any]) -> None:
        shown = {"transient": content["transient"], "update": content["update"]}
        self._shell.display_pub.publish(content["data"], content["metadata"], **shown)

    def display_late(self, content: dict[str, Any]) -> None:
        self._late.append(content)

    def clear(self, *, wait: bool) -> None:
        self._shell.display_pub.clear_output(wait)

    def say(self, kind: str, comm: str, content: dict[str, Any]) -> None:
        widgets.say(kind, comm, content)

    def fail(self, event: cells.Failure) -> None:
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
        screens.show_rest(self._flow, self)

    def show_late(self) -> None:
        """A plain cell shows its result or error before the figures that were left open."""
        if not self._late:
            return
        events = self._shell.events

        def show(_result: object) -> None:
            events.unregister("post_run_cell", show)
            for content in self._late:
                self.display(content)

        events.register("post_run_cell", show)
