"""Large data that cells and calls read: each content is one file, as long as somebody needs it."""

import gc
import sys
import threading

import numpy as np
import pytest

from tests.support.readers import reader
from tests.support.sides import store_in
from tests.support.waiting import wait_until
from wool_jupyter.aio import threads
from wool_jupyter.wire import buffers, calls, contents, mappings, segments, store
from wool_jupyter.wire.contents import SAMPLED_BYTES, Remembered

SIZE = segments.SEGMENT_BYTES


@pytest.fixture
def kept(tmp_path):
    made = store_in(tmp_path)
    yield made
    made.close()


def array(fill=1, size=SIZE):
    return np.full(size, fill, "u1")


def files(tmp_path, *folders):
    return sorted(path for folder in folders or ("data", "idle") for path in (tmp_path / folder).iterdir())


def lease(kept, *arrays, **options):
    return kept.lease([memoryview(each) for each in arrays], **options)


def sent(kept, fill, size=SIZE):
    """An array that is gone, as it was mapped before its lease ended."""
    given = lease(kept, array(fill, size))
    (ref,) = given.refs
    view = mappings.mapped(ref.file, ref.offset, ref.length)
    given.release()
    return view


def test_equal_contents_are_one_file_whatever_object_holds_them(kept, tmp_path):
    held = [array(1), array(2), array(1)]
    first, second = lease(kept, *held), lease(kept, held[1])
    assert len(files(tmp_path)) == 2
    one, two, three = first.refs
    assert (one.file, second.refs[0].file) == (three.file, two.file)
    assert [ref.number for ref in first.refs] == [0, 1, 2]
    assert {path.read_bytes()[0] for path in files(tmp_path)} == {1, 2}


def test_equal_contents_of_one_message_are_two_objects_for_its_receiver(kept, tmp_path):
    given = lease(kept, array(), array())
    _, (one, other) = buffers.unpack(buffers.Parcel(b"", refs=tuple(given.refs)))
    one[0] = 7
    assert (one[0], other[0]) == (7, 1)


def test_very_large_contents_are_one_file_and_a_byte_between_makes_it_another(kept, tmp_path):
    held = [array(1, SAMPLED_BYTES) for _ in range(3)]
    held[2][5000] = 2  # where a sample does not look
    first, second = (lease(kept, each).refs[0] for each in held[:2])
    assert first == second
    assert len(files(tmp_path)) == 1  # and none that was written and not needed
    assert lease(kept, held[2]).refs[0].file != first.file
    assert len(files(tmp_path)) == 2


def test_what_is_new_for_sure_is_written_before_it_has_been_read_for_its_digest(kept, tmp_path):
    def late(view):
        wait_until(lambda: [path for path in files(tmp_path) if path.stat().st_size == view.nbytes])
        return contents.digest(view)

    given = lease(kept, array(1, SAMPLED_BYTES), digest=late)
    assert lease(kept, array(1, SAMPLED_BYTES)).refs == given.refs


def test_without_a_thread_it_is_read_all_the_same(kept, tmp_path, monkeypatch):
    def refuses(*_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threads._thread, "start_new_thread", refuses)
    one, other = lease(kept, array(1, SAMPLED_BYTES)), lease(kept, array(1, SAMPLED_BYTES))
    assert one.refs == other.refs


def test_what_somebody_writes_into_meanwhile_is_taken_for_nothing_else(kept, monkeypatch):
    changing, write = array(1, SAMPLED_BYTES), kept._written

    def written(view):
        file = write(view)
        changing[:] = 2
        return file

    with monkeypatch.context() as patched:
        patched.setattr(kept, "_written", written)
        torn = lease(kept, changing)
    for fill in (1, 2):
        other = lease(kept, array(fill, SAMPLED_BYTES))
        assert other.refs[0].file != torn.refs[0].file
        assert set(mappings.mapped(*_place(other))[:: 1 << 12]) == {fill}


def _place(given):
    (ref,) = given.refs
    return ref.file, ref.offset, ref.length


def test_new_content_that_two_threads_have_at_once_is_one_file(kept, tmp_path, monkeypatch):
    """Each takes it for new: neither has written when the other looks."""
    both, looks = threading.Barrier(2, timeout=30), kept._has_like
    found = []

    def together(*content):
        is_there = looks(*content)
        both.wait()
        return is_there

    monkeypatch.setattr(kept, "_has_like", together)

    def sends():
        found.append(lease(kept, array(1, SAMPLED_BYTES)))

    threads = [threading.Thread(target=sends) for _ in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    one, other = (given.refs[0] for given in found)
    assert one == other
    assert len(files(tmp_path, "data")) == 1
    for given in found:
        given.release()
    assert contents.digest(memoryview(files(tmp_path, "data")[0].read_bytes())) == one.digest


def test_what_is_small_is_left_to_the_message(kept, tmp_path):
    small, large = memoryview(array(size=SIZE - 1)), memoryview(array())
    given = kept.lease([small, large])
    assert [ref.number for ref in given.refs] == [1]
    assert buffers.without([small, large], given.refs) == [small]


def test_an_array_that_was_changed_is_other_data_and_its_file_is_written_again(kept, tmp_path):
    changing = array(0)
    for fill in (1, 2, 3):
        changing[-1] = fill
        given = lease(kept, changing)
        assert mappings.mapped(given.refs[0].file, 0, SIZE)[-1] == fill
        given.release()
    assert len(files(tmp_path)) == 1  # nobody else has what was there before


def test_the_file_of_an_array_that_is_gone_is_written_again(kept, tmp_path):
    for fill in range(5):
        sent(kept, fill).release()
    assert len(files(tmp_path)) == 1


def test_a_file_on_the_way_is_not_written_again(kept, tmp_path):
    given = lease(kept, array(1))  # nobody has mapped it yet
    for fill in (2, 3):
        sent(kept, fill).release()
    assert set(mappings.mapped(given.refs[0].file, 0, SIZE)) == {1}
    assert len(files(tmp_path)) == 2
    given.release()
    given.release()  # idempotent
    sent(kept, 4).release()
    sent(kept, 5).release()
    assert len(files(tmp_path)) == 2


@pytest.mark.parametrize(("ignores", "is_right"), [(False, True), (True, False)])
@pytest.mark.parametrize("forks", [False, True])
def test_what_a_worker_holds_or_its_fork_stays_while_others_are_sent(tmp_path, ignores, is_right, forks):
    """Beside a twin that ignores the lock."""
    store_in(tmp_path)
    kept = store.Store([tmp_path], **({"is_free": lambda _: True} if ignores else {}))
    with reader() as worker:
        given = lease(kept, array(1))
        assert worker.map(given.refs[0]) == "mapped"
        given.release()
        if forks:
            assert worker.fork() == "forked"
        for fill in range(11, 16):
            sent(kept, fill).release()
        assert len(files(tmp_path)) <= 2  # so they were written again
        assert (worker.contents() == [{1}]) is is_right


def test_what_came_from_a_worker_and_was_not_changed_is_passed_on_as_it_is(kept, tmp_path):
    parcel = result(tmp_path, array(5))
    assert files(tmp_path) == []
    _, (view,) = buffers.take(parcel)
    came = np.frombuffer(view, "u1")
    assert files(tmp_path, "data") == []
    (idle,) = files(tmp_path, "idle")
    given = lease(kept, came, came[4096:])
    assert [(ref.file, ref.offset) for ref in given.refs] == [(str(idle), 0)]  # the other one is small
    assert files(tmp_path) == [idle]
    came[0] = 6
    (ref,) = lease(kept, came).refs
    assert ref.file != str(idle)
    assert mappings.mapped(ref.file, 0, SIZE)[0] == 6


def result(tmp_path, made):
    place = tmp_path / "calls" / "1"
    return buffers.pack_to_give(b"", [memoryview(made)], places=[str(place)], name="reply")


def test_what_was_passed_on_stays_as_long_as_its_lease(kept, tmp_path):
    _, (view,) = buffers.take(result(tmp_path, array(5)))
    came = np.frombuffer(view, "u1")
    given = lease(kept, came)
    del came, view
    sent(kept, 6).release()
    assert set(mappings.mapped(given.refs[0].file, 0, SIZE)) == {5}
    given.release()
    sent(kept, 7).release()
    sent(kept, 8).release()
    assert len(files(tmp_path)) == 2


def test_a_result_that_was_let_go_is_written_again_with_the_next(tmp_path):
    store_in(tmp_path)
    inodes = []
    for fill in (1, 2, 3):
        _, (view,) = buffers.take(result(tmp_path, array(fill)))
        assert set(view) == {fill}
        (idle,) = files(tmp_path, "idle")
        inodes.append(idle.stat().st_ino)
        del view
    assert len(set(inodes)) == 1


def test_a_result_that_is_held_is_not(tmp_path):
    store_in(tmp_path)
    views = [buffers.take(result(tmp_path, array(fill)))[1][0] for fill in (1, 2, 3)]
    assert [set(view) for view in views] == [{1}, {2}, {3}]
    assert len(files(tmp_path, "idle")) == 3


def test_a_file_that_somebody_swept_away_is_written_anew(kept, tmp_path):
    held = array()
    (ref,) = lease(kept, held).refs
    (tmp_path / "data" / ref.file.rpartition("/")[2]).unlink()
    (ref,) = lease(kept, held).refs
    assert set(mappings.mapped(ref.file, 0, SIZE)) == {1}


_opened: list[str] | None = None


def _notes_opened(event, arguments):
    if _opened is not None and event == "open":
        _opened.append(str(arguments[0]))


sys.addaudithook(_notes_opened)


def test_many_arrays_beside_many_that_are_held_look_at_each_file_a_few_times(kept, tmp_path):
    """Results that the notebook holds are idle files that nobody may write."""
    global _opened
    count = 20
    held = [sent(kept, n) for n in range(count)]
    gc.collect()
    kept.use()
    assert len(files(tmp_path, "idle")) == count
    _opened = []
    try:
        given = lease(kept, *(array(100 + n) for n in range(count)))
        seen = [file for file in _opened if file.startswith(str(tmp_path))]
    finally:
        _opened = None
    assert len(given.refs) == count
    assert len(seen) < 5 * count
    assert [each[0] for each in held] == list(range(count))
    given.release()
    parcel = buffers.pack_to_give(
        b"", [memoryview(array(n)) for n in range(3)], places=[str(tmp_path / "data")], name="x"
    )
    assert len(parcel.refs) == 3


def test_a_file_that_became_idle_within_a_message_is_as_large_as_it_is(kept, tmp_path):
    """It has more room than its last content took."""
    size = 12 << 20
    sent(kept, 1, size)
    smaller = array(2, size - SIZE)
    given = lease(kept, smaller)
    given.release()
    del smaller
    given = lease(
        kept, array(4, SIZE), array(5, size)
    )  # the file becomes idle with the first, and the second fits there
    assert sorted(each.stat().st_size for each in files(tmp_path)) == [SIZE, size]
    for ref, fill in zip(given.refs, (4, 5), strict=True):
        assert set(bytes(mappings.mapped(ref.file, ref.offset, ref.length))) == {fill}
    given.release()


def test_above_the_budget_what_was_used_least_recently_gives_way(kept, tmp_path):
    kept.budget_bytes = 3 * SIZE
    held = [array(fill) for fill in range(4)]
    for each in (*held[:3], held[0]):
        lease(kept, each).release()
    lease(kept, held[3]).release()
    assert {path.read_bytes()[0] for path in files(tmp_path)} == {0, 2, 3}


def test_what_is_in_use_never_gives_way_and_what_finds_no_room_is_left_out(kept, tmp_path):
    kept.budget_bytes = 2 * SIZE
    held = [array(1), array(2), array(3)]
    on_the_way = lease(kept, held[0])
    given = lease(kept, held[1])
    mapped = mappings.mapped(given.refs[0].file, 0, SIZE)
    given.release()
    assert lease(kept, held[2]).refs == []
    again = lease(kept, held[1])  # it is still told of
    assert again.refs == given.refs
    again.release()
    assert kept.use() == store.Use(2 * SIZE, 2 * SIZE, 2 * SIZE)
    mapped.release()
    assert kept.use() == store.Use(2 * SIZE, SIZE, 2 * SIZE)
    assert len(lease(kept, held[2]).refs) == 1
    assert set(mappings.mapped(on_the_way.refs[0].file, 0, SIZE)) == {1}


def test_what_would_not_fit_alone_makes_nothing_give_way(kept, tmp_path):
    kept.budget_bytes = 3 * SIZE
    held = array(1)
    lease(kept, held).release()
    assert lease(kept, array(2, 4 * SIZE)).refs == []
    assert len(files(tmp_path, "data")) == 1


def test_other_sizes_give_way_too(kept, tmp_path):
    kept.budget_bytes = 5 * SIZE
    for fill in range(4):
        lease(kept, array(fill)).release()
    assert len(lease(kept, large := array(9, 4 * SIZE)).refs) == 1
    assert sum(path.stat().st_size for path in files(tmp_path)) <= 5 * SIZE
    assert large[0] == 9


def test_trimming_gives_back_what_is_not_needed_any_more(kept, tmp_path, monkeypatch):
    held, gone = array(1), array(2)
    for each in (held, gone):
        lease(kept, each).release()
    del each, gone
    kept.trim()
    assert len(files(tmp_path, "data")) == 1
    assert len(files(tmp_path, "idle")) == 1  # somebody may write it again
    monkeypatch.setattr(store, "DATA_IDLE_S", -1.0)
    kept.trim()
    assert [path.read_bytes()[0] for path in files(tmp_path)] == [1]
    monkeypatch.setattr(store, "DATA_UNUSED_S", -1.0)
    kept.trim()
    assert files(tmp_path) == []
    assert held[0] == 1


def test_trimming_takes_nothing_that_is_mapped_or_on_the_way(kept, tmp_path, monkeypatch):
    monkeypatch.setattr(store, "DATA_IDLE_S", -1.0)
    monkeypatch.setattr(store, "DATA_UNUSED_S", -1.0)
    mapped = sent(kept, 1)
    given = lease(kept, array(2))
    kept.budget_bytes = 0
    kept.trim()
    assert {path.read_bytes()[0] for path in files(tmp_path)} == {1, 2}
    assert set(mapped) == {1}
    given.release()
    mapped.release()
    kept.trim()
    assert files(tmp_path) == []


def test_a_release_never_waits_for_a_write(kept):
    """It happens on the loop."""
    given = lease(kept, array())
    with kept._lock:
        given.release()


def test_after_the_end_nothing_is_written(kept, tmp_path):
    kept.close()
    kept.close()
    assert lease(kept, array()).refs == []


def test_no_more_than_half_of_a_place_is_taken(tmp_path, monkeypatch):
    store_in(tmp_path)
    kept = store.Store([tmp_path])
    monkeypatch.setattr(store.host, "free_bytes", lambda _: 2 * SIZE - 1)
    assert lease(kept, array()).refs == []
    monkeypatch.setattr(store.host, "free_bytes", lambda _: 2 * SIZE)
    assert len(lease(kept, array()).refs) == 1


def test_calls_find_their_arguments_in_order(kept, tmp_path):
    own, large, other = np.full(20_000, 1.0), np.full(300_000, 2.0), np.full(400_000, 3.0)
    small = np.arange(3)
    arguments = (small, large, own, other, large[:5])
    data = calls.Data((str(tmp_path),), kept)
    packed = [calls.pack_blocking(calls.Invocation(sum, arguments, {"start": large}), data) for _ in range(2)]
    assert packed[0].lease.refs == packed[1].lease.refs
    for call in packed:
        function, args, kwargs = calls.unpack_call(calls.decode_request(call.body))
        assert function is sum
        np.testing.assert_equal(args, arguments)
        assert kwargs["start"] is args[1]
        args[1][0] = 7  # its own copy
    assert large[0] == 2
    assert own.nbytes > buffers.THRESHOLD_BYTES
    assert len(files(tmp_path)) == 2


def test_a_packed_function_keeps_its_large_data_as_long_as_it_lives(kept, tmp_path, monkeypatch):
    monkeypatch.setattr(store, "DATA_UNUSED_S", -1.0)
    monkeypatch.setattr(store, "DATA_IDLE_S", -1.0)
    function = calls.PackedFunction(array(1).sum, calls.Data((str(tmp_path),), kept))
    gc.collect()
    kept.trim()
    assert calls.unpack_call(calls.decode_request(function.body)).function() == SIZE
    del function
    kept.trim()
    assert files(tmp_path) == []


# ---- digests of one parallel call


@pytest.mark.parametrize("size", [SIZE, SAMPLED_BYTES])
def test_an_array_that_was_refilled_is_other_data(size):
    digest, refilled = Remembered(), np.zeros(size, "u1")
    found = set()
    for fill in range(3):
        refilled[:] = fill
        found.add(digest(memoryview(refilled)))
    assert len(found) == 3


def test_a_byte_of_an_array_that_is_not_very_large_makes_other_data():
    digest, changing = Remembered(), np.zeros(SAMPLED_BYTES - 1, "u1")
    found = set()
    for place in (0, 70_001, len(changing) - 1):
        changing[place] += 1
        found.add(digest(memoryview(changing)))
    assert len(found) == 3


def test_memory_that_another_array_has_now_is_read_anew():
    digest, memory = Remembered(), bytearray(SAMPLED_BYTES)
    before = digest(memoryview(np.frombuffer(memory, "u1")))
    memory[5000] = 1  # between two samples
    assert digest(memoryview(np.frombuffer(memory, "u1"))) != before


def test_a_large_array_is_read_once_and_its_views_are_the_same_data():
    digest, large = Remembered(), np.zeros((4, SAMPLED_BYTES // 4), "u1")
    found = digest(memoryview(large).cast("B"))
    large[0, 5000] = 1  # between two samples: so it was not read again
    assert {digest(memoryview(each).cast("B")) for each in (large, large[:], large.reshape(-1))} == {found}
    assert contents.digest(large) != found
