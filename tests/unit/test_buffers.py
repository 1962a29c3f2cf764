import io
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from wool_jupyter.errors import NoRoom
from wool_jupyter.wire.buffers import THRESHOLD_BYTES, OutOfBand, Parcel, pack, unpack


def packed(value, *places, name="names"):
    file, out_of_band = io.BytesIO(), OutOfBand()
    pickle.Pickler(file, 5, buffer_callback=out_of_band).dump(value)
    return pack(file.getvalue(), out_of_band.buffers, places=[str(place) for place in places], name=name)


def unpacked(parcel):
    stream, views = unpack(parcel)
    return pickle.loads(stream, buffers=views)


def descriptors():
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def array(nbytes):
    return np.arange(nbytes, dtype="u1")


@pytest.fixture
def tiny(tmp_path):
    """A file system of half a megabyte."""
    place = tmp_path / "tiny"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k,nr_inodes=8", "tmpfs", place], check=True)
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def test_a_small_buffer_stays_in_the_message(tmp_path):
    value = array(THRESHOLD_BYTES - 200)
    parcel = packed(value, tmp_path / "place")
    assert parcel == Parcel(parcel.stream)
    assert not (tmp_path / "place").exists()
    np.testing.assert_array_equal(unpacked(parcel), value)


@pytest.mark.parametrize(("nbytes", "stays"), [(THRESHOLD_BYTES - 1, True), (THRESHOLD_BYTES, False)])
def test_the_threshold_is_the_first_size_that_leaves(nbytes, stays):
    out_of_band = OutOfBand()
    assert out_of_band(pickle.PickleBuffer(bytes(nbytes))) is stays
    assert len(out_of_band.buffers) == (not stays)


def test_a_large_buffer_leaves_the_message(tmp_path):
    value = array(THRESHOLD_BYTES)
    parcel = packed(value, tmp_path / "place")
    assert parcel.file == str(tmp_path / "place" / "names")
    assert not parcel.stream_in_file
    assert len(parcel.stream) < 1000
    assert parcel.nbytes == len(parcel.stream) + THRESHOLD_BYTES
    np.testing.assert_array_equal(unpacked(parcel), value)


def test_a_large_stream_leaves_the_message(tmp_path):
    value = ["x" * THRESHOLD_BYTES, array(THRESHOLD_BYTES), array(10)]
    parcel = packed(value, tmp_path)
    assert parcel.stream_in_file
    assert parcel.stream == b""
    assert parcel.nbytes > 2 * THRESHOLD_BYTES
    text, large, small = unpacked(parcel)
    assert text == value[0]
    np.testing.assert_array_equal(large, value[1])
    np.testing.assert_array_equal(small, value[2])


def test_several_buffers_are_aligned_writable_and_do_not_overlap(tmp_path):
    values = [array(THRESHOLD_BYTES + k) for k in (1, 63, 64, 65)]
    loaded = unpacked(packed(values, tmp_path))
    for value, found in zip(values, loaded, strict=True):
        assert found.flags.writeable
        assert found.ctypes.data % 64 == 0
        np.testing.assert_array_equal(found, value)
    loaded[0][:] = 0
    np.testing.assert_array_equal(loaded[1], values[1])


def test_a_read_only_array_stays_read_only(tmp_path):
    value = array(THRESHOLD_BYTES)
    value.flags.writeable = False
    assert not unpacked(packed(value, tmp_path)).flags.writeable


def test_an_array_in_fortran_order_keeps_it(tmp_path):
    value = np.asfortranarray(array(1 << 20).reshape(1024, 1024))
    found = unpacked(packed(value, tmp_path))
    assert found.flags.f_contiguous
    np.testing.assert_array_equal(found, value)


def test_writing_into_what_arrived_changes_neither_file_nor_sender(tmp_path):
    value = array(THRESHOLD_BYTES)
    parcel = packed(value, tmp_path)
    before = Path(parcel.file).read_bytes()
    unpacked(parcel)[:] = 7
    assert Path(parcel.file).read_bytes() == before
    np.testing.assert_array_equal(value, array(THRESHOLD_BYTES))
    np.testing.assert_array_equal(unpacked(parcel), value)


def test_what_arrived_outlives_the_files_name(tmp_path):
    value = array(1 << 20)
    parcel = packed(value, tmp_path)
    found = unpacked(parcel)
    Path(parcel.file).unlink()
    np.testing.assert_array_equal(found, value)


def test_nothing_keeps_a_descriptor_of_the_file_open_but_the_mapping(tmp_path):
    before = descriptors()
    found = unpacked(packed(array(1 << 20), tmp_path))
    assert len(descriptors() - before) <= 1  # before 3.13 a mapping keeps one
    del found
    assert descriptors() == before


def test_the_file_is_the_users_only_and_its_folder_is_made(tmp_path):
    parcel = packed(array(1 << 20), tmp_path / "a" / "b")
    assert Path(parcel.file).stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700


def test_an_existing_file_is_never_written_to(tmp_path):
    packed(array(1 << 20), tmp_path)
    with pytest.raises(FileExistsError):
        packed(array(1 << 20), tmp_path)


def test_a_full_place_is_passed_over_and_nothing_is_left_there(tiny, tmp_path):
    value = array(1 << 20)
    parcel = packed(value, tiny, tmp_path / "next")
    assert parcel.file == str(tmp_path / "next" / "names")
    assert list(tiny.iterdir()) == []
    np.testing.assert_array_equal(unpacked(parcel), value)


def test_the_first_place_with_room_takes_it(tiny, tmp_path):
    assert packed(array(THRESHOLD_BYTES), tiny, tmp_path / "next").file == str(tiny / "names")
    assert not (tmp_path / "next").exists()


def test_a_place_without_room_for_another_file_is_passed_over(tiny, tmp_path):
    """A file system also runs out of inodes."""
    for k in range(20):
        try:
            (tiny / f"file-{k}").touch()
        except OSError:
            break
    parcel = packed(array(THRESHOLD_BYTES), tiny, tmp_path / "next")
    assert parcel.file == str(tmp_path / "next" / "names")


def test_no_place_with_room_is_said_with_size_and_places(tiny):
    with pytest.raises(NoRoom, match=r"1\.05 MB do not fit into .*tiny or .*tiny/deeper"):
        packed(array(1 << 20), tiny, tiny / "deeper")
    assert [path for path in tiny.rglob("*") if path.is_file()] == []


def test_the_limit_of_a_files_size_counts_as_a_full_place(tmp_path):
    """In a process of its own: the limit can't be lifted again."""
    script = f"""
import resource
from wool_jupyter.errors import NoRoom
from wool_jupyter.wire.buffers import pack
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
try:
    pack(b"", [memoryview(bytes(2 << 20))], places=[{str(tmp_path)!r}], name="names")
except NoRoom:
    print("no room")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "no room\n", done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_refuses_for_another_reason_is_an_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        packed(array(1 << 20), tmp_path / "file" / "place")


def test_a_message_without_buffers_touches_no_file():
    assert pack(memoryview(b"stream"), [], places=[], name="names") == Parcel(b"stream")
