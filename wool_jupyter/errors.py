"""The whole error tree. A class says what the caller does next.

Those of discovery have one field, alone in `args`, so that `type(error)(*error.args)` is the same error again, on the wire too.
"""

from uuid import UUID


class WoolError(Exception):
    """Root of everything that this package raises on its own account."""


class NoWorkersAvailable(WoolError):
    """No worker could be asked. Nothing ran: start workers, or try again."""

    def __init__(self, message: str, failures: "dict[UUID, RpcError] | None" = None) -> None:
        super().__init__(message)
        self.failures = failures or {}  # why not, of those that were asked


class RpcError(WoolError):
    """A worker could not be asked, or did not take the call. Nothing ran. Its class says what becomes of the worker."""


class NotReached(RpcError):
    """For now this worker takes no call. Nothing ran: ask another, and this one again later."""


class WorkerDied(WoolError):
    """The worker ended during the call. It may have run in part: look at its output before running it again."""


class WorkerRefused(RpcError):
    """The worker answered, and would answer the same again. Nothing ran: do not ask it any more."""


class CallRejected(WoolError):
    """The worker found the call itself at fault. Nothing ran, and no other worker would take it: mend the call."""

    def __init__(self, message: str, error: bytes = b"") -> None:
        super().__init__(message)
        self.error = error  # what a user's object raised there (`wire.shipping`); for whoever made the call


class PayloadTooLarge(WoolError):
    """Arguments or results fit into no message, and there is no directory for them beside it. Send less, or a file's name."""


class MessageTooLarge(WoolError):
    """A call says more than one message holds, and that was not sent. Put the data into a variable or a file."""


class CallFailed(WoolError):
    """The worker took the call and failed at it, by a fault of its own. It may have run in part."""


class StartFailed(WoolError):
    """A process of the pool did not come up. The message carries the cause; the next attempt starts anew."""


class NoUsableRoot(StartFailed):
    """No directory can hold the pool's sockets and files. The message lists each candidate and its reason."""


class CannotShip(WoolError):
    """A value that a cell or a call needs can't travel to a worker. Nothing ran: make it there."""


class CannotLoad(WoolError):
    """A variable that was shipped can't be rebuilt on the worker, and nothing ran. Or results can't be rebuilt here: it says so."""

    def __init__(self, message: str, name: str = "") -> None:
        super().__init__(message)
        self.name = name  # of the variable


class KeptOnWorker(WoolError):
    """The value lives on a worker. Use it in a `%%wool` cell."""


class BlockedOnOwnPool(WoolError):
    """Code on a worker would have blocked for a call of its own pool. Nothing was submitted: await it, or submit it elsewhere."""


class StaysInKernel(WoolError):
    """The value stayed in the kernel. Make it inside the cell."""


class NotBound(WoolError):
    """The cell has run, and did not bind a variable that `-o` asks for. What it did bind is here."""


class JobFailed(WoolError):
    """A cell reads what a background job was to bind, and the job did not end well. The cell has not run: run the job's anew."""


class JobCancelled(WoolError):
    """The background job was cancelled, or ended with its pool. What it had bound before is here."""


class NoRoom(WoolError):
    """The data of a call fits into no directory that the pool may use. Nothing ran."""


class DiscoveryNamespaceInUse(WoolError):
    """Somebody holds the namespace. Wait until it is free, or take another name."""

    def __init__(self, namespace: str) -> None:
        super().__init__(namespace)
        self.namespace = namespace

    def __str__(self) -> str:
        return f"the namespace {self.namespace!r} is held by somebody else"


class DiscoveryNamespaceNotFound(WoolError):
    """This binding to the namespace is over, or there was nothing to bind to. Bind anew once the namespace has an owner."""

    def __init__(self, namespace: str) -> None:
        super().__init__(namespace)
        self.namespace = namespace

    def __str__(self) -> str:
        return f"the namespace {self.namespace!r} is not there to be read, or not any more: bind again once it has an owner"


class DiscoveryNamespaceContended(WoolError):
    """The namespace's directory was replaced at each attempt to claim it. Look who does that, or take another name."""

    def __init__(self, namespace: str) -> None:
        super().__init__(namespace)
        self.namespace = namespace

    def __str__(self) -> str:
        return (
            f"the directory of the namespace {self.namespace!r} was replaced each time that it was about to be claimed"
        )


class DiscoveryCapacityExhausted(WoolError):
    """The registry is full. Try again when a worker has left, or enter the namespace with a larger capacity."""

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self.capacity = capacity

    def __str__(self) -> str:
        return f"all {self.capacity} places of the registry are taken: a larger capacity is set where the namespace is entered"


class DiscoveryBlockExhausted(WoolError):
    """A worker's record will never fit. Shorten its tags and extras, or enter the namespace with a larger block size."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size  # in bytes, of the record

    def __str__(self) -> str:
        return (
            f"the worker's record of {self.size} bytes does not fit into one block: shorten its tags and extras; a larger "
            "block size is set where the namespace is entered"
        )


class DiscoveryWorkerNotFound(WoolError):
    """An update of a worker that is not registered. Add it first."""

    def __init__(self, uid: UUID) -> None:
        super().__init__(uid)
        self.uid = uid

    def __str__(self) -> str:
        return f"the worker {self.uid} is not registered: add it before it is updated"


def in_words(error: BaseException, *, at_most: int | None = None) -> str:
    """On one line or more, for a message, cut after so many characters: no surrogates, and no matter what its `__str__` does."""
    try:
        text = str(error)
    except Exception as failure:  # noqa: BLE001 (a user's method)
        text = f"<its text can't be had: {type(failure).__name__}>"
    words = f"{type(error).__name__}: {text}".encode(errors="backslashreplace").decode()
    return words if at_most is None or len(words) <= at_most else f"{words[:at_most]}…"
