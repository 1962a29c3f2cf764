"""A cell as a routine: it yields the cell's events; the last one is its outcome."""

import asyncio
from collections.abc import AsyncGenerator

from wool_jupyter.aio.owned_tasks import OwnedTasks
from wool_jupyter.wire import cells
from wool_jupyter.worker.cell.runner import CellRunner
from wool_jupyter.worker.lanes import MainLane
from wool_jupyter.worker.session import Routine


def cell_routine(lane: MainLane, runner: CellRunner) -> Routine:
    async def run(body: bytes) -> AsyncGenerator[tuple[bytes, bool], bytes | None]:
        """Nothing is unpickled here; the runner does that on the main thread."""
        loop = asyncio.get_running_loop()
        request = cells.decode_request(body)
        events: asyncio.Queue[bytes | None] = asyncio.Queue()

        def emit(event: bytes) -> None:
            loop.call_soon_threadsafe(events.put_nowait, event)

        async def body_on_main() -> bytes:
            try:
                return await lane.call(runner.run, request, emit)
            finally:
                events.put_nowait(None)

        tasks = OwnedTasks("cell")
        body_task = tasks.start(body_on_main(), "body", awaited=True)
        try:
            while (event := await events.get()) is not None:
                answer = yield event, False
                if answer is not None:
                    runner.answer(cells.decode_answer(answer))
            yield await body_task, True
        finally:
            await tasks.close()

    return run
