"""What every discovery service keeps to. Add yours to `SERVICES`."""

import asyncio
from contextlib import aclosing

import pytest

from tests.support.discovery import descriptors, silent, stop, take, worker
from tests.support.fake_discovery import FakeDiscovery
from tests.support.loops import run
from wool_jupyter.discovery.local import LocalDiscovery
from wool_jupyter.discovery.protocol import DiscoveryLike, DiscoveryPublisherLike, DiscoverySubscriberLike
from wool_jupyter.errors import (
    DiscoveryCapacityExhausted,
    DiscoveryNamespaceNotFound,
    DiscoveryWorkerNotFound,
)

SERVICES = {
    "fake": lambda root, **options: FakeDiscovery(**options),
    "local": lambda root, **options: LocalDiscovery("n", root=root, **options),
}

pytestmark = pytest.mark.parametrize("name", SERVICES)
GPU = frozenset({"gpu"})


@pytest.fixture
def make(name, root):
    return lambda **options: SERVICES[name](root, **options)


def has_gpu(metadata):
    return "gpu" in metadata.tags


async def publish(service, *steps):
    into = service.publisher
    for kind, metadata in steps:
        await into.publish(f"worker-{kind}", metadata)
    if hasattr(into, "close"):
        into.close()


def in_it(make, main, **options):
    async def entered():
        async with make(**options) as service:
            await main(service)

    run(entered())


def test_it_has_the_protocols_shape(make):
    async def main(service):
        assert isinstance(service, DiscoveryLike)
        assert isinstance(service.publisher, DiscoveryPublisherLike)
        assert isinstance(service.subscriber, DiscoverySubscriberLike)
        assert isinstance(service.subscribe(has_gpu), DiscoverySubscriberLike)

    in_it(make, main)


def test_present_workers_come_first_then_what_changes(make):
    async def main(service):
        await publish(service, ("added", worker(1)), ("added", worker(2)), ("dropped", worker(2)), ("added", worker(3)))
        async with aclosing(aiter(service.subscriber)) as events:
            assert sorted(await take(events, 2)) == [("added", 1), ("added", 3)]
            await publish(service, ("updated", worker(1, tags=GPU)))
            event = await anext(events)
            assert (event.type, event.metadata) == ("worker-updated", worker(1, tags=GPU))
            await publish(service, ("dropped", worker(1)))
            event = await anext(events)
            assert (event.type, event.metadata) == ("worker-dropped", worker(1, tags=GPU))
            await publish(service, ("added", worker(1)))
            assert await take(events, 1) == [("added", 1)]

    in_it(make, main)


def test_adding_again_is_an_update_and_the_same_record_is_nothing(make):
    async def main(service):
        await publish(service, ("added", worker(1)))
        async with aclosing(aiter(service.subscriber)) as events:
            assert await take(events, 1) == [("added", 1)]
            await publish(service, ("added", worker(1)), ("updated", worker(1)), ("added", worker(1, tags=GPU)))
            assert await take(events, 1) == [("updated", 1)]
            step = asyncio.ensure_future(anext(events))
            assert await silent(step, 0.1)
            await publish(service, ("dropped", worker(1)))
            assert (await step).type == "worker-dropped"

    in_it(make, main)


def test_unknown_workers_and_kinds(make):
    async def main(service):
        await publish(service, ("dropped", worker(1)))
        with pytest.raises(DiscoveryWorkerNotFound):
            await publish(service, ("updated", worker(1)))
        with pytest.raises(RuntimeError):
            await publish(service, ("removed", worker(1)))
        async with aclosing(aiter(service.subscriber)) as events:
            step = asyncio.ensure_future(anext(events))
            assert await silent(step, 0.1)
            await publish(service, ("added", worker(2)))
            assert (await step).metadata == worker(2)

    in_it(make, main)


def test_a_full_service_says_so(make):
    async def main(service):
        await publish(service, ("added", worker(1)))
        with pytest.raises(DiscoveryCapacityExhausted):
            await publish(service, ("added", worker(2)))
        await publish(service, ("added", worker(1, tags=GPU)), ("dropped", worker(1)), ("added", worker(2)))

    in_it(make, main, capacity=1)


@pytest.mark.case("X-19")
def test_a_filter_lets_only_those_through_that_pass(make):
    async def main(service):
        await publish(service, ("added", worker(1)), ("added", worker(2, tags=GPU)))
        async with aclosing(aiter(service.subscribe(has_gpu))) as some, aclosing(aiter(service.subscriber)) as all_:
            assert await take(some, 1) == [("added", 2)]
            assert sorted(await take(all_, 2)) == [("added", 1), ("added", 2)]
            await publish(service, ("updated", worker(1, tags=GPU)))
            assert await take(some, 1) == [("added", 1)]
            await publish(service, ("updated", worker(2)))
            assert await take(some, 1) == [("dropped", 2)]

    in_it(make, main)


def test_a_filter_that_counts_as_false_is_one_too(make):
    class Nobody(list):
        def __call__(self, metadata):
            return False

    async def main(service):
        await publish(service, ("added", worker(1)))
        async with aclosing(aiter(service.subscribe(Nobody()))) as events:
            step = asyncio.ensure_future(anext(events))
            assert await silent(step, 0.1)
            await stop(step)

    in_it(make, main)


@pytest.mark.case("X-19")
def test_the_service_s_own_filter_is_the_default(make):
    async def main(service):
        await publish(service, ("added", worker(1)), ("added", worker(2, tags=GPU)))
        for subscriber in (service.subscriber, service.subscribe()):
            async with aclosing(aiter(subscriber)) as events:
                assert await take(events, 1) == [("added", 2)]
        async with aclosing(aiter(service.subscribe(lambda metadata: True))) as events:
            assert sorted(await take(events, 2)) == [("added", 1), ("added", 2)]

    in_it(make, main, filter=has_gpu)


def test_a_late_reader_and_a_slow_one_see_the_same_in_the_end(make):
    async def main(service):
        await publish(service, ("added", worker(1)))
        async with aclosing(aiter(service.subscriber)) as slow:
            assert await take(slow, 1) == [("added", 1)]
            async with aclosing(aiter(service.subscriber)) as fast:
                assert await take(fast, 1) == [("added", 1)]
                await publish(service, ("added", worker(2)))
                assert await take(fast, 1) == [("added", 2)]
                await publish(service, ("dropped", worker(2)), ("added", worker(3)))
                assert sorted(await take(fast, 2)) == [("added", 3), ("dropped", 2)]
                async with aclosing(aiter(service.subscriber)) as late:
                    assert sorted(await take(late, 2)) == [("added", 1), ("added", 3)]
            members, step = {1}, None
            while members != {1, 3}:
                step = await take(slow, 1)
                (members.discard if step[0][0] == "dropped" else members.add)(step[0][1])

    in_it(make, main)


def test_cancelling_one_reader_leaves_the_others(make):
    async def main(service):
        async with aclosing(aiter(service.subscriber)) as one, aclosing(aiter(service.subscriber)) as other:
            waiting = [asyncio.ensure_future(anext(each)) for each in (one, other)]
            assert await silent(waiting[0], 0.05)
            waiting[0].cancel()
            await asyncio.wait({waiting[0]})
            await publish(service, ("added", worker(1)))
            assert (await waiting[1]).metadata == worker(1)

    in_it(make, main)


def test_a_cancelled_reader_gives_back_what_it_holds(make):
    async def main(service):
        async def read():
            async for _ in service.subscriber:
                pass

        async with asyncio.timeout(10):
            before = descriptors()
            for _ in range(3):
                reading = asyncio.ensure_future(read())
                assert await silent(reading, 0.05)
                reading.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await reading
            while descriptors() > before:  # noqa: ASYNC110 (a thread of the watcher closes the last)
                await asyncio.sleep(0.01)
        assert getattr(service, "iterations", 0) == 0

    in_it(make, main)


@pytest.mark.case("OWN-06", "REG-17")
def test_everyone_hears_of_the_end(make):
    async def main():
        service = make()
        async with service:
            await publish(service, ("added", worker(1)))
            async with aclosing(aiter(service.subscriber)) as one, aclosing(aiter(service.subscriber)) as other:
                assert await take(one, 1) == await take(other, 1) == [("added", 1)]
                waiting = asyncio.ensure_future(anext(one))
                await service.__aexit__(None, None, None)
                for step in (waiting, anext(other)):
                    with pytest.raises(DiscoveryNamespaceNotFound):
                        await step
        with pytest.raises(DiscoveryNamespaceNotFound):
            await publish(service, ("added", worker(1)))
        with pytest.raises(DiscoveryNamespaceNotFound):
            await anext(aiter(service.subscriber))

    run(main())


@pytest.mark.case("X-04", "X-11")
def test_publishes_at_the_same_time_are_all_seen_once_or_little_more(make):
    async def main(service):
        async with aclosing(aiter(service.subscriber)) as events:
            step = asyncio.ensure_future(anext(events))
            await asyncio.gather(*(publish(service, ("added", worker(number))) for number in range(1, 17)))
            seen = [await step]
            while len({event.metadata.uid for event in seen}) < 16:
                seen.append(await anext(events))
            assert len(seen) == 16

    in_it(make, main)
