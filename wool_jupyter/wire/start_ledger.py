"""Which call a worker has begun last, to be read when the worker was killed.

A call whose first step is sent together with its task may have begun when its worker is lost. Before its body starts the worker
stores the call's number in memory that it shares with its pool: a call with a larger number has not begun, and may run elsewhere.
Numbers grow over all calls of the pool's process (`dispatch.channels`), and no other process sends such calls.
"""

import mmap
import os
import struct
from pathlib import Path

_NUMBER = struct.Struct("<Q")


class StartLedger:
    """8 bytes of a mapped file; the mapping outlives the file's name. Made by `create` for a worker to come, which opens it."""

    def __init__(self, fd: int) -> None:
        """Takes the descriptor over."""
        self._noted = 0
        try:
            self._memory = mmap.mmap(fd, _NUMBER.size)
        finally:
            os.close(fd)

    @classmethod
    def create(cls, path: Path) -> "StartLedger":
        """Written, not only enlarged: a full file system says so here, and not by a SIGBUS later."""
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, _NUMBER.pack(0))
        except OSError:
            os.close(fd)
            raise
        return cls(fd)

    @classmethod
    def open(cls, path: Path) -> "StartLedger":
        return cls(os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC))

    def begins(self, number: int) -> None:
        """Earlier ones count as begun, too: better not run than run twice."""
        if number > self._last:
            _NUMBER.pack_into(self._memory, 0, number)

    def has_begun(self, number: int) -> bool:
        return number <= self._last

    def close(self) -> None:
        """The worker has ended: what was noted stays known, without the file."""
        self._noted = self._last
        self._memory.close()

    @property
    def _last(self) -> int:
        if self._memory.closed:
            return self._noted
        last: int = _NUMBER.unpack_from(self._memory)[0]
        return last
