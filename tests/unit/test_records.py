import copy
import pickle
from dataclasses import FrozenInstanceError, replace
from uuid import UUID

import pytest

from wool_jupyter.discovery.protocol import DiscoveryLike, DiscoveryPublisherLike, DiscoverySubscriberLike
from wool_jupyter.records import ChannelOptions, WorkerMetadata

WORKER = WorkerMetadata(
    UUID(int=1), "unix:/w", 10, "1", frozenset({"gpu"}), {"zone": "a"}, secure=True, options=ChannelOptions(1, 2, 3.0)
)
OTHER_VALUES = {
    "address": "127.0.0.1:1",
    "pid": 11,
    "version": "2",
    "tags": frozenset(),
    "extra": {"zone": "b"},
    "secure": False,
    "options": ChannelOptions(),
}


@pytest.mark.parametrize("name", OTHER_VALUES)
def test_a_changed_record_differs_and_has_the_hash_of_its_worker(name):
    changed = replace(WORKER, **{name: OTHER_VALUES[name]})
    assert changed != WORKER
    assert hash(changed) == hash(WORKER)


def test_extra_is_a_copy_that_nobody_can_write_to():
    given = {"zone": "a"}
    worker = replace(WORKER, extra=given)
    given["zone"] = "b"
    assert worker.extra == {"zone": "a"}
    with pytest.raises(TypeError):
        worker.extra["zone"] = "c"
    with pytest.raises(FrozenInstanceError):
        worker.extra = {}


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda worker: pickle.loads(pickle.dumps(worker))])
def test_a_record_can_be_copied_and_pickled(copied):
    assert copied(WORKER) == WORKER


class Publisher:
    async def publish(self, type, metadata): ...


class Subscriber:
    def __aiter__(self): ...


class Discovery:
    publisher = Publisher()
    subscriber = Subscriber()

    def subscribe(self, filter=None): ...


@pytest.mark.parametrize(
    ("protocol", "fits"),
    [(DiscoveryPublisherLike, Publisher), (DiscoverySubscriberLike, Subscriber), (DiscoveryLike, Discovery)],
    ids=["publisher", "subscriber", "discovery"],
)
def test_a_protocol_is_told_by_its_members(protocol, fits):
    assert [isinstance(each(), protocol) for each in (Publisher, Subscriber, Discovery)] == [
        each is fits for each in (Publisher, Subscriber, Discovery)
    ]
