"""The balancer's context beside a dict, and round robin under any interleaving."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from tests.support.loops import run
from tests.support.machines import every_profile
from tests.support.workers import worker
from wool_jupyter.balance.context import Candidate, LoadBalancerContext
from wool_jupyter.balance.protocol import Task
from wool_jupyter.balance.round_robin import RoundRobinLoadBalancer
from wool_jupyter.errors import NotReached

RECORDS = st.builds(worker, st.integers(1, 3), st.sampled_from(["unix:/a", "unix:/b"]))


class Connection:
    load = 0


class ContextMachine(RuleBasedStateMachine):
    """Records that share a uid, and ones that share all but the uid."""

    def __init__(self):
        super().__init__()
        self.context = LoadBalancerContext()
        self.view = self.context.view
        self.model = {}

    @rule(record=RECORDS)
    def admit(self, record):
        candidate = Candidate(record, Connection())
        self.context.add_worker(candidate.metadata, candidate.connection)
        self.model[record.uid] = candidate

    @rule(record=RECORDS)
    def refresh(self, record):
        candidate = Candidate(record, Connection())
        self.context.update_worker(candidate.metadata, candidate.connection)
        if record.uid in self.model:
            self.model[record.uid] = candidate

    @rule(record=RECORDS)
    def evict(self, record):
        self.context.remove_worker(record.uid)
        self.model.pop(record.uid, None)

    @invariant()
    def entries_and_their_order_are_those_of_the_model(self):
        for workers in (self.context.workers, self.view.workers):
            assert list(workers.items()) == list(self.model.items())


@pytest.mark.case("LB-15")
@every_profile
def test_the_context_does_what_a_dict_by_uid_does(profile):
    run_state_machine_as_test(ContextMachine, settings=profile)


class Rotation:
    """Calls of one round robin over one context, each step of each call on its own."""

    def __init__(self, workers):
        self.context = LoadBalancerContext()
        self.balancer = RoundRobinLoadBalancer()
        self.calls = []
        for number in range(1, workers + 1):
            self.admit(number)

    def admit(self, number):
        self.context.add_worker(worker(number), Connection())

    def refresh(self, number):
        self.context.update_worker(worker(number, "unix:/new"), Connection())

    def evict(self, number):
        self.context.remove_worker(UUID(int=number))

    def call(self, _=None):
        self.calls.append((self.balancer.delegate(Task("routine"), context=self.context.view), []))

    async def step(self, which):
        if self.calls:
            call = self.calls[which % len(self.calls)]
            if not await self.ask(*call):
                self.calls.remove(call)

    async def ask(self, asking, offered):
        try:
            uid = await (asking.athrow(NotReached("gone")) if offered else anext(asking))
        except StopAsyncIteration:
            return False
        assert uid not in offered, "offered twice to one call"
        offered.append(uid)
        return True


@pytest.mark.case("LB-32")
@every_profile
def test_a_refresh_anywhere_does_not_keep_round_robin_from_ending(profile):
    @profile
    @given(st.integers(2, 6), st.integers(0, 8), st.lists(st.tuples(st.integers(0, 7), st.integers(1, 6)), max_size=8))
    def check(workers, warm_up, refreshes):
        async def main():
            rotation = Rotation(workers)
            for _ in range(warm_up):
                asking = rotation.balancer.delegate(Task("routine"), context=rotation.context.view)
                uid = await anext(asking)
                with pytest.raises(StopAsyncIteration):
                    await asking.asend(uid)
            rotation.call()
            (call,) = rotation.calls
            going, steps = True, 0
            while going:
                for at, number in refreshes:
                    if at == steps:
                        rotation.refresh(number)
                going = await rotation.ask(*call)
                steps += 1
                assert steps <= workers + 1
            start = warm_up % workers
            assert [uid.int - 1 for uid in call[1]] == [(start + k) % workers for k in range(workers)]

        run(main())

    check()


ACTIONS = st.tuples(st.sampled_from(["admit", "refresh", "evict", "call", "step"]), st.integers(1, 6))


@pytest.mark.case("LB-32")
@every_profile
def test_calls_at_the_same_time_end_whoever_joins_changes_and_leaves(profile):
    @profile
    @given(st.integers(0, 6), st.lists(ACTIONS, max_size=60))
    def check(workers, actions):
        async def main():
            rotation = Rotation(workers)
            for action, number in actions:
                done = getattr(rotation, action)(number)
                if done is not None:
                    await done
            present = set(rotation.context.workers)
            for asking, offered in rotation.calls:
                left = len(present) + 1
                while await rotation.ask(asking, offered):
                    left -= 1
                    assert left, "it goes on and on"
                assert present <= set(offered), "somebody who is there was never offered"

        run(main())

    check()
