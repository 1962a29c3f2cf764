"""One cell on the worker's main thread: from its request to its outcome."""

import contextvars
import io
import itertools
import pickle
import queue
from collections.abc import Callable
from typing import Any

from wool_jupyter.errors import CannotLoad
from wool_jupyter.wire import ambient, buffers, cells, classes, culprits, pickling, standins
from wool_jupyter.worker.cell import changes, outcome, spool
from wool_jupyter.worker.cell.gate import Gate
from wool_jupyter.worker.cell.local_modules import LocalModules
from wool_jupyter.worker.cell.main_module import enter_new_main
from wool_jupyter.worker.cell.shell import CellEnd, ZMQInteractiveShell, make_shell

Emit = Callable[[bytes], object]


class CellRunner:
    """Made on the main thread, once per worker; runs one cell at a time. `answer` may be called from any thread."""

    def __init__(self) -> None:
        self.gate = Gate(self._interrupted)
        self._capture = spool.Capture()
        self._shell: ZMQInteractiveShell = make_shell(self.gate, show=self._show, clear=self._clear, ask=self._ask)
        self._modules = LocalModules()
        self._answers: queue.SimpleQueue[cells.Answer] = queue.SimpleQueue()
        self._emit: Emit = _nobody
        self._request: cells.CellRequest | None = None
        self._spool: spool.Spool | None = None
        self._serial = 0
        self._keys = itertools.count(1)
        self._late = False

    def install(self) -> None:
        """Take over the process's streams and SIGINT."""
        self._capture.install()
        self.gate.install()
        self._shell.builtin_trap.activate()

    def answer(self, answer: cells.Answer) -> None:
        self._answers.put(answer)

    def run(self, request: cells.CellRequest, emit: Emit) -> bytes:
        """Emits events on the way; the last one, an `Outcome` or a `Refused`, is returned."""
        self._request, self._emit, self._late, self._serial = request, emit, False, 0
        self._spool = spool.Spool(request.directory)
        self._capture.begin(self._spool)
        self.gate.open()
        try:
            last = contextvars.Context().run(self._run, request)
        finally:
            self.gate.close()
            self._shell.forget()
            self._emit = _nobody
        return cells.encode(last)

    def _run(self, request: cells.CellRequest) -> cells.Event:
        spool.own(self._current_spool())
        ambient.follow(pickle.loads(request.ambient), ambient.here())
        for key in request.release:
            standins.release(key)
        classes.forget()
        self._modules.cell_begins()
        module = enter_new_main()
        self._shell.enter(request, module)
        changes.register_sources(pickle.loads(request.names.sources), self._shell.compile._filename_map)
        try:
            arrival = self.gate.region(changes.Arrival, request.names)
        except CannotLoad as error:
            return cells.Refused(self._lengths(), str(error))
        except KeyboardInterrupt as error:
            return self._outcome(
                request, changes.Arrival(cells.NO_NAMES), vars(module), dict(vars(module)), CellEnd(error=error)
            )
        namespace = vars(module)
        before = dict(namespace)
        end = self._shell.run(self._body_ended)
        return self._outcome(request, arrival, namespace, before, end)

    def _outcome(
        self,
        request: cells.CellRequest,
        arrival: changes.Arrival,
        namespace: dict[str, Any],
        before: dict[str, Any],
        end: CellEnd,
    ) -> cells.Outcome:
        self._modules.cell_ended()
        reply = outcome.pack(
            arrival, namespace, before, value=end.value, error=end.error, budget_bytes=request.budget_bytes
        )
        bundle = self._pack(self._shell.display_formatter.format(end.value)) if "" in reply.kept else None
        return cells.Outcome(
            at=self._lengths(),
            reply=buffers.pack(reply.stream, reply.buffers, places=request.places, name="reply"),
            deleted=tuple(reply.deleted),
            kept=tuple(self._keep(name, stays) for name, stays in reply.kept.items()),
            ambient=pickle.dumps(ambient.here()),
            payload=pickle.dumps(end.payload),
            bundle=bundle,
        )

    def _keep(self, name: str, stays: outcome.Stays) -> tuple[str, str, str, str]:
        obj, kind = stays.obj, type(stays.obj).__name__
        key = standins.keys_by_id().get(id(obj)) or f"{next(self._keys)}-{name}"
        standins.keep(key, obj)
        if stays.size_bytes:
            return (
                name,
                key,
                kind,
                f"`{name or '_'}` ({kind}) has {stays.size_bytes / 1e6:,.0f} MB, above the budget for results",
            )
        return name, key, kind, f"{culprits.find(obj, name or '_')} can't be shipped"

    def _body_ended(self) -> None:
        self._late = True

    # What the shell shows, from whichever thread.

    def _show(self, data: Any, metadata: Any, transient: Any = None, update: bool = False) -> None:
        content = {"data": data, "metadata": metadata, "transient": transient or {}, "update": update}
        self._emit(cells.encode(cells.Display(self._lengths(), self._pack(content), self._late)))

    def _interrupted(self) -> None:
        """In a signal handler: nothing is flushed, for a flush may be what it interrupts."""
        self._emit(cells.encode(cells.Interrupted(self._current_spool().lengths())))

    def _clear(self, wait: bool) -> None:
        self._emit(cells.encode(cells.Clear(self._lengths(), wait)))

    def _ask(self, prompt: str, password: bool) -> str:
        __tracebackhide__ = True
        while not self._answers.empty():  # to a question that was interrupted
            self._answers.get()
        self._emit(cells.encode(cells.Ask(self._lengths(), prompt, password)))
        answer = self._answers.get()
        if answer.value is None:
            raise pickle.loads(answer.error)
        return answer.value

    def _pack(self, content: Any) -> buffers.Parcel:
        file, out_of_band = io.BytesIO(), buffers.OutOfBand()
        pickling.NotebookPickler(file, out_of_band).dump(content)
        self._serial += 1
        places = self._request.places if self._request is not None else ()
        return buffers.pack(file.getvalue(), out_of_band.buffers, places=places, name=f"shown-{self._serial}")

    def _lengths(self) -> tuple[int, int]:
        self._capture.flush()
        return self._current_spool().lengths()

    def _current_spool(self) -> spool.Spool:
        if self._spool is None:
            raise RuntimeError("no cell has run in this process")
        return self._spool


def _nobody(_event: bytes) -> None:
    """A display from a thread that outlived its cell has no cell to go to."""
