"""SQLite's closed connections, with their cursors, and its rows (`finished`)."""

import functools
from collections.abc import Iterable
from typing import Any

Reduced = tuple[Any, ...]
_ROWS_MAX = 100_000  # made so that a cursor has their number


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

    if type(cursor) is not sqlite3.Cursor or not _is_closed(cursor.connection) or cursor.rowcount > _ROWS_MAX:
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
    if row_id:
        connection.execute("create table last (i integer primary key)")
        connection.execute("insert into last values (?)", (row_id,))
    if row_id is None and count >= 0:  # `executemany` leaves the id as it was
        cursor.executemany(_INSERTING, [(count,)])
    elif row_id is not None and count >= 0:
        cursor.execute(_INSERTING, (count,))
    elif row_id is not None:
        cursor.execute(_selecting(names) if names else "create table other (i)")
    cursor.arraysize, cursor.row_factory = size, row_factory
    if is_closed:
        cursor.close()
    connection.close()
    connection.row_factory, connection.text_factory = factories
    return cursor


# Rows without ids: the last id is that of an earlier one.
_INSERTING = "insert into rows with recursive n(i) as (select 1 union all select i + 1 from n limit ?) select i from n"


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


REDUCERS = {
    ("sqlite3", "Connection"): _connection,
    ("sqlite3", "Cursor"): _cursor,
    ("sqlite3", "Row"): _row,
}
