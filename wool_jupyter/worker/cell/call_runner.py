"""Blocking calls on the worker's main thread, one after the other: not through the shell, and otherwise as a cell's body."""

import contextvars
import os
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

from wool_jupyter import host
from wool_jupyter.wire import batches, calls, classes
from wool_jupyter.wire.unhindered import unhindered
from wool_jupyter.worker.cell.inner_call import called, result_of
from wool_jupyter.worker.cell.main_module import enter_new_main
from wool_jupyter.worker.cell.native_threads import NativeThreads
from wool_jupyter.worker.cell.runner import CellRunner
from wool_jupyter.worker.cell.spool import Spool, own


class Parts:
    """The calls of a run that have not begun. Filled on a loop, emptied on the main thread."""

    def __init__(self) -> None:
        self.functions: list[calls.Request] = []
        self.additions = 0
        self._items: deque[batches.Item] = deque()
        self._taken = False  # somebody takes them, until there are none
        self._lock = threading.Lock()

    def add(self, items: Iterable[batches.Item]) -> bool:
        """Whether there is something, and nobody takes it."""
        with self._lock:
            self._items.extend(items)
            self.additions += 1
            idle, self._taken = not self._taken, self._taken or bool(self._items)
            return idle and self._taken

    def take(self) -> batches.Item | None:
        with self._lock:
            if self._items:
                return self._items.popleft()
            self._taken = False
            return None

    def recall(self) -> list[int]:
        """The numbers of those that will not begin."""
        with self._lock:
            numbers = [item.number for item in self._items]
            self._items.clear()
            return numbers


class Listener(Protocol):
    """Called on the main thread, or on any (`shown`)."""

    def shown(self, event: bytes) -> None: ...
    def done(self, done: batches.Done, *, goes_on: bool, is_last: bool) -> None: ...


class CallRunner:
    """Made on the main thread, once per worker."""

    def __init__(self, cells: CellRunner, uid: str) -> None:
        self._cells = cells
        self._uid = uid
        self._output: _Output | None = None
        # Those of submitters before: one whose thread goes on is that submitter's still, when it comes again.
        self._spools: weakref.WeakValueDictionary[str, Spool] = weakref.WeakValueDictionary()
        self._native = NativeThreads()

    def run(self, opening: batches.Opening, parts: Parts, listener: Listener) -> None:
        """All that `parts` has, until it is empty."""
        item = parts.take()
        if item is None:
            return  # all was given back meanwhile: its submitter may be gone, and with it the directory
        output = self._output_for(opening)
        spool = output.spool
        spool.release(listener.shown)
        seen = 0
        with self._native.at_most(opening.native_threads):
            while item is not None:
                if seen != parts.additions:
                    seen = parts.additions
                    self._cells.begin_calls(opening.places)  # who submits more may have edited a module before
                done = self._run(opening, parts, item, output)
                item = parts.take()
                # What is said with the last one counts; to look takes system calls.
                goes_on = item is None and (spool.has_threads() or host.has_children())
                if item is None:
                    spool.hold()  # before that report, which may be the last one
                listener.done(done, goes_on=goes_on, is_last=item is None)

    def _run(self, opening: batches.Opening, parts: Parts, item: batches.Item, output: "_Output") -> batches.Done:
        began, spool = time.perf_counter(), output.spool
        output.ledger.begins(item.number)
        self._cells.begin_call(spool)
        try:
            outcome = contextvars.Context().run(self._outcome, opening, parts, item, output)
        finally:
            self._cells.gate.close()
        self._cells.capture.flush()
        took_s = time.perf_counter() - began
        self._cells.call_ended(took_s)
        return batches.Done(item.number, outcome, took_s)

    def _output_for(self, opening: batches.Opening) -> "_Output":
        directory = batches.text_directory(opening.directory, self._uid)
        if self._output is None or self._output.directory != directory:
            self._output = _Output(directory, self._spools.get(directory))
            self._spools[directory] = self._output.spool
        return self._output

    def _outcome(self, opening: batches.Opening, parts: Parts, item: batches.Item, output: "_Output") -> bytes:
        """The body's outcome is data, whatever its class."""
        own(output.spool)
        classes.forget()
        vars(enter_new_main())["__warningregistry__"] = output.warned
        gate = self._cells.gate
        tracers = sys.gettrace(), sys.getprofile()
        try:
            self._cells.surround_calls(opening.ambient)
            invocation = gate.loading(_loaded, parts, item)
            self._native.look_again()
            value = gate.region(called, invocation)
            outcome = calls.pack_outcome(
                value, places=opening.places, known_classes=classes.known_ids(), what=partial(result_of, invocation)
            )
        except BaseException as error:  # noqa: BLE001
            outcome = calls.pack_raised(error, places=opening.places)
        finally:
            sys.settrace(tracers[0])
            sys.setprofile(tracers[1])
        with suppress(KeyboardInterrupt):
            self._cells.show_figures()
        return outcome


class _Output:
    """Where the calls of one submitter print on this worker."""

    def __init__(self, directory: str, spool: Spool | None) -> None:
        os.makedirs(directory, mode=0o700, exist_ok=True)  # noqa: PTH103 (before a call)
        self.directory = directory
        self.spool = spool or Spool(directory)
        self.ledger = batches.ItemLedger(directory)
        self.warned: dict[Any, Any] = {}  # the submitter's functions, in whichever call: each warning is shown once


def _loaded(parts: Parts, item: batches.Item) -> calls.Invocation:
    with unhindered():
        if item.function < 0:
            return calls.unpack_call(calls.decode_request(item.call))
        function = calls.unpack_call(parts.functions[item.function]).function
        return calls.Invocation(function, *calls.unpack_arguments(item.call))
