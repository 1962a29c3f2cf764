"""A cell as a routine: it yields the cell's events; the last one is its outcome."""

import asyncio
from collections.abc import Callable

from wool_jupyter.errors import CallFailed
from wool_jupyter.wire import cells, frames
from wool_jupyter.worker.cell.runner import CellRunner
from wool_jupyter.worker.lanes import Job, MainLane
from wool_jupyter.worker.session import Body


def cell_routine(lane: MainLane, runner: CellRunner) -> Callable[[bytes], Body]:
    return lambda body: _CellBody(body, lane, runner)


class _CellBody:
    """Nothing is unpickled here; the runner does that on the main thread. Once begun the cell runs whether or not a step is
    pending. To cancel it is to interrupt it: what blocks knows no other end."""

    def __init__(self, body: bytes, lane: MainLane, runner: CellRunner) -> None:
        self._body = body
        self._lane = lane
        self._runner = runner
        self._events: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._job: Job[bytes] | None = None

    async def begin(self) -> None:
        self._request = cells.decode_request(self._body)
        self._body = b""

    async def step(self, command: frames.Command) -> tuple[bytes, bool] | None:
        match command:
            case frames.Throw():
                raise CallFailed("a cell takes no exceptions")
            case frames.Close():
                await self.close()
                return None
            case frames.Send(_, value):
                self._runner.answer(cells.decode_answer(value))
        if self._job is None:
            self._job = self._submitted()
        event = await self._next_event()
        if event is not None:
            return event, False
        return await self._job.done, True

    def _submitted(self) -> Job[bytes]:
        loop = asyncio.get_running_loop()

        def emit(event: bytes) -> None:
            loop.call_soon_threadsafe(self._events.put_nowait, event)

        job = self._lane.submit(self._runner.run, self._request, emit)
        job.done.add_done_callback(lambda _: self._events.put_nowait(None))
        return job

    async def _next_event(self) -> bytes | None:
        """A cancellation is the cell's, and what it makes of it an event."""
        while True:
            try:
                return await self._events.get()
            except asyncio.CancelledError:
                self.interrupt()

    def interrupt(self) -> None:
        if self._job is not None:
            self._lane.interrupt(self._job)

    def stopping(self) -> None:
        pass

    async def close(self) -> None:
        self.interrupt()
        if self._job is not None:
            await asyncio.gather(self._job.done, return_exceptions=True)
