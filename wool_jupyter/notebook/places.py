"""Where a cell's output is seen, whatever runs by then: under that cell, or where a terminal's cursor is."""

import contextvars
import sys
from typing import TYPE_CHECKING, Any, Protocol

from wool_jupyter.errors import in_words

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


class Place(Protocol):
    """On any thread."""

    is_everywhere: bool  # the output of whichever cell runs is seen there, too

    def stream(self, name: str, text: str) -> None: ...
    def display(self, content: dict[str, Any]) -> None: ...
    def clear(self, *, wait: bool) -> None: ...
    def error(self, error: BaseException, lines: list[str]) -> None: ...

    def update(self, display_id: str, data: dict[str, Any], metadata: dict[str, Any]) -> None:
        """Of something that the cell has displayed under this id."""


def place_of_this_cell(shell: "InteractiveShell") -> Place:
    """To be called while the cell runs."""
    kernel = getattr(shell, "kernel", None)
    return _Terminal() if kernel is None else UnderTheCell(shell, kernel)


class UnderTheCell:
    """Messages with this cell as their parent: front ends put them there whatever runs by then. nbclient takes messages of the
    running cell only. Not through `sys.stdout`, which belongs to the cell that runs now; ipykernel's socket takes messages from any
    thread."""

    is_everywhere = False

    def __init__(self, shell: "InteractiveShell", kernel: Any) -> None:
        self._shell: Any = shell
        self._kernel = kernel
        self.parent = self._shell.get_parent()

    def stream(self, name: str, text: str) -> None:
        self._send("stream", {"name": name, "text": text})

    def display(self, content: dict[str, Any]) -> None:
        kind = "update_display_data" if content["update"] else "display_data"
        shown = {"data": content["data"], "metadata": content["metadata"], "transient": content["transient"] or {}}
        self._send(kind, shown)

    def clear(self, *, wait: bool) -> None:
        self._send("clear_output", {"wait": wait})

    def error(self, error: BaseException, lines: list[str]) -> None:
        self._send(
            "error", {"ename": type(error).__name__, "evalue": in_words(error).partition(": ")[2], "traceback": lines}
        )

    def update(self, display_id: str, data: dict[str, Any], metadata: dict[str, Any]) -> None:
        """By the cell that runs now, which is the one that nbclient listens to."""
        running = contextvars.Context().run(self._shell.get_parent)  # of no cell's context: the latest request
        content = {"data": data, "metadata": metadata, "transient": {"display_id": display_id}}
        self._send("update_display_data", content, parent=running)

    def _send(self, kind: str, content: dict[str, Any], *, parent: Any = None) -> None:
        session, socket = self._kernel.session, self._kernel.iopub_socket
        session.send(socket, kind, content, parent=parent or self.parent, ident=kind.encode())


class _Terminal:
    """A terminal has no places of cells: text goes where the cursor is."""

    is_everywhere = True

    def stream(self, name: str, text: str) -> None:
        stream = getattr(sys, f"__{name}__")
        stream.write(text)
        stream.flush()

    def display(self, content: dict[str, Any]) -> None:
        self.stream("stdout", content["data"].get("text/plain", "") + "\n")

    def clear(self, *, wait: bool) -> None:
        pass

    def error(self, error: BaseException, lines: list[str]) -> None:
        del error
        self.stream("stdout", "\n".join(lines) + "\n")

    def update(self, display_id: str, data: dict[str, Any], metadata: dict[str, Any]) -> None:
        del display_id, metadata
        self.stream("stdout", data["text/plain"] + "\n")
