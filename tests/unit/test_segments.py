"""Files of large data: who holds a mapping keeps its content, and the others are written again."""

import gc
import os
import random
import resource
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

from tests.support.readers import reader
from tests.support.waiting import wait_until
from wool_jupyter import host
from wool_jupyter.wire import buffers, mappings, own_memory, segments
from wool_jupyter.wire.buffers import Ref

SIZE = segments.SEGMENT_BYTES


def ignoring_locks(_):
    """The twin: takes every file for free."""
    return True


def view(fill=1, size=SIZE):
    return memoryview(np.full(size, fill, "u1"))


@pytest.fixture
def idle(tmp_path):
    """A folder of files to be written again."""
    place = tmp_path / "idle"
    place.mkdir()
    return str(place)


@pytest.fixture
def data(tmp_path):
    return str(tmp_path / "data")


def written(fill, data, idle, *, size=SIZE, is_free=segments.nobody_maps):
    """As a writer does it whose data nobody is told of any more: the file is idle at once."""
    file = segments.write_again(view(fill, size), data, idle=segments.Idles(idle), is_free=is_free)
    if file is None:
        file = segments.new_name(data)
        assert segments.create(file, size, [(view(fill, size), 0)])
    return file


def sent(fill, data, idle, **options):
    """Mapped as it was on its way, and idle afterwards."""
    file = written(fill, data, idle, **options)
    mapping = mappings.mapped(file, 0, options.get("size", SIZE), idle=idle)
    return mapping, segments.let_go(file, idle=idle)


def test_what_is_read_is_what_was_written_and_each_reader_has_its_own(data, idle):
    file = written(7, data, idle)
    one, other = mappings.mapped(file, 0, SIZE), mappings.mapped(file, 0, SIZE)
    one[0] = 1
    assert (one[0], other[0], Path(file).read_bytes()[0]) == (1, 7, 7)


def test_a_part_is_mapped_from_any_byte(data, tmp_path):
    content = np.arange(1 << 20, dtype="u1")
    file = segments.new_name(data)
    assert segments.create(file, content.nbytes, [(memoryview(content), 0)])
    for begin, length in ((0, 300_000), (4096, 300_000), (5001, 300_001), (5001, 70)):
        assert bytes(mappings.mapped(file, begin, length)) == bytes(content[begin : begin + length])


def test_an_idle_file_is_written_again_and_has_another_name(data, idle):
    before = sent(1, data, idle)[1]
    inode = Path(before).stat().st_ino
    file = written(2, data, idle)
    assert Path(file).stat().st_ino == inode
    assert not Path(before).exists()
    assert set(Path(file).read_bytes()) == {2}


@pytest.mark.parametrize(("size", "fits"), [(SIZE, True), (SIZE // 2, True), (SIZE // 2 - 1, False), (SIZE + 1, False)])
def test_a_file_is_written_again_with_what_fits_and_wastes_no_more_than_half(data, idle, size, fits):
    sent(1, data, idle)
    assert (segments.write_again(view(2, size), data, idle=segments.Idles(idle)) is not None) is fits


def test_without_the_folder_no_file_is_written_again(data, idle):
    Path(idle).rmdir()
    mapping, name = sent(1, data, idle)
    assert name == ""
    assert list(Path(data).iterdir()) == []
    assert set(mapping) == {1}
    assert segments.write_again(view(2), data, idle=segments.Idles(idle)) is None


@pytest.mark.parametrize("size", [SIZE, 8 << 20])  # by `pwrite`, and into a mapping that is kept; so does the reader
@pytest.mark.parametrize(("is_free", "is_right"), [(segments.nobody_maps, True), (ignoring_locks, False)])
def test_what_is_held_is_never_written_over(data, idle, size, is_free, is_right):
    chance = random.Random(5)
    held, files = {}, set()
    for fill in range(1, 101):
        mapping, name = sent(fill, data, idle, size=size, is_free=is_free)
        files.add(Path(name).stat().st_ino)
        held[fill] = mapping
        del mapping
        while len(held) > 3:
            del held[chance.choice(list(held))]
    assert len(files) < 10  # so files were written again
    assert all(set(mapping[:: 1 << 16]) == {fill} for fill, mapping in held.items()) is is_right


@pytest.mark.parametrize(("is_free", "is_right"), [(segments.nobody_maps, True), (ignoring_locks, False)])
@pytest.mark.parametrize("forks", [False, True])
@pytest.mark.parametrize("size", [SIZE, 8 << 20])
def test_what_another_process_holds_or_a_fork_of_it_is_never_written_over(data, idle, size, is_free, is_right, forks):
    with reader() as there:
        for fill in (1, 2):
            file = written(fill, data, idle, size=size)
            assert there.map(Ref(0, file, 0, size)) == "mapped"
            segments.let_go(file, idle=idle)
        there.drop(1)
        if forks:
            assert there.fork() == "forked"
        inodes = {Path(sent(fill, data, idle, size=size, is_free=is_free)[1]).stat().st_ino for fill in range(11, 21)}
        assert len(inodes) <= 2  # so they were written again
        assert (there.contents() == [{1}]) is is_right


def test_a_reader_that_was_killed_holds_nothing(data, idle):
    with reader() as there:
        file = written(1, data, idle)
        assert there.map(Ref(0, file, 0, SIZE)) == "mapped"
        assert segments.is_mapped(file)
        there.kill()
        assert not segments.is_mapped(file)


DERIVED = {
    "view": lambda array: array[5:9],
    "frame": lambda array: pd.DataFrame({"a": array}, copy=False)["a"],
    "index": lambda array: pd.Index(array, copy=False)[::2],
    "polars": lambda array: pl.Series("a", array).head(5),
}


@pytest.mark.parametrize("way", DERIVED)
@pytest.mark.parametrize("size", [SIZE, 8 << 20])
def test_whatever_is_made_from_a_mapping_holds_it(data, idle, way, size):
    file = written(1, data, idle, size=size)
    array = np.frombuffer(mappings.mapped(file, 0, size, idle=idle), "f8")
    made = DERIVED[way](array)
    del array
    assert segments.is_mapped(file)
    del made
    gc.collect()
    assert not segments.is_mapped(file)


def test_who_comes_late_finds_nothing_rather_than_other_data(data, idle):
    before = sent(1, data, idle)[1]
    written(2, data, idle)
    with pytest.raises(FileNotFoundError):
        mappings.mapped(before, 0, SIZE)


def test_who_has_opened_it_before_and_locks_it_later_finds_nothing_either(data, idle):
    """The writer has the lock while the reader is between its two steps."""
    before = sent(1, data, idle)[1]
    with reader() as there:
        with segments._owned(before, segments.nobody_maps) as fd:
            assert fd is not None
            process = there._process
            print("map", before, 0, SIZE, file=process.stdin, flush=True)
            waits_for_lock(process.pid)
            Path(before).rename(before + "x")
        assert process.stdout.readline() == "FileNotFoundError\n"


def waits_for_lock(pid):
    def waits(line):
        words = line.split()
        return words[1] == "->" and words[2] == "FLOCK" and str(pid) in words

    wait_until(lambda: any(map(waits, Path("/proc/locks").read_text().splitlines())))


def test_only_what_nobody_maps_is_removed_and_its_memory_goes_at_once(data, idle):
    size = 8 << 20
    mapping, file = sent(1, data, idle, size=size)
    assert not segments.remove(file)
    del mapping
    file = sent(2, data, idle, size=size)[1]  # written again: this process keeps it mapped
    fd = os.open(file, os.O_RDONLY)
    try:
        assert segments.remove(file)
        assert os.fstat(fd).st_blocks * 512 < 100_000
    finally:
        os.close(fd)
    assert not Path(file).exists()


def test_what_is_copied_in_pieces_is_whole(data, idle, monkeypatch):
    monkeypatch.setattr(segments, "_COPY_BYTES", (3 << 20) + 1)
    content = np.random.default_rng(1).bytes((8 << 20) + 5)
    name = sent(1, data, idle, size=9 << 20)[1]
    file = segments.write_again(memoryview(content), data, idle=segments.Idles(idle))
    assert not Path(name).exists()
    assert Path(file).read_bytes()[: len(content)] == content


def test_a_full_place_gives_back_what_is_idle(tmp_path):
    place = tmp_path / "tiny"
    with tiny(place):
        data, idle = str(place / "data"), str(place / "idle")
        Path(idle).mkdir()
        for fill in (1, 2):
            sent(fill, data, idle)
        file = segments.write(view(3, 5 << 19), data, idle=segments.Idles(idle))
        assert set(Path(file).read_bytes()) == {3}
        assert segments.idle_files(idle) == []
        assert segments.write(view(4, 4 << 20), data, idle=segments.Idles(idle)) is None


def test_a_full_place_takes_nothing_and_nothing_is_left_there(tmp_path):
    """Of this size no pages are reserved in memory: it is full when half of the file has been written."""
    place = tmp_path / "tiny"
    with tiny(place, "48m"):
        assert not segments.create(str(place / "data" / "a"), 64 << 20, [(view(1, 64 << 20), 0)])
        assert list((place / "data").iterdir()) == []
        assert segments.create(str(place / "data" / "a"), 40 << 20, [(view(1, 40 << 20), 0)])


@contextmanager
def tiny(place, size="3200k"):
    """A file system of three megabytes and a bit."""
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", place], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", place], check=True)


@pytest.mark.skipif(sys.platform != "linux", reason="only there the system tells which pages are written")
def test_memory_that_is_a_files_content_is_recognised_until_it_is_written(data, idle):
    file = written(1, data, idle)
    array = np.frombuffer(mappings.mapped(file, 4096, SIZE - 4096), "u1")
    part = array[10_000:-10_000]
    place = mappings.place_of(memoryview(part))
    assert (place.file, place.offset) == (file, 14_096)
    array[5] = 9
    assert mappings.place_of(memoryview(part)) == place  # another page
    assert mappings.place_of(memoryview(array)) is None
    part[-1] = 9
    assert mappings.place_of(memoryview(part)) is None
    assert mappings.place_of(view()) is None


def test_written_pages_are_known_where_the_system_tells(tmp_path):
    array = np.zeros(1 << 20, "u1")
    assert own_memory.has_own_pages(own_memory.address(array), array.nbytes, tmp_path / "missing") is None
    (tmp_path / "short").write_bytes(b"")
    assert own_memory.has_own_pages(own_memory.address(array), array.nbytes, tmp_path / "short") is None


def test_thousands_of_arrays_do_not_exhaust_the_descriptors(data, idle):
    file = written(1, data, idle)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, limits[1]))
    try:
        held = [mappings.mapped(file, 0, SIZE) for _ in range(250)]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    held[-1][0] = 2
    assert [each[0] for each in held] == [*[1] * 249, 2]


def test_a_lock_that_does_not_live_as_its_mapping_is_found_out(tmp_path, monkeypatch):
    assert segments.locks_hold(tmp_path)
    monkeypatch.setattr(segments.fcntl, "flock", lambda *_: None)
    assert not segments.locks_hold(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(host.is_in_memory(Path(tempfile.gettempdir())), reason="here temporary files take memory, too")
def test_large_data_goes_to_the_disk_when_memory_is_short(tmp_path, monkeypatch):
    in_memory = tmp_path / "small"
    with tiny(in_memory, size="200m"):
        places = (str(in_memory), str(tmp_path))
        assert host.is_in_memory(in_memory)
        monkeypatch.setattr(host, "available_memory_bytes", lambda: 100 << 20)
        assert list(segments.in_order(places, 40 << 20)) == [*places]
        assert list(segments.in_order(places, 60 << 20)) == [*reversed(places)]


@pytest.mark.skipif(host.is_in_memory(Path(tempfile.gettempdir())), reason="here temporary files take memory, too")
def test_half_of_a_small_file_system_in_memory_is_left_to_what_cells_print(tmp_path):
    """A container's shared memory has 64 MB, if nobody asks for more."""
    in_memory, on_disk = tmp_path / "small", tmp_path / "disk"
    on_disk.mkdir()
    with tiny(in_memory, size="8m"):
        places = [str(in_memory), str(on_disk)]
        parcels = [buffers.pack(b"", [view(n, 3 << 20)], places=places, name=f"file {n}") for n in range(3)]
        assert [Path(parcel.file).parent for parcel in parcels] == [in_memory, on_disk, on_disk]
        assert segments.in_order([*places, str(tmp_path / "gone")], 1)[0] == places[0]


@pytest.mark.skipif(sys.platform != "linux", reason="only there the system tells which pages are written")
def test_written_pages_are_told_as_spans_of_the_memory_that_was_asked_for(data, idle):
    file = written(1, data, idle)
    array = np.frombuffer(mappings.mapped(file, 100, SIZE - 100), "u1")
    begin, page = own_memory.address(array), 4096
    assert own_memory.own_pages(begin, array.nbytes) == []
    array[0] = array[3 * page] = array[4 * page] = array[-1] = 9
    assert own_memory.own_pages(begin, array.nbytes) == [
        (0, page - 100),
        (3 * page - 100, 5 * page - 100),
        (SIZE - page - 100, SIZE - 100),
    ]
    assert own_memory.own_pages(begin + 3 * page, 5) == [(0, 5)]
    assert own_memory.own_pages(begin, 5, Path(data) / "missing") is None
