"""What was closed, and what goes with it: sockets, SQLite's connections, cursors and rows, CSV readers and writers (`finished`)."""

import functools
import gc
import itertools
import pickle
from collections.abc import Iterable, Iterator
from typing import Any

Reduced = tuple[Any, ...]
_ROWS_AGAIN = 100_000  # made to have a number of them


# ---- sockets


def _socket(sock: Any) -> Reduced | None:
    import socket

    if type(sock) is not socket.socket or sock.fileno() != -1:
        return None
    return closed_socket, (int(sock.family), int(sock.type), sock.proto, sock.gettimeout())


def closed_socket(family: int, kind: int, proto: int, timeout_s: float | None) -> Any:
    """Around a descriptor of another kind: this system may not know the family, or grant the type."""
    import socket

    ours, theirs = socket.socketpair()
    with ours, theirs, socket.socket(family, kind, proto, fileno=ours.detach()) as sock:
        sock.settimeout(timeout_s)
    return sock


def _channel(channel: Any) -> Reduced | None:
    """By itself it would travel as the number of a descriptor, and close whichever has that number where it arrives."""
    if not channel.closed:
        raise pickle.PicklingError(f"cannot pickle {type(channel).__name__!r} object")
    return None


# ---- SQLite


def _is_closed(connection: Any) -> bool:
    import sqlite3

    try:
        connection.total_changes  # noqa: B018
    except sqlite3.ProgrammingError:
        return True
    return False


def _connection(connection: Any) -> Reduced | None:
    import sqlite3

    if type(connection) is not sqlite3.Connection or not _is_closed(connection):
        return None
    return closed_connection, (connection.row_factory, connection.text_factory)


def closed_connection(row_factory: Any, text_factory: Any) -> Any:
    import sqlite3

    connection = sqlite3.connect(":memory:")
    connection.row_factory, connection.text_factory = row_factory, text_factory
    connection.close()
    return connection


def _cursor(cursor: Any) -> Reduced | None:
    """Of a closed connection."""
    import sqlite3

    if type(cursor) is not sqlite3.Cursor or not _is_closed(cursor.connection) or cursor.rowcount > _ROWS_AGAIN:
        return None
    names = [column[0] for column in cursor.description or ()]
    if names and cursor.rowcount != -1:
        return None
    try:
        cursor.fetchone()
    except sqlite3.ProgrammingError as error:
        is_closed = "cursor" in str(error)
    facts = names, cursor.rowcount, cursor.lastrowid, cursor.arraysize, cursor.row_factory, is_closed
    return cursor_of_closed, (cursor.connection, *facts)


def cursor_of_closed(
    connection: Any, names: list[str], count: int, row_id: int | None, size: int, row_factory: Any, is_closed: bool
) -> Any:
    """It has done what leaves behind the same. For that the connection is open once more, to nothing."""
    import sqlite3

    factories = connection.row_factory, connection.text_factory
    connection.__init__(":memory:")
    cursor = sqlite3.Cursor(connection)
    connection.execute("create table rows (i primary key) without rowid")
    if count > 0:
        connection.execute(_ROWS, (count,))
    if row_id:
        connection.execute("create table last (i integer primary key)")
        connection.execute("insert into last values (?)", (row_id,))
    if row_id is not None:
        cursor.execute(_selecting(names) if names else "create table other (i)" if count < 0 else "delete from rows")
    elif count >= 0:
        cursor.executemany("delete from rows", [()])
    cursor.arraysize, cursor.row_factory = size, row_factory
    if is_closed:
        cursor.close()
    connection.close()
    connection.row_factory, connection.text_factory = factories
    return cursor


_ROWS = "with recursive n(i) as (select 1 union all select i + 1 from n limit ?) insert into rows select i from n"


@functools.lru_cache(16)
def _with_columns(names: tuple[str, ...]) -> Any:
    import sqlite3

    return sqlite3.connect(":memory:", check_same_thread=False).execute(_selecting(names))


def _row(row: Any) -> Reduced:
    """The tuple and its names."""
    return made_row, (type(row), tuple(row.keys()), tuple(row))


def made_row(cls: Any, names: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    return cls(_with_columns(names), values)


def _selecting(names: Iterable[str]) -> str:
    return "select " + ", ".join('1 as "{}"'.format(name.replace('"', '""')) for name in names)


# ---- CSV


def _dialect(obj: Any) -> dict[str, Any]:
    names = "delimiter doublequote escapechar lineterminator quotechar quoting skipinitialspace strict"
    return {name: getattr(obj.dialect, name) for name in names.split()}


def _writer(writer: Any) -> Reduced | None:
    """As far as its file travels: a closed one does."""
    (write,) = (held for held in _held(writer) if callable(held))
    if write != write.__self__.write:
        return None
    return csv_writer, (write.__self__, _dialect(writer))


def csv_writer(file: Any, dialect: dict[str, Any]) -> Any:
    import csv

    return csv.writer(file, **dialect)


def _reader(reader: Any) -> Reduced | None:
    """As far as the lines travel that it reads: a closed file does."""
    (lines,) = (held for held in _held(reader) if type(held) is not list)
    if isinstance(lines, _After):
        lines = lines.lines
    if reader.line_num > _ROWS_AGAIN:
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
    ("socket", "socket"): _socket,
    ("multiprocessing.connection", "_ConnectionBase"): _channel,
    ("sqlite3", "Connection"): _connection,
    ("sqlite3", "Cursor"): _cursor,
    ("sqlite3", "Row"): _row,
    ("_csv", "writer"): _writer,
    ("_csv", "reader"): _reader,
}
