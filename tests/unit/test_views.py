import numpy as np
import pytest

from wool_jupyter.wire import views


def rebuilt(array, bases):
    make, args = views.as_view(array, *bases[id(array)])
    return make(*args)


def test_arrays_that_own_their_memory_have_no_base():
    assert views.overlapping([np.arange(5), np.arange(5)]) == {}


def test_an_array_that_covers_the_others_is_their_base():
    whole = np.arange(10)
    part = whole[2:5]
    assert views.overlapping([part, whole]) == {id(part): (whole, 16)}


def test_parts_that_do_not_overlap_do_not_drag_in_their_owner():
    whole = np.zeros(10_000_000)
    assert views.overlapping([whole[:10], whole[20:30]]) == {}


def test_overlapping_parts_get_the_bytes_that_they_cover_and_no_more():
    whole = np.arange(1_000_000)
    one, other = whole[10:20], whole[15:25]
    bases = views.overlapping([one, other])
    assert {base.nbytes for base, _ in bases.values()} == {15 * 8}
    assert np.array_equal(rebuilt(one, bases), one)
    assert np.array_equal(rebuilt(other, bases), other)


@pytest.mark.parametrize(
    "view",
    [
        pytest.param(lambda a: a[::-1], id="reversed"),
        pytest.param(lambda a: a.T, id="transposed"),
        pytest.param(lambda a: a[1:, ::2], id="strided"),
        pytest.param(lambda a: a.view("u1"), id="other type"),
        pytest.param(lambda a: a[0, 0:1], id="one element"),
    ],
)
def test_a_view_of_any_form_is_rebuilt_on_its_base(view):
    whole = np.arange(24).reshape(4, 6)
    part = view(whole)
    again = rebuilt(part, views.overlapping([whole, part]))
    assert np.array_equal(again, part)
    assert np.shares_memory(again, whole)


def test_a_read_only_view_stays_read_only():
    whole = np.arange(6)
    part = whole[:3]
    part.flags.writeable = False
    assert not rebuilt(part, views.overlapping([whole, part])).flags.writeable


def test_objects_and_empty_arrays_are_left_alone():
    objects = np.array([[], {}], dtype=object)
    empty = np.arange(5)[2:2]
    assert views.overlapping([objects, objects[:1], empty, empty[:0]]) == {}


def test_a_view_of_what_came_in_a_message_is_found_by_who_owns_the_memory():
    received = np.frombuffer(bytearray(80)).reshape(2, 5)
    new = received[1, 2:4]
    assert views.inside(new, views.by_root([received])) == (received, 56)
    assert views.inside(received, views.by_root([received])) is None


def test_an_array_that_was_copied_on_the_way_is_no_base():
    """The sender's may not have been contiguous: offsets in it mean something else."""
    copied = np.arange(10)
    assert views.by_root([copied]) == {}


@pytest.mark.parametrize("dtype", ["M8[D]", "m8[s]", [("day", "M8[D]"), ("n", "i8")]])
def test_a_part_of_dates_is_a_part_of_them_although_they_say_nothing_of_their_format(dtype):
    dates = np.zeros(100, dtype)
    part = dates[5:9]
    view = rebuilt(part, views.overlapping([dates, part]))
    view[:] = np.ones(4, "i8").astype(dtype)
    np.testing.assert_array_equal(dates[4:10] == dates[4], [True, False, False, False, False, True])
    assert np.shares_memory(view, dates)
