"""An async iterable that a test feeds step by step."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

_END = object()


class Source:
    """Each iteration takes what was fed, and else waits. It holds its iterators: the collector would close what the code forgot."""

    def __init__(self, *items: Any, then_end: bool = False) -> None:
        self.asked = 0  # steps that were begun
        self.opened = 0
        self.closed = 0
        self._iterators: list[AsyncGenerator[Any, None]] = []
        self._answers: asyncio.Queue[Any] = asyncio.Queue()
        for item in items:
            self.give(item)
        if then_end:
            self.end()

    def give(self, item: Any) -> None:
        self._answers.put_nowait(item)

    def fail(self, error: BaseException) -> None:
        self._answers.put_nowait(error)

    def end(self) -> None:
        self._answers.put_nowait(_END)

    def __aiter__(self) -> AsyncGenerator[Any, None]:
        self._iterators.append(self._stream())
        return self._iterators[-1]

    async def _stream(self) -> AsyncGenerator[Any, None]:
        self.opened += 1
        try:
            while True:
                self.asked += 1
                answer = await self._answers.get()
                if answer is _END:
                    return
                if isinstance(answer, BaseException):
                    raise answer
                yield answer
        finally:
            self.closed += 1
