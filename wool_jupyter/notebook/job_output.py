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
from typing import Any, NamedTuple

from IPython.utils.capture import CapturedIO, RichOutput

from wool_jupyter.notebook import widgets
from wool_jupyter.notebook.places import Place
from wool_jupyter.notebook.screens import Text, traceback_of
from wool_jupyter.wire import cells

_IN_MEMORY_BYTES = 1 << 20  # of one job; what is more lies in a file without a name

_SWITCHES = 20  # between the streams, in one batch


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


class JobOutput:
    """A `Screen`."""

    def __init__(self, place: Place, context: contextvars.Context) -> None:
        """Both of the cell that started the job."""
        self.record = Record()
        self.place = place
        self._context = context
        self._late: list[dict[str, Any]] = []

    def text(self, parts: Iterable[Text]) -> None:
        for name, text in joined(parts):
            self.stream(name, text)

    def stream(self, name: str, text: str) -> None:
        self.record.add(Shown(name, text))
        self.place.stream(name, text)

    def fail(self, event: cells.Failure) -> None:
        self.stream(*traceback_of(event))

    def clear(self, *, wait: bool) -> None:
        self.record.clear(wait=wait)
        self.place.clear(wait=wait)

    def say(self, kind: str, comm: str, content: dict[str, Any]) -> None:
        self._context.copy().run(widgets.say, kind, comm, content)

    def display(self, content: dict[str, Any]) -> None:
        self.record.add(Shown("display", content))
        self.place.display(content)

    def display_late(self, content: dict[str, Any]) -> None:
        self._late.append(content)

    def show_late(self) -> None:
        """When the result has been shown."""
        for content in self._late:
            self.display(content)
        self._late.clear()

    def error(self, error: BaseException, lines: list[str]) -> None:
        self.record.add(Shown("error", lines))
        self.place.error(error, lines)


def joined(parts: Iterable[Text]) -> Iterator[Text]:
    """Neighbours of one stream as one, and after some switches all that is left by stream: front ends take some messages a second,
    not thousands."""
    runs = [(name, "".join(text for _, text in run)) for name, run in groupby(parts, key=itemgetter(0))]
    yield from runs[:_SWITCHES]
    rest = sorted(runs[_SWITCHES:], key=itemgetter(0))
    for name, run in groupby(rest, key=itemgetter(0)):
        yield name, "".join(text for _, text in run)
