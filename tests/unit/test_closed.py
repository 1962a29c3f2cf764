"""What was closed (`wire.closed`, `wire.delimited`, `wire.sqlite`), there and back again."""

import csv
import io
import multiprocessing
import socket
import sqlite3
from functools import partial

import pytest

from tests.support.travels import stays, travelled
from wool_jupyter.wire import pickling


@pytest.fixture
def database():
    connection = sqlite3.connect(":memory:")
    yield connection
    connection.close()


def test_a_closed_socket_is_one():
    sock = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    sock.settimeout(2)
    stays(sock)
    sock.close()
    found = travelled(sock)
    assert (repr(found), found.gettimeout(), found.fileno()) == (repr(sock), 2, -1)
    with pytest.raises(OSError, match="Bad file descriptor"):
        found.getpeername()
    found.close()


def test_a_socket_whose_file_is_open_stays():
    ours, theirs = socket.socketpair()
    with theirs, ours.makefile("rb") as file:
        ours.close()
        stays(ours)
        file.close()
        travelled(ours)


@pytest.mark.parametrize("made", [multiprocessing.Pipe, partial(multiprocessing.Pipe, False)])
def test_an_end_of_a_pipe_travels_when_it_is_closed(made):
    """An open one would close whichever descriptor has its number where it arrives."""
    for end in made():
        stays(end)
        end.close()
        assert travelled(end).closed


def test_a_closed_connection_of_sqlite_is_one(database):
    database.row_factory = sqlite3.Row
    stays(database)
    database.close()
    found = travelled(database)
    assert found.row_factory is sqlite3.Row
    with pytest.raises(sqlite3.ProgrammingError, match="closed database"):
        found.execute("select 1")
    found.close()


def closed_cursor(database):
    cursor = database.execute("select 1")
    cursor.close()
    return cursor


def fresh_with_rows(database):
    cursor = database.cursor()
    cursor.executemany("insert into t values (?)", [(1,), (2,)])
    return cursor


CURSORS = {
    "fresh": lambda database: database.cursor(),
    "after a select": lambda database: database.execute("select x, x + 1 as 'a \"b\"' from t"),
    "after many rows": fresh_with_rows,
    "after an insert": lambda database: database.execute("insert into t values (3)"),
    "after an update": lambda database: database.execute("update t set x = 0"),
    "after an update of nothing": lambda database: database.execute("update t set x = 0 where x = 77"),
    "after a definition": lambda database: database.execute("create table u (y)"),
    "closed": closed_cursor,
}


@pytest.mark.parametrize("made", CURSORS.values(), ids=CURSORS)
@pytest.mark.parametrize("rows", [0, 3])
def test_a_cursor_of_a_closed_connection_tells_what_it_did(made, rows, database):
    database.execute("create table t (x)")
    for n in range(rows):
        database.execute("insert into t values (?)", (n,))
    cursor = made(database)
    cursor.arraysize = 7
    stays(cursor)
    database.close()

    def facts(cursor):
        with pytest.raises(sqlite3.ProgrammingError) as error:
            cursor.fetchall()
        return cursor.description, cursor.rowcount, cursor.lastrowid, cursor.arraysize, str(error.value)

    found, its = travelled([cursor, database])
    assert facts(found) == facts(cursor)
    assert found.connection is its


def test_rows_of_sqlite_keep_their_names(database):
    database.row_factory = sqlite3.Row
    rows = database.execute("select 1 as 'a \"b\"', 'x' as c union select 2, 'y'").fetchall()
    found = travelled(rows)
    assert found == rows
    assert (found[0]["c"], found[1].keys()) == ("x", ['a "b"', "c"])


def test_csv_readers_and_writers_of_closed_files_are_such(tmp_path):
    with (tmp_path / "table.csv").open("w") as out:
        writer, by_name = csv.writer(out, delimiter=";"), csv.DictWriter(out, ["c", "d"])
        stays(writer)
        writer.writerow([1, 2])
        by_name.writerow({"c": 3, "d": 4})
    with (tmp_path / "table.csv").open() as file:
        reader, names = csv.reader(file), csv.DictReader(file)
        stays(reader)
        assert list(reader) == [["1;2"], ["3", "4"]]
    found = travelled([writer, out, by_name, reader, names])
    assert (found[0].dialect.delimiter, found[3].line_num, found[3].dialect.delimiter) == (";", 2, ",")
    uses = [lambda: found[0].writerow([1]), found[2].writeheader, lambda: next(found[3]), lambda: next(found[4])]
    for use in uses:
        with pytest.raises(ValueError, match="closed file"):
            use()


def test_csv_readers_and_writers_of_what_travels_go_on_there():
    reader = csv.reader(iter(["a,b", "c,d"]))
    next(reader)
    found = travelled(reader)
    assert (found.line_num, list(found), found.line_num) == (1, [["c", "d"]], 2)
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL)
    writer.writerow([1])
    its, found = pickling.loads(pickling.dumps([text, writer]))
    found.writerow([2])
    assert its.getvalue() == '"1"\r\n"2"\r\n'


def test_csv_readers_of_what_does_not_travel_stay():
    stays(csv.reader(line for line in ["a"]))
    text = io.StringIO()
    text.held = (n for n in "a")
    stays(csv.writer(text))
