"""What cells have printed or displayed beyond what a notebook can show: kept in files without a name, which end with the kernel."""

import io
import pickle
import tempfile
import threading
from collections.abc import Iterator
from typing import Any, BinaryIO

KEPT_BYTES = 256 << 20  # of all cells; then the oldest cells' gives way

Record = tuple[str, Any]  # (stdout or stderr, bytes), or ("display", what `cells.Display` holds)


class LeftOut:
    """Of one cell, in order. Used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._file: BinaryIO | None = None
        self.kept_bytes = self.lost_bytes = 0

    def add(self, kind: str, content: Any, nbytes: int) -> None:
        with self._lock:
            if self.kept_bytes + nbytes > KEPT_BYTES or self.lost_bytes:
                self.lost_bytes += nbytes
                return
            try:
                self._write((kind, content))
            except OSError:  # the disk is full
                self.lost_bytes += nbytes
            else:
                self.kept_bytes += nbytes

    def _write(self, record: Record) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 (kept, and closed by `drop`)
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

    def records(self) -> Iterator[Record]:
        position = 0
        while True:
            with self._lock:
                if self._file is None:
                    return
                self._file.seek(position)
                try:
                    record: Record = pickle.load(self._file)
                except EOFError:
                    return
                position = self._file.tell()
            yield record

    def text(self) -> str:
        """Of both streams; displays by their plain form."""
        parts = []
        for kind, content in self.records():
            if kind == "display":
                parts.append(f"{content['data'].get('text/plain', '')}\n".encode(errors="backslashreplace"))
            else:
                parts.append(content)
        return b"".join(parts).decode(errors="replace")

    def drop(self) -> None:
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None


class Shelf:
    """By the number of the cell."""

    def __init__(self) -> None:
        self._cells: dict[int, LeftOut] = {}

    def of(self, cell: int) -> LeftOut:
        """To be filled: newest last, and what does not fit any more is gone."""
        left_out = self._cells.pop(cell, None) or LeftOut()
        self._cells[cell] = left_out
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
