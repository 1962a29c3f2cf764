"""One cell on the worker's main thread: from its request to its outcome."""

import contextvars
import io
import pickle
import queue
import sys
import uuid
from collections.abc import Callable
from typing import Any

from IPython.core.error import StdinNotImplementedError

from wool_jupyter import host
from wool_jupyter.errors import CannotLoad, in_words
from wool_jupyter.quantities import size
from wool_jupyter.wire import ambient, buffers, cells, classes, culprits, pickling, standins
from wool_jupyter.wire.unhindered import unhindered
from wool_jupyter.worker.cell import changes, outcome
from wool_jupyter.worker.cell.gate import Gate
from wool_jupyter.worker.cell.local_modules import LocalModules
from wool_jupyter.worker.cell.main_module import enter_new_main, leave_main
from wool_jupyter.worker.cell.shell import CellEnd, ZMQInteractiveShell, make_shell
from wool_jupyter.worker.cell.spool import Capture, Spool, own
from wool_jupyter.worker.cell.widgets import VIEW, Widgets

_LOOKS_FROM_S = 0.001  # that a call takes: to look takes up to half of that
_WORDS_MAX = 100_000  # characters of an exception that the kernel can't load, which then is only these


class CellRunner:
    """Made on the main thread, once per worker; runs one cell at a time. `answer` may be called from any thread."""

    def __init__(self) -> None:
        self.gate = Gate(self._interrupted)
        self.capture = Capture()
        self._shell: ZMQInteractiveShell = make_shell(
            self.gate, show=self._show, clear=self._clear, ask=self._ask, fail=self._fail
        )
        self._widgets = Widgets(self._carry)
        self._noticed: set[str] = set()  # by this cell
        self._answers: queue.SimpleQueue[cells.Answer] = queue.SimpleQueue()
        self._places: tuple[str, ...] = ()
        self._is_cell = False  # that has the main thread
        # As it was after the last cell, and when the body of this one began; None once a call has run.
        self._ambient: ambient.State | None = None
        self._surrounds: tuple[ambient.State, ambient.Glance] | None = None  # the last call
        self._looks = False  # at all of it, before the next one

    def install(self) -> None:
        """Take over the process's streams and SIGINT."""
        self.capture.install()
        self._widgets.install()
        self.gate.install()
        self._shell.builtin_trap.activate()
        self._modules = LocalModules()  # at last: none of what this process has imported for itself is the user's

    def answer(self, answer: cells.Answer) -> None:
        self._answers.put(answer)

    def surround_calls(self, wanted: ambient.State) -> None:
        """The process becomes as `wanted`, for what runs between two cells: the next one undoes what that changes, and tells the
        kernel nothing of it."""
        if self._ambient is None and not self._looks and self._surrounds == (wanted, ambient.glance()):
            ambient.follow_in_context(wanted)
            return
        before, self._ambient, self._looks = self._ambient, None, False
        ambient.follow(wanted, ambient.here() if before is None else before)
        if before is not None or self._surrounds is None:
            ambient.draw_other_numbers()  # two workers may have the kernel's
        self._surrounds = wanted, ambient.glance()

    def call_ended(self, took_s: float) -> None:
        """One that took its time may have changed what a glance misses: the next one looks at all that surrounds it."""
        self._looks = self._looks or took_s >= _LOOKS_FROM_S

    def show_figures(self) -> None:
        """Those that were left open."""
        self.gate.region(self._shell.events.trigger, "post_execute")

    def run(self, request: cells.CellRequest, emit: Callable[[bytes], object]) -> bytes:
        """Emits events on the way; the last one, an `Outcome` or a `Refused`, is returned."""
        spool = Spool(request.directory, emit)
        self._places = request.places
        self._is_cell = True
        self.capture.begin(spool)
        self.capture.is_terminal = request.terminal is not None
        self._widgets.message = request.message
        self._noticed.clear()
        self.gate.open()
        try:
            last = contextvars.Context().run(self._run, request, spool)
        finally:
            self.gate.close()
            self.capture.take_streams()
            self._is_cell = False
            self._shell.forget()
            if not spool.has_threads():
                self._shell.leave(leave_main())
            spool.end()
        return cells.encode(last)

    def _run(self, request: cells.CellRequest, spool: Spool) -> cells.Event:
        own(spool)
        for key in request.release:
            standins.release(key)
        classes.forget()
        module = enter_new_main()
        namespace = vars(module)
        self._shell.enter(request, module)
        changes.register_sources(pickle.loads(request.names.sources), self._shell.compile._filename_map)
        try:
            arrival = self.gate.loading(self._arrive, request)
        except (CannotLoad, OSError) as error:
            return cells.Refused(self._lengths(spool), str(error), getattr(error, "name", ""))
        except KeyboardInterrupt as error:
            nothing = changes.Arrival(cells.NO_NAMES)
            return self._outcome(request, spool, arrival=nothing, before=dict(namespace), end=CellEnd(error=error))
        before = dict(namespace)
        tracers = sys.gettrace(), sys.getprofile()
        end = self._shell.run(lambda: setattr(spool, "body_ended", True))
        # One that the cell left on would run while its own data is pickled.
        sys.settrace(tracers[0])
        sys.setprofile(tracers[1])
        if replaced := self.capture.take_streams():
            self._notice(f"{replaced} is put back at the end of the cell, which has left another in its place")
        return self._outcome(request, spool, arrival=arrival, before=before, end=end)

    def _arrive(self, request: cells.CellRequest) -> changes.Arrival:
        before = self._ambient if self._ambient is not None else ambient.here()
        failed = ambient.follow(request.ambient, before, libraries=False)
        self._modules.cell_begins()
        with unhindered():
            arrival = changes.Arrival(request.names)
        for each in (*failed, *ambient.follow(request.ambient, before, process=False)):
            self._notice(f"{each}: can't be on this worker as in the notebook")
        as_before = not request.names.segments and request.ambient == before  # nothing was loaded that changes it
        self._ambient = before if as_before else ambient.here()
        return arrival

    def _outcome(
        self,
        request: cells.CellRequest,
        spool: Spool,
        *,
        arrival: changes.Arrival,
        before: dict[str, Any],
        end: CellEnd,
    ) -> cells.Outcome:
        self._modules.cell_ended()
        reply = outcome.pack(
            arrival,
            self._shell.user_ns,
            before,
            value=end.value,
            error=end.error,
            budget_bytes=request.budget_bytes,
            results=request.results,
        )
        bundle = self._pack(self._bundle(end.value), spool) if "" in reply.kept else None
        began, self._ambient = self._ambient or {}, ambient.here()
        # What loading has changed is not the cell's doing (an import that sets a variable, adds filters, draws random numbers).
        changed, were = ambient.differences(began, self._ambient)
        return cells.Outcome(
            at=self._lengths(spool),
            reply=buffers.pack_to_give(reply.stream, reply.buffers, places=request.places, name="reply"),
            deleted=tuple(reply.deleted),
            missing=tuple(reply.missing),
            kept=tuple(_keep(name, stays) for name, stays in reply.kept.items()),
            ambient=changed,
            ambient_before=were,
            compiler_flags=self._shell.compile.flags,
            payload=pickle.dumps(end.payload),
            error="" if end.error is None else in_words(end.error, at_most=_WORDS_MAX),
            goes_on=spool.has_threads() or host.has_children(),
            interrupted=self.gate.pending,
            bundle=bundle,
        )

    def begin_calls(self, places: tuple[str, ...]) -> None:
        """They have the main thread, one after the other. Again when more of them have come."""
        self._places = places
        self._modules.cell_begins()

    def begin_call(self, spool: Spool) -> None:
        """What it shows goes there, whatever the one before has put in the way."""
        self.capture.begin(spool)
        self._shell.asks()
        self.gate.open()

    # What the shell shows, from whichever thread: it belongs to that thread's cell.

    def _show(self, data: Any, metadata: Any, transient: Any = None, update: bool = False) -> None:
        content = {"data": self._alive(data), "metadata": metadata, "transient": transient, "update": update}
        if (spool := self.capture.owner()) is not None:
            parcel = self._pack(content, spool)
            self._emit(lambda at: cells.Display(at, parcel, spool.body_ended))

    def _clear(self, wait: bool) -> None:
        if not self._widgets.keeps_from_clearing():
            self._emit(lambda at: cells.Clear(at, wait))

    def _fail(self, error: BaseException, traceback: list[str]) -> None:
        if (spool := self.capture.owner()) is not None:
            name, words = type(error).__name__, in_words(error).partition(": ")[2]
            parcel = self._packed_error(error, spool)
            self._emit(lambda at: cells.Failure(at, name, words, tuple(traceback), parcel))

    def _carry(self, kind: Any, comm: str, content: dict[str, Any]) -> None:
        if (spool := self.capture.owner()) is not None:
            parcel = self._pack(content, spool)
            self._emit(lambda at: cells.Comm(at, kind, comm, parcel))

    def _notice(self, text: str) -> None:
        if text not in self._noticed:
            self._noticed.add(text)
            self._emit(lambda at: cells.Notice(at, text))

    def _emit(self, event: Callable[[tuple[int, int]], cells.Event]) -> None:
        if (spool := self.capture.owner()) is not None:
            self.capture.flush()
            spool.event(lambda at: cells.encode(event(at)))

    def _bundle(self, value: object) -> tuple[dict[str, Any], dict[str, Any]]:
        data, metadata = self._shell.display_formatter.format(value)
        return self._alive(data), metadata

    def _alive(self, data: dict[str, Any]) -> dict[str, Any]:
        """Without the view of a widget that would be deaf."""
        if not (name := self._widgets.deaf(data)):
            return data
        self._notice(
            f"`{name}` made on a worker is shown as text, for it would not hear you: what is to be clicked or typed into belongs "
            "into a plain cell"
        )
        return {mime: content for mime, content in data.items() if mime != VIEW}

    def _interrupted(self, delivered: bool) -> None:
        """In a signal handler: nothing is flushed, for a flush may be what it interrupts."""
        if (spool := self.capture.running) is not None:
            spool.emit(cells.encode(cells.Interrupted(spool.lengths(), delivered)))

    def _ask(self, prompt: str, password: bool) -> str:
        __tracebackhide__ = True
        if not self._is_cell:
            raise StdinNotImplementedError("a call can't ask for input: no cell waits with it")
        while not self._answers.empty():  # to a question that was interrupted
            self._answers.get()
        if (spool := self.capture.running) is not None:
            self.capture.flush()
            spool.event(lambda at: cells.encode(cells.Ask(at, prompt, password)))
        answer = self._answers.get()
        if answer.value is None:
            raise pickle.loads(answer.error)
        return answer.value

    def _pack(self, content: Any, spool: Spool) -> buffers.Parcel:
        file, out_of_band = io.BytesIO(), buffers.OutOfBand()
        pickling.NotebookPickler(file, out_of_band).dump(content)
        return buffers.pack(file.getvalue(), out_of_band.buffers, places=self._places, name=spool.next_name())

    def _packed_error(self, error: BaseException, spool: Spool) -> buffers.Parcel | None:
        try:
            return self._pack(error, spool)
        except Exception:  # noqa: BLE001 (whatever a user's object makes of it)
            return None

    def _lengths(self, spool: Spool) -> tuple[int, int]:
        self.capture.flush()
        return spool.lengths()


def _keep(name: str, stays: outcome.Stays) -> cells.KeptResult:
    obj, kind = stays.obj, type(stays.obj).__name__
    key = standins.keys_by_id().get(id(obj)) or uuid.uuid4().hex
    standins.keep(key, obj)
    if stays.size_bytes:
        why = f"`{name or '_'}` ({kind}) has {size(stays.size_bytes)}, above the budget for results"
    elif stays.lacks_memory:
        why = f"`{name or '_'}` ({kind}) can't be shipped, as its worker has no memory left to pack it"
    else:
        culprit = culprits.find(obj, name or "_")
        shown = f"`{name or '_'}` ({kind})" if "._" in culprit.path else culprit  # what is private tells a user nothing
        why = f"{shown} can't be shipped{culprit.reason}"
    return cells.KeptResult(name, key, kind, why)
