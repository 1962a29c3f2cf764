"""A background job's output, kept so that it can be shown again."""

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


def joined(parts: Iterable[Text]) -> Iterator[Text]:
    """Neighbours of one stream as one, and after some switches all that is left by stream: front ends take some messages a second,
    not thousands."""
    runs = [(name, "".join(text for _, text in run)) for name, run in groupby(parts, key=itemgetter(0))]
    yield from runs[:_SWITCHES]
    rest = sorted(runs[_SWITCHES:], key=itemgetter(0))
    for name, run in groupby(rest, key=itemgetter(0)):
        yield name, "".join(text for _, text in run)
