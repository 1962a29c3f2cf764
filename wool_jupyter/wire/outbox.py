"""Frames that wait to be sent."""

import asyncio
from collections import deque
from collections.abc import Callable

from wool_jupyter.errors import MessageTooLarge
from wool_jupyter.wire import frames

AtOnce = Callable[[bytes], bool]  # takes a message, if the way is free now


class Outbox:
    """Lives on one loop, with one task that takes what could not be sent at once."""

    def __init__(self, *, message_max_bytes: int = frames.MESSAGE_MAX_BYTES) -> None:
        self._message_max_bytes = message_max_bytes
        self._frame_max_bytes = message_max_bytes - frames.HEAD_MAX_BYTES
        self._waiting: deque[bytes] = deque()
        self._filled = asyncio.Event()
        self._closed = False
        # A task that only passes a message on is a step of the loop more: a twentieth of a small call.
        self.sends_at_once: AtOnce = lambda _: False

    def put(self, *together: frames.Request | frames.Response) -> None:
        """`MessageTooLarge`, and none of them will be sent. After `close` nothing is."""
        encoded = [frames.encode(frame) for frame in together]
        for data in encoded:
            if len(data) > self._frame_max_bytes:
                raise MessageTooLarge(
                    f"a message of {len(data) / 2**20:,.1f} MiB is larger than {self._message_max_bytes / 2**20:g} MiB, "
                    "and was not sent: large data travels in variables"
                )
        would_overtake = bool(self._waiting)
        is_one = sum(map(len, encoded)) <= self._frame_max_bytes
        if is_one and not (would_overtake or self._closed) and self.sends_at_once(frames.join(encoded)):
            return
        self._waiting.extend(encoded)
        self._filled.set()

    def close(self) -> None:
        """What waits is not sent."""
        self._closed = True
        self._filled.set()

    async def take(self) -> bytes | None:
        """All that waits, as one message; of more than fits into one, the first part. None when closed."""
        await self._filled.wait()
        if self._closed:
            return None
        batch, room = [self._waiting.popleft()], self._frame_max_bytes
        room -= len(batch[0])
        while self._waiting and len(self._waiting[0]) <= room:
            batch.append(self._waiting.popleft())
            room -= len(batch[-1])
        if not self._waiting:
            self._filled.clear()
        return frames.join(batch)
