"""`ResourcePool` beside a dict."""

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule, run_state_machine_as_test

from tests.support.loops import settle
from tests.support.machines import LoopMachine, every_profile
from wool_jupyter.aio.resource_pool import Lease, ResourcePool, ResourcePoolStats

KEYS = st.sampled_from("abc")


class CannotMake(Exception):
    pass


@dataclass
class Entry:
    resource: int
    gate: asyncio.Future
    ready: bool = False
    references: int = 0
    doomed: bool = False
    idle_until: float | None = None


@dataclass
class User:
    entry: Entry
    lease: Lease
    entering: asyncio.Task
    refused: type | None = field(default=None)


class ResourcePoolMachine(LoopMachine):
    def __init__(self):
        super().__init__()
        self.calls = 0  # of the factory
        self.gates = {}
        self.finalized = []
        self.entries = {}
        self.users = []
        self.expected_calls = 0
        self.expected_finalized = []

    @initialize(ttl=st.sampled_from([0, 60]))
    def make_pool(self, ttl):
        self.ttl = ttl
        self.pool = ResourcePool(self.factory, self.finalizer, ttl=ttl)

    async def factory(self, key):
        self.calls += 1
        resource, self.gates[self.calls] = self.calls, asyncio.get_running_loop().create_future()
        await self.gates[resource]
        return resource

    async def finalizer(self, resource):
        self.finalized.append(resource)

    # The model.

    def retire(self, key):
        entry = self.entries.pop(key)
        if entry.ready:
            self.expected_finalized.append(entry.resource)
        return entry

    def give_back(self, user):
        """What becomes of the entry when this user is gone."""
        for key, entry in list(self.entries.items()):
            if entry is user.entry:
                entry.references -= 1
                if not entry.references:
                    if entry.doomed or not self.ttl or not entry.ready:
                        self.retire(key)
                    else:
                        entry.idle_until = self.now + self.ttl

    @property
    def now(self):
        return self.runner.get_loop().time()

    def waiting(self):
        return [user for user in self.users if user.refused is None and not user.entry.ready]

    def holding(self):
        return [user for user in self.users if user.refused is None and user.entry.ready]

    # What can happen.

    @rule(key=KEYS)
    def acquire(self, key):
        lease = self.pool.get(key)
        entering = self.start(lease.__aenter__())
        if key not in self.entries:
            self.expected_calls += 1
            self.entries[key] = Entry(self.expected_calls, self.gates[self.expected_calls])
        entry = self.entries[key]
        entry.references += 1
        entry.doomed, entry.idle_until = False, None
        self.users.append(User(entry, lease, entering))

    @precondition(lambda self: any(not entry.ready for entry in self.entries.values()))
    @rule(data=st.data(), well=st.booleans())
    def finish_making(self, data, well):
        key = data.draw(st.sampled_from([key for key, entry in self.entries.items() if not entry.ready]))
        entry = self.entries[key]

        async def finish():
            entry.gate.set_result(None) if well else entry.gate.set_exception(CannotMake())

        self.run(finish())
        if well:
            entry.ready = True
        else:
            del self.entries[key]
            for user in self.waiting():
                if user.entry is entry:
                    user.refused = CannotMake

    @precondition(lambda self: self.waiting())
    @rule(data=st.data())
    def cancel(self, data):
        user = data.draw(st.sampled_from(self.waiting()))

        async def cancelled():
            user.entering.cancel()
            await settle()
            assert user.entering.cancelled()

        self.run(cancelled())
        self.users.remove(user)
        self.give_back(user)

    @precondition(lambda self: self.holding())
    @rule(data=st.data())
    def release(self, data):
        user = data.draw(st.sampled_from(self.holding()))
        self.run(user.lease.__aexit__(None, None, None))
        self.users.remove(user)
        self.give_back(user)

    @rule(key=KEYS)
    def expire(self, key):
        self.run(self.pool.expire(key))
        if key in self.entries:
            if self.entries[key].references:
                self.entries[key].doomed = True
            else:
                self.retire(key)

    @rule()
    def clear(self):
        self.run(self.pool.clear())
        for key in list(self.entries):
            entry = self.retire(key)
            for user in self.users:
                if user.entry is entry and not entry.ready:
                    user.refused = RuntimeError

    @rule(seconds=st.integers(1, 61))
    def wait(self, seconds):
        self.sleep(timedelta(seconds=seconds))
        for key, entry in list(self.entries.items()):
            if entry.idle_until is not None and entry.idle_until <= self.now:
                self.retire(key)

    # What must hold.

    @invariant()
    def resources_are_made_and_finalized_as_often_as_in_the_model(self):
        assert self.calls == self.expected_calls
        assert sorted(self.finalized) == sorted(self.expected_finalized)

    @invariant()
    def users_have_what_the_model_says(self):
        for user in list(self.users):
            if user.refused is not None:
                assert isinstance(user.entering.exception(), user.refused)
                self.users.remove(user)
            elif user.entry.ready:
                assert user.entering.result() == user.entry.resource
            else:
                assert not user.entering.done()

    @invariant()
    def statistics_agree(self):
        if hasattr(self, "pool"):
            entries = self.entries.values()
            assert self.pool.stats == ResourcePoolStats(
                entries=len(entries),
                references=sum(entry.references for entry in entries),
                idle=sum(entry.idle_until is not None for entry in entries),
                tasks=sum(not entry.ready for entry in entries),
            )

    async def end(self):
        await self.pool.clear()
        await settle()
        for user in self.users:
            if not user.entry.ready:
                assert isinstance(user.entering.exception(), RuntimeError)
        assert self.pool.stats == ResourcePoolStats(0, 0, 0, 0)


@every_profile
def test_resource_pool_does_what_a_dict_does(profile):
    run_state_machine_as_test(ResourcePoolMachine, settings=profile)
