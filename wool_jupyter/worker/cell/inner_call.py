"""A call inside the body that awaits it: on the main thread, whose loop stands still meanwhile.

Beside its own process and main thread it finds what a call finds on another worker: copies of what it gets, and a namespace of
its own. What it changes of the process is as before when the body goes on.
"""

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from wool_jupyter.wire import ambient, calls, classes, homes, refusals
from wool_jupyter.wire.unhindered import unhindered
from wool_jupyter.worker.cell.gate import Gate
from wool_jupyter.worker.cell.loops import set_aside

_LEVELS = 100  # of the stack: a call takes 16 up to the user's own lines with Python 3.11, and these some more


class InnerCalls:
    """Of one worker."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    @staticmethod
    def can_run() -> bool:
        """Whether the caller is a task of a body, and not of one of its threads or of a routine, beside which bodies run."""
        return threading.current_thread() is threading.main_thread()

    @staticmethod
    def check_room(function: Callable[..., Any]) -> None:
        """`RecursionError` where bodies run inside bodies so deep that the next one would meet the end of the stack somewhere: in
        the midst of asyncio, say, where nobody hears of it."""
        try:
            _descend(_LEVELS)
        except RecursionError:
            name = getattr(function, "__qualname__", "the call")
            raise RecursionError(
                f"maximum recursion depth exceeded by calls that run inside those which await them, the last one `{name}`"
            ) from None

    def run(self, body: bytes, state: ambient.State) -> bytes:
        """An outcome (`calls.Outcome`). `state` is that of this process, in which the call was packed."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        with set_aside(loop, task), self._gate.waits_in_none(), ambient.other_numbers():
            try:
                return contextvars.Context().run(self._outcome, calls.decode_request(body), state)
            finally:
                ambient.follow(state, ambient.here())

    def _outcome(self, request: calls.Request, state: ambient.State) -> bytes:
        homes.enter_new_home()
        try:
            ambient.follow_in_context(state)
            invocation = self._gate.loading(_loaded, request)
            value, what = called(invocation), partial(result_of, invocation)
            with unhindered():
                return calls.pack_outcome(value, places=request.places, known_classes=classes.known_ids(), what=what)
        except BaseException as error:  # noqa: BLE001 (data, whatever its class)
            with unhindered():
                return calls.pack_raised(error, places=request.places)


def _descend(levels: int) -> None:
    if levels:
        _descend(levels - 1)


def _loaded(request: calls.Request) -> calls.Invocation:
    with unhindered():
        return calls.unpack_call(request)


def called(invocation: calls.Invocation) -> Any:
    """What it returns."""
    value = invocation.function(*invocation.args, **invocation.kwargs)
    if inspect.iscoroutine(value):
        value.close()
        raise TypeError(f"{invocation.function!r} is an async function: give one that runs it by `asyncio.run`")
    return value


def result_of(invocation: calls.Invocation) -> str:
    """For people."""
    return f"the result of `{refusals.name_of(invocation.function)}`"
