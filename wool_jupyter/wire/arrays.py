"""Arrays that numpy's own pickling copies into the stream (numpy 2.4): dates and durations, for which a buffer
has no format, and those with gaps; and what it gives back writable that was not."""

import pickle
from typing import Any

Reduced = tuple[Any, tuple[Any, ...]]

LARGE_BYTES = 128 << 10  # below, nothing leaves the stream


def reduced(array: Any) -> Reduced | None:
    """None for what numpy does well."""
    flags = array.flags
    is_dense = flags.c_contiguous or flags.f_contiguous
    if array.nbytes < LARGE_BYTES or array.dtype.hasobject:
        is_kept = flags.writeable or (is_dense and not array.dtype.hasobject)
        return None if is_kept else (read_only, array.__reduce__())
    if not is_dense:
        return _with_gaps(array)
    if array.dtype.kind not in "mM":
        return None
    order = "C" if flags.c_contiguous else "F"
    return made_on, (pickle.PickleBuffer(array.view("i8")), array.dtype, array.shape, order)


def _with_gaps(array: Any) -> Reduced:
    dense = array.copy(order="C")
    if dense.dtype.kind in "mM":
        dense = dense.view("i8")
    buffer = pickle.PickleBuffer(dense.reshape(-1).view("u1"))
    return made, (buffer, array.dtype, array.shape, bool(array.flags.writeable))


def made_on(buffer: Any, dtype: Any, shape: Any, order: Any) -> Any:
    import numpy as np

    return np.frombuffer(buffer, dtype).reshape(shape, order=order)


def made(buffer: Any, dtype: Any, shape: Any, writeable: bool) -> Any:
    """With memory of its own: nobody takes it for a place in the sender's."""
    array = made_on(buffer, dtype, shape, "C").copy()
    array.flags.writeable = writeable
    return array


def read_only(maker: Any, arguments: Any, state: Any) -> Any:
    array = maker(*arguments)
    array.__setstate__(state)
    array.flags.writeable = False
    return array
