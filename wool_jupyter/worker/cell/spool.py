"""The text of a cell: append-only files that outlive any death of this process.

    print ──▶ CellStream ──▶ the owner's Spool ──┬─▶ out, err      the text
    os.write(1), C, children ──▶ descriptors 1, 2┘   order         marks: lengths of both, and which stream goes on

A mark is written before a Python-level write that switches streams, and before one that finds the other stream longer than the
last mark says (somebody wrote below Python). Between two marks the stream that the first one names comes first. Another is written
with each event that has its place in the text, for text and events reach the reader by different ways.
"""

import contextvars
import ctypes
import errno
import io
import itertools
import os
import signal
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from wool_jupyter.wire import pickling
from wool_jupyter.wire.text import ERR, EVENT, MARK, NAMES, ORDER, OUT, PAIR

_owner: "contextvars.ContextVar[Spool | None]" = contextvars.ContextVar("wool_spool", default=None)
_serving: set[threading.Thread] = set()
_SIGNALS = signal.valid_signals()
_HELD_MAX = 1_000  # an animation goes on for ever
_WRITE_FLAGS = os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_CLOEXEC


class Spool:
    """Where the output of one cell goes: text into files, which are closed when the last thread of the cell lets go of it; the rest
    to `emit`, until `end`. After `hold` it waits for `release`: marks of what nobody fetches would hold back the text after it."""

    def __init__(self, directory: str, emit: Callable[[bytes], object] = lambda _: None) -> None:
        self.emit = emit
        self._directory = directory
        self.body_ended = False
        self._serials = itertools.count(1)
        self._fds = [os.open(f"{directory}/{name}", _WRITE_FLAGS, 0o600) for name in (*NAMES, ORDER)]
        self._files = [os.fstat(fd) for fd in self._fds]
        weakref.finalize(self, _close, self._fds).atexit = False
        self._marked: PAIR = (0, 0)
        self._goes_on = OUT
        self._has_ended = self._holds = False
        self._held: deque[Callable[[PAIR], bytes]] = deque(maxlen=_HELD_MAX)
        self.lock = threading.RLock()  # re-entrant: a signal handler may print while a print is under way

    def event(self, encoded: Callable[[PAIR], bytes]) -> None:
        """Sent, and its place marked, in one order; a signal waits until both is done. `encoded` gets the lengths. Lost after the
        end: a display of a thread that outlives its cell has no cell to go to."""
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            with self.lock:
                if self._holds:
                    self._held.append(encoded)
                elif not self._has_ended:
                    at = self.lengths()
                    data = encoded(at)
                    self._mark(*at, self._goes_on + EVENT)
                    self.emit(data)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def hold(self) -> None:
        """Nobody listens for a while."""
        with self.lock:
            self._holds = True

    def release(self, emit: Callable[[bytes], object]) -> None:
        """Somebody listens from now on, and hears first what was held."""
        with self.lock:
            self.emit, self._holds = emit, False
            while self._held:
                self.event(self._held.popleft())

    def end(self) -> None:
        with self.lock:
            self._has_ended = True
            self.emit = lambda _: None

    def has_threads(self) -> bool:
        """Beside the main thread."""
        return any(getattr(thread, "_wool_spool", None) is self for thread in threading.enumerate())

    def next_name(self) -> str:
        """Of a file beside an event."""
        return f"shown-{next(self._serials)}"

    def descriptor(self, stream: int) -> int:
        return self._fds[stream]

    def is_at(self, stream: int) -> bool:
        """The process's descriptor leads here, and nobody has led it elsewhere."""
        try:
            return os.path.samestat(os.fstat(stream + 1), self._files[stream])
        except OSError:
            return False

    def write(self, stream: int, text: str) -> None:
        data = memoryview(text.encode(errors="backslashreplace"))
        with self.lock:
            other = 1 - stream
            if self._goes_on != stream or os.lseek(self._fds[other], 0, os.SEEK_END) != self._marked[other]:
                self._marked = self.lengths()
                self._goes_on = stream
                self._mark(*self._marked, stream)
            try:
                while data:
                    data = data[os.write(self._fds[stream], data) :]
            except OSError as error:
                raise self._in_words(error) from None

    def _mark(self, out: int, err: int, what: int) -> None:
        try:
            os.write(self._fds[2], MARK.pack(out, err, what))
        except OSError as error:
            raise self._in_words(error) from None

    def _in_words(self, error: OSError) -> OSError:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            return error
        return OSError(
            error.errno,
            f"{error.strerror}: a cell's output waits in {self._directory} until the notebook has it, and there is no room there. "
            "Free some, or print less",
        )

    def lengths(self) -> PAIR:
        return os.lseek(self._fds[OUT], 0, os.SEEK_END), os.lseek(self._fds[ERR], 0, os.SEEK_END)


def _close(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)


class CellStream(io.TextIOBase):
    """`sys.stdout` or `sys.stderr` for the worker's whole life; the owner is looked up at every write, so that a handler made in
    one cell prints under the cell that uses it."""

    def __init__(self, capture: "Capture", stream: int) -> None:
        self._capture, self._stream = capture, stream
        self.name = NAMES[stream]  # as ipykernel's

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "UTF-8"

    def write(self, text: str, /) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text)}")
        owner = self._capture.owner()
        if owner is None:
            os.write(self.fileno(), text.encode(errors="backslashreplace"))  # the worker's log
        else:
            owner.write(self._stream, text)
        return len(text)

    def fileno(self) -> int:
        return self._stream + 1

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._capture.is_terminal

    def close(self) -> None:
        """Not closed: the next cell prints through it too."""

    def __wool_reduce__(self) -> Any:
        return pickling.standard_stream(self) or NotImplemented


class Capture:
    """Leads everything that this process prints into the spool of the cell that it belongs to."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None)
        self.running: Spool | None = None
        self.is_terminal = False  # where it is shown
        self.stdout, self.stderr = CellStream(self, OUT), CellStream(self, ERR)

    def install(self) -> None:
        """Once per process. `sys.__stdout__` stays what it is: a writer on descriptor 1."""
        for stream in (sys.__stdout__, sys.__stderr__):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(line_buffering=True, errors="backslashreplace")
        sys.stdout, sys.stderr = self.stdout, self.stderr
        _inherit_owner(self.owner)
        os.register_at_fork(after_in_child=self._after_fork)

    def take_streams(self) -> str:
        """Back from whoever has replaced them; says which it were."""
        mine = {"sys.stdout": self.stdout, "sys.stderr": self.stderr}
        found = {"sys.stdout": sys.stdout, "sys.stderr": sys.stderr}
        sys.stdout, sys.stderr = self.stdout, self.stderr
        return " and ".join(f"`{name}`" for name, stream in found.items() if stream is not mine[name])

    def owner(self) -> Spool | None:
        """The caller's cell: its context's, else its thread's, else the running one; None before the first."""
        return _owner.get() or getattr(threading.current_thread(), "_wool_spool", None) or self.running

    def begin(self, spool: Spool) -> None:
        """Text of the cell before that is still in C's or Python's buffers goes to that cell."""
        if spool is self.running and all(spool.is_at(stream) for stream in (OUT, ERR)):
            return  # further calls of one submitter: what came before was flushed
        self.flush()
        for stream in (OUT, ERR):
            os.dup2(spool.descriptor(stream), stream + 1)
        self.running = spool

    def flush(self) -> None:
        for stream in (sys.__stdout__, sys.__stderr__):
            if stream is not None and not stream.closed:
                stream.flush()
        self._libc.fflush(None)  # printf in C code: fully buffered on a file

    def _after_fork(self) -> None:
        """Another thread of the parent may have held the lock."""
        if self.running is not None:
            self.running.lock = threading.RLock()


def serve() -> None:
    """Call on a thread of the worker's own: what it starts (gRPC has a thread) belongs to no cell, though one may run."""
    _serving.add(threading.current_thread())


def own(spool: Spool) -> None:
    """Call in the cell's own context."""
    _owner.set(spool)


def _inherit_owner(owner: Callable[[], Spool | None]) -> None:
    """A thread belongs to the cell that started it, a pool's job to the cell that submitted it. Threads do not inherit contexts
    before Python 3.14."""
    start, submit = threading.Thread.start, ThreadPoolExecutor.submit

    def start_owned(self: threading.Thread) -> None:
        if threading.current_thread() not in _serving:
            self._wool_spool = owner()  # type: ignore[attr-defined]
        start(self)

    def submit_owned(self: ThreadPoolExecutor, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        return submit(self, _run_as, owner(), fn, args, kwargs)

    threading.Thread.start = start_owned  # type: ignore[method-assign]
    ThreadPoolExecutor.submit = submit_owned  # type: ignore[method-assign, assignment]


def _run_as(spool: Spool | None, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    token = _owner.set(spool)
    try:
        return fn(*args, **kwargs)
    finally:
        _owner.reset(token)
