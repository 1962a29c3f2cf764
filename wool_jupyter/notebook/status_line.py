"""One line of text under a cell that runs long: where it runs, for how long, and what it uses. Only where the user wants it."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING
from uuid import uuid4

from wool_jupyter.notebook.feed import LOOKED_S, door
from wool_jupyter.notebook.snapshot import Snapshot
from wool_jupyter.pool.events import About
from wool_jupyter.quantities import size, span

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

AFTER_S = 5.0
EVERY_S = 0.5


class StatusLine:
    """On the kernel's main thread, while the cell runs. `close` empties it: an output that was shown can't be taken away."""

    def __init__(
        self, shell: "InteractiveShell", about: About, *, wanted: bool, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._shell = shell
        self._about = about
        self._clock = clock
        self._next = clock() + AFTER_S if wanted else float("inf")
        self._look_again = 0.0
        self._display_id = f"wool-{uuid4()}"
        self._shown = ""

    def tick(self) -> None:
        """To be called again and again."""
        now = self._clock()
        if now < self._next:
            return
        self._next = now + EVERY_S
        if now >= self._look_again:
            self._look_again = now + LOOKED_S / 3
            door().looked(deaf=False)
        self._show(_words(door().glance(), self._about))

    def _show(self, text: str) -> None:
        if text == self._shown:
            return
        self._shell.display_pub.publish(
            {"text/plain": text}, {}, transient={"display_id": self._display_id}, update=bool(self._shown)
        )
        self._shown = text

    def close(self) -> None:
        """Idempotent."""
        self._next = float("inf")
        if self._shown:
            self._show("")


def _words(snapshot: Snapshot, about: About) -> str:
    for worker in snapshot.workers:
        running = worker.running
        if running is not None and (running.label, running.cell) == (about.label, about.cell):
            used = "" if worker.cpu is None else f", {worker.cpu:.0%} CPU"
            memory = "" if worker.rss is None else f", {size(worker.rss)}"
            since = span(snapshot.time - running.since)
            return f"wool: worker {worker.name} (pid {worker.pid}) at work for {since}{used}{memory}"
    return f"wool: {about.label} waits for a free worker"
