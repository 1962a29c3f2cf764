"""What a worker notes of the calls that it begins."""

import resource

import pytest

from tests.support.discovery import descriptors
from wool_jupyter.wire.start_ledger import StartLedger


@pytest.fixture
def path(tmp_path):
    return tmp_path / "begun"


def test_both_sides_see_what_has_begun_also_when_the_name_is_gone(path):
    ours = StartLedger.create(path)
    theirs = StartLedger.open(path)
    path.unlink()
    assert not ours.has_begun(1)
    theirs.begins(7)
    assert [ours.has_begun(number) for number in (6, 7, 8)] == [True, True, False]


def test_a_late_one_takes_nothing_back(path):
    ledger = StartLedger.create(path)
    ledger.begins(7)
    ledger.begins(6)
    assert ledger.has_begun(7)


def test_it_is_this_user_s_alone_and_nobody_else_s_file(path):
    StartLedger.create(path)
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError):
        StartLedger.create(path)


def test_it_keeps_no_descriptor_but_that_of_its_mapping(path):
    before = descriptors()
    ledger = StartLedger.create(path)
    assert descriptors() == before + 1
    del ledger
    assert descriptors() == before


def test_what_was_noted_stays_known_without_the_file(path):
    before = descriptors()
    ledger = StartLedger.create(path)
    ledger.begins(7)
    ledger.close()
    assert descriptors() == before
    assert [ledger.has_begun(number) for number in (6, 7, 8)] == [True, True, False]


def test_a_file_system_without_room_costs_no_descriptor(path):
    before = descriptors()
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limit[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            StartLedger.create(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert descriptors() == before
