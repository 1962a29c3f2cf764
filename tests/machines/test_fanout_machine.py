"""`Fanout` beside lists."""

import asyncio
import gc
from collections import deque
from dataclasses import dataclass, field

from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule, run_state_machine_as_test

from tests.support.loops import settle
from tests.support.machines import LoopMachine, every_profile
from tests.support.sources import Source
from wool_jupyter.aio.fanout import Fanout, FanoutConsumer, FanoutStats, State


class Lost(Exception):
    pass


FAIL, END = "fail", "end"
OUTCOME = {State.EXHAUSTED: StopAsyncIteration, State.CLOSED: StopAsyncIteration, State.FAILED: Lost}


@dataclass
class Reader:
    consumer: FanoutConsumer
    queue: list = field(default_factory=list)
    pull: asyncio.Task | None = None
    expected: object = None  # of the pull: an item or an exception's class; None while it waits


class FanoutMachine(LoopMachine):
    def __init__(self):
        super().__init__()
        self.source = Source()
        self.fanout = Fanout(self.source)
        self.readers = []
        self.fed = deque()
        self.state = State.OPEN
        self.pulling = False
        self.asked = 0
        self.items = 0

    # The model.

    def begin_pull(self):
        if not self.pulling:
            self.pulling = True
            self.asked += 1

    def advance(self):
        while self.pulling and self.fed:
            self.pulling = False
            answer = self.fed.popleft()
            if answer in (FAIL, END):
                self.state = State.FAILED if answer == FAIL else State.EXHAUSTED
            else:
                for reader in self.readers:
                    reader.queue.append(answer)
            self.wake()

    def wake(self):
        for reader in self.readers:
            if reader.pull is not None and reader.expected is None:
                self.answer(reader)

    def answer(self, reader):
        if reader.queue:
            reader.expected = reader.queue.pop(0)
        elif self.state is State.OPEN:
            self.begin_pull()
        else:
            reader.expected = OUTCOME[self.state]

    # What can happen.

    @rule()
    def join(self):
        self.readers.append(Reader(self.fanout.consumer()))

    @precondition(lambda self: self.readers)
    @rule(data=st.data())
    def pull(self, data):
        reader = data.draw(st.sampled_from(self.readers))
        if reader.pull is None:
            reader.pull = self.start(anext(reader.consumer))
            self.answer(reader)
            self.advance()

    @precondition(lambda self: self.readers)
    @rule(data=st.data())
    def cancel(self, data):
        reader = data.draw(st.sampled_from(self.readers))
        if reader.pull is not None and not reader.pull.done():
            self.cancel_pull(reader)

    def cancel_pull(self, reader):
        async def cancelled():
            reader.pull.cancel()
            await settle()
            assert reader.pull.cancelled()

        self.run(cancelled())
        reader.pull = None

    @precondition(lambda self: self.readers)
    @rule(data=st.data())
    def drop(self, data):
        reader = data.draw(st.sampled_from(self.readers))
        if reader.pull is not None and reader.expected is None:
            self.cancel_pull(reader)
        self.readers.remove(reader)
        reader.consumer = reader.pull = None  # Hypothesis keeps what it drew

    @precondition(lambda self: self.readers)
    @rule(data=st.data())
    def enqueue(self, data):
        reader = data.draw(st.sampled_from(self.readers))
        if reader.pull is None:  # a reader that waits would sleep over it, as it is specified: the source wakes it
            self.items += 1
            reader.consumer.enqueue(self.items)
            reader.queue.append(self.items)

    @rule(times=st.integers(1, 3))
    def give(self, times):
        for _ in range(times):
            self.items += 1
            self.feed(self.items, lambda: self.source.give(self.items))

    @rule()
    def fail(self):
        self.feed(FAIL, lambda: self.source.fail(Lost("the source")))

    @rule()
    def end_of_source(self):
        self.feed(END, self.source.end)

    def feed(self, answer, do):
        async def fed():
            do()

        self.fed.append(answer)
        self.run(fed())
        self.advance()

    @rule()
    def close(self):
        self.run(self.fanout.cleanup())
        self.state, self.pulling = State.CLOSED, False
        self.wake()

    # What must hold.

    @invariant()
    def pulls_have_what_the_model_says(self):
        for reader in self.readers:
            if reader.pull is None:
                continue
            if reader.expected is None:
                assert not reader.pull.done()
                continue
            assert reader.pull.done()
            error = reader.pull.exception()
            if isinstance(reader.expected, type):
                assert isinstance(error, reader.expected)
            else:
                assert error is None
                assert reader.pull.result() == reader.expected
            reader.pull = reader.expected = None

    @invariant()
    def queues_and_statistics_agree(self):
        assert [reader.consumer.queued for reader in self.readers] == [len(reader.queue) for reader in self.readers]
        stats = self.fanout.stats
        assert stats.state is self.state
        assert stats.tasks == self.pulling
        assert self.source.asked == self.asked, "the source was advanced more or less often than somebody waited for it"
        if self.state is not State.FAILED:  # the failure's frames keep the consumer that raised it last
            queued = sum(len(reader.queue) for reader in self.readers)
            if stats.consumers != len(self.readers):
                gc.collect()  # an error and a frame may hold each other, and a consumer with them
            assert self.fanout.stats == FanoutStats(self.state, len(self.readers), queued, int(self.pulling))

    async def end(self):
        await self.fanout.cleanup()
        await settle()
        for reader in self.readers:
            if reader.pull is not None:
                assert isinstance(reader.pull.exception(), StopAsyncIteration)
        assert self.source.closed == self.source.opened


@every_profile
def test_fanout_does_what_lists_do(profile):
    run_state_machine_as_test(FanoutMachine, settings=profile)
