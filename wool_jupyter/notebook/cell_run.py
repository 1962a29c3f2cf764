"""A cell's run: made and finished on the kernel's main thread, at work on the loop. Blocking is to wait for it.

main thread   source ─▶ capture ─▶ shipment ─▶ Sending            Sending.finish ─▶ namespace
loop                                              │ drive             ▲ outcome
                                                  └─▶ pool ─▶ worker ─┘─▶ events, one at a time: Sink
"""

import pickle
import re
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from uuid import UUID

from IPython.core.error import UsageError

from wool_jupyter.errors import CannotLoad, NotBound
from wool_jupyter.notebook import figures, homecoming, terminal, told
from wool_jupyter.notebook.capture import Capture, analyze
from wool_jupyter.notebook.flow import Budget, Flow
from wool_jupyter.notebook.late_text import Show
from wool_jupyter.notebook.outputs import TextReader
from wool_jupyter.notebook.runtime import Runtime
from wool_jupyter.notebook.shipment import Route, Shipment
from wool_jupyter.notebook.source import CellSource, prepare_source
from wool_jupyter.pool import events
from wool_jupyter.pool.kernel_pool import KernelPool, PoolCall
from wool_jupyter.settings import PoolSettings
from wool_jupyter.wire import ambient, buffers, cells

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from wool_jupyter.wire.standins import Kept

_NO_SUCH_MAGIC = re.compile(r"(Line|Cell) magic (?:function )?`(%+([^`]+))` not found")  # IPython 8.22 to 9.18


class Sink(Protocol):
    """Where a running cell's events go. Both are called on the loop."""

    def begun(self, call: PoolCall) -> None:
        """It has a worker."""

    async def take(self, event: cells.Event) -> bytes | None:
        """All but the last one. Returns when the next is wanted, with the answer to an `Ask`."""


class Receiver(Protocol):
    """Whoever takes in the results, on the main thread."""

    def notice(self, text: str) -> None: ...
    def payload(self, payload: dict[str, Any]) -> None: ...

    def takes(self, name: str) -> bool:
        """Whether this variable may be bound or deleted."""

    def sift(self, arrived: homecoming.Arrived) -> None:
        """Takes out what may not change objects here."""

    def state(self, outcome: cells.Outcome) -> ambient.State:
        """What of the process's state that the cell has changed may follow here."""


class End(NamedTuple):
    value: Any
    error: BaseException | None
    bound: frozenset[str] = frozenset()  # or deleted


class CellRun:
    """Ships on construction, on the main thread. Raises SyntaxError, and `CannotShip` for what it surely reads."""

    def __init__(
        self,
        shell: "InteractiveShell",
        runtime: Runtime,
        *,
        body: str,
        settings: PoolSettings,
        route: Route,
        before_shipping: "Callable[[str, Capture], object] | None" = None,
        prepare: Callable[["InteractiveShell", str], CellSource] = prepare_source,
        namespace: dict[str, Any] | None = None,
    ) -> None:
        """`namespace` is that of a function that the cell is run from, with the notebook's below."""
        self.shell = shell
        self.runtime = runtime
        self.body = body
        self.route = route
        self.settings = settings
        self.source = prepare(shell, body)
        self.capture = analyze(self.source.source, shell.compile.flags, filename=self.source.filename)
        if before_shipping is not None and route.inputs is None:
            before_shipping(self.source.source, self.capture)
        self.shipment = Shipment(
            shell.user_ns if namespace is None else namespace,
            self.capture,
            route=route,
            workers=partial(_workers, runtime),  # not of `self`: what it holds is let go without the collector
        )

    @property
    def notices(self) -> list[str]:
        """What to tell the user before the cell runs."""
        return self.shipment.notices

    def without(self, refused: cells.Refused) -> None:
        """After a worker could not load a variable: goes on without it, or `CannotLoad`."""
        if not self.shipment.do_without(refused.name):
            raise CannotLoad(refused.reason)


def _workers(runtime: Runtime) -> set[UUID]:
    return {worker.uid for worker in runtime.workers()}


class Sending:
    """A run's request with its files: made and finished on the main thread. `close` removes the files; idempotent."""

    def __init__(
        self,
        run: CellRun,
        *,
        unshippable: Callable[[str], object],
        press: Callable[[], object],
        kind: events.CallKind = "cell",
    ) -> None:
        """`unshippable` is told which aspects of the process can't travel, each when it is new; `press` is as ■."""
        self._run = run
        self._shipment = run.shipment
        self._runtime = run.runtime
        with ExitStack() as stack:
            places = stack.enter_context(self._runtime.call_directories())
            self.flow = self._flow(places[0])
            self._files = stack.enter_context(ExitStack())
            self._files.callback(self.flow.close)
            self.state = self._state(unshippable)
            self._release = self._runtime.handles.released()
            self._only = self._shipment.worker()
            names, lease = self._shipment.names(
                places=places, store=self._runtime.store, cell_numbers=run.shell.compile._filename_map
            )
            stack.callback(lease.release)
            request = self._described(places, names)
            self._message = cells.encode(request)
            self.about = told.about_cell(run.shell, request, self._message, press=press, kind=kind)
            self._directories = stack.pop_all()
        self.worker: UUID | None = None
        self._handles: dict[str, Kept] = {}

    def _flow(self, directory: str) -> Flow:
        run, number = self._run, self._run.source.number
        shelve = partial(self._runtime.left_out.of, number, run=terminal.message(run.shell))
        return Flow(TextReader(directory), Budget(run.settings.output_budget_bytes, cell=number, shelve=shelve))

    def _described(self, places: tuple[str, ...], names: cells.Names) -> cells.CellRequest:
        run, source, shell = self._run, self._run.source, self._run.shell
        return cells.CellRequest(
            source=run.body,
            transformed=source.source,
            filename=source.filename,
            number=source.number,
            compiler_flags=shell.compile.flags,
            directory=places[0],
            places=places,
            names=names,
            ambient=self.state,
            budget_bytes=run.settings.result_budget_bytes,
            release=self._release,
            results=run.route.results,
            message=terminal.message(shell),
            terminal=terminal.size(shell),
        )

    def _state(self, unshippable: Callable[[str], object]) -> ambient.State:
        state = ambient.here()
        stays = ambient.unshippable(state)
        for aspect in stays:
            if aspect not in self._runtime.unshippable:
                unshippable(f"{aspect} can't be shipped: workers keep their own")
        self._runtime.unshippable = stays
        return state

    async def drive(self, pool: KernelPool, sink: Sink) -> cells.Outcome | cells.Refused:
        """Waits for its turn, then for the cell. Cancelled, it leaves the line, or has the body interrupted."""
        call = await pool.run("cell", self._message, only=self._only, about=self.about)
        self.worker = call.worker.uid
        try:
            sink.begun(call)
            answer: bytes | None = None
            while True:
                data = await call.step(answer)
                self.worker = call.worker.uid
                if data is None:
                    raise CannotLoad("the worker ended the cell without an outcome")
                event = cells.decode_event(data)
                if isinstance(event, cells.Outcome | cells.Refused):
                    # Before the call is closed: a worker that drains leaves then, unless a handle pins it.
                    self._handles = self._made(event, self.worker)
                    return event
                answer = await sink.take(event)
        finally:
            await call.close()

    def _made(self, outcome: cells.Outcome | cells.Refused, worker: UUID) -> "dict[str, Kept]":
        """Handles by key."""
        handles: dict[str, Kept] = {}
        for result in outcome.kept if isinstance(outcome, cells.Outcome) else ():
            if result.key not in handles:
                handles[result.key] = self._runtime.handles.make(result, worker, cell=self._run.source.number)
        return handles

    def finish(self, outcome: cells.Outcome, receiver: Receiver) -> End:
        """Into the namespace. Not to be interrupted: half of the names would be worse than either.

        `NotBound` and `CannotLoad` are raised when all that came is there."""
        assert self.worker is not None
        shell, shipment, route = self._run.shell, self._shipment, self._run.route
        state = receiver.state(outcome)
        failed = ambient.follow(state, outcome.ambient_before, libraries=False)
        arrived = homecoming.load(outcome.reply, shipment, takes=receiver.takes)
        figures.ready()
        receiver.sift(arrived)
        deleted = tuple(filter(receiver.takes, outcome.deleted))
        bound = {*arrived.names, *arrived.apart, *deleted}
        for notice in homecoming.come_home(arrived, shipment, deleted=deleted):
            receiver.notice(notice)
        last_value = arrived.value
        for result in outcome.kept:
            kept = self._handles[result.key]
            if not result.name:
                last_value = kept
                kept.shown_as(loaded(outcome.bundle) if outcome.bundle else None)
            elif homes := list(filter(receiver.takes, route.homes(result.name))):
                bound.update(homes)
                shipment.namespace.update(dict.fromkeys(homes, kept))
                receiver.notice(
                    f"{result.why}: it stays on its worker, where %%wool cells that read `{homes[0]}` will run"
                )
        for each in (*failed, *ambient.follow(state, outcome.ambient_before, process=False)):
            receiver.notice(f"{each}: can't be here as the cell left it")
        for aspect in ambient.unshippable(outcome.ambient):
            receiver.notice(f"{aspect} as the cell left it can't be shipped: it stays here as it was")
        shell.compile.flags |= outcome.compiler_flags
        for payload in pickle.loads(outcome.payload):
            receiver.payload(payload)
        self._runtime.handles.were_released(self.worker, self._release)
        return End(last_value, self._error(outcome, arrived, receiver), frozenset(bound))

    def _error(self, outcome: cells.Outcome, arrived: homecoming.Arrived, receiver: Receiver) -> BaseException | None:
        error = arrived.error
        if error is None and outcome.error:
            error = RuntimeError(outcome.error)  # its class is not to be had here
        if error is None and outcome.missing:
            missing = ", ".join(f"`{name}`" for name in outcome.missing)
            raise NotBound(
                f"The cell has run, and has not bound {missing}, which -o asks for: all that it bound is here"
            )
        namespace, route = self._shipment.namespace, self._run.route
        if isinstance(error, NameError) and route.leaves_out(error.name) and error.name in namespace:
            receiver.notice(f"`{error.name}` is a variable of the notebook, and -i leaves it out")
        if isinstance(error, UsageError) and (missed := _NO_SUCH_MAGIC.match(str(error))):
            kind, magic, name = missed.groups()
            if self._run.shell.find_magic(name, kind.lower()) is not None:
                receiver.notice(
                    f"only the notebook has `{magic}`: a worker needs it to be loaded or made in this cell, too"
                )
        if arrived.cut_short:
            lost = f"The cell has run, and not all of its results can be loaded here: {arrived.cut_short}"
            if error is None:
                raise CannotLoad(lost)
            receiver.notice(lost)
        return error

    def goes_on(self, show: Show) -> None:
        """Threads or children of the cell are still there, and print: under their cell."""
        assert self.worker is not None
        self._files.pop_all()
        self._runtime.follow(self.flow, self.worker, show)

    def close(self) -> None:
        self._files.close()
        self._directories.close()


def loaded(parcel: buffers.Parcel) -> Any:
    stream, out_of_band = buffers.unpack(parcel)
    return pickle.loads(stream, buffers=out_of_band)
