import asyncio
import gc
import io
import itertools
import sys

import pytest

from tests.support.cancelling import cancelled_at_each_wait
from tests.support.loops import begun, run, run_virtual, settle
from wool_jupyter.aio.resource_pool import ResourcePool, ResourcePoolStats

EMPTY = ResourcePoolStats(entries=0, references=0, idle=0, tasks=0)


class Workshop:
    """Makes and finalizes numbered resources: `key#1`, `key#2`, … A gate holds what names it."""

    def __init__(self, ttl=0):
        self.made, self.finalized, self.gates, self.failures = [], [], {}, {}
        self.numbers = itertools.count(1)
        self.pool = ResourcePool(self._make, self._finalize, ttl=ttl)

    def gate(self, name):
        return self.gates.setdefault(name, asyncio.Event())

    async def _pass(self, name):
        if name in self.gates:
            await self.gates[name].wait()
        if name in self.failures:
            raise self.failures[name]

    async def _make(self, key):
        resource = f"{key}#{next(self.numbers)}"
        await self._pass(f"make {key}")
        self.made.append(resource)
        return resource

    async def _finalize(self, resource):
        try:
            await self._pass(f"finalize {resource}")
        finally:
            self.finalized.append(resource)


def test_equal_keys_share_one_resource_until_its_last_user_is_gone():
    async def main():
        shop = Workshop()
        assert await shop.pool.acquire("a") == "a#1"
        assert await shop.pool.acquire("a") == "a#1"
        assert await shop.pool.acquire("b") == "b#2"
        await shop.pool.release("a")
        assert shop.finalized == []
        await shop.pool.release("a")
        assert shop.finalized == ["a#1"]
        assert await shop.pool.acquire("a") == "a#3"
        await shop.pool.clear()

    run(main())


def test_racing_acquisitions_make_one_resource():
    async def main():
        shop = Workshop()
        gate = shop.gate("make a")
        racing = await begun(*(shop.pool.acquire("a") for _ in range(3)))
        gate.set()
        assert await asyncio.gather(*racing) == ["a#1"] * 3
        assert shop.made == ["a#1"]
        assert shop.pool.stats == ResourcePoolStats(entries=1, references=3, idle=0, tasks=0)
        await shop.pool.clear()

    run(main())


def test_a_slow_key_does_not_delay_another():
    async def main():
        shop = Workshop()
        gate = shop.gate("make slow")
        (slow,) = await begun(shop.pool.acquire("slow"))
        assert await shop.pool.acquire("a") == "a#2"
        gate.set()
        assert await slow == "slow#1"
        await shop.pool.clear()

    run(main())


def test_a_failure_to_make_reaches_everyone_who_waits_and_is_not_kept():
    async def main():
        shop = Workshop()
        gate = shop.gate("make a")
        shop.failures["make a"] = OSError("no room")
        racing = await begun(shop.pool.acquire("a"), shop.pool.acquire("a"))
        gate.set()
        for each in racing:
            with pytest.raises(OSError, match="no room"):
                await each
        assert shop.pool.stats == EMPTY
        del shop.failures["make a"]
        assert await shop.pool.acquire("a") == "a#2"
        await shop.pool.clear()

    run(main())


def test_a_factory_that_cancels_itself_has_failed():
    async def main():
        shop = Workshop()
        shop.failures["make a"] = asyncio.CancelledError()
        with pytest.raises(RuntimeError, match="the making of 'a' was cancelled"):
            await shop.pool.acquire("a")
        assert shop.pool.stats == EMPTY

    run(main())


def test_a_cancelled_acquirer_leaves_the_making_to_the_others():
    async def main():
        shop = Workshop()
        gate = shop.gate("make a")
        first, second = await begun(shop.pool.acquire("a"), shop.pool.acquire("a"))
        first.cancel()
        await settle()
        assert first.cancelled()
        gate.set()
        assert await second == "a#1"
        await shop.pool.release("a")
        assert shop.finalized == ["a#1"]

    run(main())


def test_the_making_is_cancelled_with_the_last_who_waits():
    async def main():
        shop = Workshop(ttl=10)
        shop.gate("make a")
        (only,) = await begun(shop.pool.acquire("a"))
        only.cancel()
        await settle()
        assert shop.pool.stats == EMPTY
        assert shop.finalized == []

    run(main())


def test_what_is_made_in_spite_of_a_cancellation_is_finalized():
    async def main():
        finalized = []

        async def make(key):
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                return "stubborn"

        async def finalize(resource):
            finalized.append(resource)

        pool = ResourcePool(make, finalize)
        (only,) = await begun(pool.acquire("a"))
        only.cancel()
        await settle()
        assert finalized == ["stubborn"]
        assert pool.stats == EMPTY

    run(main())


@pytest.mark.parametrize("value", [None, 0, "", ()], ids=repr)
def test_a_falsy_resource_is_released_like_any_other(value):
    async def main():
        finalized = []

        async def make(key):
            return value

        async def finalize(resource):
            finalized.append(resource)

        pool = ResourcePool(make, finalize)
        async with pool.get("a") as resource:
            assert resource == value
        assert finalized == [value]
        assert pool.stats == EMPTY

    run(main())


class Named:
    """Equal by name; carries more than its name."""

    def __init__(self, name, payload):
        self.name, self.payload = name, payload

    def __eq__(self, other):
        return self.name == other.name

    def __hash__(self):
        return hash(self.name)


def test_the_factory_gets_the_key_of_whoever_missed_it():
    async def main():
        async def make(key):
            return key.payload

        pool = ResourcePool(make)
        async with pool.get(Named("a", 1)) as first, pool.get(Named("a", 2)) as second:
            assert (first, second) == (1, 1)
        async with pool.get(Named("a", 3)) as third:
            assert third == 3

    run(main())


# Idle time.


def test_an_idle_resource_is_kept_for_its_ttl_and_no_task_waits_for_that():
    async def main():
        shop = Workshop(ttl=60)
        await shop.pool.acquire("a")
        await shop.pool.release("a")
        assert shop.pool.stats == ResourcePoolStats(entries=1, references=0, idle=1, tasks=0)
        await asyncio.sleep(59.5)
        assert shop.finalized == []
        await asyncio.sleep(1)
        assert shop.finalized == ["a#1"]
        assert shop.pool.stats == EMPTY

    run_virtual(main())


def test_a_new_user_stops_the_clock():
    async def main():
        shop = Workshop(ttl=60)
        await shop.pool.acquire("a")
        await shop.pool.release("a")
        await asyncio.sleep(59)
        assert await shop.pool.acquire("a") == "a#1"
        await asyncio.sleep(1000)
        assert shop.finalized == []
        await shop.pool.release("a")
        await asyncio.sleep(59)
        assert shop.finalized == []
        await asyncio.sleep(2)
        assert shop.finalized == ["a#1"]

    run_virtual(main())


def test_a_loop_that_ends_while_a_resource_is_idle_destroys_no_task(caplog):
    async def main():
        shop = Workshop(ttl=60)
        async with shop.pool.get("a"):
            pass

    run(main())
    gc.collect()
    assert caplog.records == []


# Expire and clear.


def test_an_unused_resource_expires_at_once():
    async def main():
        shop = Workshop(ttl=60)
        async with shop.pool.get("a"):
            pass
        await shop.pool.expire("a")
        assert shop.finalized == ["a#1"]
        assert shop.pool.stats == EMPTY

    run(main())


def test_a_used_resource_expires_with_its_last_user_who_does_not_wait_for_it():
    async def main():
        shop = Workshop(ttl=60)
        gate = shop.gate("finalize a#1")
        await shop.pool.acquire("a")
        await shop.pool.expire("a")
        assert await asyncio.wait_for(shop.pool.release("a"), 1) is None
        assert shop.pool.stats == ResourcePoolStats(entries=0, references=0, idle=0, tasks=1)
        gate.set()
        await settle()
        assert shop.finalized == ["a#1"]

    run(main())


def test_a_new_user_takes_the_doom_away():
    async def main():
        shop = Workshop(ttl=60)
        await shop.pool.acquire("a")
        await shop.pool.expire("a")
        await shop.pool.acquire("a")
        await shop.pool.release("a")
        await shop.pool.release("a")
        await settle()
        assert shop.finalized == []
        assert shop.pool.stats.idle == 1
        await shop.pool.clear()

    run(main())


def test_to_expire_what_is_not_there_is_no_error():
    async def main():
        await Workshop().pool.expire("a")

    run(main())


def test_clear_finalizes_what_is_used_idle_or_being_made_and_waits_for_it():
    async def main():
        shop = Workshop(ttl=60)
        await shop.pool.acquire("used")
        async with shop.pool.get("idle"):
            pass
        shop.gate("make slow")
        (slow,) = await begun(shop.pool.acquire("slow"))
        gate = shop.gate("finalize used#1")
        (clearing,) = await begun(shop.pool.clear())
        assert not clearing.done()
        gate.set()
        await clearing
        assert sorted(shop.finalized) == ["idle#2", "used#1"]
        with pytest.raises(RuntimeError, match="'slow'"):
            await slow
        assert shop.pool.stats == EMPTY

    run(main())


def test_a_resource_that_is_cleared_before_its_user_wakes_is_not_handed_out():
    async def main():
        shop = Workshop()
        gate = shop.gate("make a")
        (waiting,) = await begun(shop.pool.acquire("a"))
        gate.set()
        while shop.pool.stats.tasks:  # noqa: ASYNC110 (one step of the loop at a time)
            await asyncio.sleep(0)
        assert not waiting.done()
        await shop.pool.clear()
        with pytest.raises(RuntimeError, match="cleared"):
            await waiting
        assert shop.finalized == ["a#1"]

    run(main())


def test_a_lease_of_what_was_cleared_leaves_its_successor_alone():
    async def main():
        shop = Workshop()
        async with shop.pool.get("a"):
            await shop.pool.clear()
            await shop.pool.acquire("a")
        assert shop.pool.stats.references == 1
        assert shop.finalized == ["a#1"]
        await shop.pool.release("a")

    run(main())


# Finalizers.


def test_a_resource_is_never_handed_out_again_once_its_finalizer_runs():
    async def main():
        shop = Workshop()
        gate = shop.gate("finalize a#1")
        await shop.pool.acquire("a")
        (releasing,) = await begun(shop.pool.release("a"))
        assert await shop.pool.acquire("a") == "a#2"
        gate.set()
        await releasing
        assert shop.finalized == ["a#1"]
        await shop.pool.release("a")

    run(main())


def test_a_failing_finalizer_is_reported_with_its_key_and_the_entry_is_gone(monkeypatch):
    monkeypatch.setattr(sys, "__stderr__", io.StringIO())

    async def main():
        shop = Workshop()
        shop.failures["finalize a#1"] = OSError("stuck")
        async with shop.pool.get("a"):
            pass
        assert shop.pool.stats == EMPTY
        assert await shop.pool.acquire("a") == "a#2"
        await shop.pool.clear()

    run(main())
    report = sys.__stderr__.getvalue()
    assert "resource pool: 'a' failed" in report
    assert "OSError: stuck" in report


def test_a_cancelled_release_leaves_the_finalizer_running_to_its_end():
    async def main():
        shop = Workshop()
        gate = shop.gate("finalize a#1")
        await shop.pool.acquire("a")
        (releasing,) = await begun(shop.pool.release("a"))
        releasing.cancel()
        await settle()
        assert releasing.cancelled()
        assert shop.finalized == []
        gate.set()
        await settle()
        assert shop.finalized == ["a#1"]

    run(main())


# Misuse.


def test_to_release_what_is_not_there_is_no_error():
    async def main():
        await Workshop().pool.release("a")

    run(main())


def test_to_release_more_often_than_acquired_is_an_error():
    async def main():
        shop = Workshop(ttl=60)
        await shop.pool.acquire("a")
        await shop.pool.release("a")
        with pytest.raises(ValueError, match="'a' was released more often"):
            await shop.pool.release("a")
        await shop.pool.clear()

    run(main())


def test_a_lease_acquires_once_and_releases_once():
    async def main():
        shop = Workshop()
        await shop.pool.acquire("a")
        lease = shop.pool.get("a")
        async with lease:
            with pytest.raises(RuntimeError, match="entered once"):
                await lease.__aenter__()
        await lease.__aexit__(None, None, None)
        assert shop.pool.stats.references == 1
        await shop.pool.release("a")

    run(main())


# Cancelled wherever it can wait.


@pytest.mark.parametrize("ttl", [0, 60])
def test_use_that_is_cancelled_anywhere_leaves_what_a_fresh_pool_has(ttl):
    async def main():
        async def prepare():
            nonlocal shop
            shop = Workshop(ttl)

            async def use():
                async with shop.pool.get("a"):
                    await asyncio.sleep(0)
                await shop.pool.expire("a")

            return use()

        async def check():
            if shop.pool.stats.idle:
                await asyncio.sleep(ttl + 1)
            assert shop.pool.stats == Workshop().pool.stats
            assert shop.finalized == shop.made

        shop = None
        assert await cancelled_at_each_wait(prepare, check) == 3

    run_virtual(main())


def test_a_clear_that_is_cancelled_anywhere_leaves_nothing():
    async def main():
        async def prepare():
            nonlocal shop
            shop = Workshop(60)
            await shop.pool.acquire("used")
            async with shop.pool.get("idle"):
                pass
            return shop.pool.clear()

        async def check():
            assert shop.pool.stats == EMPTY
            assert sorted(shop.finalized) == ["idle#2", "used#1"]

        shop = None
        assert await cancelled_at_each_wait(prepare, check) == 1

    run(main())
