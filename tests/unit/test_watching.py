"""Memory that is watched, so that it need not be read again: every write into it is seen."""

import ctypes
import mmap
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from wool_jupyter.wire import contents, watching

SIZE = contents.SAMPLED_BYTES
PAGE = mmap.PAGESIZE


def can_watch():
    array = np.ones(SIZE, "u1")
    return watching.Span(array.ctypes.data, SIZE).watch()


only_where_watched = pytest.mark.skipif(not can_watch(), reason="this system watches no memory")


class Reads:
    """Counts what is read as a whole."""

    def __init__(self, monkeypatch):
        self.count = 0
        self._digest = contents.digest
        monkeypatch.setattr(contents, "digest", self)

    def __call__(self, memory):
        self.count += 1
        return self._digest(memory)


@pytest.fixture
def reads(monkeypatch):
    return Reads(monkeypatch)


@pytest.fixture
def watched():
    return contents.Watched()


def random(size=SIZE):
    return np.random.default_rng(size).integers(0, 255, size, "u1")


def is_right(watched, array):
    return watched(memoryview(array)) == contents.digest(memoryview(array))


def settle(watched, array):
    """From now on it is watched, where the system does that."""
    for _ in range(5):
        assert is_right(watched, array)


def reads_of(reads, watched, array):
    before = reads.count
    watched(memoryview(array))
    return reads.count - before


@only_where_watched
def test_what_was_the_same_several_times_is_not_read_again(watched, reads):
    array = random()
    assert [reads_of(reads, watched, array) for _ in range(8)] == [1, 1, 1, 1, 1, 0, 0, 0]
    assert is_right(watched, array)


def test_what_is_small_is_read_each_time(watched, reads):
    array = random(SIZE - 1)
    assert [reads_of(reads, watched, array) for _ in range(8)] == [1] * 8


def by_numpy(array):
    array[PAGE * 5 + 3] += 1


def by_the_first_byte(array):
    array[0] += 1


def by_the_last_byte(array):
    array[-1] += 1


def by_the_system(array):
    with Path("/dev/zero").open("rb", buffering=0) as file:
        file.readinto(memoryview(array)[PAGE * 3 : PAGE * 3 + 10])


def by_a_thread(array):
    thread = threading.Thread(target=by_numpy, args=(array,))
    thread.start()
    thread.join()


def by_the_c_library(array):
    ctypes.memset(array.ctypes.data + 9_999_999, 255 - int(array[9_999_999]), 1)


def by_giving_pages_back(array):
    libc = ctypes.CDLL(None, use_errno=True)
    page = -(-array.ctypes.data // PAGE) * PAGE + 7 * PAGE
    assert libc.madvise(ctypes.c_void_p(page), ctypes.c_size_t(PAGE), mmap.MADV_DONTNEED) == 0


def by_moving_others_in(array):
    """Other memory at the same address, as after `munmap` and `mmap`."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    page = -(-array.ctypes.data // PAGE) * PAGE + 7 * PAGE
    fixed = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x10
    access = mmap.PROT_READ | mmap.PROT_WRITE
    made = libc.mmap(ctypes.c_void_p(page), ctypes.c_size_t(PAGE), access, fixed, -1, ctypes.c_long(0))
    assert made == page
    array[7 * PAGE : 9 * PAGE] = 1


WAYS = (
    by_numpy, by_the_first_byte, by_the_last_byte, by_the_system, by_a_thread, by_the_c_library,
    by_giving_pages_back, by_moving_others_in,
)  # fmt: skip


@pytest.mark.parametrize("writes", WAYS)
def test_every_write_is_seen(watched, writes):
    array = random()
    settle(watched, array)
    before = contents.digest(memoryview(array))
    writes(array)
    assert contents.digest(memoryview(array)) != before
    assert is_right(watched, array)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # from Python 3.12 on, of a process with threads
@pytest.mark.parametrize("twice", [False, True])
def test_a_write_is_seen_after_a_fork_by_each_in_its_own(watched, twice):
    array = random()
    settle(watched, array)

    def in_the_child():
        array[PAGE] += 1
        assert is_right(watched, array)
        settle(watched, array)
        array[PAGE] += 1
        return is_right(watched, array)

    if (child := os.fork()) == 0:
        try:
            os._exit(0 if in_the_child() else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    if twice:
        assert is_right(watched, array)
    array[PAGE] += 1
    assert is_right(watched, array)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_memory_that_others_share_is_read_each_time(watched, reads):
    memory = mmap.mmap(-1, SIZE)
    array = np.frombuffer(memory, "u1")
    array[:] = random()
    settle(watched, array)
    assert reads_of(reads, watched, array) == 1
    if (child := os.fork()) == 0:
        array[PAGE] += 1
        os._exit(0)
    os.waitpid(child, 0)
    assert is_right(watched, array)


def test_memory_of_a_file_is_read_each_time(watched, reads, tmp_path):
    file = tmp_path / "file"
    file.write_bytes(bytes(random()))
    array = np.memmap(file, "u1", mode="c")
    settle(watched, array)
    assert reads_of(reads, watched, array) == 1


@pytest.mark.parametrize("place", [slice(0, SIZE), slice(SIZE - PAGE, 2 * SIZE - PAGE)])
def test_a_write_before_a_view_is_watched_is_seen_in_the_whole(watched, place):
    """Both have some pages."""
    array = random(3 * SIZE)
    part = array[place]
    settle(watched, array)
    assert [is_right(watched, part) for _ in range(4)] == [True] * 4
    array[place.start + 10] += 1
    settle(watched, part)
    assert is_right(watched, array)


def test_what_is_written_while_it_is_read_is_seen(watched, monkeypatch):
    array = random()
    plain = contents.digest

    def reads_and_is_written(memory):
        made = plain(memory)
        array[PAGE] += 1
        return made

    for _ in range(4):
        watched(memoryview(array))
    monkeypatch.setattr(contents, "digest", reads_and_is_written)
    watched(memoryview(array))  # is watched from here on
    monkeypatch.setattr(contents, "digest", plain)
    assert is_right(watched, array)


def test_who_comes_while_it_is_read_after_a_change_has_it_as_it_is_now(watched, monkeypatch):
    array, found = random(), []
    plain = contents.digest

    def another_comes(memory):
        monkeypatch.setattr(contents, "digest", plain)
        found.append(is_right(watched, array))
        return plain(memory)

    for _ in range(4):
        watched(memoryview(array))
    array[5000] += 1  # where a sample does not look
    monkeypatch.setattr(contents, "digest", another_comes)  # it is watched from here on, and has not been read
    assert watched(memoryview(array)) == plain(memoryview(array))
    assert found == [True]
    assert is_right(watched, array)


@only_where_watched
def test_a_device_that_refills_memory_unseen_is_found_out_by_samples(watched, monkeypatch):
    """There is none here: what the system says of it is put in its mouth."""
    array = random()
    settle(watched, array)
    monkeypatch.setattr(watching.Span, "is_untouched", lambda _: True)
    array[:] = 5
    assert is_right(watched, array)


@only_where_watched
def test_what_is_written_now_and_then_is_watched_later(watched, reads):
    array = random()

    def until_watched():
        return next(n for n in range(100) if reads_of(reads, watched, array) == 0)

    first = until_watched()
    array[0] += 1
    assert until_watched() > first


@only_where_watched
def test_writing_costs_no_more_when_it_was_seen(watched):
    """The other pages are as before."""
    array = random()
    settle(watched, array)
    watched(memoryview(array))
    array[0] += 1
    watched(memoryview(array))
    with pytest.raises(OSError, match="not permitted"):
        watching.Span(array.ctypes.data, SIZE)._scan(watching._ONLY_IF_WATCHED, mask=watching._WRITTEN)


def test_what_was_seen_long_ago_is_forgotten(watched, reads, monkeypatch):
    monkeypatch.setattr(contents, "_SIGHTS_MAX", 2)
    arrays = [random(SIZE + n) for n in range(3)]
    for array in arrays:
        settle(watched, array)
    assert reads_of(reads, watched, arrays[0]) == 1
    assert all(is_right(watched, array) for array in arrays)


def test_where_the_system_has_no_such_thing_all_is_read(tmp_path):
    """In a process of its own: what it found out is kept."""
    code = """if True:
        import platform
        platform.machine = lambda: "pdp11"
        import numpy as np
        from wool_jupyter.wire import contents
        array = np.ones(contents.SAMPLED_BYTES, "u1")
        view = memoryview(array)
        for _ in range(8):
            assert contents.watched(view) == contents.digest(view)
        array[5] = 2
        assert contents.watched(view) == contents.digest(view)
    """
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
