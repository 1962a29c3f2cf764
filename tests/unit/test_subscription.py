import asyncio
import contextvars
import gc
import pickle
import weakref

import cloudpickle
import pytest

from tests.support.loops import begun, run, settle
from tests.support.sources import Source
from tests.support.workers import added, dropped, updated
from wool_jupyter.aio.resource_pool import ResourcePool
from wool_jupyter.discovery.filtering import afilter
from wool_jupyter.discovery.protocol import DiscoverySubscriberLike
from wool_jupyter.discovery.subscription import (
    SUBSCRIBER_POOL,
    SharedSubscription,
    SubscriberMeta,
    subscriber_pool,
)


def subscriber_class(key=lambda cls, name, source=None, **_: name):
    """A raw subscriber class that remembers its instances."""

    class Raw(metaclass=SubscriberMeta, key=key):
        built = []  # noqa: RUF012
        shut_down = 0

        def __init__(self, name, source=None, *, poll_s=None):
            self.name, self.poll_s = name, poll_s
            self.source = Source() if source is None else source
            self.built.append(self)

        def __aiter__(self):
            return aiter(self.source)

        async def _shutdown(self):
            type(self).shut_down += 1

    return Raw


class Importable(metaclass=SubscriberMeta, key=lambda cls, name, poll_s=None: name):
    def __init__(self, name, poll_s=None):
        self.name, self.poll_s = name, poll_s

    async def __aiter__(self):
        yield added(1, self.name, extra={"poll_s": str(self.poll_s)})


async def closed(*iterations):
    for each in iterations:
        await each.aclose()


def in_new_context(function, *arguments):
    return contextvars.Context().run(function, *arguments)


@pytest.mark.case("FAN-01")
def test_construction_gives_a_subscription_and_builds_nothing():
    raw = subscriber_class()
    subscription = raw("a")
    assert isinstance(subscription, SharedSubscription)
    assert isinstance(subscription, DiscoverySubscriberLike)
    assert not isinstance(subscription, raw)
    assert raw.built == []


@pytest.mark.case("FAN-02", "FAN-03")
@pytest.mark.parametrize(("other", "shared"), [("a", 1), ("b", 2)])
def test_equal_arguments_share_one_raw_subscriber(other, shared):
    async def main():
        raw = subscriber_class()
        one, two = aiter(raw("a")), aiter(raw(other))
        pulls = await begun(anext(one), anext(two))
        assert len(raw.built) == shared
        for each in raw.built:
            each.source.give(added(1))
        assert await asyncio.gather(*pulls) == [added(1)] * 2
        await closed(one, two)

    run(main())


def test_classes_share_nothing_even_if_their_keys_are_equal():
    async def main():
        first, second = subscriber_class(), subscriber_class()
        iterations = [aiter(first("a", Source(added(1)))), aiter(second("a", Source(added(2))))]
        assert [await anext(each) for each in iterations] == [added(1), added(2)]
        await closed(*iterations)

    run(main())


@pytest.mark.case("FAN-04")
@pytest.mark.parametrize("on_a_loop", [True, False])
def test_construction_leaves_a_pool_in_the_context(on_a_loop):
    def construct():
        assert SUBSCRIBER_POOL.get(None) is None
        subscriber_class()("a")
        assert isinstance(SUBSCRIBER_POOL.get(), ResourcePool)

    async def main():
        in_new_context(construct)

    run(main()) if on_a_loop else in_new_context(construct)


def test_a_context_without_a_pool_on_a_loop_without_one_is_an_error():
    subscription = subscriber_class()("a", Source(added(1)))

    async def main():
        return await anext(aiter(subscription))

    with pytest.raises(RuntimeError, match="no subscriber pool here"):
        in_new_context(run, main())


def test_all_contexts_of_a_loop_share_its_pool():
    """A runtime enters its loop in empty contexts; a subscriber may have been constructed on another thread."""
    raw = subscriber_class()
    subscriptions = [raw("a"), in_new_context(raw, "a")]

    async def main():
        subscriber_pool()
        iterations = [aiter(each) for each in subscriptions]
        tasks = [
            asyncio.get_running_loop().create_task(anext(each), context=contextvars.Context()) for each in iterations
        ]
        await settle()
        assert len(raw.built) == 1
        raw.built[0].source.give(added(1))
        assert await asyncio.gather(*tasks) == [added(1)] * 2
        await closed(*iterations)
        assert subscriber_pool().stats.entries == 0

    in_new_context(run, main())


def test_loops_share_nothing():
    raw = subscriber_class()
    subscription = raw("a", Replay([added(1)]))

    async def inner():
        iteration = aiter(subscription)
        assert await anext(iteration) == added(1)
        await iteration.aclose()

    async def main():
        iteration = aiter(subscription)
        assert await anext(iteration) == added(1)
        await asyncio.to_thread(run, inner())
        await iteration.aclose()

    run(main())
    assert len(raw.built) == 2


def test_a_loop_takes_its_pool_with_it():
    raw = subscriber_class()

    async def main():
        return [event async for event in raw("a", Replay([added(1)]))], weakref.ref(subscriber_pool())

    events, pool = contextvars.copy_context().run(run, main())
    assert events == [added(1)]
    gc.collect()
    assert pool() is None


@pytest.mark.case("FAN-05")
def test_an_iteration_gives_the_sources_event():
    async def main():
        raw = subscriber_class()
        assert [event async for event in raw("a", Source(added(1), then_end=True))] == [added(1)]
        assert raw.built[0].source.closed == 1

    run(main())


@pytest.mark.case("FAN-07")
def test_iterations_of_one_subscription_are_independent():
    async def main():
        subscription = subscriber_class()("a", Source(added(1), added(2), then_end=True))
        one, two = aiter(subscription), aiter(subscription)
        assert one is not two
        assert await anext(one) == added(1)
        assert await anext(one) == added(2)
        assert await anext(two) == added(1)
        await one.aclose()
        assert [event async for event in two] == [added(2)]

    run(main())


@pytest.mark.case("FAN-09")
@pytest.mark.parametrize("library", [pickle, cloudpickle], ids=lambda library: library.__name__)
def test_a_subscription_travels_with_all_its_arguments(library):
    """The poll interval is no part of the identity, and must arrive."""
    subscription = Importable("a", poll_s=7)
    there = library.loads(library.dumps(subscription))
    assert isinstance(there, SharedSubscription)
    assert there.key == subscription.key

    async def main():
        return [event async for event in there]

    assert run(main()) == [added(1, "a", extra={"poll_s": "7"})]


def test_a_subscription_of_a_notebooks_class_travels():
    subscription = subscriber_class()("a", Replay([added(1)]))
    there = cloudpickle.loads(cloudpickle.dumps(subscription))
    assert there.key == subscription.key


class Replay:
    def __init__(self, events):
        self.events = events

    async def __aiter__(self):
        for event in self.events:
            yield event


@pytest.mark.case("FAN-10")
def test_who_comes_later_gets_a_replay():
    async def main():
        subscription = subscriber_class()("a", Source(added(1), added(2), then_end=True))
        one, two = aiter(subscription), aiter(subscription)
        assert [await anext(one), await anext(one)] == [added(1), added(2)]
        assert await anext(two) == added(1)
        with pytest.raises(StopAsyncIteration):
            await anext(one)
        assert [event async for event in two] == [added(2)]

    run(main())


def test_a_replay_has_the_present_workers_once_each_with_their_latest_records():
    async def main():
        source = Source(added(1), added(2), updated(1, "new"), added(3), dropped(2), updated(2, "stale"))
        subscription = subscriber_class()("a", source)
        early = aiter(subscription)
        for _ in range(6):
            await anext(early)
        late = aiter(subscription)
        assert [await anext(late), await anext(late)] == [added(1, "new"), added(3)]
        (pull,) = await begun(anext(late))
        source.give(added(4))
        assert await pull == added(4)
        await closed(early, late)

    run(main())


def test_an_iteration_that_is_marked_tells_when_all_who_were_there_were_given():
    async def main():
        class Marking(subscriber_class()):
            async def marked(self):
                async for event in self.source:
                    yield None if event == "looked" else event

        source = Source(added(1), added(2), "looked", added(3))
        subscription = Marking("ns", source)
        first, plain = subscription.marked(), aiter(subscription)
        assert [await anext(first) for _ in range(4)] == [added(1), added(2), None, added(3)]
        late = afilter(lambda metadata: metadata.uid.int != 2, subscription).marked()
        assert [await anext(late) for _ in range(3)] == [added(1), added(3), None]
        assert [await anext(plain) for _ in range(1)] == [added(1)]
        await closed(first, late, plain)

    run(main())


def test_what_can_t_tell_gives_no_marked_iteration():
    plain = subscriber_class()("ns")
    assert plain.marked() is None
    assert afilter(bool, plain).marked() is None
    assert afilter(bool, Source()).marked() is None


@pytest.mark.case("X-17")
@pytest.mark.parametrize("slow_has_heard", [True, False])
def test_a_drop_that_nobody_has_read_yet_leaves_no_ghost_to_a_late_joiner(slow_has_heard):
    """Nothing would ever retract it."""

    async def main():
        source = Source(added(1), added(2))
        subscription = subscriber_class()("a", source)
        slow, fast = aiter(subscription), aiter(subscription)
        assert [await anext(slow), await anext(fast), await anext(fast)] == [added(1), added(1), added(2)]
        if slow_has_heard:
            assert await anext(slow) == added(2)
        (pull,) = await begun(anext(fast))
        source.give(dropped(2))
        pull.cancel()  # it is distributed all the same
        await settle()
        late = aiter(subscription)
        assert await anext(late) == added(1)
        (pull,) = await begun(anext(late))
        source.give(added(3))
        assert await pull == added(3)
        assert await anext(slow) == (dropped(2) if slow_has_heard else added(3))
        await closed(slow, late)

    run(main())


def test_a_worker_that_nobody_has_read_yet_is_replayed_to_a_late_joiner():
    async def main():
        source = Source(added(1))
        subscription = subscriber_class()("a", source)
        slow, reads = aiter(subscription), aiter(subscription)
        assert [await anext(slow), await anext(reads)] == [added(1)] * 2
        (pull,) = await begun(anext(reads))
        source.give(added(2))
        pull.cancel()
        await settle()
        late = aiter(subscription)
        assert [await anext(late), await anext(late)] == [added(1), added(2)]
        await closed(slow, late)

    run(main())


def test_what_a_slow_reader_holds_is_bounded_by_the_workers():
    async def main():
        source = Source()
        subscription = subscriber_class()("a", source)
        slow, fast = aiter(subscription), aiter(subscription)
        source.give(added(1))
        assert [await anext(slow), await anext(fast)] == [added(1), added(1)]
        for round_ in range(100):
            for event in (added(2), updated(1, str(round_)), dropped(2)):
                source.give(event)
                assert await anext(fast) == event
        assert await anext(slow) == updated(1, "99")
        (pull,) = await begun(anext(slow))
        assert not pull.done()
        source.give(dropped(1))
        assert await pull == dropped(1)
        await closed(slow, fast)

    run(main())


@pytest.mark.case("REG-33")
def test_cancelling_one_iteration_leaves_the_event_to_the_other():
    async def main():
        raw = subscriber_class()
        subscription = raw("a")
        gone, survivor = aiter(subscription), aiter(subscription)
        first, second = await begun(anext(gone), anext(survivor))
        first.cancel()
        await settle()
        assert first.cancelled()
        raw.built[0].source.give(added(1))
        assert await second == added(1)
        assert raw.built[0].source.asked == 1
        await closed(survivor)

    run(main())


@pytest.mark.parametrize("how", ["aclose", "cancel", "exhaust", "fail", "collect"])
def test_the_last_iteration_closes_and_shuts_the_raw_subscriber_down(how):
    async def main():
        raw = subscriber_class()
        source = Source(added(1))
        iteration, other = aiter(raw("a", source)), aiter(raw("a"))
        await anext(iteration)
        await anext(other)
        await other.aclose()
        assert (source.closed, raw.shut_down) == (0, 0)
        match how:
            case "aclose":
                await iteration.aclose()
            case "collect":
                del iteration
                gc.collect()
                await settle()
            case "exhaust":
                source.end()
                assert [event async for event in iteration] == []
            case "fail":
                source.fail(LookupError("lost"))
                with pytest.raises(LookupError, match="lost"):
                    await anext(iteration)
            case "cancel":
                (pull,) = await begun(anext(iteration))
                pull.cancel()
                await settle()
        assert (source.closed, raw.shut_down) == (1, 1)
        assert subscriber_pool().stats.entries == 0

    run(main())


def test_a_loss_reaches_every_iteration_and_is_forgotten_with_the_last():
    async def main():
        raw = subscriber_class()
        source = Source(added(1))
        subscription = raw("a", source)
        one, two = aiter(subscription), aiter(subscription)
        pulls = await begun(anext(one), anext(two))
        assert await asyncio.gather(*pulls) == [added(1)] * 2
        source.fail(LookupError("lost"))
        for each in await begun(anext(one), anext(two)):
            with pytest.raises(LookupError, match="lost"):
                await each
        source.give(added(2))
        again = aiter(subscription)
        assert await anext(again) == added(2)
        assert len(raw.built) == 2
        await closed(again)

    run(main())


def test_a_pool_that_is_cleared_ends_open_iterations():
    async def main():
        raw = subscriber_class()
        (pull,) = await begun(anext(aiter(raw("a")), "ended"))
        await subscriber_pool().clear()
        assert await pull == "ended"
        assert (raw.built[0].source.closed, raw.shut_down) == (1, 1)

    run(main())


def test_an_iteration_that_the_loop_ends_under_leaves_no_noise(caplog, capfd):
    raw = subscriber_class()

    async def main():
        await anext(aiter(raw("a", Source(added(1)))))

    run(main())
    assert raw.built[0].source.closed == 1
    assert caplog.records == []
    assert capfd.readouterr().err == ""


@pytest.mark.case("REG-41")
@pytest.mark.parametrize("iterated", [False, True])
def test_a_class_is_collectable_when_nobody_refers_to_it(iterated):
    async def main():
        raw = subscriber_class()
        subscription = raw("a", Source(added(1)))
        if iterated:
            iteration = aiter(subscription)
            await anext(iteration)
            await iteration.aclose()
            del iteration
        gone = weakref.ref(raw)
        del raw, subscription
        gc.collect()
        assert gone() is None

    run(main())


@pytest.mark.case("REG-42", "REG-44")
def test_a_retired_subscription_is_built_anew_with_its_own_arguments():
    async def main():
        raw = subscriber_class()
        first, survivor = raw("a", Source(added(1)), poll_s=1), raw("a", Source(added(2)), poll_s=2)
        one, two = aiter(first), aiter(survivor)
        assert [await anext(one), await anext(two)] == [added(1)] * 2
        await closed(one, two)
        again = aiter(survivor)
        assert await anext(again) == added(2)
        assert [each.poll_s for each in raw.built] == [1, 2]
        await again.aclose()
        assert raw.shut_down == 2

    run(main())


@pytest.mark.case("REG-43")
def test_an_identity_without_a_hash_is_an_error_at_construction():
    with pytest.raises(TypeError, match="unhashable"):
        subscriber_class(key=lambda cls, name: [name])("a")
    with pytest.raises(TypeError, match="unhashable"):
        SharedSubscription([], Source)


@pytest.mark.parametrize("arguments", [{}, {"name": "a", "no_such": 1}])
def test_wrong_arguments_are_an_error_at_construction(arguments):
    with pytest.raises(TypeError, match="argument"):
        subscriber_class(key=lambda cls, **anything: 1)(**arguments)


def test_the_key_function_rejects_wrong_values_at_construction():
    def key(cls, name, poll_s=None):
        if poll_s is not None and poll_s <= 0:
            raise ValueError("poll_s must be positive")
        return name

    with pytest.raises(ValueError, match="poll_s"):
        subscriber_class(key)("a", poll_s=0)


def test_a_class_has_to_say_what_is_shared_and_a_subclass_inherits_it():
    class Without(metaclass=SubscriberMeta):
        pass

    with pytest.raises(TypeError, match="key="):
        Without()

    class Sub(Importable):
        pass

    assert Sub("a").key == Sub("a", poll_s=1).key != Importable("a").key


def test_a_plain_subscription_needs_no_class():
    async def main():
        source = Source(added(1))
        iterations = [aiter(SharedSubscription("same", lambda: source)) for _ in range(2)]
        assert [await anext(each) for each in iterations] == [added(1)] * 2
        assert source.opened == 1
        await closed(*iterations)

    run(main())


def test_a_raw_subscriber_that_cannot_be_built_fails_the_iteration_and_the_next_one_tries_again():
    async def main():
        attempts = []

        def factory():
            attempts.append(1)
            raise LookupError("no such namespace")

        subscription = SharedSubscription("same", factory)
        for _ in range(2):
            with pytest.raises(LookupError, match="no such namespace"):
                await anext(aiter(subscription))
        assert len(attempts) == 2

    run(main())
