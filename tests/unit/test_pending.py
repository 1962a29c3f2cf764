"""Who binds a name that several want."""

import weakref

import pytest

from wool_jupyter.notebook.pending import Pending


@pytest.fixture
def namespace():
    return {"old": "old", "module": pytest}


@pytest.fixture
def pending(namespace):
    return Pending(namespace)


def test_nothing_pends_at_first(pending):
    assert not pending
    assert pending.holders(None) == {}


def test_a_job_holds_what_it_will_bind_until_it_has_ended(pending, namespace):
    assert pending.submitted(1, binds={"x", "old"}) == []
    assert pending.holders({"x", "old", "y"}) == {1: ["old", "x"]}
    assert pending.holders({"y"}) == {}
    assert pending.takes(1, "x")
    namespace["x"] = 1
    pending.ended(1, {"x"})
    assert not pending


def test_the_last_one_holds_a_name(pending):
    pending.submitted(1, binds={"x", "y"})
    told = pending.submitted(2, binds={"x"})
    assert told == ["`x` is pending from job 1, too: what this one binds will count"]
    assert pending.holders(None) == {1: ["y"], 2: ["x"]}


def test_an_earlier_job_that_ends_first_gives_way(pending, namespace):
    pending.submitted(1, binds={"x"})
    pending.submitted(2, binds={"x"})
    assert pending.takes(1, "x")
    namespace["x"] = "first"
    pending.ended(1, {"x"})
    assert pending.takes(2, "x")


def test_an_earlier_job_that_ends_last_is_too_late(pending, namespace):
    pending.submitted(1, binds={"x"})
    pending.submitted(2, binds={"x"})
    namespace["x"] = "second"
    pending.ended(2, {"x"})
    assert not pending.takes(1, "x")
    assert pending.is_loss(1, "x")


@pytest.mark.parametrize("value", ["new", "old"], ids=["another object", "the same one"])
def test_a_cell_that_binds_a_name_takes_it_from_the_job(pending, namespace, value):
    pending.submitted(1, binds={"old"})
    namespace["old"] = value
    assert pending.cell_ended({"old"}) == ["this cell has bound `old`: what job 1 makes of it is dropped"]
    assert pending.cell_ended({"old"}) == []  # said once
    assert not pending.takes(1, "old")


def test_what_a_cell_binds_unseen_is_seen_afterwards(pending, namespace):
    pending.submitted(1, binds={"old", "x"})
    namespace["old"] = "new"
    del namespace["old"]
    namespace["x"] = 1
    assert pending.cell_ended(set()) == ["this cell has bound `old`, `x`: what job 1 makes of them is dropped"]


def test_a_name_that_nobody_could_foresee_gives_way_too(pending, namespace):
    pending.submitted(1, binds=set())
    namespace["old"], namespace["y"] = "new", 1
    assert not pending.takes(1, "old")
    assert not pending.takes(1, "y")
    assert pending.takes(1, "z")


def test_a_name_that_nobody_could_foresee_and_an_earlier_job_has_bound(pending, namespace):
    pending.submitted(1, binds={"x"})
    pending.submitted(2, binds=set())
    namespace["x"] = "first"
    pending.ended(1, {"x"})
    assert pending.takes(2, "x")


def test_an_import_of_what_is_there_makes_nobody_wait_and_is_no_loss(pending, namespace):
    pending.submitted(1, binds={"module", "other"}, imports={"module", "other"})
    assert pending.holders(None) == {1: ["other"]}
    namespace["module"] = 5
    assert pending.cell_ended({"module"}) == []
    assert not pending.takes(1, "module")
    assert not pending.is_loss(1, "module")


def test_a_job_that_fails_is_named_once_to_who_reads_its_names(pending, namespace):
    pending.submitted(1, binds={"x", "old"})
    namespace["x"] = "half"
    pending.ended(1, {"x"}, well=False, failed=True)
    assert pending.unbound({"y"}) is None
    assert pending.unbound({"x", "old", "y"}) == (1, ["old", "x"])
    assert pending.unbound({"x", "old"}) is None
    assert not pending


def test_of_a_cancelled_job_only_what_it_has_not_bound_is_missed(pending, namespace):
    pending.submitted(1, binds={"x", "old"})
    namespace["x"] = "half"
    pending.ended(1, {"x"}, well=False)
    assert pending.unbound({"x"}) is None
    assert pending.unbound({"old"}) == (1, ["old"])


@pytest.mark.parametrize("how", ["cell", "job", "forget"])
def test_what_is_bound_anew_is_not_missed(pending, namespace, how):
    pending.submitted(1, binds={"old"})
    pending.ended(1, set(), well=False)
    if how == "cell":
        namespace["old"] = "new"
        pending.cell_ended(set())
    elif how == "job":
        pending.submitted(2, binds={"old"})
    else:
        pending.forget(1)
    assert pending.unbound({"old"}) is None


def test_an_object_that_is_changed_is_held(pending):
    pending.submitted(1, binds=set(), changes={"old"})
    assert pending.holders({"old"}) == {1: ["old"]}


def test_a_new_object_in_the_place_of_an_old_one_is_another(pending, namespace):
    """As `exec` may bind any name. A list that is let go lends its memory, and so its `id`, to the next one."""
    namespace["items"] = []
    pending.submitted(1, binds={"x"})
    del namespace["items"]
    namespace["items"] = []
    assert not pending.takes(1, "items")


def test_what_a_cell_deletes_is_gone_though_a_job_is_under_way(pending, namespace):
    class Thing:
        pass

    thing, listed = Thing(), Thing()
    at_once, then = weakref.ref(thing), weakref.ref(listed)
    namespace |= {"thing": thing, "things": [listed]}
    del thing, listed
    pending.submitted(1, binds={"x"})
    del namespace["thing"], namespace["things"]
    assert at_once() is None
    pending.cell_ended({"thing", "things"})
    assert then() is None
    assert not pending.takes(1, "things")
    namespace["things"] = None
    assert not pending.takes(1, "things")
