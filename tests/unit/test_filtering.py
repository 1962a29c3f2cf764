import asyncio

import cloudpickle
import pytest

from tests.support.loops import run, settle
from tests.support.sources import Source
from tests.support.workers import added, dropped, updated
from wool_jupyter.discovery.filtering import afilter
from wool_jupyter.discovery.protocol import DiscoverySubscriberLike
from wool_jupyter.discovery.subscription import SharedSubscription

GPU = frozenset({"gpu"})


def everyone(metadata):
    return True


def nobody(metadata):
    return False


def has_gpu(metadata):
    return "gpu" in metadata.tags


class Replay:
    """Gives the same events to each iteration."""

    def __init__(self, *events):
        self.events = events

    async def __aiter__(self):
        for event in self.events:
            yield event


async def seen(predicate, *events):
    return [event async for event in afilter(predicate, Replay(*events))]


def case(identifier, predicate, events, expected, id):
    return pytest.param(predicate, events, expected, id=id, marks=pytest.mark.case(identifier))


@pytest.mark.parametrize(
    ("predicate", "events", "expected"),
    [
        case("FAN-12", everyone, [added(1)], [added(1)], "accepted"),
        case("FAN-13", everyone, [added(1), updated(1, "b")], [added(1), updated(1, "b")], "accepted, updated"),
        case("FAN-14", nobody, [added(1)], [], "rejected"),
        case("FAN-15", has_gpu, [added(1), updated(1, tags=GPU)], [added(1, tags=GPU)], "comes to pass"),
        case(
            "FAN-16",
            has_gpu,
            [added(1, tags=GPU), updated(1, "b")],
            [added(1, tags=GPU), dropped(1, tags=GPU)],
            "ceases to pass",
        ),
        case("FAN-17", everyone, [added(1), dropped(1)], [added(1), dropped(1)], "accepted, dropped"),
        case("FAN-18", nobody, [added(1), dropped(1)], [], "rejected, dropped"),
        pytest.param(everyone, [added(1), added(1, "b")], [added(1), updated(1, "b")], id="announced again"),
        pytest.param(
            everyone, [added(1), dropped(1), added(1)], [added(1), dropped(1), added(1)], id="came, went, came"
        ),
        pytest.param(
            has_gpu,
            [added(1, tags=GPU), updated(1), updated(1)],
            [added(1, tags=GPU), dropped(1, tags=GPU)],
            id="dropped once",
        ),
        pytest.param(has_gpu, [added(1), added(2, tags=GPU), dropped(1)], [added(2, tags=GPU)], id="one of two"),
    ],
)
def test_rejected_workers_never_surface(predicate, events, expected):
    assert run(seen(predicate, *events)) == expected


@pytest.mark.case("FAN-19")
def test_every_iteration_is_on_its_own():
    async def main():
        filtered = afilter(everyone, Replay(added(1)))
        expected = [added(1)]  # with state of the first, the second would see an update
        assert [event async for event in filtered] == expected
        assert [event async for event in filtered] == expected

    run(main())


@pytest.mark.case("FAN-20")
def test_it_travels_with_predicate_and_inner_subscriber():
    wanted = 2
    filtered = afilter(lambda metadata: metadata.uid.int == wanted, Replay(added(1), added(2)))
    there = cloudpickle.loads(cloudpickle.dumps(filtered))
    assert isinstance(there, afilter)
    assert isinstance(there, DiscoverySubscriberLike)

    async def main():
        return [event async for event in there]

    assert run(main()) == [added(2)]


def test_what_the_predicate_raises_ends_the_iteration_and_closes_the_inner_one():
    source = Source(added(1))

    def fails(metadata):
        raise LookupError("predicate")

    async def main():
        with pytest.raises(LookupError, match="predicate"):
            await anext(aiter(afilter(fails, source)))
        assert source.closed == 1

    run(main())


@pytest.mark.parametrize("how", ["aclose", "cancel"])
def test_leaving_it_gives_the_shared_subscriber_back(how):
    async def main():
        source = Source(added(1))
        events = aiter(afilter(everyone, SharedSubscription("same", lambda: source)))
        assert await anext(events) == added(1)
        if how == "aclose":
            await events.aclose()
        else:
            task = asyncio.ensure_future(anext(events))
            await settle()
            task.cancel()
            await settle()
        assert (source.opened, source.closed) == (1, 1)

    run(main())


def test_a_slow_reader_behind_a_filter_hears_of_a_return_as_an_addition():
    """It may have evicted the worker on its own account, and an update admits nobody."""

    async def main():
        subscription = SharedSubscription("same", lambda: Source(added(1), dropped(1), added(1, "new")))
        slow, fast = aiter(afilter(everyone, subscription)), aiter(subscription)
        assert await anext(slow) == added(1)
        assert [await anext(fast) for _ in range(3)] == [added(1), dropped(1), added(1, "new")]
        assert [await anext(slow), await anext(slow)] == [dropped(1), added(1, "new")]
        await slow.aclose()
        await fast.aclose()

    run(main())
