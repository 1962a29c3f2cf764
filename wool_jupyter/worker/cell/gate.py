"""Interrupts that hit a cell, and only where an exception is safe.

SIGINT comes from the process that owns the worker. Inside a *region* (user code, loading its inputs) the handler raises
KeyboardInterrupt; between regions of a running cell, and while its inputs import a module, it leaves a mark that the next region
picks up; with no cell running it does nothing.
"""

import asyncio
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")


class Gate:
    """Main thread only, but for `watch`."""

    def __init__(self, seen: Callable[[bool], object] = lambda _: None) -> None:
        """`seen` is told of each signal that comes while a cell runs, in its handler, and whether the cell has it."""
        self._seen = seen
        self._handler = _Handler(self._on_sigint)
        self._open = False
        self.pending = False  # came where no exception is safe; the next region has it
        self._depth = 0
        self._loading = False
        self._waker: socket.socket | None = None  # gets a byte for each signal
        self._cancel: Callable[[], object] | None = None
        self.cancelled = False  # the cell's task was cancelled: its CancelledError is a KeyboardInterrupt

    def install(self) -> None:
        signal.signal(signal.SIGINT, self._handler)
        if self._waker is not None:
            signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Called once, on the thread of `loop`. It sees, from the next `open` on, the signals that go to a handler of the cell's
        own, such as a training loop's that saves and stops: what that makes of them is its business."""
        wakes, waker = socket.socketpair()
        wakes.setblocking(False)
        waker.setblocking(False)
        loop.add_reader(wakes, self._look, wakes)
        self._waker = waker

    def _look(self, wakes: socket.socket) -> None:
        came = signal.SIGINT in wakes.recv(1 << 12)
        if came and self._open and signal.getsignal(signal.SIGINT) is not self._handler:
            self._seen(True)

    def open(self) -> None:
        """A handler or a mask of a cell lasts as long as the cell, as in a kernel."""
        self.install()
        self.pending = self.cancelled = False
        self._loading = False
        self._depth = 0  # an interrupt may have hit `region` between its first two lines
        self._open = True

    def close(self) -> None:
        self._open = False

    def region(self, function: Callable[..., T], *args: Any) -> T:
        __tracebackhide__ = True
        self._depth += 1
        try:
            if self.pending:
                self.pending = False
                self._seen(True)
                raise KeyboardInterrupt
            return function(*args)
        finally:
            self._depth -= 1

    def loading(self, function: Callable[..., T], *args: Any) -> T:
        """A region in which an import is finished first: half a module would stay for every later cell."""
        self._loading = True
        try:
            return self.region(function, *args)
        finally:
            self._loading = False

    def waits_in(self, cancel: Callable[[], object] | None) -> None:
        """How to interrupt a region that waits in an event loop; None: none does."""
        self._cancel = cancel

    @contextmanager
    def waits_in_none(self) -> Iterator[None]:
        """The loop that the region waits in stands still: what runs instead is interrupted as any code."""
        cancel, self._cancel = self._cancel, None
        try:
            yield
        finally:
            self._cancel = cancel

    def _on_sigint(self, _signum: int, frame: Any) -> None:
        if not self._open:
            return
        safe = self._depth > 0 and not (self._loading and _imports(frame))
        self._seen(safe)
        if not safe:
            self.pending = True
        elif self._cancel is not None and not self.cancelled and not _in_cell(frame):
            self.cancelled = True
            self._cancel()
        else:
            raise KeyboardInterrupt


class _Handler:
    """What a cell gets for the handler that it replaces. In the kernel that is Python's own, and so it arrives there."""

    def __init__(self, handle: Callable[[int, Any], None]) -> None:
        self._handle = handle

    def __call__(self, number: int, frame: Any) -> None:
        self._handle(number, frame)

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (signal, "default_int_handler")


def _inside(frame: Any) -> Iterator[Any]:
    """The frames of the region that was interrupted. Above it stands the worker's own entry point, a `__main__`, too."""
    while frame is not None and frame.f_code is not Gate.region.__code__:
        yield frame
        frame = frame.f_back


def _in_cell(frame: Any) -> bool:
    return any(inner.f_globals.get("__name__") == "__main__" for inner in _inside(frame))


def _imports(frame: Any) -> bool:
    return any(inner.f_code.co_filename == "<frozen importlib._bootstrap>" for inner in _inside(frame))
