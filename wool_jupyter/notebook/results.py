"""A background job's results, taken in on the main thread: after what cells and other jobs have done meanwhile."""

from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any

from wool_jupyter.errors import JobCancelled, WoolError, WorkerDied, in_words
from wool_jupyter.notebook import homecoming, tracebacks
from wool_jupyter.notebook.execution import Execution
from wool_jupyter.notebook.pending import Pending, listed
from wool_jupyter.wire import ambient, cells
from wool_jupyter.wire.aspects.aspect import Generator
from wool_jupyter.wire.aspects.table import ASPECTS

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

# Generators of numbers go on here as if the job had not drawn any: jobs side by side began with the same state. The others belong
# to the context of a cell, and none may be running.
_STAYS_THERE = frozenset(name for name, aspect in ASPECTS.items() if isinstance(aspect, Generator) or aspect.of_context)


def take_in(execution: Execution, shell: "InteractiveShell", pending: Pending) -> cells.Refused | None:
    """Binds the names and shows the value or the error. Not to be interrupted. `Refused`: nothing ran, and it may be sent again."""
    sending = execution.sending
    assert sending is not None
    results = Results(execution, shell, pending)
    error: BaseException | None
    try:
        outcome = execution.outcome()
        if isinstance(outcome, cells.Refused):
            return outcome
        end = sending.finish(outcome, results)
        execution.value, error = end.value, end.error
        execution.bound = sorted(end.bound)
        if outcome.goes_on:
            sending.goes_on(execution.output.stream)
    except BaseException as failure:  # noqa: BLE001 (the job's own, to be shown as its end)
        error = failure
    results.close()
    _conclude(execution, error)
    _show_end(execution, shell)
    return None


def refuse(execution: Execution, error: BaseException, shell: "InteractiveShell") -> None:
    """It can't be sent again."""
    _conclude(execution, error)
    _show_end(execution, shell)


def _conclude(execution: Execution, error: BaseException | None) -> None:
    who = f"job {execution.number}"
    if error is None:
        execution.state = "done"
        return
    is_cancelled = execution.is_cancelled and isinstance(error, KeyboardInterrupt | WorkerDied | CancelledError)
    if execution.has_lost_pool and isinstance(error, WoolError | CancelledError):
        execution.state, execution.reason = "cancelled", "the pool was stopped"
        error = JobCancelled(f"{who} ended with the pool, which was stopped")
    elif is_cancelled:
        execution.state = "cancelled"
        if isinstance(error, WorkerDied):
            execution.reason = "its worker was ended, and what it had bound is lost"
        error = JobCancelled(f"{who} was cancelled")
    else:
        if isinstance(error, WorkerDied):
            error = WorkerDied(f"{error}. What the cell had bound is lost")
        execution.state = "failed"
        execution.reason = in_words(error)
    execution.error = error


def _show_end(execution: Execution, shell: "InteractiveShell") -> None:
    if execution.value is not None:
        data, metadata = shell.display_formatter.format(execution.value)
        if data:
            execution.output.display({"data": data, "metadata": metadata, "transient": {}, "update": False})
    execution.output.show_late()
    if execution.error is not None and execution.state == "failed":
        execution.output.error(execution.error, tracebacks.rendered(execution.error, shell))


class Results:
    """A `Receiver` for a job: a name or an object that was changed here meanwhile stays as it is."""

    def __init__(self, execution: Execution, shell: "InteractiveShell", pending: Pending) -> None:
        self._execution = execution
        self._shell = shell
        self._pending = pending
        self._dropped: list[str] = []

    def notice(self, text: str) -> None:
        self._execution.lines.append(text)

    def payload(self, payload: dict[str, Any]) -> None:
        """There is no reply any more that could carry it."""
        data = payload.get("data")
        if isinstance(data, dict) and "text/plain" in data:
            self._execution.output.stream("stdout", data["text/plain"] + "\n")
        else:
            self.notice(f"`{payload.get('source')}` does nothing in the background")

    def takes(self, name: str) -> bool:
        taken = self._pending.takes(self._execution.number, name)
        if not taken and self._pending.is_loss(self._execution.number, name):
            self._dropped.append(name)
        return taken

    def sift(self, arrived: homecoming.Arrived) -> None:
        changed = {name for name, _ in arrived.contents}
        if not changed:
            return
        touched = changed & self._touched()
        arrived.contents = [(name, contents) for name, contents in arrived.contents if name not in touched]
        if touched:
            self.notice(
                f"{listed(sorted(touched))}: changed here while the job ran, and by the job; the job's changes are dropped"
            )

    def _touched(self) -> set[str]:
        """Inputs that are not any more what was shipped. None, where it can't be told: they do not pickle any more."""
        run = self._execution.run
        assert run is not None
        try:
            now = run.shipment.digests_now()
        except Exception:  # noqa: BLE001 (whatever a user's __reduce__ raises)
            return set()
        return {name for name, digest in self._execution.digests.items() if now.get(name) != digest}

    def state(self, outcome: cells.Outcome) -> ambient.State:
        assert self._execution.sending is not None
        submitted, now = self._execution.sending.state, ambient.here()
        follows = {}
        for aspect, after in outcome.ambient.items():
            if aspect in _STAYS_THERE or now.get(aspect) == after:
                continue
            # Of the environment only what differs is written: other variables may have changed.
            if now.get(aspect) == submitted.get(aspect) or aspect == "environment":
                follows[aspect] = after
            else:
                self.notice(f"{aspect}: changed here while the job ran, and by the job; the job's change is dropped")
        return follows

    def close(self) -> None:
        if self._dropped:
            self.notice(
                f"{listed(self._dropped)}: bound meanwhile by a cell or a later job; what the job made is dropped"
            )
