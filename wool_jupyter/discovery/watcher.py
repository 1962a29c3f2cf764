"""Tells subscriptions that their registry has changed.

    a publish here ──────────────────────────────────────▶ ring ─▶ every Watch of that generation, on its own loop
    a publish elsewhere ─▶ notify ─▶ inotify ─▶ observer ─▶ ring

One observer serves the process, and ends with the last Watch. Joining its threads takes milliseconds and is left to a thread of
ours, the closer. Where files can't be watched, a Watch says so, and its subscription looks at the counter now and then.
"""

import asyncio
import contextlib
import errno
import logging
import os
import threading
import weakref
from collections import Counter
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING

from wool_jupyter import host
from wool_jupyter.settings import COUNTER_POLL_S

if TYPE_CHECKING:
    from watchdog.observers.api import ObservedWatch

    from wool_jupyter.discovery.observing import FileObserver

_LIMITS = {errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.ENOSYS}  # of instances, descriptors, watches; a sandbox

_log = logging.getLogger(__name__)


class Watch:
    """One subscription's call, on the loop that runs when it is made. It does not keep its subscription, nor that loop, alive.

    FileNotFoundError if the directory is gone. `close` is idempotent and does not block.
    """

    def __init__(self, directory: Path) -> None:
        self._loop = asyncio.get_running_loop()
        self._called = asyncio.Event()
        self.watched = _switchboard.add(str(directory), self)
        self._closing = weakref.finalize(self, _switchboard.leave, str(directory) if self.watched else None)
        self._closing.atexit = False

    async def wait(self, timeout_s: float) -> None:
        """Until it was called since the last `clear`, or the time is up."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._called.wait()

    def clear(self) -> None:
        """Before the look at what may have changed: a call that comes meanwhile is then kept."""
        self._called.clear()

    def close(self) -> None:
        self._closing()

    def call(self) -> None:
        """From any thread."""
        with contextlib.suppress(RuntimeError):  # its loop was closed before it was
            self._loop.call_soon_threadsafe(self._called.set)


def ring(directory: Path) -> None:
    """Calls this process's subscriptions to the generation. From any thread; takes no lock."""
    _switchboard.ring(str(directory))


def watches(directory: Path) -> bool:
    """Whether this process is told when others publish there; otherwise its subscriptions look now and then."""
    return _switchboard.watches(str(directory))


class _Switchboard:
    """Who is called for which directory, and the observer that does so for other processes' publishes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watches: dict[str, tuple[weakref.ref[Watch], ...]] = {}  # replaced, never changed: read without the lock
        self._observer: FileObserver | None = None
        self._observed: dict[str, ObservedWatch] = {}
        self._users: Counter[str] = Counter()
        self._left: SimpleQueue[str | None] = SimpleQueue()  # may be fed from a finalizer, at any point of any thread

    def add(self, directory: str, watch: Watch) -> bool:
        """Whether the directory is observed; else only `ring` calls."""
        with self._lock:
            watched = self._observe(directory)
            alive = {path: tuple(each for each in refs if each() is not None) for path, refs in self._watches.items()}
            alive[directory] = (*alive.get(directory, ()), weakref.ref(watch))
            self._watches = {path: refs for path, refs in alive.items() if refs}
            return watched

    def watches(self, directory: str) -> bool:
        with self._lock:
            return directory in self._observed

    def leave(self, directory: str | None) -> None:
        if directory is not None:
            self._left.put(directory)

    def ring(self, directory: str) -> None:
        for each in self._watches.get(directory, ()):
            if (watch := each()) is not None:
                watch.call()

    def _observe(self, directory: str) -> bool:
        if not host.watches_files():
            return False
        try:
            observer = self._observer or self._begin()
            if directory not in self._observed:
                self._observed[directory] = observer.watch(directory)
        except (OSError, RuntimeError) as error:  # RuntimeError: there can be no more threads
            self._left.put(None)
            if isinstance(error, OSError) and error.errno not in _LIMITS:
                raise
            _log.info("%s is not watched, but looked at every %g s: %s", directory, COUNTER_POLL_S, error)
            return False
        self._users[directory] += 1
        return True

    def _begin(self) -> "FileObserver":
        from wool_jupyter.discovery.observing import FileObserver  # 10 ms, which who only owns a namespace saves

        observer = FileObserver(self.ring)
        closer = threading.Thread(target=self._close, args=(observer,), name="wool-watcher", daemon=True)
        try:
            observer.start()
            closer.start()
        except RuntimeError:
            observer.stop()
            raise
        self._observer = observer
        return observer

    def _close(self, observer: "FileObserver") -> None:
        """On the closer's thread: ends what nobody uses any more, at last the observer."""
        while True:
            directory = self._left.get()
            with self._lock:
                if directory is not None:
                    self._users[directory] -= 1
                    if not self._users[directory]:
                        del self._users[directory]
                        observer.leave(self._observed.pop(directory))
                if not self._users:
                    self._observer = None
                    break
        observer.stop()
        observer.join()


def _start_anew() -> None:
    """In a forked child, which has none of these threads."""
    global _switchboard
    _switchboard = _Switchboard()


_switchboard = _Switchboard()
os.register_at_fork(after_in_child=_start_anew)
