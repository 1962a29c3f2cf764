"""Memory of very large data that stays mapped for the next reader of its file: what that one sees, and who is hindered."""

import os
import signal
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from tests.support.waiting import wait_until
from wool_jupyter.wire import buffers, mappings, own_memory, segments, store

SIZE = 8 << 20

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="only there the system tells which pages are written"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),  # from Python 3.12 on, of a process with threads
]


@pytest.fixture
def pool(tmp_path):
    for folder in ("data", "idle", "calls"):
        (tmp_path / folder).mkdir()
    yield tmp_path
    mappings.forget()


def view(fill, size=SIZE):
    return memoryview(np.full(size, fill, "u1"))


def written(fill, pool, size=SIZE):
    file = segments.write(view(fill, size), str(pool / "data"), idle=segments.Idles(str(pool / "idle")))
    assert file is not None
    return file


def read(file, pool, size=SIZE):
    return np.frombuffer(mappings.mapped(file, 0, size, idle=str(pool / "idle")), "u1")


def is_idle(file, pool):
    return segments.let_go(file, idle=str(pool / "idle"))


def times_mapped(file):
    """By this process."""
    inode = Path(file).stat().st_ino
    return sum(line.split(maxsplit=5)[4] == str(inode) for line in Path("/proc/self/maps").read_text().splitlines())


def settled(file, times):
    """What was given back has been looked at."""
    wait_until(lambda: times_mapped(file) == times)


def test_the_next_reader_has_the_memory_of_the_one_before_and_sees_what_was_written_since(pool):
    file = written(1, pool)
    array = read(file, pool)
    assert set(array) == {1}
    assert times_mapped(file) == 2  # its memory, and its lease
    del array
    assert times_mapped(file) == 1
    is_idle(file, pool)
    again = written(2, pool)  # this process maps it, too, to write it
    assert times_mapped(again) == 2
    array = read(again, pool)
    assert times_mapped(again) == 3
    assert set(array) == {2}


def test_memory_that_no_reader_has_hinders_nobody(pool):
    file = written(1, pool)
    array = read(file, pool)
    assert segments.is_mapped(file)
    del array
    assert not segments.is_mapped(file)
    name = is_idle(file, pool)
    assert times_mapped(name) == 1
    assert segments.remove(name)


def test_what_a_reader_has_written_is_seen_by_no_other(pool):
    file = written(1, pool)
    array = read(file, pool)
    array[5_000_000] = 9
    del array
    settled(file, 0)
    assert set(read(file, pool)) == {1}


def test_nor_is_it_when_the_next_one_is_there_at_once(pool):
    file = written(1, pool)
    for _ in range(10):
        array = read(file, pool)
        assert set(array[::4096]) == {1}
        array[:] = 9
        del array


def test_where_the_system_does_not_tell_nothing_is_kept(pool, monkeypatch):
    monkeypatch.setattr(own_memory, "has_own_pages", lambda *_: None)
    file = written(1, pool)
    read(file, pool)
    settled(file, 0)


def test_two_readers_have_their_own(pool):
    file = written(1, pool)
    read(file, pool)
    one, other = read(file, pool), read(file, pool)
    one[7] = 2
    assert (one[7], other[7], Path(file).read_bytes()[7]) == (2, 1, 1)


def test_a_part_of_what_a_reader_has_keeps_all_of_it(pool):
    file = written(1, pool)
    part = read(file, pool)[100:200]
    name = is_idle(file, pool)
    assert written(2, pool) != name
    assert segments.is_mapped(name)
    assert set(part) == {1}


def test_memory_of_a_file_that_is_not_written_again_is_not_kept(pool):
    parcel = buffers.pack(b"", [view(1)], places=[str(pool / "calls" / "1")], name="reply")
    buffers.take(parcel)
    settled(parcel.file, 0)
    file = written(1, pool)
    (pool / "idle").rmdir()
    read(file, pool)
    settled(file, 0)


def test_a_result_is_read_in_the_memory_of_the_one_before(pool):
    places = [str(pool / "calls" / "1")]
    for fill in (1, 2, 3):
        parcel = buffers.pack_to_give(b"", [view(fill)], places=places, name="reply")
        _, (given,) = buffers.take(parcel)
        assert set(bytes(given)) == {fill}
        (name,) = (pool / "idle").iterdir()
        assert times_mapped(name) == (2 if fill == 1 else 3)  # also by the writer
        del given


def test_few_files_keep_their_memory(pool):
    files = [written(fill, pool) for fill in range(1, 8)]
    arrays = [read(file, pool) for file in files]
    assert [times_mapped(file) for file in files] == [2] * 7
    arrays.clear()
    wait_until(lambda: sum(map(times_mapped, files)) == 4)


def test_after_the_end_of_a_store_nothing_takes_memory(pool):
    file = written(1, pool)
    read(file, pool)
    is_idle(file, pool)
    name = written(2, pool)
    read(name, pool)
    assert times_mapped(name) == 2  # to be read and to be written
    store.Store([pool]).close()
    assert times_mapped(name) == 0


def in_a_fork(body):
    """Whether it holds there."""
    if (child := os.fork()) == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(20)  # one that hangs would stay
        try:
            os._exit(0 if body() else 1)
        finally:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_fork_has_its_own(pool):
    file = written(1, pool)
    read(file, pool)
    array = read(file, pool)

    def writes():
        array[:] = 5
        return set(read(file, pool)) == {1}

    assert in_a_fork(writes)
    assert set(array) == {1}


def test_a_fork_while_memory_is_looked_at_can_read(pool):
    file = written(1, pool)
    read(file, pool)
    with mappings._keeper._lock:
        assert in_a_fork(lambda: read(file, pool)[0] == 1)


def test_a_fork_keeps_no_memory_that_no_reader_has(pool):
    """As long as it lives, the pages of files that are gone would lie there."""
    held, given, kept = (written(fill, pool) for fill in (1, 2, 3))
    array = read(held, pool)
    read(kept, pool)
    wait_until(lambda: mappings._keeper._kept)

    def holds_nothing():
        nonlocal array
        del array
        return not any(map(times_mapped, (held, given, kept)))

    with mappings._keeper._lock:  # what is given back now is not looked at yet
        read(given, pool)
        assert in_a_fork(holds_nothing)
        assert mappings._keeper._given
    assert set(array) == {1}


def test_a_fork_that_reads_keeps_memory_for_its_own_next_reader(pool):
    file = written(1, pool)

    def keeps():
        read(file, pool)
        wait_until(lambda: mappings._keeper._kept)
        return times_mapped(file) == 1

    assert in_a_fork(keeps)


def test_a_fork_keeps_nothing_mapped_to_be_written_again_and_can_write_whatever_its_parent_does(pool):
    is_idle(written(1, pool), pool)
    file = written(2, pool)
    assert times_mapped(file) == 1

    def writes():
        assert times_mapped(file) == 0
        is_idle(file, pool)
        return times_mapped(written(3, pool)) == 1

    with segments._kept_lock:
        assert in_a_fork(writes)


def test_what_a_fork_holds_is_not_written_over_when_its_parent_has_let_go(pool):
    file = written(1, pool)
    array = read(file, pool)
    name = is_idle(file, pool)
    goes_on, ends = os.pipe(), os.pipe()
    if (child := os.fork()) == 0:
        os.read(goes_on[0], 1)
        os._exit(0 if set(array) == {1} else 1)
    del array
    assert segments.is_mapped(name)
    assert written(2, pool) != name
    other = [written(fill, pool) for fill in (3, 4)]
    assert Path(name).exists()
    os.write(goes_on[1], b"x")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not segments.is_mapped(name)
    assert all(map(os.path.exists, other))
    for fd in (*goes_on, *ends):
        os.close(fd)


def test_many_threads_read_one_file(pool):
    file = written(1, pool)
    wrong = []

    def reads():
        for _ in range(20):
            array = read(file, pool)
            if set(array[::4096]) != {1}:
                wrong.append(set(array))
            array[::4096] = 2

    threads = [threading.Thread(target=reads) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert wrong == []
