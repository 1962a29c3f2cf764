"""One blocking call, from `submit` to its outcome, and who submits it."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

from wool_jupyter.pool.pacing import Cost
from wool_jupyter.wire import calls
from wool_jupyter.wire.store import Lease, Store

if TYPE_CHECKING:
    from collections.abc import Callable

    from wool_jupyter.pool.futures import Future


class Origin(Protocol):
    """Who submits calls, and sees what they print."""

    directory: str
    places: tuple[str, ...]  # for large data

    @property
    def store(self) -> Store | None:
        """Of large arguments."""
        ...

    # On the thread that submits.

    def ambient(self) -> dict[str, bytes]:
        """The process's state for calls that are submitted now; the same object as long as nothing has changed."""
        ...

    def submitted(self, call: object) -> None: ...

    # On the loop.

    def queued(self) -> None:
        """Calls of it stand in the line."""
        ...

    def ready(self, worker: UUID) -> None:
        """Calls begin there: their text will be in `batches.text_directory`."""
        ...

    def printed(self, worker: UUID, shown: tuple[bytes, ...], *, goes_on: bool, is_idle: bool) -> None:
        """Before the outcomes are delivered that came with it. `is_idle`: no more calls are there."""
        ...

    def lost(self, worker: UUID) -> None:
        """It has ended, and prints no more."""
        ...

    def notice(self, text: str) -> None:
        """What the user is to know of its calls while they go on."""
        ...

    def settled(self, call: object) -> None:
        """It is over. Where the submitting thread was interrupted, also of one that was not submitted."""
        ...


@dataclass(eq=False, kw_only=True, slots=True)
class Item:
    future: "Future[Any]"
    origin: Origin
    ambient: dict[str, bytes]
    label: str  # shown of it while it runs
    words: str  # which call it is, where it is told of: fits anywhere in a sentence
    cost: Cost
    retries: int
    settled: "Callable[[Item], object]"  # called once, when its future is done
    native_threads: int  # `batches.Opening`
    grace_s: float  # to answer an interrupt, on a worker that may end
    call: bytes = b""
    function: calls.PackedFunction | None = None  # None: `call` says all
    file: str = ""  # with its large data
    lease: Lease | None = None  # of large data that other calls have, too
    is_put: bool = False  # into the queue
    workers_lost: int = 0  # that were to run it, and ended before it had begun
    number: int = 0
    section: int = 0

    def drop(self) -> None:
        """It is not put into the queue, or is over."""
        if self.file:
            Path(self.file).unlink(missing_ok=True)
        if self.lease is not None:
            self.lease.release()

    def end(self) -> None:
        self.drop()
        self.settled(self)

    def arrive(self, outcome: bytes) -> None:
        self.future.arrive(outcome)
        self.end()

    def fail(self, error: BaseException) -> None:
        if self.future.running() or self.future.set_running_or_notify_cancel():
            self.future.fail(error)
        self.end()
