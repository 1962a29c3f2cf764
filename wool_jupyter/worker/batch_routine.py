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
from wool_jupyter.worker.session import Body


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
        self._news = _News(self._loop)

    async def begin(self) -> None:
        self._opening = batches.decode_opening(self._body)
        self._body = b""

    async def step(self, command: frames.Command) -> tuple[bytes, bool] | None:
        match command:
            case frames.Throw():
                raise CallFailed("blocking calls take no exceptions")
            case frames.Close():
                await self.close()
                return None
            case frames.Send(_, value):
                self._add(batches.decode_batch(value))
            case _ if self._job is None:
                self._add(self._opening.batch)
        gathers_until: float | None = None
        while not self._has_to_report:
            if self._job is not None and self._job.done.done():
                self._job.done.result()  # a fault of the runner's
            if gathers_until is None and self._news.is_there:
                if self._news.took_s >= GATHER_S:
                    break  # the end of this process would lose what has taken its time
                gathers_until = self._loop.time() + GATHER_S
            try:
                async with asyncio.timeout_at(gathers_until):
                    await self._news.comes()
            except TimeoutError:
                break
            except asyncio.CancelledError:
                self.recall()
                self.interrupt()
        return batches.encode(self._report()), self._last and not self._due

    @property
    def _has_to_report(self) -> bool:
        """At once: calls were given back, or all that it was given are over."""
        return self._recalled or (self._news.outcomes >= self._due and (self._news.is_there or self._last))

    def _add(self, batch: batches.Batch) -> None:
        self._parts.functions += map(calls.decode_request, batch.functions)
        self._due += len(batch.items)
        self._last = self._last or batch.last
        if self._parts.add(batch.items):
            self._job = self._lane.submit(self._runner.run, self._opening, self._parts, self._news)
            self._job.done.add_done_callback(lambda _: self._news.wake())

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
        self._news.wake()

    def interrupt(self) -> None:
        if self._job is not None:
            self._lane.interrupt(self._job)

    def stopping(self) -> None:
        pass

    async def close(self) -> None:
        self.recall()
        self.interrupt()
        if self._job is not None:
            await asyncio.wait({self._job.done})


class _News:
    """What the main thread has to say, gathered until the loop has time for it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._came = asyncio.Event()
        self._done: deque[batches.Done] = deque()
        self._shown: deque[bytes] = deque()
        self._goes_on = False
        self.took_s = 0.0  # the last call
        self._told = False

    # On the main thread, but for `shown`.

    def done(self, done: batches.Done, *, goes_on: bool) -> None:
        self._goes_on, self.took_s = goes_on, done.took_s
        self._done.append(done)
        self._tell()

    def shown(self, event: bytes) -> None:
        self._shown.append(event)
        self._tell()

    def _tell(self) -> None:
        if not self._told:
            self._told = True
            self._loop.call_soon_threadsafe(self._came.set)

    # On the loop.

    @property
    def is_there(self) -> bool:
        return bool(self._done or self._shown)

    @property
    def outcomes(self) -> int:
        return len(self._done)

    def wake(self) -> None:
        self._came.set()

    async def comes(self) -> None:
        await self._came.wait()
        self._came.clear()
        self._told = False

    def taken(self) -> tuple[tuple[batches.Done, ...], tuple[bytes, ...], bool]:
        """No more than goes into one message."""
        done: list[batches.Done] = []
        size = 0
        while self._done and (not done or size < batches.BATCH_BYTES):
            done.append(self._done.popleft())
            size += len(done[-1].outcome)
        shown = []  # after that: what these calls have shown is among it
        while self._shown:
            shown.append(self._shown.popleft())
        return tuple(done), tuple(shown), self._goes_on
