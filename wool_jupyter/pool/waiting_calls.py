"""The calls that wait: which one is next, and for whom. Knows neither workers nor time."""

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from wool_jupyter.pool.call_item import Item


class WaitingCalls:
    """First come, first served. A new *section* begins where somebody else stands in the line behind the calls before it."""

    def __init__(self) -> None:
        self._items: deque[Item] = deque()
        self._numbers = itertools.count(1)
        self.section = 0  # of the calls that come now

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items)

    def begin_section(self) -> None:
        self.section += 1

    def add(self, items: Iterable[Item]) -> None:
        for item in items:
            item.section = self.section
            self._items.append(item)

    @property
    def first(self) -> Item | None:
        return self._items[0] if self._items else None

    def next(self, fits: Callable[[Item], bool]) -> Item | None:
        """The first, if it fits: it is to be sent now, under a number above all before. Cancelled ones end on the way."""
        while self._items:
            item = self._items[0]
            if not item.future.cancelled() and not fits(item):
                return None
            self._items.popleft()
            if item.future.running() or item.future.set_running_or_notify_cancel():
                item.number = next(self._numbers)
                return item
            item.end()
        return None

    def take_back(self, items: Iterable[Item]) -> None:
        """They will be first again, in their order."""
        self._items.extendleft(reversed(list(items)))

    def prune(self) -> None:
        """Ends those that were cancelled."""
        self._items = deque(self._left())

    def _left(self) -> Iterator[Item]:
        for item in self._items:
            if item.future.cancelled():
                item.future.drop()
                item.end()
            else:
                yield item

    def cancel(self, meant: Callable[[Item], bool], error: Callable[[], BaseException]) -> None:
        """Those that are meant. One that was sent before, and came back, can't be cancelled: it gets the error."""
        for item in filter(meant, list(self._items)):
            if not item.future.cancel():
                item.fail(error())
        self._items = deque(item for item in self._left() if not item.future.done())

    def fail(self, error: Callable[[Item], BaseException]) -> None:
        """All of them."""
        while self._items:
            item = self._items.popleft()
            item.fail(error(item))

    def share(self, ahead: int, workers: int) -> int:
        """Of the calls that there are, for a worker that has `ahead`."""
        return -(-(len(self._items) + ahead) // max(1, workers))
