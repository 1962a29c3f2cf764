"""Functions that are submitted again and again: packed once, as long as they would be packed alike, and sent once to each run."""

import threading
import types
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from wool_jupyter.wire import calls, composition
from wool_jupyter.wire.composition import Composition


class _Known(NamedTuple):
    composition: Composition
    packed: calls.PackedFunction


class KnownFunctions:
    """For any thread."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[Any, _Known | None] = WeakKeyDictionary()
        self._lock = threading.Lock()

    def packed(self, function: Any, data: calls.Data) -> calls.PackedFunction | None:
        """None for one that is to be packed with its call: it is new here, or may change and stay the same object."""
        if type(function) is not types.FunctionType:
            return None
        with self._lock:
            if function not in self._known:
                self._known[function] = None  # who submits it once need not look at it
                return None
            known = self._known[function]
        now = composition.of(function)
        if now is None:
            return None
        if known is not None and known.composition == now:
            return known.packed
        packed = calls.PackedFunction(function, data)
        if packed.has_data:  # which goes with the cell that it was packed for
            return None
        if composition.of(function) == now:  # else another thread changes it
            with self._lock:
                self._known[function] = _Known(now, packed)
        return packed
