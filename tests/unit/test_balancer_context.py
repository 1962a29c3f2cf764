from dataclasses import replace
from itertools import combinations
from uuid import UUID

import pytest

from tests.support.workers import worker
from wool_jupyter.balance.context import Candidate, LoadBalancerContext
from wool_jupyter.records import ChannelOptions

OTHER_VALUES = {
    "address": "unix:/other",
    "pid": 1,
    "version": "2",
    "tags": frozenset({"gpu"}),
    "extra": {"zone": "b"},
    "secure": True,
    "options": ChannelOptions(max_concurrent_streams=1),
}
SOME_OF_THEM = [names for size in (1, 2, len(OTHER_VALUES)) for names in combinations(OTHER_VALUES, size)]


class Connection:
    load = 0


def changed(number, names):
    return replace(worker(number), **{name: OTHER_VALUES[name] for name in names})


def admitted(*numbers):
    context = LoadBalancerContext()
    for number in numbers:
        context.add_worker(worker(number), Connection())
    return context


def records(context):
    return [candidate.metadata for candidate in context.workers.values()]


@pytest.mark.case("LB-01")
@pytest.mark.parametrize("seen", [lambda context: context, lambda context: context.view], ids=["context", "view"])
def test_workers_can_only_be_read(seen):
    context = admitted(1)
    with pytest.raises(TypeError):
        seen(context).workers[UUID(int=1)] = Candidate(worker(1), Connection())
    with pytest.raises(TypeError):
        del seen(context).workers[UUID(int=1)]
    with pytest.raises(AttributeError):
        seen(context).workers = {}


@pytest.mark.case("LB-02")
def test_a_view_is_live():
    context = LoadBalancerContext()
    view, workers = context.view, context.view.workers
    for number in (1, 2, 3):
        context.add_worker(worker(number), Connection())
    context.update_worker(worker(2, "unix:/new"), Connection())
    context.remove_worker(UUID(int=3))
    assert view is context.view
    assert [each.metadata for each in workers.values()] == [worker(1), worker(2, "unix:/new")]
    context.remove_worker(UUID(int=1))
    context.remove_worker(UUID(int=2))
    assert not workers


@pytest.mark.case("LB-03")
def test_admitting_makes_one_entry():
    connection = Connection()
    context = LoadBalancerContext()
    context.add_worker(worker(1), connection)
    assert dict(context.workers) == {UUID(int=1): Candidate(worker(1), connection)}


@pytest.mark.case("LB-04")
@pytest.mark.parametrize("names", SOME_OF_THEM, ids=",".join)
def test_admitting_again_replaces(names):
    context, connection = admitted(1), Connection()
    context.add_worker(changed(1, names), connection)
    assert dict(context.workers) == {UUID(int=1): Candidate(changed(1, names), connection)}


@pytest.mark.case("LB-05")
def test_an_evicted_worker_can_be_admitted_again():
    context = admitted(1)
    context.remove_worker(UUID(int=1))
    context.add_worker(worker(1, "unix:/new"), Connection())
    assert records(context) == [worker(1, "unix:/new")]


@pytest.mark.case("LB-06")
@pytest.mark.parametrize("names", SOME_OF_THEM, ids=",".join)
def test_a_refresh_holds_the_new_record_and_connection(names):
    context, connection = admitted(1), Connection()
    context.update_worker(changed(1, names), connection)
    assert dict(context.workers) == {UUID(int=1): Candidate(changed(1, names), connection)}


@pytest.mark.case("LB-07", "LB-08")
def test_of_several_refreshes_the_last_one_holds_even_if_it_is_older():
    context = admitted(1)
    chain = [worker(1, "unix:/a"), worker(1, "unix:/b"), worker(1, "unix:/c")]
    for record in chain:
        context.update_worker(record, Connection())
    assert records(context) == [chain[-1]]
    context.update_worker(chain[0], Connection())
    assert records(context) == [chain[0]]


@pytest.mark.case("LB-09")
@pytest.mark.parametrize("write", [LoadBalancerContext.update_worker, LoadBalancerContext.add_worker])
def test_a_refreshed_worker_keeps_its_place(write):
    context = admitted(1, 2, 3)
    write(context, worker(2, "unix:/new"), Connection())
    assert records(context) == [worker(1), worker(2, "unix:/new"), worker(3)]


@pytest.mark.case("LB-10", "LB-11")
@pytest.mark.parametrize("was_there", [False, True])
def test_a_refresh_admits_nobody(was_there):
    context = admitted(1, 2)
    if was_there:
        context.remove_worker(UUID(int=2))
        context.update_worker(worker(2, "unix:/new"), Connection())
        assert records(context) == [worker(1)]
    else:
        context.update_worker(replace(worker(2), uid=UUID(int=3)), Connection())
        assert records(context) == [worker(1), worker(2)]


@pytest.mark.case("LB-12")
@pytest.mark.parametrize("names", SOME_OF_THEM, ids=",".join)
def test_eviction_goes_by_uid_whatever_the_record_says(names):
    """Entries keyed by a record would be missed exactly when it has changed."""
    context = admitted(1, 2)
    context.remove_worker(changed(1, names).uid)
    assert records(context) == [worker(2)]


@pytest.mark.case("LB-13", "LB-14")
@pytest.mark.parametrize("others", [(), (1, 2)])
def test_to_evict_who_is_not_there_changes_nothing(others):
    context = admitted(*others)
    context.remove_worker(UUID(int=9))
    assert records(context) == [worker(number) for number in others]
