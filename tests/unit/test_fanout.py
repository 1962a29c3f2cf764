import asyncio
import gc
import io
import sys
from collections.abc import AsyncGenerator
from contextvars import ContextVar

import pytest

from tests.support.cancelling import cancelled_at_each_wait
from tests.support.loops import begun, run, settle
from tests.support.sources import Source
from wool_jupyter.aio.fanout import Fanout, FanoutStats, State


async def rest(consumer):
    return [item async for item in consumer]


async def ends(consumer):
    with pytest.raises(StopAsyncIteration):
        await anext(consumer)


@pytest.mark.case("FAN-06")
def test_what_one_consumer_pulls_all_receive():
    async def main():
        fanout = Fanout(Source("item"))
        one, other = fanout.consumer(), fanout.consumer()
        assert await anext(one) == "item"
        assert other.queued == 1
        assert await anext(other) == "item"

    run(main())


@pytest.mark.case("REG-27")
def test_concurrent_pulls_advance_the_source_once():
    async def main():
        source = Source()
        fanout = Fanout(source)
        consumers = [fanout.consumer() for _ in range(3)]
        pulls = await begun(*map(anext, consumers))
        assert source.asked == 1
        source.give("item")
        assert await asyncio.gather(*pulls) == ["item"] * 3
        assert source.asked == 1
        assert fanout.stats.tasks == 0

    run(main())


def test_two_pulls_of_one_consumer_get_an_item_each():
    async def main():
        source = Source()
        fanout = Fanout(source)
        consumer = fanout.consumer()
        pulls = await begun(anext(consumer), anext(consumer))
        source.give(1)
        source.give(2)
        assert sorted(await asyncio.gather(*pulls)) == [1, 2]

    run(main())


def test_nothing_is_taken_ahead_and_no_task_waits_while_nobody_pulls():
    async def main():
        source = Source(1, 2)
        fanout = Fanout(source)
        consumer = fanout.consumer()
        await settle()
        assert source.opened == 0
        assert await anext(consumer) == 1
        await settle()
        assert source.asked == 1
        assert fanout.stats == FanoutStats(State.OPEN, consumers=1, queued=0, tasks=0)

    run(main())


@pytest.mark.case("REG-26")
def test_cancelling_who_pulls_leaves_the_others_their_item():
    async def main():
        source = Source()
        fanout = Fanout(source)
        gone, survivor = fanout.consumer(), fanout.consumer()
        first, second = await begun(anext(gone), anext(survivor))
        first.cancel()
        await settle()
        assert first.cancelled()
        source.give("item")
        assert await second == "item"
        assert (source.asked, source.closed) == (1, 0)
        assert fanout.stats.state is State.OPEN
        source.give("next")
        assert await anext(survivor) == "next"

    run(main())


def test_a_cancelled_pull_loses_no_item_of_the_one_that_pulled():
    async def main():
        source = Source()
        consumer = Fanout(source).consumer()
        (pull,) = await begun(anext(consumer))
        pull.cancel()
        source.give("item")
        await settle()
        assert pull.cancelled()
        assert await anext(consumer) == "item"

    run(main())


def test_a_dropped_consumer_leaves_the_set_and_the_pull_goes_on():
    async def main():
        source = Source()
        fanout = Fanout(source)
        survivor, gone = fanout.consumer(), fanout.consumer()
        (pull,) = await begun(anext(gone))
        pull.cancel()
        await settle()
        del gone, pull
        gc.collect()
        assert fanout.stats == FanoutStats(State.OPEN, consumers=1, queued=0, tasks=1)
        source.give("item")
        assert await anext(survivor) == "item"

    run(main())


@pytest.mark.case("REG-25")
def test_a_failure_reaches_every_consumer_after_what_it_holds():
    async def main():
        source = Source("item")
        source.fail(LookupError("lost"))
        fanout = Fanout(source)
        one, other = fanout.consumer(), fanout.consumer()
        assert await anext(one) == "item"
        for _ in range(2):
            with pytest.raises(LookupError, match="lost"):
                await anext(one)
        assert await anext(other) == "item"
        with pytest.raises(LookupError, match="lost"):
            await anext(other)
        late = fanout.consumer()
        late.enqueue("synthetic")
        assert await anext(late) == "synthetic"
        with pytest.raises(LookupError, match="lost"):
            await anext(late)
        assert source.asked == 2

    run(main())


def test_a_failure_has_the_same_depth_for_each_caller():
    async def main():
        source = Source()
        source.fail(LookupError("lost"))
        consumer, depths = Fanout(source).consumer(), set()
        for _ in range(10):
            with pytest.raises(LookupError) as caught:
                await anext(consumer)
            depths.add(len(caught.traceback))
        assert len(depths) == 1

    run(main())


@pytest.mark.parametrize("error", [asyncio.CancelledError(), asyncio.CancelledError("by itself")])
def test_a_source_that_cancels_itself_has_failed(error):
    """A CancelledError would end the consumer's task as if its owner had cancelled it, or pass for a clean end."""

    async def main():
        source = Source()
        source.fail(error)
        consumer = Fanout(source).consumer()
        with pytest.raises(RuntimeError, match="source was cancelled"):
            await anext(consumer)

    run(main())


def test_no_failure_is_left_unretrieved(caplog):
    async def main():
        source = Source()
        consumer = Fanout(source).consumer()
        (pull,) = await begun(anext(consumer))
        pull.cancel()
        source.fail(LookupError("lost"))
        await settle()

    run(main())
    gc.collect()
    assert caplog.records == []


def test_a_hook_sees_each_item_once_and_before_the_consumers():
    async def main():
        seen, queued = [], []
        fanout = Fanout(Source(1, 2), on_item=lambda item: (seen.append(item), queued.append(other.queued)))
        one, other = fanout.consumer(), fanout.consumer()
        await anext(one)
        await anext(one)
        assert await anext(other) == 1
        assert (seen, queued) == ([1, 2], [0, 1])

    run(main())


def test_a_hook_that_fails_is_a_failure_of_the_source():
    async def main():
        def hook(item):
            raise LookupError("hook")

        fanout = Fanout(Source(1), on_item=hook)
        one, other = fanout.consumer(), fanout.consumer()
        for consumer in (one, other):
            with pytest.raises(LookupError, match="hook"):
                await anext(consumer)

    run(main())


def test_items_are_taken_and_the_iterator_is_closed_in_one_context():
    """A generator that sets a variable and resets it in its `finally` fails in any other context."""
    variable = ContextVar("variable", default="outside")

    async def source():
        token = variable.set("inside")
        try:
            while True:
                yield variable.get()
        finally:
            variable.reset(token)

    async def main():
        variable.set("where it was made")
        fanout = Fanout(source())
        variable.set("where it is pulled")
        consumer = fanout.consumer()
        for _ in range(2):
            (pull,) = await begun(anext(consumer))
            assert await pull == "inside"
        await fanout.cleanup()
        assert variable.get() == "where it is pulled"

    run(main())


# Cleanup.


@pytest.mark.case("FAN-08", "FAN-11")
def test_after_cleanup_a_consumer_takes_what_it_holds_and_is_at_its_end():
    async def main():
        source = Source(1, 2)
        fanout = Fanout(source)
        one, other = fanout.consumer(), fanout.consumer()
        assert [await anext(one), await anext(one)] == [1, 2]
        await fanout.cleanup()
        assert source.closed == 1
        await ends(one)
        assert await rest(other) == [1, 2]
        await ends(fanout.consumer())
        assert (source.opened, source.asked) == (1, 2), "pulled after the end"

    run(main())


@pytest.mark.case("FAN-08")
def test_cleanup_wakes_everyone_who_waits():
    async def main():
        source = Source()
        fanout = Fanout(source)
        one, other = fanout.consumer(), fanout.consumer()
        pulls = await begun(ends(one), ends(other))
        await fanout.cleanup()
        await asyncio.gather(*pulls)
        assert source.closed == 1
        assert fanout.stats == FanoutStats(State.CLOSED, consumers=2, queued=0, tasks=0)

    run(main())


@pytest.mark.case("REG-23")
def test_cleanup_closes_the_iterator_of_a_source_that_has_no_aclose():
    async def main():
        source = Source(1)
        assert not hasattr(source, "aclose")
        fanout = Fanout(source)
        consumer = fanout.consumer()
        await anext(consumer)
        assert source.closed == 0
        await fanout.cleanup()
        assert source.closed == 1

    run(main())


def test_cleanup_before_anybody_pulled_has_nothing_to_close():
    async def main():
        source = Source(1)
        fanout = Fanout(source)
        await fanout.cleanup()
        assert (source.opened, source.closed) == (0, 0)
        await ends(fanout.consumer())

    run(main())


def test_cleanup_waits_until_a_step_is_really_over():
    """Closing a generator that runs is a RuntimeError."""

    async def main():
        leave, steps = asyncio.Event(), []

        async def source():
            try:
                await asyncio.get_running_loop().create_future()
                yield
            finally:
                steps.append("leaving")
                await leave.wait()
                steps.append("left")

        fanout = Fanout(source())
        consumer = fanout.consumer()
        (pull,) = await begun(ends(consumer))
        (cleanup,) = await begun(fanout.cleanup())
        assert steps == ["leaving"]
        assert not cleanup.done()
        leave.set()
        await cleanup
        await pull
        assert steps == ["leaving", "left"]

    run(main())


def test_an_item_that_comes_in_spite_of_the_cancellation_is_not_lost():
    async def main():
        async def source():
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                yield "last words"

        fanout = Fanout(source())
        consumer = fanout.consumer()
        (pull,) = await begun(rest(consumer))
        await fanout.cleanup()
        assert await pull == ["last words"]

    run(main())


@pytest.mark.case("REG-24")
def test_a_failure_to_close_is_raised_and_everyone_is_signalled():
    async def main():
        async def source():
            try:
                yield 1
                await asyncio.get_running_loop().create_future()
            finally:
                raise OSError("while closing")

        fanout = Fanout(source())
        one, other = fanout.consumer(), fanout.consumer()
        await anext(one)
        with pytest.raises(OSError, match="while closing"):
            await fanout.cleanup()
        await ends(one)
        assert await rest(other) == [1]

    run(main())


def test_every_cleanup_ends_as_the_one_closing_did():
    async def main():
        leave, closings = asyncio.Event(), []

        async def source():
            try:
                yield 1
            finally:
                closings.append(1)
                await leave.wait()
                raise OSError("while closing")

        fanout = Fanout(source())
        await anext(fanout.consumer())
        calls = await begun(fanout.cleanup(), fanout.cleanup())
        leave.set()
        for call in calls:
            with pytest.raises(OSError, match="while closing"):
                await call
        with pytest.raises(OSError, match="while closing"):
            await fanout.cleanup()
        assert closings == [1]

    run(main())


def test_a_cancelled_cleanup_goes_on_and_its_failure_is_reported(monkeypatch):
    monkeypatch.setattr(sys, "__stderr__", io.StringIO())

    async def main():
        leave = asyncio.Event()

        async def source():
            try:
                yield 1
            finally:
                await leave.wait()
                raise OSError("while closing")

        fanout = Fanout(source())
        await anext(fanout.consumer())
        (cleanup,) = await begun(fanout.cleanup())
        cleanup.cancel()
        await settle()
        assert cleanup.cancelled()
        assert fanout.stats.tasks == 1
        leave.set()
        await settle()
        assert fanout.stats.tasks == 0

    run(main())
    assert "OSError: while closing" in sys.__stderr__.getvalue()


class OneItem:
    """A class as an iterator; subclasses say how it is closed."""

    def __init__(self):
        self.closed = 0

    def __aiter__(self):
        return self

    async def __anext__(self):
        return "item"


class WithCoroutine(OneItem):
    async def aclose(self):
        self.closed += 1


class WithFunction(OneItem):
    def aclose(self):
        self.closed += 1


class Structural(OneItem):
    """All methods of an async generator, as a proxy of one has; `aclose` is a plain function that returns an awaitable."""

    async def asend(self, value): ...

    async def athrow(self, *error): ...

    def aclose(self):
        async def closing():
            self.closed += 1

        return closing()


@pytest.mark.case("X-13")
@pytest.mark.parametrize(
    ("kind", "closed"),
    [(WithCoroutine, 1), (WithFunction, 0), (Structural, 1), (OneItem, 0)],
    ids=["coroutine", "synchronous", "structural", "none"],
)
def test_only_what_can_be_awaited_is_closed(kind, closed):
    async def main():
        source = kind()
        assert isinstance(source, AsyncGenerator) is (kind is Structural)
        fanout = Fanout(source)
        assert await anext(fanout.consumer()) == "item"
        await fanout.cleanup()
        assert source.closed == closed

    run(main())


# Cancelled wherever it can wait.


def test_a_pull_that_is_cancelled_anywhere_leaves_what_a_fresh_container_has():
    async def main():
        async def prepare():
            source.give("item")
            return anext(fanout.consumer())

        async def check():
            assert fanout.stats == Fanout(source).stats

        source = Source()
        fanout = Fanout(source)
        assert await cancelled_at_each_wait(prepare, check) == 1

    run(main())


def test_a_cleanup_that_is_cancelled_anywhere_gets_to_its_end():
    async def main():
        fresh = Fanout(Source())
        await fresh.cleanup()

        async def prepare():
            nonlocal fanout, source, pull
            source = Source()
            fanout = Fanout(source)
            (pull,) = await begun(ends(fanout.consumer()))
            return fanout.cleanup()

        async def check():
            await pull
            assert (source.opened, source.closed) == (1, 1)
            assert fanout.stats == fresh.stats

        fanout = source = pull = None
        assert await cancelled_at_each_wait(prepare, check) == 1

    run(main())
