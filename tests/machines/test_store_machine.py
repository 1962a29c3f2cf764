"""`wire.store.Store` beside a model: who has a mapping, or a lease, has the content that it was given."""

import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.support.machines import every_profile
from tests.support.readers import Reader, reader
from tests.support.sides import store_in
from wool_jupyter.wire import mappings, segments
from wool_jupyter.wire.buffers import Ref
from wool_jupyter.wire.store import Lease, Store

SIZE = segments.SEGMENT_BYTES
SOME = st.integers(0, 1000)


@dataclass
class Sent:
    lease: Lease
    ref: Ref
    fill: int


@dataclass
class Worker:
    process: Reader
    held: list[int | None] = field(default_factory=list)  # the fills that it has mapped; None: dropped
    is_forked: bool = False


class Readers:
    """Starting one takes longer than an example."""

    def __init__(self):
        self.resources = ExitStack()
        self.waiting: list[Reader] = []

    def take(self):
        return Worker(self.waiting.pop() if self.waiting else self.resources.enter_context(reader()))

    def give_back(self, worker):
        if worker.is_forked:
            worker.process.kill()
        else:
            worker.process.clear()
            self.waiting.append(worker.process)


@pytest.fixture(scope="module", autouse=True)
def readers():
    StoreMachine.readers = Readers()
    with StoreMachine.readers.resources:
        yield


class StoreMachine(RuleBasedStateMachine):
    is_free = staticmethod(segments.nobody_maps)
    readers: Readers

    def __init__(self):
        super().__init__()
        self.resources = ExitStack()
        self.place = Path(self.resources.enter_context(tempfile.TemporaryDirectory(dir="/dev/shm")))
        store_in(self.place)
        self.store = Store([self.place], is_free=self.is_free)
        self.arrays: list[np.ndarray] = []
        self.sent: list[Sent] = []
        self.fills = 0

    @initialize()
    def start(self):
        self.workers = [self.readers.take() for _ in range(2)]

    def fill(self):
        self.fills = self.fills % 250 + 1
        return self.fills

    @rule()
    def make(self):
        self.arrays.append(np.full(SIZE, self.fill(), "u1"))

    @precondition(lambda self: self.arrays)
    @rule(which=SOME)
    def change(self, which):
        self.arrays[which % len(self.arrays)][:] = self.fill()

    @precondition(lambda self: self.arrays)
    @rule(which=SOME)
    def delete(self, which):
        del self.arrays[which % len(self.arrays)]

    @precondition(lambda self: self.arrays)
    @rule(which=SOME)
    def send(self, which):
        array = self.arrays[which % len(self.arrays)]
        lease = self.store.lease([memoryview(array)])
        for ref in lease.refs:  # none if there is no room
            self.sent.append(Sent(lease, ref, int(array[0])))

    @precondition(lambda self: self.sent)
    @rule(which=SOME, who=SOME)
    def arrive(self, which, who):
        sent, worker = self.sent[which % len(self.sent)], self.workers[who % 2]
        assert worker.process.map(sent.ref) == "mapped"
        worker.held.append(sent.fill)

    @precondition(lambda self: self.sent)
    @rule(which=SOME)
    def answered(self, which):
        self.sent.pop(which % len(self.sent)).lease.release()

    @rule(who=SOME, which=SOME)
    def drop(self, who, which):
        worker = self.workers[who % 2]
        if worker.held:
            worker.process.drop(which % len(worker.held))
            worker.held[which % len(worker.held)] = None

    @rule(who=SOME)
    def fork(self, who):
        self.workers[who % 2].process.fork()
        self.workers[who % 2].is_forked = True

    @precondition(lambda self: any(worker.is_forked for worker in self.workers))
    @rule(who=SOME)
    def kill(self, who):
        self.workers[who % 2].process.kill()
        self.workers[who % 2] = self.readers.take()

    @rule(most=st.sampled_from([None, 0, 3 * SIZE, 6 * SIZE]))
    def limit(self, most):
        self.store.budget_bytes = most
        self.store.trim()

    @rule(who=SOME)
    def look(self, who):
        worker = self.workers[who % 2]
        assert worker.process.contents() == [{fill} for fill in worker.held if fill is not None]

    @invariant()
    def what_is_on_the_way_is_there(self):
        for sent in self.sent:
            assert set(mappings.mapped(sent.ref.file, 0, SIZE)[::4096]) == {sent.fill}

    def teardown(self):
        try:
            for who in range(len(getattr(self, "workers", ()))):
                self.look(who)
            for worker in getattr(self, "workers", ()):
                self.readers.give_back(worker)
            for sent in self.sent:
                sent.lease.release()
            self.store.budget_bytes = 0
            self.store.trim()
            assert [file for folder in self.place.iterdir() for file in folder.iterdir()] == []
        finally:
            self.resources.close()


class IgnoringLocks(StoreMachine):
    """The twin."""

    is_free = staticmethod(lambda _: True)


@every_profile
def test_whoever_has_large_data_has_what_it_was_given(profile):
    run_state_machine_as_test(StoreMachine, settings=settings(profile, max_examples=profile.max_examples // 4))


def test_a_store_that_ignores_the_locks_is_found_out(capsys):
    with pytest.raises(AssertionError):
        run_state_machine_as_test(
            IgnoringLocks,
            settings=settings(
                max_examples=400, stateful_step_count=60, phases=[Phase.generate], deadline=None, derandomize=True
            ),
        )
