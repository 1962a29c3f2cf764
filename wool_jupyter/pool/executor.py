"""`submit` and `map` for threads: calls are pickled here, on the thread that calls."""

import concurrent.futures
import itertools
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from wool_jupyter.errors import WoolError
from wool_jupyter.pool.call_item import Item, Origin
from wool_jupyter.pool.call_words import in_short
from wool_jupyter.pool.futures import Future
from wool_jupyter.pool.intake import Intake
from wool_jupyter.pool.pacing import Cost
from wool_jupyter.pool.results import Results, SizedResults
from wool_jupyter.settings import CALLS_AHEAD_MAX, INTERRUPT_GRACE_S, RUN_S
from wool_jupyter.wire import calls, contents, refusals
from wool_jupyter.wire.store import Digest

T = TypeVar("T")


def _check_retries(retries: int) -> None:
    if retries < 0:
        raise ValueError(f"retries is a number of further attempts, not {retries}")


@dataclass(frozen=True, slots=True)
class Terms:
    """Of the calls of one executor."""

    retries: int = 0  # of a call whose worker has ended under it
    grace_s: float = INTERRUPT_GRACE_S  # as an `Item` has it
    cost: Cost | None = None  # of whatever is submitted; None: of each function its own
    native_threads: int | None = None  # None: the intake's
    digest: Digest = contents.watched  # of large data

    def __post_init__(self) -> None:
        _check_retries(self.retries)


_Packed = tuple[calls.PackedCall, calls.PackedFunction | None]
_USUAL_TERMS = Terms()
_INERT = frozenset({list, tuple, range, str, bytes, dict, set, frozenset, type({}.keys()), type({}.values())})


class Executor(concurrent.futures.Executor):
    """As the standard library's, on the main threads of a pool's workers. Ending it ends no worker."""

    def __init__(self, intake: Callable[[], Intake], origin: Callable[[], Origin], terms: Terms = _USUAL_TERMS) -> None:
        """`intake` finds the pool, which may be another one after it was stopped; `origin` is asked for each call."""
        self._intake = intake
        self._origin = origin
        self._terms = terms
        # An interrupt inside of a `Condition`, which is Python (3.13), would leave it locked; not so inside of a lock.
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._unfinished: set[Item] = set()
        self._is_shut_down = False

    def __repr__(self) -> str:
        return "<Executor of a pool's workers>"

    @property
    def main_threads(self) -> int:
        """How many calls may run side by side."""
        return self._intake().main_threads()

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> "Future[T]":
        """What can't be shipped is the future's exception. RuntimeError after `shutdown`."""
        if not callable(fn):
            raise TypeError(f"argument 1 of submit can't be called: {fn!r}")
        return self.submit_batch(calls.Invocation(fn, args, kwargs))

    def submit_batch(self, invocation: calls.Invocation, parts: Sequence[calls.Invocation] = ()) -> "Future[Any]":
        """As `submit`, for a call that consists of these others: people are told of them."""
        self._check()
        intake, origin = self._intake(), self._origin()
        data = self._data(origin)

        def pack() -> _Packed:
            known = None if parts else intake.functions.packed(invocation.function, data)
            return self._packed(invocation, data, known, parts=parts)

        cost = self._terms.cost or intake.cost_of(invocation.function)
        first = parts[0] if parts else invocation
        words = (
            in_short(first) if len(parts) < 2 else f"{in_short(first)} (with {len(parts) - 1} more tasks of its batch)"
        )
        item = self._item(intake, origin, pack, first, words=words, cost=cost, retries=self._terms.retries)
        self._put(intake, [item])
        return item.future

    def map(
        self,
        fn: Callable[..., T],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,  # noqa: ARG002 (calls are sent together as their durations allow)
        buffersize: int | None = None,
    ) -> "Results[T]":
        """All is submitted at once, unless `buffersize` says how far ahead."""
        if buffersize is not None and buffersize < 1:
            raise ValueError("buffersize must be None or > 0")
        ahead = sys.maxsize if buffersize is None else buffersize
        return self.map_ahead(fn, iterables, ahead=lambda _: ahead, timeout_s=timeout, retries=self._terms.retries)

    def map_lazily(
        self, fn: Callable[..., T], iterables: tuple[Iterable[Any], ...], *, timeout_s: float | None, retries: int
    ) -> "Results[T]":
        """No more is asked for than keeps the workers busy, whatever the number of arguments."""
        intake = self._intake()

        def ahead(cost: Cost) -> int:
            fit = 4 * RUN_S / max(cost.mean_s, 1e-6) if cost.known else 0
            return int(min(intake.main_threads() * (2 + fit), CALLS_AHEAD_MAX))

        return self.map_ahead(fn, iterables, ahead=ahead, timeout_s=timeout_s, retries=retries)

    def map_ahead(
        self,
        fn: Callable[..., T],
        iterables: tuple[Iterable[Any], ...],
        *,
        ahead: Callable[[Cost], int],
        timeout_s: float | None,
        retries: int,
    ) -> "Results[T]":
        self._check()
        _check_retries(retries)
        for number, each in enumerate(iterables, 2):
            if not hasattr(each, "__iter__") and not hasattr(each, "__getitem__"):
                raise TypeError(f"argument {number} of map is no iterable: {each!r}")
        if not callable(fn):
            raise TypeError(f"argument 1 of map can't be called: {fn!r}")
        origin, cost = self._origin(), self._terms.cost or self._intake().cost_of(fn)
        data = self._data(origin)
        function = calls.PackedFunction(fn, data)
        numbers = itertools.count(1)
        runs_nothing = _INERT.issuperset(map(type, iterables))  # so that the process's state is one for all rows

        def submit(rows: Iterator[tuple[Any, ...]]) -> "list[Future[Any]]":
            intake, items = self._intake(), list[Item]()
            state = origin.ambient() if runs_nothing else None
            try:
                for row in rows:
                    invocation = calls.Invocation(fn, row, {})
                    words = f"{in_short(invocation)} (call {next(numbers)} of its map)"
                    pack = partial(self._packed, invocation, data, function)
                    item = self._item(
                        intake, origin, pack, invocation, words=words, cost=cost, retries=retries, state=state
                    )
                    items.append(item)
            except BaseException:
                for item in items:
                    item.drop()
                raise
            self._put(intake, items)
            return [item.future for item in items]

        rows = zip(*iterables, strict=False)
        options: dict[str, Any] = {"ahead": lambda: ahead(cost), "timeout_s": timeout_s}
        sizes = [len(each) for each in iterables if isinstance(each, Sized)]
        if len(sizes) < len(iterables):
            return Results(submit, rows, **options)
        return SizedResults(min(sizes, default=0), submit, rows, **options)

    @staticmethod
    def _packed(
        invocation: calls.Invocation,
        data: calls.Data,
        function: calls.PackedFunction | None,
        parts: Sequence[calls.Invocation] = (),
    ) -> _Packed:
        """With the function, where it does not go with the call itself."""
        packed = None if function is None else function.pack_arguments(invocation, data)
        if packed is None:
            return calls.pack_blocking(invocation, data, parts=parts), None
        return packed, function

    def _data(self, origin: Origin) -> calls.Data:
        return calls.Data(origin.places, origin.store, self._terms.digest)

    def _item(
        self,
        intake: Intake,
        origin: Origin,
        pack: Callable[[], _Packed],
        invocation: calls.Invocation,
        *,
        words: str,
        cost: Cost,
        retries: int,
        state: dict[str, bytes] | None = None,
    ) -> Item:
        """`state`: what `origin.ambient` says now, if it is known."""
        future: Future[Any] = Future(intake.callbacks, raising=intake.raising)
        item = Item(
            future=future,
            origin=origin,
            ambient=origin.ambient() if state is None else state,
            label=refusals.name_of(invocation.function),
            words=words,
            cost=cost,
            retries=retries,
            settled=self._settled,
            native_threads=self._terms.native_threads or intake.native_threads,
            grace_s=self._terms.grace_s,
        )
        future.cancelled_hook = intake.cancelled
        try:
            packed, item.function = pack()
        except KeyboardInterrupt as error:
            intake.raising(error)
            raise
        except Exception as error:  # noqa: BLE001 (of a user's objects)
            if isinstance(error, WoolError):  # its words say it; how it was found out tells a user nothing
                error.__cause__, error.__suppress_context__ = None, True
                error.__traceback__ = None
            future.fail(error)
            return item
        item.call, item.file, future.keep, item.lease = packed
        return item

    def _put(self, intake: Intake, items: list[Item]) -> None:
        shippable = [item for item in items if not item.future.done()]
        try:
            with self._lock:
                self._check()
                self._unfinished.update(shippable)
            for item in shippable:
                item.origin.submitted(item)
            intake.put(shippable)
        except BaseException:  # an interrupt may come anywhere
            intake.abandon(shippable)
            raise

    def _settled(self, item: Item) -> None:
        item.origin.settled(item)
        with self._lock:
            self._unfinished.discard(item)
            self._idle.notify_all()

    def _check(self) -> None:
        if self._is_shut_down:
            raise RuntimeError("cannot schedule new futures after shutdown")

    def interrupt(self) -> None:
        """What waits is cancelled, and what runs is interrupted; further calls may be submitted."""
        self._intake().interrupt(lambda item: item in self._unfinished)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """`wait`: returns when nothing runs any more. Idempotent."""
        with self._lock:
            self._is_shut_down = True
            unfinished = list(self._unfinished)
        if cancel_futures:
            for item in unfinished:
                item.future.cancel()
        if wait:
            with self._lock:
                self._idle.wait_for(lambda: not self._unfinished)
