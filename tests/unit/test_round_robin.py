import gc
import pickle
import weakref
from collections.abc import Mapping
from contextlib import aclosing
from uuid import UUID

import pytest

from tests.support.loops import run
from tests.support.workers import worker
from wool_jupyter.balance.context import LoadBalancerContext, LoadBalancerContextView
from wool_jupyter.balance.protocol import Task
from wool_jupyter.balance.round_robin import RoundRobinLoadBalancer
from wool_jupyter.errors import NotReached


class Connection:
    load = 0


class Driver:
    """A pool, a balancer, and the proxy's part for any number of calls."""

    def __init__(self, *numbers):
        self.context = LoadBalancerContext()
        self.balancer = RoundRobinLoadBalancer()
        for number in numbers:
            self.admit(number)

    def admit(self, number):
        self.context.add_worker(worker(number), Connection())

    def refresh(self, number, address="unix:/new"):
        self.context.update_worker(worker(number, address), Connection())

    def evict(self, number):
        self.context.remove_worker(UUID(int=number))

    def call(self):
        return Asking(self.balancer.delegate(Task("routine"), context=self.context.view))


class Asking:
    """One call; every answer is the number of the next candidate, None at the end."""

    def __init__(self, asking):
        self.asking = asking

    async def first(self):
        return await self._step(anext(self.asking))

    async def failed(self):
        return await self._step(self.asking.athrow(NotReached("gone")))

    async def skipped(self):
        return await self._step(self.asking.asend(None))

    async def taken_by(self, number):
        return await self._step(self.asking.asend(UUID(int=number)))

    async def _step(self, step):
        try:
            return (await step).int
        except StopAsyncIteration:
            return None

    async def served(self):
        """The first candidate takes the call."""
        number = await self.first()
        assert await self.taken_by(number) is None
        return number

    async def failing_with_all(self):
        offered = [await self.first()]
        while offered[-1] is not None:
            offered.append(await self.failed())
        return offered[:-1]


@pytest.mark.case("LB-16", "LB-17", "LB-20")
@pytest.mark.parametrize("numbers", [(), (1,), (1, 2, 3)])
def test_a_call_that_everyone_fails_ends_after_one_round(numbers):
    assert run(Driver(*numbers).call().failing_with_all()) == list(numbers)


@pytest.mark.case("LB-18", "LB-24")
def test_the_next_call_begins_past_the_worker_that_served():
    async def main():
        driver = Driver(1, 2, 3)
        assert [await driver.call().served() for _ in range(4)] == [1, 2, 3, 1]

    run(main())


@pytest.mark.case("LB-18", "LB-19", "LB-23")
def test_failures_before_a_success_follow_the_rotation():
    async def main():
        driver = Driver(1, 2, 3, 4)
        await driver.call().served()
        call = driver.call()
        assert [await call.first(), await call.failed(), await call.failed()] == [2, 3, 4]
        assert await call.taken_by(4) is None
        assert await driver.call().served() == 1

    run(main())


@pytest.mark.case("LB-22")
def test_a_call_ends_when_a_candidate_has_taken_it():
    async def main():
        call = Driver(1, 2, 3).call()
        assert await call.first() == 1
        assert await call.taken_by(1) is None
        assert await call.first() is None

    run(main())


@pytest.mark.case("LB-21", "LB-27")
@pytest.mark.parametrize("reason", ["failed", "skipped"])
def test_who_is_evicted_after_the_snapshot_is_passed_over(reason):
    async def main():
        driver = Driver(1, 2, 3)
        call = driver.call()
        assert await call.first() == 1
        driver.evict(2)
        assert await getattr(call, reason)() == 3
        assert await getattr(call, reason)() is None

    run(main())


@pytest.mark.case("LB-25")
def test_calls_at_the_same_time_are_offered_different_workers():
    async def main():
        driver = Driver(1, 2, 3, 4)
        one, other = driver.call(), driver.call()
        assert [await one.first(), await other.first()] == [1, 2]
        assert [await one.failed(), await other.failed()] == [3, 4]

    run(main())


def test_a_call_gets_to_everyone_although_another_moves_the_cursor():
    """It would end with no worker available while one that is well was never asked."""

    async def main():
        driver = Driver(1, 2, 3)
        one, other = driver.call(), driver.call()
        offered = [await one.first()]
        await other.failing_with_all()
        while (number := await one.failed()) is not None:
            offered.append(number)
        assert sorted(offered) == [1, 2, 3]

    run(main())


@pytest.mark.case("LB-26")
def test_a_call_ends_although_the_worker_with_which_it_began_is_gone():
    async def main():
        driver = Driver(1, 2, 3)
        call = driver.call()
        assert await call.first() == 1
        driver.evict(1)
        assert [await call.failed(), await call.failed(), await call.failed()] == [2, 3, None]

    run(main())


@pytest.mark.case("LB-28", "LB-29")
def test_a_refresh_gives_no_second_attempt_and_the_next_call_does():
    async def main():
        driver = Driver(1)
        call = driver.call()
        assert await call.first() == 1
        driver.refresh(1)
        assert await call.failed() is None
        assert await driver.call().first() == 1
        assert driver.context.workers[UUID(int=1)].metadata == worker(1, "unix:/new")

    run(main())


@pytest.mark.case("LB-30", "LB-31")
@pytest.mark.parametrize("refreshed", [1, 2, 3])
def test_a_refresh_in_the_middle_of_a_round_changes_nothing(refreshed):
    async def main():
        driver = Driver(1, 2, 3)
        call = driver.call()
        offered = [await call.first()]
        driver.refresh(refreshed)
        while (number := await call.failed()) is not None:
            offered.append(number)
        assert offered == [1, 2, 3]

    run(main())


def test_who_joins_is_offered_after_the_ring_that_it_missed():
    async def main():
        driver = Driver(1, 2)
        call = driver.call()
        assert await call.first() == 1
        driver.admit(3)
        assert [await call.failed(), await call.failed(), await call.failed()] == [2, 3, None]

    run(main())


class Counting(Mapping):
    """Workers that count how often somebody walks through all of them, or asks for one."""

    def __init__(self, workers):
        self.workers, self.walks, self.looks = workers, 0, 0

    def __iter__(self):
        self.walks += 1
        return iter(self.workers)

    def __len__(self):
        return len(self.workers)

    def __getitem__(self, uid):
        self.looks += 1
        return self.workers[uid]

    def __contains__(self, uid):
        self.looks += 1
        return uid in self.workers


@pytest.mark.case("LB-33")
def test_the_pool_is_walked_through_once_for_each_wrap_and_a_step_looks_at_one_worker():
    async def main():
        driver = Driver(*range(1, 51))
        counting = Counting(driver.context.workers)
        view = LoadBalancerContextView(counting)
        rounds = 4
        for _ in range(rounds):
            for _ in range(50):
                asking = Asking(driver.balancer.delegate(Task("routine"), context=view))
                await asking.served()
        assert counting.walks == rounds
        assert counting.looks == rounds * 50

    run(main())


@pytest.mark.case("LB-34")
def test_a_retired_context_is_not_pinned():
    async def main():
        driver = Driver(1, 2)
        await driver.call().served()
        context, view = weakref.ref(driver.context), weakref.ref(driver.context.view)
        balancer, driver.context = driver.balancer, None
        gc.collect()
        assert (context(), view()) == (None, None)
        assert not balancer._cursors

    run(main())


def test_contexts_have_a_cursor_each():
    async def main():
        one, other = Driver(1, 2), Driver(3, 4)
        other.balancer = one.balancer
        assert [await one.call().served(), await other.call().served()] == [1, 3]
        assert [await one.call().served(), await other.call().served()] == [2, 4]

    run(main())


def test_a_copy_begins_anew():
    balancer, context = RoundRobinLoadBalancer(), LoadBalancerContext()
    for number in (1, 2):
        context.add_worker(worker(number), None)
    run(_first(balancer, context))
    again = pickle.loads(pickle.dumps(balancer))
    assert [run(_first(each, context)).int for each in (again, balancer)] == [1, 2]


async def _first(balancer, context):
    async with aclosing(balancer.delegate(Task("r"), context=context.view)) as candidates:
        return await anext(candidates)
