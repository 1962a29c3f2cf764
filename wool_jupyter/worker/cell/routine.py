"""A cell as a routine: it yields the cell's events; the last one is its outcome."""

import asyncio
from collections import deque
from collections.abc import Callable

from wool_jupyter.errors import CallFailed
from wool_jupyter.wire import cells, frames
from wool_jupyter.worker.cell.runner import CellRunner
from wool_jupyter.worker.lanes import Job, MainLane
from wool_jupyter.worker.owed_step import OwedStep, failed
from wool_jupyter.worker.session import Body, Step


def cell_routine(lane: MainLane, runner: CellRunner) -> Callable[[bytes], Body]:
    return lambda body: _CellBody(body, lane, runner)


class _CellBody:
    """Nothing is unpickled here; the runner does that on the main thread. Once begun the cell runs whether or not a step is
    pending. To cancel it is to interrupt it: what blocks knows no other end."""

    def __init__(self, body: bytes, lane: MainLane, runner: CellRunner) -> None:
        self._body = body
        self._lane = lane
        self._runner = runner
        self._events: deque[bytes] = deque()
        self._job: Job[bytes] | None = None
        self._step: OwedStep | None = None  # that waits for the next event

    async def begin(self) -> None:
        self._request = cells.decode_request(self._body)
        self._body = b""

    def step(self, command: frames.Command) -> Step:
        match command:
            case frames.Throw():
                raise CallFailed("a cell takes no exceptions")
            case frames.Close():
                return self.close()
            case frames.Send(_, value):
                self._runner.answer(cells.decode_answer(value))
        if self._job is None:
            self._job = self._submitted()
        self._step = step = OwedStep(self.interrupt)
        self._look()
        return step

    def _submitted(self) -> Job[bytes]:
        loop = asyncio.get_running_loop()

        def emit(event: bytes) -> None:
            loop.call_soon_threadsafe(self._came, event)

        job = self._lane.submit(self._runner.run, self._request, emit)
        job.done.add_done_callback(lambda _: self._look())
        return job

    def _came(self, event: bytes) -> None:
        self._events.append(event)
        self._look()

    def _look(self) -> None:
        """Whether there is something that the step waits for."""
        step, job = self._step, self._job
        if step is None or job is None or not (self._events or job.done.done()):
            return
        self._step = None
        if self._events:
            step.set_result((self._events.popleft(), False))
        elif failed(job.done):
            step.fail_as(job.done)
        else:
            step.set_result((job.done.result(), True))

    def interrupt(self) -> None:
        if self._job is not None:
            self._lane.interrupt(self._job)

    def stopping(self) -> None:
        pass

    async def close(self) -> None:
        self.interrupt()
        if self._job is not None:
            await asyncio.gather(self._job.done, return_exceptions=True)
