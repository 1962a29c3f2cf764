"""What the feed is told of a cell's run by whoever waits for it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from wool_jupyter.errors import WorkerDied
from wool_jupyter.notebook import terminal
from wool_jupyter.notebook.feed import door
from wool_jupyter.pool import events
from wool_jupyter.wire import cells

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def about_cell(
    shell: "InteractiveShell",
    request: cells.CellRequest,
    message: bytes,
    *,
    press: Callable[[], object],
    kind: events.CallKind = "cell",
) -> events.About:
    """To be called while the cell runs in the kernel, which knows its id then. `message` is the encoded request."""
    beside = sum(length for _, length in request.names.parcel.spans)
    return events.About(kind, f"In[{request.number}]", notebook_id(shell), len(message) + beside, press)


def notebook_id(shell: "InteractiveShell") -> str:
    """Of the running cell, from who sent it; "" where it does not say (terminal, nbclient)."""
    return str(terminal.request(shell).get("metadata", {}).get("cellId") or "")


@dataclass(slots=True)
class Run:
    """Filled in as it goes."""

    worker: UUID | None = None
    outcome: cells.Outcome | cells.Refused | None = None


@contextmanager
def reported(about: events.About) -> Iterator[Run]:
    """Tells how it ended when it is left."""
    run, bytes_out = Run(), 0
    end: events.CallEnd = "error"
    try:
        yield run
        end = _end_of(run.outcome)
    except KeyboardInterrupt:
        end = "interrupted"
        raise
    except WorkerDied:
        end = "died"
        raise
    finally:
        if isinstance(run.outcome, cells.Outcome):
            bytes_out = run.outcome.reply.nbytes
        door().tell(events.Brought(about, run.worker, end, bytes_out))


def _end_of(outcome: cells.Outcome | cells.Refused | None) -> events.CallEnd:
    if not isinstance(outcome, cells.Outcome):
        return "error"
    if outcome.interrupted or outcome.error.startswith(KeyboardInterrupt.__name__):
        return "interrupted"
    return "error" if outcome.error else "ok"
