"""A cell's run, seen from the kernel's main thread.

source ─▶ capture ─▶ shipment ─▶ pool ─▶ worker
                                  │ events, one at a time; text by offset
namespace ◀─ exchange ◀─ outcome ◀┘─▶ replay on this thread, where %%capture and Output widgets see it
"""

import getpass
import pickle
import signal
import sys
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from uuid import UUID

from wool_jupyter import host
from wool_jupyter.errors import CannotLoad, NotBound, WoolError, WorkerDied
from wool_jupyter.notebook import exchange, figures, late_text, terminal, told, tracebacks
from wool_jupyter.notebook.bridge import Bridge
from wool_jupyter.notebook.capture import analyze
from wool_jupyter.notebook.flow import Flow
from wool_jupyter.notebook.interrupts import Interrupts
from wool_jupyter.notebook.outputs import TextReader
from wool_jupyter.notebook.replay import Replay, loaded
from wool_jupyter.notebook.runtime import Runtime
from wool_jupyter.notebook.source import CellSource, prepare_source
from wool_jupyter.notebook.status_line import StatusLine
from wool_jupyter.pool import events
from wool_jupyter.pool.kernel_pool import KernelPool, PoolCall
from wool_jupyter.records import WorkerMetadata
from wool_jupyter.settings import PoolSettings
from wool_jupyter.wire import ambient, cells

if TYPE_CHECKING:
    from concurrent.futures import Future

    from IPython.core.interactiveshell import InteractiveShell

    from wool_jupyter.wire.standins import Kept

T = TypeVar("T")

POLL_S = 0.05  # between two looks at a running cell's text: reads as live


def run_cell(
    shell: "InteractiveShell",
    runtime: Runtime,
    *,
    body: str,
    settings: PoolSettings,
    route: exchange.Route = exchange.AS_CAPTURED,
    prepare: Callable[["InteractiveShell", str], CellSource] = prepare_source,
    namespace: dict[str, Any] | None = None,
) -> Any:
    """The value of the last expression. Raises what the cell raised, and shows it as a plain cell would. `namespace` is that of a
    function that the cell is run from, with the notebook's below."""
    __tracebackhide__ = True
    try:
        end = _CellJob(shell, runtime, settings, route).run(
            body, prepare, shell.user_ns if namespace is None else namespace
        )
    except WoolError as error:
        tracebacks.show_plainly(error)
        raise
    except BaseException as error:  # SyntaxError, ■
        tracebacks.show_natively(error, shell)
        raise
    if end.error is not None:
        tracebacks.show_natively(end.error, shell)
        raise end.error
    return end.value


def started_pool(runtime: Runtime, settings: PoolSettings) -> tuple[KernelPool, bool]:
    """Says so in one line if it was started just now."""
    pool, just_now = runtime.pool(settings)
    if just_now:
        print(
            f"wool: started a pool of {pool.crew.size} worker process{'es' if pool.crew.size > 1 else ''} for this notebook"
        )
    return pool, just_now


class _End(NamedTuple):
    value: Any
    error: BaseException | None


class _CellJob:
    def __init__(
        self, shell: "InteractiveShell", runtime: Runtime, settings: PoolSettings, route: exchange.Route
    ) -> None:
        self._shell = shell
        self._runtime = runtime
        self._settings = settings
        self._route = route
        self._interrupts = Interrupts()
        self._ticks: Callable[[], object] = lambda: None

    def run(
        self, body: str, prepare: Callable[["InteractiveShell", str], CellSource], namespace: dict[str, Any]
    ) -> _End:
        source = prepare(self._shell, body)
        capture = analyze(source.source, self._shell.compile.flags, filename=source.filename)
        shipment = exchange.Shipment(namespace, capture, route=self._route, workers=self._workers)
        for notice in shipment.notices:
            _notice(notice)
        pool, _ = started_pool(self._runtime, self._settings)
        with self._interrupts:
            while isinstance(end := self._once(pool, body, source, shipment), cells.Refused):
                if not shipment.do_without(end.name):
                    raise CannotLoad(end.reason)
        return end

    def _once(
        self, pool: KernelPool, body: str, source: CellSource, shipment: exchange.Shipment
    ) -> _End | cells.Refused:
        with self._runtime.call_directories() as places:
            text = self._flow(places[0], source.number)
            is_followed = False
            try:
                request = self._request(body, source, shipment, places)
                message = cells.encode(request)
                about = told.about_cell(self._shell, request, message, press=self._interrupts.press)
                status = StatusLine(self._shell, about, wanted=self._settings.status_line)
                with told.reported(about) as run, closing(status):
                    self._ticks = status.tick
                    outcome, worker, handles = self._run_on(pool, message, shipment.worker(), about, run)
                if isinstance(outcome, cells.Refused):
                    return outcome
                end = self._finish(outcome, shipment, handles)
                if is_followed := outcome.goes_on:
                    self._runtime.follow(text, worker, late_text.shows_under_this_cell(self._shell))
            finally:
                if not is_followed:
                    text.close()
            self._runtime.handles.were_released(worker, request.release)
        if end.error is None and (outcome.interrupted or self._interrupts.unsent):
            # It came when the body had ended: Run All stops, and the names are there.
            return _End(None, KeyboardInterrupt())
        return end

    def _flow(self, directory: str, number: int) -> Flow:
        flow = Flow(
            TextReader(directory),
            self._settings.output_budget_bytes,
            cell=number,
            shelve=lambda: self._runtime.left_out.of(number, run=self._message()),
        )
        self._replay = Replay(self._shell, flow)
        return flow

    def _workers(self) -> set[UUID]:
        return {worker.uid for worker in self._runtime.workers()}

    def _request(
        self, body: str, source: CellSource, shipment: exchange.Shipment, places: tuple[str, ...]
    ) -> cells.CellRequest:
        self._number = source.number
        return cells.CellRequest(
            source=body,
            transformed=source.source,
            filename=source.filename,
            number=source.number,
            compiler_flags=self._shell.compile.flags,
            directory=places[0],
            places=places,
            names=shipment.names(places=places, cell_numbers=self._shell.compile._filename_map),
            ambient=self._ambient(),
            budget_bytes=self._settings.result_budget_bytes,
            release=self._runtime.handles.released(),
            results=self._route.results,
            message=self._message(),
            terminal=terminal.size(self._shell),
        )

    def _message(self) -> str:
        get_parent = getattr(self._shell, "get_parent", None)
        return str(get_parent().get("header", {}).get("msg_id", "")) if get_parent else ""

    def _ambient(self) -> ambient.State:
        """Says what of it can't be shipped, once."""
        state = ambient.here()
        stays = ambient.unshippable(state)
        for aspect in stays:
            if aspect not in self._runtime.unshippable:
                _notice(f"{aspect} can't be shipped: workers keep their own")
        self._runtime.unshippable = stays
        return state

    def _run_on(
        self, pool: KernelPool, message: bytes, only: UUID | None, about: events.About, run: told.Run
    ) -> tuple[cells.Outcome | cells.Refused, UUID, dict[str, "Kept"]]:
        bridge = self._runtime.bridge
        asked = bridge.enter(pool.run("cell", message, only=only, about=about), unwanted=PoolCall.close)
        try:
            call = self._wait(asked, self._give_up_when_pressed)
        except BaseException:
            bridge.abandon(asked, PoolCall.close)
            raise
        run.worker = call.worker.uid
        try:
            outcome = run.outcome = self._events(pool, call)
            # Before the call is closed: a worker that drains leaves then, unless a handle pins it.
            handles = self._handles(outcome, call.worker.uid)
        except WorkerDied as died:
            if not self._interrupts.ended:
                raise WorkerDied(f"{died}. What the cell had bound is lost") from None
            _notice("its worker was ended and is replaced; what the cell had bound is lost")
            raise KeyboardInterrupt from None
        finally:
            self._replay.end()
            self._runtime.bridge.start(call.close(), "end of a call")
        return outcome, call.worker.uid, handles

    def _handles(self, outcome: cells.Outcome | cells.Refused, worker: UUID) -> dict[str, "Kept"]:
        """By key."""
        handles: dict[str, Kept] = {}
        for result in outcome.kept if isinstance(outcome, cells.Outcome) else ():
            if result.key not in handles:
                handles[result.key] = self._runtime.handles.make(result, worker, cell=self._number)
        return handles

    # While it runs.

    def _events(self, pool: KernelPool, call: PoolCall) -> cells.Outcome | cells.Refused:
        running = _Running(self._runtime.bridge, pool, call.worker)

        def tick() -> None:
            self._replay.tick()
            self._ticks()
            for notice in self._interrupts.pass_on(running):
                _notice(notice)

        answer: bytes | None = None
        while True:
            step = self._runtime.bridge.enter(call.step(answer))
            try:
                data = self._wait(step, tick)
            except BaseException:
                step.cancel()
                raise
            if data is None:
                raise CannotLoad("the worker ended the cell without an outcome")
            event = cells.decode_event(data)
            answer = None
            self._replay.up_to(event)
            match event:
                case cells.Outcome() | cells.Refused():
                    return event
                case cells.Interrupted(delivered=delivered):
                    self._interrupts.saw(delivered=delivered)
                case cells.Ask():
                    answer = cells.encode(self._answer(event))
                case _:
                    self._replay.event(event)

    def _wait(self, future: "Future[T]", tick: Callable[[], object]) -> T:
        while True:
            try:
                return future.result(POLL_S)
            except TimeoutError:
                if future.done():
                    return future.result()
            tick()

    def _give_up_when_pressed(self) -> None:
        self._ticks()
        if self._interrupts.pressed:
            raise KeyboardInterrupt

    def _answer(self, event: cells.Ask) -> cells.Answer:
        ask = getpass.getpass if event.password else input
        with self._interrupts.as_usual():
            try:
                return cells.Answer(ask(event.prompt), b"")
            except (KeyboardInterrupt, Exception) as error:  # noqa: BLE001 (the cell's to handle: EOFError, ...)
                return cells.Answer(None, pickle.dumps(error))

    # When it has ended. An interrupt is held back: half of the names would be worse than either.

    def _finish(self, outcome: cells.Outcome, shipment: exchange.Shipment, handles: "dict[str, Kept]") -> _End:
        ambient.follow(outcome.ambient, outcome.ambient_before, libraries=False)
        arrived = exchange.load(outcome.reply, shipment)
        figures.ready()
        for notice in exchange.come_home(arrived, shipment, deleted=outcome.deleted):
            _notice(notice)
        last_value = arrived.value
        for result in outcome.kept:
            kept = handles[result.key]
            if result.name:
                homes = self._route.homes(result.name)
                shipment.namespace.update(dict.fromkeys(homes, kept))
                _notice(f"{result.why}: it stays on its worker, where %%wool cells that read `{homes[0]}` will run")
            else:
                last_value = kept
                kept.shown_as(loaded(outcome.bundle) if outcome.bundle else None)
        ambient.follow(outcome.ambient, outcome.ambient_before, process=False)
        for aspect in ambient.unshippable(outcome.ambient):
            _notice(f"{aspect} as the cell left it can't be shipped: it stays here as it was")
        self._shell.compile.flags |= outcome.compiler_flags
        for payload in pickle.loads(outcome.payload):
            self._replay.payload(payload)
        self._replay.show_late()
        error = arrived.error
        if error is None and outcome.error:
            error = RuntimeError(outcome.error)  # its class is not to be had here
        if error is None and outcome.missing:
            missing = ", ".join(f"`{name}`" for name in outcome.missing)
            raise NotBound(
                f"The cell has run, and has not bound {missing}, which -o asks for: all that it bound is here"
            )
        if isinstance(error, NameError) and self._route.leaves_out(error.name) and error.name in shipment.namespace:
            _notice(f"`{error.name}` is a variable of the notebook, and -i leaves it out")
        if arrived.cut_short:
            lost = f"The cell has run, and not all of its results can be loaded here: {arrived.cut_short}"
            if error is None:
                raise CannotLoad(lost)
            _notice(lost)
        return _End(last_value, error)


class _Running:
    """The running cell, as ■ sees it."""

    def __init__(self, bridge: Bridge, pool: KernelPool, worker: WorkerMetadata) -> None:
        self._bridge, self._pool, self._worker, self._pid = bridge, pool, worker.uid, worker.pid

    def ignores_interrupts(self) -> bool:
        return host.ignores(self._pid, signal.SIGINT)

    def interrupt(self) -> None:
        self._bridge.enter(self._pool.crew.interrupt(self._worker)).result()

    def end(self) -> None:
        self._bridge.enter(self._pool.crew.end(self._worker)).result()

    def kill(self) -> None:
        self._bridge.enter(self._pool.crew.kill(self._worker)).result()


def _notice(text: str) -> None:
    """Between what was printed before and what will be."""
    sys.stdout.flush()
    print(f"wool: {text}", file=sys.stderr, flush=True)
