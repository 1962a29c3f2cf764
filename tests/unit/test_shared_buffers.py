"""Large data of many calls: each piece is one file, as long as somebody needs it."""

import resource

import numpy as np
import pytest

from wool_jupyter.wire import buffers, calls
from wool_jupyter.wire.shared_buffers import SAMPLED_BYTES, SHARED_BYTES, SharedBuffers


@pytest.fixture
def shared(tmp_path):
    return SharedBuffers((str(tmp_path),))


def view(size=SHARED_BYTES, fill=1):
    return memoryview(np.full(size, fill, "u1"))


def files(tmp_path):
    return sorted(tmp_path.iterdir())


def test_equal_contents_are_one_file_whatever_object_holds_them(shared, tmp_path):
    leases = [shared.lease([view(fill=1), view(fill=2), view(fill=1)]), shared.lease([view(fill=2)])]
    assert len(files(tmp_path)) == 2
    (_, first), (_, second), (_, third) = leases[0].files
    assert (first, leases[1].files) == (third, ((0, second),))
    assert {path.read_bytes()[0] for path in files(tmp_path)} == {1, 2}


def test_what_is_small_is_left_to_the_caller(shared, tmp_path):
    small, large = view(SHARED_BYTES - 1), view()
    lease = shared.lease([small, large])
    assert [number for number, _ in lease.files] == [1]
    assert lease.others([small, large]) == [small]
    assert len(files(tmp_path)) == 1


def test_the_file_of_one_call_goes_with_it_and_that_of_several_with_the_last(shared, tmp_path):
    once = shared.lease([view(fill=1)])
    twice = [shared.lease([view(fill=2)]) for _ in range(2)]
    once.release()
    assert len(files(tmp_path)) == 1
    for lease in twice:
        lease.release()
        lease.release()  # idempotent
    assert len(files(tmp_path)) == 1  # a third may come
    shared.close()
    assert files(tmp_path) == []


def test_what_comes_again_when_its_first_call_is_over_stays_from_then_on(shared, tmp_path):
    for _ in range(2):
        shared.lease([view()]).release()
    assert len(files(tmp_path)) == 1


def test_a_call_that_outlives_the_end_keeps_its_file(shared, tmp_path):
    leases = [shared.lease([view()]) for _ in range(2)]
    shared.close()
    leases[0].release()
    assert len(files(tmp_path)) == 1
    leases[1].release()
    assert files(tmp_path) == []


@pytest.mark.parametrize("size", [SHARED_BYTES, SAMPLED_BYTES])
def test_an_array_that_was_refilled_is_other_data(shared, tmp_path, size):
    array = np.zeros(size, "u1")
    for fill in range(3):
        array[:] = fill
        shared.lease([memoryview(array)])
    assert len(files(tmp_path)) == 3


def test_a_byte_of_an_array_that_is_not_very_large_makes_other_data(shared, tmp_path):
    array = np.zeros(SAMPLED_BYTES - 1, "u1")
    for place in (0, 70_001, len(array) - 1):
        array[place] += 1
        shared.lease([memoryview(array)])
    assert len(files(tmp_path)) == 3


def test_memory_that_another_array_has_now_is_read_anew(shared, tmp_path):
    memory = bytearray(SAMPLED_BYTES)
    shared.lease([memoryview(np.frombuffer(memory, "u1"))])
    memory[5000] = 1  # between two samples
    shared.lease([memoryview(np.frombuffer(memory, "u1"))])
    assert len(files(tmp_path)) == 2


def test_a_view_of_the_same_array_is_the_same_data(shared, tmp_path):
    array = np.zeros((4, SAMPLED_BYTES // 4), "u1")
    shared.lease([memoryview(array), memoryview(array[:]), memoryview(array.reshape(-1))])
    assert len(files(tmp_path)) == 1


def test_what_finds_no_room_is_left_to_the_caller(shared, tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (SHARED_BYTES, limits[1]))
    try:
        fits, too_large = view(), view(SHARED_BYTES + 1)
        lease = shared.lease([too_large, fits])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert lease.others([too_large, fits]) == [too_large]
    assert len(files(tmp_path)) == 1


def test_calls_find_their_arguments_in_order(shared, tmp_path):
    own, large, other = np.full(200_000, 1.0), np.full(300_000, 2.0), np.full(400_000, 3.0)
    small = np.arange(3)
    arguments = (small, large, own, other, large[:5])
    packed = [
        calls.pack_blocking(calls.Invocation(sum, arguments, {"start": large}), places=(str(tmp_path),), shared=shared)
        for _ in range(2)
    ]
    assert packed[0].lease.files == packed[1].lease.files
    for call in packed:
        function, args, kwargs = calls.unpack_call(calls.decode_request(call.body))
        assert function is sum
        np.testing.assert_equal(args, arguments)
        assert kwargs["start"] is args[1]
        args[1][0] = 7  # its own copy
    assert large[0] == 2
    assert own.nbytes > buffers.THRESHOLD_BYTES
