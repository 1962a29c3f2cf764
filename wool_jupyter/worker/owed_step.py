"""A step that needs no task: whoever has what it waits for answers it."""

import asyncio
from collections.abc import Callable
from typing import Any


class OwedStep(asyncio.Future[tuple[bytes, bool] | None]):
    """Lives on the loop that made it. To cancel it is to cancel what runs, which answers it with what came of that."""

    def __init__(self, cancel: Callable[[], object]) -> None:
        super().__init__()
        self._cancel = cancel

    def cancel(self, msg: object = None) -> bool:  # noqa: ARG002 (asyncio's)
        if self.done():
            return False
        self._cancel()
        return True

    def fail_as(self, job: "asyncio.Future[Any]") -> None:
        """That has `failed`."""
        if job.cancelled():
            super().cancel()
        else:
            error = job.exception()
            assert error is not None
            self.set_exception(error)


def failed(job: "asyncio.Future[Any]") -> bool:
    """It has raised, or will not begin."""
    return job.done() and (job.cancelled() or job.exception() is not None)
