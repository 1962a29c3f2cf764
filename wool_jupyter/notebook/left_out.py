"""What cells have printed or displayed beyond what a notebook can show: kept in files without a name, which end with the kernel."""

import io
import os
import pickle
import sys
import tempfile
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from wool_jupyter.notebook.streams import Streams

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

KEPT_BYTES = 256 << 20  # of all cells; then the oldest cells' gives way

Pieces = list[tuple[str, bytes]]  # (stream's name, text), in order


class LeftOut:
    """Of one cell, in order. Used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._file: BinaryIO | None = None
        self.kept_bytes = self.lost_bytes = 0

    def add_text(self, pieces: Pieces) -> None:
        self._add(pieces, sum(len(data) for _, data in pieces))

    def add_display(self, content: dict[str, Any], nbytes: int) -> None:
        """What `cells.Display` holds."""
        self._add(content, nbytes)

    def _add(self, record: Pieces | dict[str, Any], nbytes: int) -> None:
        with self._lock:
            if self.kept_bytes + nbytes > KEPT_BYTES or self.lost_bytes:
                self.lost_bytes += nbytes
                return
            try:
                self._write(record)
            except OSError:  # the disk is full
                self.lost_bytes += nbytes
            else:
                self.kept_bytes += nbytes

    def _write(self, record: Pieces | dict[str, Any]) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 (kept)
            weakref.finalize(self, self._file.close)
        end = self._file.seek(0, io.SEEK_END)
        data = memoryview(pickle.dumps(record, protocol=5))
        try:
            while data:
                data = data[self._file.write(data) :]
        except OSError:
            self._file.truncate(end)
            raise

    def lose(self, nbytes: int) -> None:
        """Of what there is no room for, and what was not read for that reason."""
        with self._lock:
            self.lost_bytes += nbytes

    @property
    def is_full(self) -> bool:
        return self.lost_bytes > 0

    def records(self) -> Iterator[Pieces | dict[str, Any]]:
        position = 0
        while True:
            with self._lock:
                if self._file is None:
                    return
                self._file.seek(position)
                try:
                    record = pickle.load(self._file)
                except EOFError:
                    return
                position = self._file.tell()
            yield record

    def text(self) -> str:
        """Of both streams; displays by their plain form."""
        parts = []
        for record in self.records():
            if isinstance(record, dict):
                parts.append(f"{record['data'].get('text/plain', '')}\n".encode(errors="backslashreplace"))
            else:
                parts += [data for _, data in record]
        return b"".join(parts).decode(errors="replace")

    def drop(self) -> None:
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None


class Recalled:
    """What `%wool output` gives: shown as far as a notebook can, and whole as `str(it)` or in a file."""

    def __init__(
        self, shell: "InteractiveShell", left_out: LeftOut, *, budget_bytes: int | None, lines: int | None
    ) -> None:
        self._shell, self._left_out = shell, left_out
        self._text = Streams()
        self._most_bytes = sys.maxsize if budget_bytes is None else budget_bytes
        self._lines = lines

    def __str__(self) -> str:
        text = self._left_out.text()
        return text if self._lines is None else "".join(text.splitlines(keepends=True)[-self._lines :])

    def save(self, path: str | os.PathLike[str]) -> None:
        """As UTF-8."""
        Path(path).write_text(str(self), encoding="utf-8", errors="replace")

    def __repr__(self) -> str:
        return f"<output that was left out: {self._left_out.kept_bytes:,} bytes>"

    def _ipython_display_(self) -> None:
        room = self._most_bytes
        for record in self._records():
            if isinstance(record, dict):
                shown = {"transient": record["transient"], "update": False}
                self._shell.display_pub.publish(record["data"], record["metadata"], **shown)
                continue
            self._text.write((name, data.decode(errors="replace")) for name, data in _first(record, room))
            room -= sum(len(data) for _, data in record)
            if room < 0:
                self._say(
                    "this is the beginning; `text = str(_)` is the whole text, `_.save(path)` writes it to a file"
                )
                break
        if lost := self._left_out.lost_bytes:
            self._say(f"{lost:,} bytes that came later were more than is kept, and are gone")

    def _say(self, what: str) -> None:
        self._text.write([("stderr", f"\nwool: {what}\n")])

    def _records(self) -> Iterator[Pieces | dict[str, Any]]:
        if self._lines is None:
            yield from self._left_out.records()
        else:
            yield [("stdout", str(self).encode(errors="replace"))]


def _first(pieces: Pieces, most_bytes: int) -> Pieces:
    found = []
    for name, data in pieces:
        if most_bytes <= 0:
            break
        found.append((name, data[:most_bytes]))
        most_bytes -= len(data)
    return found


class Shelf:
    """By the number of the cell."""

    def __init__(self) -> None:
        self._cells: dict[int, LeftOut] = {}
        self._runs: dict[int, str] = {}

    def of(self, cell: int, *, run: str) -> LeftOut:
        """To be filled: newest last, and what does not fit any more is gone. Several of one `run` go together."""
        left_out = self._cells.pop(cell, None)
        if left_out is not None and self._runs[cell] != run:
            left_out.drop()
            left_out = None
        self._runs[cell] = run
        self._cells[cell] = left_out = left_out or LeftOut()
        while sum(each.kept_bytes for each in self._cells.values()) > KEPT_BYTES and len(self._cells) > 1:
            self._cells.pop(next(iter(self._cells))).drop()
        return left_out

    def find(self, cell: int | None) -> LeftOut | None:
        """None asks for the newest."""
        if cell is None:
            return next(reversed(self._cells.values()), None)
        return self._cells.get(cell)

    def cells(self) -> list[int]:
        return sorted(self._cells)
