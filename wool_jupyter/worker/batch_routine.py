"""A run of blocking calls as a routine: each step adds calls to it, and is answered with what has come of them.

session's loop     _Run ─ parts ─▶ CallRunner     main thread
                        ◀─ outcomes ─┘
"""

import asyncio
from collections import deque
from collections.abc import Callable

from wool_jupyter.errors import CallFailed
from wool_jupyter.settings import GATHER_S
from wool_jupyter.wire import batches, calls, frames
from wool_jupyter.worker.cell.call_runner import CallRunner, Parts
from wool_jupyter.worker.lanes import Job, MainLane
from wool_jupyter.worker.owed_step import OwedStep, failed
from wool_jupyter.worker.session import Body, Step


def batch_routine(lane: MainLane, runner: CallRunner) -> Callable[[bytes], Body]:
    return lambda body: _Run(body, lane, runner)


class _Run:
    """Nothing of a user's is unpickled here. What was given to it runs whether or not a step is pending. To cancel it is to
    interrupt the call that runs, and to give back the others."""

    def __init__(self, body: bytes, lane: MainLane, runner: CallRunner) -> None:
        self._body = body
        self._lane = lane
        self._runner = runner
        self._parts = Parts()
        self._job: Job[None] | None = None
        self._due = 0  # outcomes, of what was given and has not come back
        self._last = False
        self._given_back: list[int] = []
        self._recalled = False
        self._loop = asyncio.get_running_loop()
        self._news = _News(self._loop, self._look)
        self._step: OwedStep | None = None  # that waits for a report
        self._gathers: asyncio.TimerHandle | None = None  # until then

    async def begin(self) -> None:
        self._opening = batches.decode_opening(self._body)
        self._body = b""

    def step(self, command: frames.Command) -> Step:
        match command:
            case frames.Throw():
                raise CallFailed("blocking calls take no exceptions")
            case frames.Close():
                return self.close()
            case frames.Send(_, value):
                self._add(batches.decode_batch(value))
            case _ if self._job is None:
                self._add(self._opening.batch)
        self._step = step = OwedStep(self._cancel)
        self._look()
        return step

    def _add(self, batch: batches.Batch) -> None:
        self._parts.functions += map(calls.decode_request, batch.functions)
        self._due += len(batch.items)
        self._last = self._last or batch.last
        if self._parts.add(batch.items):
            self._job = self._lane.submit(self._runner.run, self._opening, self._parts, self._news)
            self._job.done.add_done_callback(lambda _: self._look())

    def _look(self) -> None:
        """At what the main thread has said since: it may be time for a report, or a moment before."""
        if self._step is None:
            return
        if self._job is not None and failed(self._job.done):
            self._answered().fail_as(self._job.done)
        elif self._has_to_report:
            self._answer()
        elif self._news.is_there and self._news.took_s >= GATHER_S:
            self._answer()  # the end of this process would lose what has taken its time
        elif self._news.is_there and self._gathers is None:
            self._gathers = self._loop.call_later(GATHER_S, self._answer)

    @property
    def _has_to_report(self) -> bool:
        """At once: calls were given back, or all that it was given are over."""
        return self._recalled or (self._news.outcomes >= self._due and (self._news.is_there or self._last))

    def _answer(self) -> None:
        report = batches.encode(self._report())
        self._answered().set_result((report, self._last and not self._due))

    def _answered(self) -> OwedStep:
        """The step, which is now."""
        step, self._step = self._step, None
        if self._gathers is not None:
            self._gathers.cancel()
            self._gathers = None
        assert step is not None
        return step

    def _report(self) -> batches.Report:
        done, shown, goes_on = self._news.taken()
        self._due -= len(done)
        given_back, self._given_back, self._recalled = self._given_back, [], False
        return batches.Report(done, tuple(given_back), shown, goes_on)

    def recall(self) -> None:
        given_back = self._parts.recall()
        self._due -= len(given_back)
        self._given_back += given_back
        self._recalled = True
        self._look()

    def interrupt(self) -> None:
        if self._job is not None:
            self._lane.interrupt(self._job)

    def _cancel(self) -> None:
        self.recall()
        self.interrupt()

    def stopping(self) -> None:
        pass

    async def close(self) -> None:
        self._cancel()
        if self._job is not None:
            await asyncio.wait({self._job.done})


class _News:
    """What the main thread has to say, gathered until the loop has time for it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, told: Callable[[], object]) -> None:
        """`told` is called on the loop when there is something new, once until it is `taken`."""
        self._loop = loop
        self._told = told
        self._done: deque[batches.Done] = deque()
        self._shown: deque[bytes] = deque()
        self._goes_on = False
        self.took_s = 0.0  # the last call
        self._is_told = False

    # On the main thread, but for `shown`.

    def done(self, done: batches.Done, *, goes_on: bool, is_last: bool) -> None:
        """`is_last`: the end of the job says that there is something."""
        self._goes_on, self.took_s = goes_on, done.took_s
        self._done.append(done)
        if not is_last:
            self._tell()

    def shown(self, event: bytes) -> None:
        self._shown.append(event)
        self._tell()

    def _tell(self) -> None:
        if not self._is_told:
            self._is_told = True
            self._loop.call_soon_threadsafe(self._told)

    # On the loop.

    @property
    def is_there(self) -> bool:
        return bool(self._done or self._shown)

    @property
    def outcomes(self) -> int:
        return len(self._done)

    def taken(self) -> tuple[tuple[batches.Done, ...], tuple[bytes, ...], bool]:
        """No more than goes into one message."""
        self._is_told = False
        done: list[batches.Done] = []
        size = 0
        while self._done and (not done or size < batches.BATCH_BYTES):
            done.append(self._done.popleft())
            size += len(done[-1].outcome)
        shown = []  # after that: what these calls have shown is among it
        while self._shown:
            shown.append(self._shown.popleft())
        return tuple(done), tuple(shown), self._goes_on
