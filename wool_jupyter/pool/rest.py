"""A run that has nothing to do waits for the next small call, but not for long."""

import asyncio

from wool_jupyter.settings import REST_S


class Rest:
    """Of one run, which rests many times. On one loop; `close` when it rests no more."""

    def __init__(self) -> None:
        self._end: asyncio.Future[bool] | None = None  # of the rest that it has now: whether the run goes on
        self._until_s = 0.0
        # One for all rests: thousands that are cancelled in a second would all be sorted by the loop.
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_on(self) -> bool:
        return self._end is not None and not self._end.done()

    def begin(self) -> None:
        loop = asyncio.get_running_loop()
        self._end, self._until_s = loop.create_future(), loop.time() + REST_S
        if self._timer is None:
            self._timer = loop.call_at(self._until_s, self._look)

    async def over(self) -> bool:
        """False if nobody has ended it in time."""
        assert self._end is not None
        try:
            return await self._end
        finally:
            self._end = None

    def end(self) -> None:
        assert self._end is not None
        self._end.set_result(True)

    def fail(self, error: BaseException) -> None:
        """`over` raises it."""
        assert self._end is not None
        self._end.set_exception(error)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self._timer = None
        if self._end is None or self._end.done():
            return
        if self._until_s <= (loop := self._end.get_loop()).time():
            self._end.set_result(False)
        else:
            self._timer = loop.call_at(self._until_s, self._look)
