"""What `map` returns: results in the order of their arguments, asked for a bounded way ahead."""

import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Generic, Self, TypeVar

from wool_jupyter.pool.futures import Future

T = TypeVar("T")

Submit = Callable[[Iterator[tuple[Any, ...]]], list[Future[T]]]


class Results(Iterator[T], Generic[T]):
    """An iterator; rows of arguments are taken by the thread that iterates. `close`, or an error, cancels what has not begun."""

    def __init__(
        self, submit: Submit[T], rows: Iterator[tuple[Any, ...]], *, ahead: Callable[[], int], timeout_s: float | None
    ) -> None:
        """`submit` packs each row before it takes the next one: a generator may give one array again and again, with other content.
        `ahead`: how many calls may be under way, or done and not fetched. The time runs from here, for all results."""
        self._submit = submit
        self._rows: Iterator[tuple[Any, ...]] | None = rows
        self._ahead = ahead
        self._until = None if timeout_s is None else time.monotonic() + timeout_s
        self._futures: deque[Future[T]] = deque()
        self._failure: BaseException | None = None  # of the arguments: raised when the results before it were fetched
        self._fill()

    def __repr__(self) -> str:
        return "<Results of a map: `list` or a loop takes them>"

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        __tracebackhide__ = True
        self._fill()
        if not self._futures:
            failure, self._failure = self._failure, None
            if failure is not None:
                raise failure
            raise StopIteration
        future = self._futures.popleft()
        try:
            return future.result(None if self._until is None else self._until - time.monotonic())
        except StopIteration as error:  # further results would be missing without a word
            self.close()
            raise RuntimeError("a call raised StopIteration") from error
        except BaseException:
            future.cancel()
            self.close()
            raise

    def _fill(self) -> None:
        """In bulk, when half of it is gone."""
        __tracebackhide__ = True
        ahead = self._ahead()
        if self._rows is None or 2 * len(self._futures) > ahead:
            return
        self._futures += self._submit(self._taken(self._rows, max(1, ahead - len(self._futures))))

    def _taken(self, rows: Iterator[tuple[Any, ...]], most: int) -> Iterator[tuple[Any, ...]]:
        __tracebackhide__ = True
        try:
            for row in rows:
                yield row
                most -= 1
                if not most:
                    return
        except Exception as error:  # noqa: BLE001 (of the arguments)
            self._failure = error
        except BaseException:
            self.close()
            raise
        self._rows = None

    def close(self) -> None:
        """Idempotent. Calls that have begun go on."""
        self._rows = self._failure = None
        while self._futures:
            self._futures.pop().cancel()


class SizedResults(Results[T]):
    """Of arguments whose number is known: a progress bar shows how many there are."""

    def __init__(self, size: int, submit: Submit[T], rows: Iterator[tuple[Any, ...]], **options: Any) -> None:
        super().__init__(submit, rows, **options)
        self._size = size

    def __repr__(self) -> str:
        return f"<Results of a map of {self._size}: `list` or a loop takes them>"

    def __len__(self) -> int:
        return self._size
