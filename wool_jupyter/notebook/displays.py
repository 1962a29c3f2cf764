"""Whoever shows snapshots, on a thread of its own: however slow a display is, nobody waits for it."""

import sys
import threading
import traceback
from collections.abc import Callable
from typing import TypeAlias

from wool_jupyter.notebook.snapshot import Snapshot

Display: TypeAlias = Callable[[Snapshot], object]


class Displays:
    """A display gets the latest snapshot that there is when it has shown the one before; those between are left out, which loses
    nothing, for each is whole. One that fails is let go, and says why on the process's own stderr."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._attached: tuple[Display, ...] = ()
        self._next: Snapshot | None = None
        self._thread: threading.Thread | None = None

    @property
    def any(self) -> bool:
        return bool(self._attached)

    def attach(self, display: Display) -> None:
        """From any thread, idempotent. It is called on the displays' thread from the next snapshot on."""
        with self._changed:
            if display not in self._attached:
                self._attached = (*self._attached, display)
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="wool displays", daemon=True)
                self._thread.start()

    def detach(self, display: Display) -> None:
        """From any thread; one that is not attached is fine. It may be called once more if that is under way."""
        with self._changed:
            self._attached = tuple(each for each in self._attached if each != display)

    def show(self, snapshot: Snapshot) -> None:
        """Returns at once."""
        with self._changed:
            self._next = snapshot
            self._changed.notify()

    def _serve(self) -> None:
        while True:
            with self._changed:
                while self._next is None:
                    self._changed.wait()
                snapshot, self._next = self._next, None
                attached = self._attached
            for display in attached:
                try:
                    display(snapshot)
                except Exception:  # noqa: BLE001 (it may be anybody's code: an observer of the widget)
                    self.detach(display)
                    traceback.print_exc(file=sys.__stderr__)
