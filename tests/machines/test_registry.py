"""Publishes of several publishers in any order, with what can go wrong between: what is registered, and what followers see."""

import asyncio
import errno
import fcntl

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, consumes, initialize, invariant, precondition, rule, run_state_machine_as_test

from tests.support.discovery import worker
from tests.support.disk_machines import DiskMachine, by_length
from wool_jupyter.discovery import files, registry
from wool_jupyter.discovery.local import LocalDiscovery
from wool_jupyter.discovery.scan import Scan
from wool_jupyter.errors import DiscoveryBlockExhausted, DiscoveryCapacityExhausted, DiscoveryWorkerNotFound

CAPACITY = 3
NUMBERS = st.integers(1, 5)
TAGS = st.sampled_from(["", "a", "b"])


class Follower:
    def __init__(self, events):
        self.events = events
        self.view = {}

    async def step(self):
        event = await anext(self.events)
        number = event.metadata.uid.int
        if event.type == "worker-dropped":
            del self.view[number]  # a slow reader may not have been told of the record that the drop has
        else:
            assert (number in self.view) == (event.type == "worker-updated")
            assert self.view.get(number) != event.metadata
            self.view[number] = event.metadata


class Registry(DiskMachine):
    """The model: number → record, and whose block was taken away."""

    followers = Bundle("followers")

    @initialize()
    def begin(self):
        self.model, self.broken, self.open = {}, set(), []
        self.owner = LocalDiscovery("n", root=self.root, capacity=CAPACITY)
        self.run(self.owner.__aenter__())
        self.publishers = [LocalDiscovery.Publisher("n", root=self.root) for _ in range(2)]

    def publish(self, by, kind, number, **fields):
        return self.publishers[by].publish(f"worker-{kind}", worker(number, **fields))

    @rule(by=st.integers(0, 1), number=NUMBERS, tag=TAGS)
    def add(self, by, number, tag):
        if number not in self.model and len(self.model) == CAPACITY:
            with pytest.raises(DiscoveryCapacityExhausted):
                self.run(self.publish(by, "added", number))
            return
        self.run(self.publish(by, "added", number, tags=frozenset(tag)))
        self.model[number] = worker(number, tags=frozenset(tag))
        self.broken.discard(number)

    @rule(by=st.integers(0, 1), number=NUMBERS, tag=TAGS)
    def update(self, by, number, tag):
        step = self.publish(by, "updated", number, tags=frozenset(tag))
        if number not in self.model or number in self.broken:
            with pytest.raises(DiscoveryWorkerNotFound):
                self.run(step)
            return
        self.run(step)
        self.model[number] = worker(number, tags=frozenset(tag))

    @rule(by=st.integers(0, 1), number=NUMBERS)
    def drop(self, by, number):
        self.run(self.publish(by, "dropped", number))
        self.model.pop(number, None)
        self.broken.discard(number)

    @rule(number=NUMBERS)
    def add_what_does_not_fit(self, number):
        with pytest.raises((DiscoveryBlockExhausted, DiscoveryCapacityExhausted)):
            self.run(self.publish(0, "added", number, extra={"k": "x" * 2000}))

    @rule(number=NUMBERS, nth=st.integers(0, 1), error=st.sampled_from([OSError(errno.ENOSPC, "full"), KeyError("x")]))
    def fail_part_way(self, number, nth, error):
        """At the block, or at the slot."""
        if number in self.model or len(self.model) == CAPACITY:
            return
        write, count = files.write, 0

        def failing(*args):
            nonlocal count
            count += 1
            if count == nth + 1:
                raise error
            write(*args)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(files, "write", failing)
            with pytest.raises(type(error)):
                self.run(self.publish(0, "added", number))

    @rule(number=NUMBERS)
    def take_a_block_away(self, number):
        if number in self.model and number not in self.broken:
            (self.owner.directory / "blocks" / str(worker(number).uid)).unlink()
            self.broken.add(number)

    @rule(number=NUMBERS)
    def leave_a_block_without_a_slot(self, number):
        """As a publisher that was killed part way."""
        if number not in self.model:
            (self.owner.directory / "blocks" / str(worker(number).uid)).write_bytes(b"half")

    @rule(numbers=st.lists(NUMBERS, min_size=2, max_size=4, unique=True), locked=st.booleans())
    def publish_at_the_same_time(self, numbers, locked):
        """Of different workers, so that any order is right; while another process has the lock, too."""
        if len({*self.model, *numbers}) > CAPACITY:
            return

        async def all_of_them():
            steps = [self.publish(number % 2, "added", number) for number in numbers]
            with (self.owner.directory / "registry").open("rb") as elsewhere:
                if locked:
                    fcntl.flock(elsewhere, fcntl.LOCK_EX)
                waiting = asyncio.gather(*steps)
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                assert waiting.done() <= (not locked)
                fcntl.flock(elsewhere, fcntl.LOCK_UN)
                await waiting

        self.run(all_of_them())
        for number in numbers:
            self.model[number] = worker(number)
            self.broken.discard(number)

    @precondition(lambda self: len(self.open) < 2)
    @rule(target=followers)
    def follow(self):
        async def opened():
            return aiter(LocalDiscovery.Subscriber("n", root=self.root, poll_interval=0.05))

        self.open.append(Follower(self.run(opened())))
        return self.open[-1]

    @rule(follower=followers)
    def catch_up(self, follower):
        """To what can be read; a worker whose block is gone is shown as it was, if it ever was."""

        async def until_it_sees_the_model():
            while not self.agrees(follower):
                await follower.step()

        self.run(until_it_sees_the_model())

    def agrees(self, follower):
        readable = {number: record for number, record in self.model.items() if number not in self.broken}
        shown = {number: record for number, record in follower.view.items() if number not in self.broken}
        return shown == readable

    @rule(follower=consumes(followers))
    def unfollow(self, follower):
        self.catch_up(follower)
        self.open.remove(follower)
        self.run(follower.events.aclose())

    @invariant()
    def the_registry_holds_the_model(self):
        if not hasattr(self, "owner"):
            return
        binding = registry.bind("n", self.root)
        uids = [uid.int for uid in binding.slots().workers()]
        found = {event.metadata.uid.int: event.metadata for event in Scan().take(binding.blocks())}
        binding.close()
        assert sorted(uids) == sorted(self.model)
        assert found == {number: record for number, record in self.model.items() if number not in self.broken}

    async def end(self):
        for follower in self.open:
            await follower.events.aclose()
        for publisher in self.publishers:
            publisher.close()
        await self.owner.__aexit__(None, None, None)


@by_length
@pytest.mark.case("X-04", "X-05", "X-06", "REG-13")
def test_the_registry_holds_what_was_published(profile):
    run_state_machine_as_test(Registry, settings=profile)
