"""How calls come from the threads that submit them to the loop that sends them.

thread ─ submit ─▶ Intake ─▶ CallQueue (on the loop)
       ◀── Future ─────────────┘
"""

import threading
from collections.abc import Callable, Iterable
from typing import Any
from weakref import WeakKeyDictionary

from wool_jupyter import host
from wool_jupyter.pool.call_item import Item
from wool_jupyter.pool.call_queue import CallQueue
from wool_jupyter.pool.call_run import interrupted
from wool_jupyter.pool.futures import Callbacks
from wool_jupyter.pool.known_functions import KnownFunctions
from wool_jupyter.pool.pacing import Cost


class Intake:
    """From threads to the queue of one pool."""

    def __init__(
        self,
        queue: CallQueue,
        post: Callable[..., object],
        *,
        main_threads: Callable[[], int],
        raising: Callable[[BaseException], object] = lambda _: None,
    ) -> None:
        """`post` has the loop call a function with arguments; `raising` as for a `Future`."""
        self.raising = raising
        self._queue = queue
        self._post = post
        self.main_threads = main_threads
        self._cpus = host.usable_cpus()
        self.callbacks = Callbacks()
        self.functions = KnownFunctions()
        self._lock = threading.Lock()
        self._brought: list[Item] = []
        self._costs: WeakKeyDictionary[Any, Cost] = WeakKeyDictionary()

    @property
    def native_threads(self) -> int:
        """That a call may use below Python: calls run side by side on all main threads."""
        return max(1, self._cpus // self.main_threads())

    def put(self, items: Iterable[Item]) -> None:
        """All of them, or none, if an interrupt ends it: `abandon` knows which."""
        with self._lock:
            if not self._brought:
                self._post(self._deliver)  # at first: else what is brought after an interrupt would wait for ever
            self._brought += items

    def abandon(self, items: Iterable[Item]) -> None:
        """Nobody has their futures: those that were not put are over."""
        self._post(self._end_unless_put, items)

    def _end_unless_put(self, items: Iterable[Item]) -> None:
        self._deliver()
        for item in items:
            if not item.is_put:
                item.fail(interrupted())

    def _deliver(self) -> None:
        with self._lock:
            brought, self._brought = self._brought, []
        for item in brought:
            item.is_put = True
        self._queue.put(brought)

    def cancelled(self) -> None:
        self._post(self._queue.prune)

    def interrupt(self, meant: Callable[[Item], bool]) -> None:
        """Also what was put just before."""
        self._post(self._queue.interrupt, meant)

    def cost_of(self, function: Any) -> Cost:
        key = getattr(function, "__func__", None) or getattr(function, "func", None) or function
        if not hasattr(key, "__code__") and not isinstance(key, type):
            key = type(key)
        try:
            with self._lock:
                return self._costs.setdefault(key, Cost())
        except TypeError:
            return Cost()
