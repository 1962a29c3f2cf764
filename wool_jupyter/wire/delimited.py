"""CSV readers and writers, as far as that travels which they read or write: a closed file does (`finished`)."""

import gc
import itertools
from collections.abc import Iterator
from typing import Any

Reduced = tuple[Any, ...]
_LINES_MAX = 100_000  # read again, all of them empty, so that a reader has their number


def _dialect(obj: Any) -> dict[str, Any]:
    names = "delimiter doublequote escapechar lineterminator quotechar quoting skipinitialspace strict"
    return {name: getattr(obj.dialect, name) for name in names.split()}


def _writer(writer: Any) -> Reduced | None:
    (write,) = (held for held in _held(writer) if callable(held))
    if write != write.__self__.write:
        return None
    return csv_writer, (write.__self__, _dialect(writer))


def csv_writer(file: Any, dialect: dict[str, Any]) -> Any:
    import csv

    return csv.writer(file, **dialect)


def _reader(reader: Any) -> Reduced | None:
    (lines,) = (held for held in _held(reader) if type(held) is not list)
    if isinstance(lines, _After):
        lines = lines.lines
    if reader.line_num > _LINES_MAX:
        return None
    return csv_reader, (lines, reader.line_num, _dialect(reader))


def csv_reader(lines: Any, read: int, dialect: dict[str, Any]) -> Any:
    import csv

    reader = csv.reader(_After(read, lines), **dialect)
    for _ in itertools.islice(reader, read):
        pass
    return reader


class _After:
    """What a reader reads once it has counted as many lines as it had before."""

    def __init__(self, count: int, lines: Any) -> None:
        self._count, self.lines = count, lines

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        if self._count:
            self._count -= 1
            return ""
        line: str = next(self.lines)
        return line


def _held(obj: Any) -> list[Any]:
    """What it was made with: there is no other way to it."""
    return [held for held in gc.get_referents(obj) if held is not obj.dialect and not isinstance(held, type)]


REDUCERS = {
    ("_csv", "writer"): _writer,
    ("_csv", "reader"): _reader,
}
