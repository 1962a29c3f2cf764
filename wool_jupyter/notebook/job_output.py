"""A background job's output: under the cell that started it as it comes, and kept so that it can be shown again."""

import contextvars
import pickle
import sys
import tempfile
import threading
import weakref
from collections.abc import Iterable, Iterator
from io import StringIO
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from IPython.utils.capture import CapturedIO, RichOutput

from wool_jupyter.errors import in_words

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_IN_MEMORY_BYTES = 1 << 20  # of one job; what is more lies in a file without a name

_SWITCHES = 20  # between the streams, in one batch

Text = tuple[str, str]  # stream's name, text


class Shown(NamedTuple):
    kind: str  # stdout, stderr, display or error
    content: Any  # text; a display's data, metadata, transient and update; a traceback's lines


class Record:
    """All that can still be seen of what was shown, in order. On any thread."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES)  # noqa: SIM115 (lives as long as the record)
        weakref.finalize(self, self._file.close)
        self._ends = [0]
        self._lock = threading.Lock()
        self._cleared_by_next = False

    def add(self, shown: Shown) -> None:
        frame = pickle.dumps(shown, protocol=5)
        with self._lock:
            if self._cleared_by_next:
                self._empty()
            self._file.seek(self._ends[-1])
            self._file.write(frame)
            self._ends.append(self._ends[-1] + len(frame))

    def clear(self, *, wait: bool) -> None:
        with self._lock:
            if wait:
                self._cleared_by_next = True
            else:
                self._empty()

    def _empty(self) -> None:
        self._cleared_by_next = False
        self._ends = [0]

    def is_empty(self) -> bool:
        return len(self._ends) == 1

    def __iter__(self) -> Iterator[Shown]:
        at = 0
        while True:
            with self._lock:
                if at + 1 >= len(self._ends):
                    return
                self._file.seek(self._ends[at])
                frame = self._file.read(self._ends[at + 1] - self._ends[at])
            yield Shown(*pickle.loads(frame))
            at += 1

    def captured(self) -> CapturedIO:
        """As `%%capture` gives it: the order between the streams is lost."""
        streams = {"stdout": StringIO(), "stderr": StringIO()}
        outputs: list[Any] = []
        for kind, content in self:
            match kind:
                case "stdout" | "stderr":
                    streams[kind].write(content)
                case "display":
                    outputs.append(content)
                case "error":
                    streams["stderr"].write("\n".join(content) + "\n")
        return CapturedIO(streams["stdout"], streams["stderr"], outputs)

    def replay(self) -> None:
        """Into the cell that runs now."""
        for kind, content in self:
            match kind:
                case "stdout" | "stderr":
                    getattr(sys, kind).write(content)
                    getattr(sys, kind).flush()
                case "display":
                    RichOutput(**content).display()
                case "error":
                    print("\n".join(content), file=sys.stderr, flush=True)


class Place(Protocol):
    """Where a job's output is seen. On any thread."""

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
    return _Terminal() if kernel is None else _UnderTheCell(shell, kernel)


class _UnderTheCell:
    """Messages with this cell as their parent: front ends put them there whatever runs by then. nbclient takes messages of the
    running cell only."""

    is_everywhere = False

    def __init__(self, shell: "InteractiveShell", kernel: Any) -> None:
        self._shell: Any = shell
        self._kernel = kernel
        self._parent = self._shell.get_parent()

    def stream(self, name: str, text: str) -> None:
        self._send("stream", {"name": name, "text": text})

    def display(self, content: dict[str, Any]) -> None:
        kind = "update_display_data" if content["update"] else "display_data"
        self._send(kind, {name: content[name] for name in ("data", "metadata", "transient")})

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
        from ipykernel.jsonutil import encode_images, json_clean

        if "data" in content:
            content["data"] = encode_images(content["data"])
        session, socket = self._kernel.session, self._kernel.iopub_socket
        session.send(socket, kind, json_clean(content), parent=parent or self._parent, ident=kind.encode())


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


def joined(parts: Iterable[Text]) -> Iterator[Text]:
    """Neighbours of one stream as one, and after some switches all that is left by stream: front ends take some messages a second,
    not thousands."""
    runs = [(name, "".join(text for _, text in run)) for name, run in groupby(parts, key=itemgetter(0))]
    yield from runs[:_SWITCHES]
    rest = sorted(runs[_SWITCHES:], key=itemgetter(0))
    for name, run in groupby(rest, key=itemgetter(0)):
        yield name, "".join(text for _, text in run)
