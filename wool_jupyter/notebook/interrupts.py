"""■ while a cell runs: counted instead of raised, and passed on to the worker.

first ■    SIGINT to the worker, which says when the cell has it
not had for 10 s (a C call that does not return): the worker is ended
second ■   says where the cell stands
third ■    kills the worker
"""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Protocol

from wool_jupyter.settings import INTERRUPT_GRACE_S, INTERRUPT_NOTICE_S


class Target(Protocol):
    """What can be done to the running cell. Each returns once it is done, so that nothing is left to hit the next cell."""

    def interrupt(self) -> None: ...
    def ignores_interrupts(self) -> bool: ...
    def is_stopped(self) -> bool: ...
    def end(self) -> None: ...
    def kill(self) -> None: ...


class Interrupts:
    """Entered on the thread that waits for the cell. Only the main thread has a ■; elsewhere there is none to count."""

    def __init__(self) -> None:
        self._presses = 0
        self._passed_on = 0
        self._first_s = 0.0  # time.monotonic()
        self._before: Any = None
        self._delivered = self._told = False
        self.ended = False  # the worker was ended because of it

    def __enter__(self) -> None:
        if on_main_thread():
            self._before = signal.signal(signal.SIGINT, self._count)

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _count(self, _signum: int, _frame: FrameType | None) -> None:
        self.press()

    def press(self) -> None:
        """As ■ does; on any thread."""
        self._presses += 1

    @property
    def pressed(self) -> bool:
        return self._presses > 0

    def saw(self, *, delivered: bool) -> None:
        """The worker says that the signal has come. The cell does not have it yet while its inputs or results are on their way."""
        self._delivered = self._delivered or delivered

    @property
    def unsent(self) -> bool:
        """■ was pressed when there was nothing left to interrupt."""
        return self._passed_on < self._presses

    def pass_on(self, target: Target) -> Iterator[str]:
        """To be called again and again while the cell runs. Yields what to tell the user."""
        while self._passed_on < self._presses and not self.ended:
            self._passed_on += 1
            if self._passed_on == 1:
                self._first_s = time.monotonic()
                target.interrupt()
            elif self._passed_on == 2:
                self._told = True
                yield self._standing(target)
            else:
                self.ended = True
                target.kill()
        if not self._passed_on or self._delivered or self.ended or self._waited_s() <= INTERRUPT_NOTICE_S:
            return
        if target.ignores_interrupts():  # by its own will: it works on, as in a kernel
            self._delivered = True
            return
        if self._waited_s() > INTERRUPT_GRACE_S:
            self.ended = True
            why = "its worker is stopped" if target.is_stopped() else "it is in a call that does not return"
            yield f"the interrupt has not reached the cell in {INTERRUPT_GRACE_S:.0f} s: {why}"
            target.end()
        elif not self._told:
            self._told = True
            yield self._standing(target)

    def _waited_s(self) -> float:
        return time.monotonic() - self._first_s

    def _standing(self, target: Target) -> str:
        waited_s = self._waited_s()
        if self._delivered:
            return f"the cell was interrupted {waited_s:.0f} s ago and works on; ■ once more ends its worker"
        left_s = max(0.0, INTERRUPT_GRACE_S - waited_s)
        why = "whose worker is stopped" if target.is_stopped() else "which is in a call that has not returned"
        return (
            f"the interrupt of {waited_s:.0f} s ago has not reached the cell, {why}; "
            f"its worker is ended in {left_s:.0f} s, or at the next ■"
        )

    @contextmanager
    def as_usual(self) -> Iterator[None]:
        """■ raises KeyboardInterrupt, for a question that this thread asks itself."""
        counting = signal.signal(signal.SIGINT, signal.default_int_handler) if self._before is not None else None
        try:
            yield
        finally:
            if counting is not None:
                signal.signal(signal.SIGINT, counting)


def on_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
