"""What one cell has submitted to the pool: its calls print under it, for as long as they run, and ■ ends them with it.

the cell's thread ─ submitted ─▶ Submissions ◀─ printed, settled ─ calls, on the loop
                                     └─ text ─▶ a Flow for each worker, one Budget ─▶ the cell
"""

import asyncio
import contextvars
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

from wool_jupyter.notebook import screens, terminal, widgets
from wool_jupyter.notebook.flow import Budget, Flow
from wool_jupyter.notebook.left_out import LeftOut
from wool_jupyter.notebook.outputs import TextReader
from wool_jupyter.notebook.places import UnderTheCell
from wool_jupyter.notebook.runtime import Runtime
from wool_jupyter.notebook.source import running_number
from wool_jupyter.notebook.stopped import StoppedWorkers
from wool_jupyter.notebook.streams import Streams
from wool_jupyter.wire import ambient, batches, cells

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_EVERY_S = 0.05
_LAST_LINES_S = 2.0  # reading what is left out of a flood may take half a second


class Submissions:
    """Made on the thread of the cell's first call. Ends when the cell has ended, and all its calls have."""

    def __init__(
        self,
        runtime: Runtime,
        shell: "InteractiveShell | None",
        *,
        output_budget_bytes: int | None,
        interrupt: Callable[["Submissions"], object],
        ended: Callable[[], object],
    ) -> None:
        """`ended` is called once, and nothing is to be submitted after that."""
        self._runtime = runtime
        self._interrupt = interrupt
        self._ended = ended
        self._resources = ExitStack()
        self.places = self._resources.enter_context(runtime.call_directories())
        self.directory = self.places[0]
        self.store = runtime.store
        self._screen = _Under(shell)
        self._budget = _budget(runtime, shell, output_budget_bytes)
        self._flows: dict[UUID, Flow] = {}
        self._go_on: set[UUID] = set()
        self._state: tuple[tuple[object, ...], ambient.State] | None = None
        self._lock = threading.Lock()
        self._unfinished: set[object] = set()
        self._cell_runs = True  # without a shell, as long as the process
        self._is_over = False
        self._watched = False
        if shell is not None:
            self._follow_cell(shell)

    # On threads that submit.

    def ambient(self) -> ambient.State:
        seen = ambient.key_of_calls()
        known = self._state
        if known is not None and known[0] == seen:
            return known[1]
        state = ambient.of_calls()
        if known is not None and known[1] == state:
            state = known[1]  # calls of one and the same go together
        if ambient.key_of_calls() == seen:  # else another thread changes it
            self._state = seen, state
        return state

    def submitted(self, call: object) -> None:
        with self._lock:
            self._unfinished.add(call)

    def _follow_cell(self, shell: "InteractiveShell") -> None:
        pressed = _Pressed(lambda: self._interrupt(self))

        def cell_ended(result: Any = None) -> None:
            with suppress(ValueError):
                shell.events.unregister("post_run_cell", cell_ended)
            pressed.leave()
            error = getattr(result, "error_in_exec", None)
            if isinstance(error, KeyboardInterrupt):
                self._interrupt(self)
            with self._lock:
                self._cell_runs = False
            # Whether all calls are over is known on the loop: the last one may be settled just now. The last lines of a flood are
            # the cell's, too, and who runs it may listen no longer.
            with suppress(TimeoutError):
                self._runtime.bridge.call(self._end_if_over).result(_LAST_LINES_S)

        shell.events.register("post_run_cell", cell_ended)

    # On the loop.

    def ready(self, worker: UUID) -> None:
        """It may be so late that all calls have ended: then nothing is printed there, and the directory is gone."""
        if self._is_over:
            return
        if worker not in self._flows:
            directory = batches.text_directory(self.directory, str(worker))
            os.makedirs(directory, mode=0o700, exist_ok=True)  # noqa: PTH103
            self._flows[worker] = Flow(TextReader(directory), self._budget)
        self._begin_watch()

    def queued(self) -> None:
        if not self._is_over:
            self._begin_watch()

    def _begin_watch(self) -> None:
        if not self._watched:
            self._watched = True
            self._runtime.bridge.start(self._watch(), "text of calls")

    async def _watch(self) -> None:
        stopped = StoppedWorkers()
        try:
            while self._unfinished or (self._cell_runs and not self._go_on.isdisjoint(self._runtime.alive())):
                await asyncio.sleep(_EVERY_S)
                for flow in list(self._flows.values()):
                    self._screen.text(flow.due())
                for text in stopped.look(self._workers) if self._unfinished else ():
                    self.notice(text)
        finally:
            self._watched = False

    def _workers(self) -> list[int]:
        """That have calls of this cell, or had some and are busy. All, where none of them does."""
        pool = self._runtime.running
        workers = [] if pool is None else pool.crew.snapshot()
        own = [worker.pid for worker in workers if worker.busy and worker.uid in self._flows]
        return own or [worker.pid for worker in workers]

    def printed(self, worker: UUID, shown: tuple[bytes, ...], *, goes_on: bool, is_idle: bool) -> None:
        if self._is_over:  # it reports that it gives all calls back
            return
        flow = self._flows[worker]
        for event in map(cells.decode_event, shown):
            if isinstance(event, cells.InPlace):
                flow.came()
            self._screen.text(flow.ready(event.at))
            if isinstance(event, cells.Shown):
                screens.show(event, flow, self._screen)
        self._screen.text(flow.lull() if is_idle else flow.ready())
        (self._go_on.add if goes_on else self._go_on.discard)(worker)

    def lost(self, worker: UUID) -> None:
        self._go_on.discard(worker)
        flow = self._flows.pop(worker, None)
        if flow is not None:
            screens.show_rest(flow, self._screen)
            flow.close()

    def notice(self, text: str) -> None:
        self._screen.text([screens.notice(text)])

    def settled(self, call: object) -> None:
        with self._lock:
            self._unfinished.discard(call)
            over = not (self._unfinished or self._cell_runs)
        if over:
            self._runtime.bridge.post(self._end_if_over)

    def _end_if_over(self) -> None:
        with self._lock:
            if self._unfinished or self._cell_runs or self._is_over:
                return
            self._is_over = True
        self._ended()
        for worker, flow in self._flows.items():
            screens.show_rest(flow, self._screen)
            if worker in self._go_on:
                self._runtime.follow(flow, worker, lambda name, text: self._screen.text([(name, text)]))
            else:
                flow.close()
        self._flows.clear()
        self._resources.close()


def _budget(runtime: Runtime, shell: "InteractiveShell | None", most_bytes: int | None) -> Budget:
    if shell is None:  # a program: its output is not kept in a notebook
        return Budget(None, cell=0, shelve=LeftOut)
    number = running_number(shell)
    return Budget(most_bytes, cell=number, shelve=partial(runtime.left_out.of, number, run=terminal.message(shell)))


class _Pressed:
    """■ in a cell that has submitted calls: they hear of it at once, and then it takes its way. Only the main thread has one."""

    def __init__(self, pressed: Callable[[], object]) -> None:
        self._pressed = pressed
        self._before: Any = None
        before = signal.getsignal(signal.SIGINT)
        if threading.current_thread() is threading.main_thread() and callable(before):
            self._before = before
            signal.signal(signal.SIGINT, self._press)

    def _press(self, number: int, frame: Any) -> None:
        __tracebackhide__ = True
        self._pressed()
        self._before(number, frame)

    def leave(self) -> None:
        if self._before is not None and signal.getsignal(signal.SIGINT) == self._press:
            signal.signal(signal.SIGINT, self._before)


class _Under:
    """A `Screen`: under the cell in which it was made, and through the streams that the cell had then (`%%capture`)."""

    def __init__(self, shell: "InteractiveShell | None") -> None:
        self._streams = {"stdout": sys.stdout, "stderr": sys.stderr}
        self._text = Streams(self._streams.__getitem__)
        kernel = getattr(shell, "kernel", None)
        self._place = None if shell is None or kernel is None else UnderTheCell(shell, kernel)
        self._context = contextvars.Context()
        for stream in self._streams.values():
            if self._place is not None and hasattr(stream, "set_thread_parent"):  # ipykernel's, from 7 on
                self._context.run(stream.set_thread_parent, self._place.parent)

    def text(self, parts: Iterable[screens.Text]) -> None:
        self._context.run(self._text.write, parts)

    def fail(self, event: cells.Failure) -> None:
        self.text([screens.traceback_of(event)])

    def clear(self, *, wait: bool) -> None:
        if self._place is not None:
            self._flush()
            self._place.clear(wait=wait)

    def say(self, kind: str, comm: str, content: dict[str, Any]) -> None:
        if self._place is not None:
            self._flush()
            self._context.run(widgets.say, kind, comm, content)

    def display(self, content: dict[str, Any]) -> None:
        if self._place is None:
            self.text([("stdout", content["data"].get("text/plain", "") + "\n")])
        else:
            self._flush()
            self._place.display(content)

    def display_late(self, content: dict[str, Any]) -> None:
        """Calls have no end that it could come after."""
        self.display(content)

    def _flush(self) -> None:
        for stream in self._streams.values():  # the cell may have printed, too
            self._context.run(stream.flush)
