"""What was written into a large array, where most of it is as it came."""

import pickle
from collections.abc import Sequence
from typing import Any

from wool_jupyter.wire import own_memory, views

_PAGED_BYTES = 1 << 20  # below, all of it travels as fast


class Pages:
    """Stands for an array whose receiver has it as it was: dtype, shape and order are the same."""

    def __init__(self, spans: Sequence[tuple[int, int]], data: Any) -> None:
        """`spans` are places in its memory, and `data` what is there, one after the other."""
        self._spans = spans
        self._data = data

    def __reduce__(self) -> tuple[Any, ...]:
        return Pages, (self._spans, pickle.PickleBuffer(self._data))

    def write_into(self, array: Any) -> None:
        target, source, at = memoryview(_bytes_of(array)), memoryview(self._data), 0
        for begin, end in self._spans:
            target[begin:end] = source[at : at + end - begin]
            at += end - begin


def written(array: Any) -> Pages | None:
    """Of a contiguous one in a mapping that arrived; None if that saves nothing, or can't be told."""
    if array.nbytes < _PAGED_BYTES:
        return None
    spans = own_memory.own_pages(views.address(array), array.nbytes)
    if spans is None or 2 * sum(end - begin for begin, end in spans) > array.nbytes:
        return None
    memory = memoryview(_bytes_of(array))
    return Pages(spans, bytearray().join(memory[begin:end] for begin, end in spans))


def _bytes_of(array: Any) -> Any:
    return array.reshape(-1, order="A").view("u1")
