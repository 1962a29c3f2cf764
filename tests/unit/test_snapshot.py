"""The files are what panel and widget are tested with: they have to be what the kernel sends."""

import json

import msgspec
import pytest

from tests.support.snapshots import FOLDER, SNAPSHOTS, as_file
from wool_jupyter.notebook import snapshot

every_snapshot = pytest.mark.parametrize("name", sorted(SNAPSHOTS))


def golden(name):
    return (FOLDER / f"{name}.json").read_text(encoding="utf-8")


@every_snapshot
def test_a_file_is_the_snapshot_as_it_is_sent(name):
    assert golden(name) == as_file(SNAPSHOTS[name])


@every_snapshot
def test_a_file_comes_back_as_the_snapshot(name):
    assert snapshot.decode(golden(name)) == SNAPSHOTS[name]


def test_every_file_is_made_from_a_snapshot():
    assert {path.stem for path in FOLDER.iterdir()} == set(SNAPSHOTS)


@pytest.mark.parametrize("field", ["state", "running"])
def test_a_worker_without_a_field_is_no_snapshot(field):
    content = json.loads(golden("two-workers"))
    del content["workers"][0][field]
    with pytest.raises(msgspec.ValidationError, match=field):
        snapshot.decode(json.dumps(content))


def test_a_field_that_the_schema_does_not_have_is_refused():
    content = json.loads(golden("two-workers"))
    content["workers"][0]["nick"] = "bob"
    with pytest.raises(msgspec.ValidationError, match="nick"):
        snapshot.decode(json.dumps(content))


def test_no_snapshot_has_a_key_state_at_its_top():
    """nbclient takes a comm message with such a key for a widget's state."""
    assert all("state" not in snapshot.as_builtins(each) for each in SNAPSHOTS.values())
