"""What becomes of the calls of a worker that has ended (`pool.lost_calls`)."""

import pytest

from tests.support.virtual_pool import Origin
from wool_jupyter.pool.call_item import Item
from wool_jupyter.pool.futures import Callbacks, Future
from wool_jupyter.pool.lost_calls import fates
from wool_jupyter.pool.pacing import Cost
from wool_jupyter.settings import WORKERS_LOST_MAX


def call(number, retries=0):
    origin, name = Origin(), f"f({number})"
    item = Item(
        future=Future(Callbacks()),
        origin=origin,
        ambient={},
        label=name,
        words=name,
        cost=Cost(),
        retries=retries,
        settled=origin.settled,
        native_threads=1,
        grace_s=1.0,
    )
    item.number = number
    return item


def test_what_had_not_begun_runs_elsewhere_and_what_may_have_says_how_far_it_came():
    before, within, behind = sent = [call(number) for number in (1, 2, 3)]
    found = fates(sent, begun=2)
    assert found.again == [behind]
    assert found.failed == [
        (before, "It was at f(2). f(1) has run before, and its result is lost"),
        (within, "f(2) had begun, and may have run in part"),
    ]
    assert found.notice == ""


def test_nothing_has_begun():
    sent = [call(number) for number in (1, 2)]
    found = fates(sent, begun=0)
    assert (found.again, found.failed, found.notice) == (sent, [], "")


@pytest.mark.parametrize(
    ("numbers", "notice"),
    [([2], "f(2) is run again"), ([1, 2], "f(2) and 1 more are run again"), ([1], "f(1) is run again")],
)
def test_retries_are_used_up_and_told_of(numbers, notice):
    sent = [call(number, retries=int(number in numbers)) for number in (1, 2, 3)]
    found = fates(sent, begun=2)
    assert found.notice == notice
    assert [item.number for item in found.again] == [*numbers, 3]
    assert [item.number for item, _ in fates(sent, begun=2).failed] == [1, 2]


def test_a_call_that_ends_each_worker_before_it_begins_is_not_sent_for_ever():
    item = call(7)
    for _ in range(WORKERS_LOST_MAX - 1):
        assert fates([item], begun=0).again == [item]
    found = fates([item], begun=0)
    assert found.failed == [(item, f"f(7) had not begun; so did {WORKERS_LOST_MAX} workers end before they came to it")]
    assert found.again == []
