"""The workers as processes: start, read their report, signal, kill, reap."""

import contextlib
import fcntl
import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

from wool_jupyter import host

_THEIR_FD = 3  # where a worker writes its report: one line of JSON
_REPORT_MAX_BYTES = 1 << 20
_RSS_UNIT_BYTES = 1 if sys.platform == "darwin" else 1024
_LOG_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW


class _Child:
    __slots__ = ("pid", "ready_fd", "received", "uid")

    def __init__(self, uid: str, pid: int, ready_fd: int) -> None:
        self.uid = uid
        self.pid = pid
        self.ready_fd: int | None = ready_fd
        self.received = b""


class Children:
    """For a process with one thread.

    A pid is signalled only while its process is not reaped, so it can't be another's, nor can its group's number.
    """

    def __init__(self) -> None:
        self._by_uid: dict[str, _Child] = {}

    def __bool__(self) -> bool:
        return bool(self._by_uid)

    def start(self, uid: str, make: Callable[[int], int]) -> int:
        """The pid. `make` gets the descriptor of the report and returns a child that leads a session of its own; OSError or
        ValueError if it can't."""
        if uid in self._by_uid:
            raise ValueError(f"{uid} runs already")
        ready_fd, theirs = os.pipe()
        try:
            os.set_blocking(ready_fd, False)
            pid = make(theirs)
        except BaseException:
            os.close(ready_fd)
            raise
        finally:
            os.close(theirs)
        self._by_uid[uid] = _Child(uid, pid, ready_fd)
        return pid

    def ready_fd(self, uid: str) -> int | None:
        """None once the report is complete, or never will be."""
        child = self._by_uid.get(uid)
        return None if child is None else child.ready_fd

    def read_report(self, uid: str) -> bytes | None:
        """The report's line, once, when its last byte has come. Never blocks."""
        child = self._by_uid.get(uid)
        if child is None or child.ready_fd is None:
            return None
        try:
            while block := os.read(child.ready_fd, 1 << 16):
                child.received += block
                line, newline, _ = child.received.partition(b"\n")
                if newline or len(line) > _REPORT_MAX_BYTES:
                    _close_ready(child)
                    return line
        except BlockingIOError:
            return None
        _close_ready(child)
        return None

    def signal(self, uid: str, number: int) -> bool:
        """To the worker's group: Jupyter interrupts a kernel's children, too. False if the worker has ended."""
        child = self._by_uid.get(uid)
        if child is None or host.has_ended(child.pid):
            return False
        os.killpg(child.pid, number)
        return True

    def kill(self, uid: str) -> None:
        """The worker and its children; `reap` tells when it is gone."""
        if child := self._by_uid.get(uid):
            _kill_group(child.pid)

    def kill_all(self) -> None:
        for child in self._by_uid.values():
            _kill_group(child.pid)

    @property
    def pids(self) -> set[int]:
        return {child.pid for child in self._by_uid.values()}

    def ended(self) -> list[str]:
        """Workers to reap. Their last report can still be read."""
        return [child.uid for child in self._by_uid.values() if host.has_ended(child.pid)]

    def reap(self, uid: str) -> dict[str, Any] | None:
        """Exit code or signal, and peak memory, of one that has ended; kills those of its children that survived it."""
        child = self._by_uid[uid]
        _kill_group(child.pid)
        pid, status, usage = os.wait4(child.pid, os.WNOHANG)
        if pid == 0:
            return None
        _close_ready(child)
        del self._by_uid[uid]
        code = os.waitstatus_to_exitcode(status)
        # The kernel counts the nursery's own few MiB from before exec into the peak.
        peak_rss_bytes = usage.ru_maxrss * _RSS_UNIT_BYTES
        outcome = {"code": code, "signal": None} if code >= 0 else {"code": None, "signal": -code}
        return {**outcome, "peak_rss_bytes": peak_rss_bytes}


def spawn(command: list[str], environment: dict[str, str], *, log: str, fd: int, directory: str = "/") -> int:
    """The pid of a process that leads a session of its own, and has `fd` as its descriptor 3. For a process with one thread:
    it changes its working directory meanwhile. OSError or ValueError if it can't be started."""
    with _moved_above(fd) as source:
        try:
            os.chdir(directory)
            return os.posix_spawn(
                command[0],
                command,
                environment,
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 1, log, _LOG_FLAGS, 0o600),
                    (os.POSIX_SPAWN_DUP2, 1, 2),
                    (os.POSIX_SPAWN_DUP2, source, _THEIR_FD),
                ],
                setsid=True,
                setsigmask=[],
                setsigdef=signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP},
            )
        finally:
            os.chdir("/")


@contextlib.contextmanager
def _moved_above(fd: int) -> Iterator[int]:
    """A copy that is not itself that descriptor: a dup2 to the same number keeps close-on-exec with older C libraries."""
    copy = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _THEIR_FD + 1)
    try:
        yield copy
    finally:
        os.close(copy)


def _kill_group(pid: int) -> None:
    # macOS: a group of zombies only is "not permitted".
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _close_ready(child: _Child) -> None:
    if child.ready_fd is not None:
        os.close(child.ready_fd)
        child.ready_fd = None
