"""What every balancer keeps to. Add yours to `BALANCERS`, and to `TAKE_FREE_ONLY` if it never names a busy worker."""

import ast
import asyncio
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.loops import run
from tests.support.readme import EXAMPLES
from wool_jupyter.balance.context import LoadBalancerContext
from wool_jupyter.balance.protocol import LoadBalancerLike, Task
from wool_jupyter.balance.round_robin import RoundRobinLoadBalancer
from wool_jupyter.balance.sticky import Sticky
from wool_jupyter.errors import NotReached
from wool_jupyter.records import WorkerMetadata

# The one that people will copy.
_readme = ast.parse(EXAMPLES["balancing.py"])
_readme.body = [part for part in _readme.body if isinstance(part, ast.ImportFrom | ast.ClassDef)]
exec(compile(_readme, "README.md", "exec"))

TAKE_FREE_ONLY = [Sticky]
BALANCERS = [*TAKE_FREE_ONLY, RoundRobinLoadBalancer, LeastBusy]  # noqa: F821
MOST_STEPS = 100
TASK = Task("routine")

every_balancer = pytest.mark.parametrize("make", BALANCERS, ids=lambda make: make.__name__)
every_one_that_takes_free_only = pytest.mark.parametrize("make", TAKE_FREE_ONLY, ids=lambda make: make.__name__)


class Connection:
    def __init__(self, load=0):
        self.load = load


class Pool:
    """Workers by number; the proxy's part in the protocol."""

    def __init__(self, loads=()):
        self.context = LoadBalancerContext()
        self.connections = {}
        for number, load in enumerate(loads):
            self.join(number, load)

    def join(self, number, load=0):
        uid = UUID(int=number)
        self.connections[number] = Connection(load)
        self.context.add_worker(WorkerMetadata(uid, f"unix:/w{number}", 1000 + number, "1"), self.connections[number])

    def leave(self, number):
        self.connections.pop(number, None)
        self.context.remove_worker(UUID(int=number))

    def ask(self, balancer):
        return balancer.delegate(TASK, context=self.context.view)


async def step(awaitable):
    """The number of the next candidate, None at the end."""
    try:
        return (await awaitable).int
    except StopAsyncIteration:
        return None


async def place(pool, balancer):
    """A call that the first candidate takes: who that was."""
    asking = pool.ask(balancer)
    number = await step(anext(asking))
    if number is not None:
        assert await step(asking.asend(UUID(int=number))) is None
    return number


async def refused_by_all(pool, balancer):
    asking, asked = pool.ask(balancer), []
    number = await step(anext(asking))
    while number is not None:
        asked.append(number)
        number = await step(asking.athrow(NotReached("gone")))
    return asked


@every_balancer
def test_it_has_the_protocols_shape(make):
    assert isinstance(make(), LoadBalancerLike)


@every_one_that_takes_free_only
def test_it_names_free_workers_only(make):
    assert sorted(run(refused_by_all(Pool([0, 1, 0, 7]), make()))) == [0, 2]


@every_balancer
def test_it_ends_with_an_empty_pool(make):
    assert run(refused_by_all(Pool(), make())) == []


@every_one_that_takes_free_only
def test_it_ends_when_all_are_busy(make):
    assert run(refused_by_all(Pool([1, 1]), make())) == []


@every_balancer
def test_it_ends_when_a_candidate_took_the_call(make):
    async def main():
        pool, balancer = Pool([0, 0, 0]), make()
        asking = pool.ask(balancer)
        number = await step(anext(asking))
        assert await step(asking.asend(UUID(int=number))) is None
        assert await step(anext(asking)) is None

    run(main())


@every_balancer
@pytest.mark.parametrize("failed", [True, False], ids=["it failed", "it had left"])
def test_it_goes_on_with_the_next(make, failed):
    async def main():
        pool, balancer = Pool([0, 0, 0]), make()
        asking, asked = pool.ask(balancer), []
        number = await step(anext(asking))
        while number is not None:
            asked.append(number)
            number = await step(asking.athrow(NotReached("gone")) if failed else asking.asend(None))
        assert sorted(asked) == [0, 1, 2]

    run(main())


@every_one_that_takes_free_only
def test_it_looks_at_the_load_when_it_is_asked_for_the_next(make):
    async def main():
        pool, balancer = Pool([0, 0, 0]), make()
        asking = pool.ask(balancer)
        first = await step(anext(asking))
        busy = next(number for number in range(3) if number != first)
        pool.connections[busy].load = 1
        rest = []
        while (number := await step(asking.athrow(NotReached("gone")))) is not None:
            rest.append(number)
        assert rest == [({0, 1, 2} - {first, busy}).pop()]

    run(main())


@every_balancer
def test_a_worker_that_left_between_two_steps_is_not_named(make):
    async def main():
        pool, balancer = Pool([0, 0]), make()
        asking = pool.ask(balancer)
        first = await step(anext(asking))
        pool.leave(1 - first)
        assert await step(asking.asend(None)) is None

    run(main())


@every_balancer
def test_a_call_that_was_cancelled_while_it_was_asked_for_ends_the_generator(make):
    async def main():
        pool, balancer = Pool([0, 0]), make()
        asking = pool.ask(balancer)
        await step(anext(asking))
        with pytest.raises(asyncio.CancelledError):
            await asking.athrow(asyncio.CancelledError())
        assert await place(pool, balancer) is not None

    run(main())


@every_balancer
def test_calls_at_the_same_time_do_not_disturb_each_other(make):
    async def main():
        pool, balancer = Pool([0, 0, 0]), make()
        one, other = pool.ask(balancer), pool.ask(balancer)
        first, second = await step(anext(one)), await step(anext(other))
        assert await step(one.asend(UUID(int=first))) is None
        pool.connections[first].load = 1
        assert second is not None
        third = await step(other.athrow(NotReached("busy by now")))
        assert third not in (first, second)

    run(main())


CHANGES = st.lists(
    st.tuples(st.sampled_from(["join", "leave", "busy", "free"]), st.integers(0, 5)),
    max_size=4,
)
STEPS = st.lists(st.tuples(CHANGES, st.sampled_from(["failed", "left"])), max_size=20)


@every_balancer
@given(before=CHANGES, steps=STEPS)
def test_it_ends_whoever_joins_and_leaves_between_steps(make, before, steps):
    """A dispatch that never ends holds its slot for ever."""

    def change(pool, changes):
        for what, number in changes:
            if what == "join":
                pool.join(number)
            elif what == "leave":
                pool.leave(number)
            elif number in pool.connections:
                pool.connections[number].load = int(what == "busy")

    async def main():
        pool, balancer = Pool([0, 0, 0]), make()
        change(pool, before)
        asking = pool.ask(balancer)
        number = await step(anext(asking))
        asked = []
        for k in range(MOST_STEPS):
            if number is None:
                break
            assert number in pool.connections
            assert make not in TAKE_FREE_ONLY or pool.connections[number].load == 0
            asked.append(number)
            changes, answer = steps[k] if k < len(steps) else ([], "failed")
            change(pool, changes)
            number = await step(asking.athrow(NotReached("gone")) if answer == "failed" else asking.asend(None))
        assert number is None
        assert len(asked) == len(set(asked)), "asked twice for one call"

    run(main())


# What is Sticky's own.


def test_sticky_returns_to_the_worker_that_ran_the_last_call():
    async def main():
        pool, balancer = Pool([0, 0, 0]), Sticky()
        assert await place(pool, balancer) == 0
        pool.connections[0].load = 1
        assert await place(pool, balancer) == 1
        pool.connections[0].load = 0
        assert await place(pool, balancer) == 1
        pool.leave(1)
        assert await place(pool, balancer) == 0

    run(main())


def test_sticky_prefers_the_most_recently_used_and_then_who_joined_first():
    async def main():
        pool, balancer = Pool([0, 0, 0, 0]), Sticky()
        for busy in ([], [0]):
            for number in busy:
                pool.connections[number].load = 1
            await place(pool, balancer)
        pool.connections[0].load = 0
        assert await refused_by_all(pool, balancer) == [1, 0, 2, 3]

    run(main())


def test_sticky_learns_nothing_from_a_worker_that_did_not_take_the_call():
    async def main():
        pool, balancer = Pool([0, 0]), Sticky()
        asking = pool.ask(balancer)
        assert await step(anext(asking)) == 0
        assert await step(asking.athrow(NotReached("gone"))) == 1
        assert await step(asking.asend(UUID(int=1))) is None
        assert await place(pool, balancer) == 1

    run(main())


def test_sticky_forgets_who_has_left():
    """Its list would grow with every worker of the kernel's life."""

    async def main():
        pool, balancer = Pool(), Sticky()
        for number in range(10):
            pool.join(number)
            await place(pool, balancer)
            pool.leave(number)
        pool.join(99)
        await place(pool, balancer)
        return balancer._recent

    assert run(main()) == [UUID(int=99)]


@every_balancer
def test_it_travels_with_a_proxy_whatever_it_has_placed(make):
    """To workers, whose routines place their own calls."""
    import pickle

    async def main():
        pool, balancer = Pool([0, 0]), make()
        asking = pool.ask(balancer)
        uid = await anext(asking)
        with pytest.raises(StopAsyncIteration):
            await asking.asend(uid)
        again = pickle.loads(pickle.dumps(balancer))
        assert type(again) is make
        assert (await anext(pool.ask(again))) in pool.context.workers

    run(main())
