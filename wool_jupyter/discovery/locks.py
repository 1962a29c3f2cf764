"""Exclusive locks that a fork does not keep.

flock belongs to the open file, which a fork's duplicates share: closing a descriptor leaves the lock with them, unlocking frees it
for all, and what a child closes frees nothing. So a lock is given back by unlocking, and a child closes its duplicates at once:
they would outlive a parent that is killed. A fork from C does not tell us; its child keeps the locks of a parent that was killed.
"""

import os
import random
import threading
import time
from collections.abc import Callable, Iterator

from wool_jupyter.discovery import files
from wool_jupyter.settings import LOCK_PAUSE_MAX_S, LOCK_PAUSE_MIN_S

_held: set["Lock"] = set()


class Lock:
    """Made by `try_lock`. `release` is idempotent, and does nothing in a forked child."""

    def __init__(self, fd: int) -> None:
        self._fd: int | None = fd
        _held.add(self)

    @property
    def fd(self) -> int:
        """Of the file that is locked. ValueError once it is released: the number may be another's by then."""
        if self._fd is None:
            raise ValueError("the lock was released")
        return self._fd

    def release(self) -> None:
        fd, self._fd = self._fd, None
        _held.discard(self)
        if fd is not None:
            try:
                files.unlock(fd)
            finally:
                files.close(fd)

    def _disown(self) -> None:
        fd, self._fd = self._fd, None
        if fd is not None:
            files.close(fd)


def try_lock(fd: int) -> Lock | None:
    """Takes the descriptor over, and closes it unless it got the lock: None if somebody else has it."""
    lock = Lock(fd)
    try:
        files.lock(fd)
    except BaseException as error:
        lock.release()
        if isinstance(error, BlockingIOError):
            return None
        raise
    return lock


def wait_for(opened: Callable[[], int], timeout_s: float) -> Lock | None:
    """Blocks its thread; each attempt opens anew. None when the time is up."""
    deadline = time.monotonic() + timeout_s
    waits = pauses()
    while True:
        lock = try_lock(opened())
        if lock is not None or time.monotonic() >= deadline:
            return lock
        threading.Event().wait(next(waits))  # nobody tells when a lock is free


def pauses() -> Iterator[float]:
    """Between attempts, without an end: longer each time, and never in step with others who wait."""
    pause_s = LOCK_PAUSE_MIN_S
    while True:
        yield pause_s * random.uniform(0.5, 1)
        pause_s = min(pause_s * 2, LOCK_PAUSE_MAX_S)


def _disown_all() -> None:
    for lock in list(_held):
        lock._disown()
    _held.clear()


os.register_at_fork(after_in_child=_disown_all)
