"""Arrays that are a file: the same file is mapped on the other side, so that what is written reaches it."""

import mmap
from pathlib import Path
from typing import Any

from wool_jupyter.wire import views

Place = tuple[str, Any, str, int, tuple[int, ...], str]  # file, dtype, mode, offset in bytes, shape, order


def is_memmap(t: type) -> bool:
    return t.__name__ == "memmap" and t.__module__.partition(".")[0] == "numpy"


def place_of(array: Any) -> Place | None:
    """None for what has to travel as data: a private mapping (mode "c"), a view with gaps, a file that has no name any more."""
    mapping, file = array._mmap, array.filename
    if (
        mapping is None
        or file is None
        or array.mode == "c"
        or not array.ndim
        or not array.size
        or not Path(file).exists()
    ):
        return None
    if array.flags.c_contiguous:
        order = "C"
    elif array.flags.f_contiguous:
        order = "F"
    else:
        return None
    begin = array.offset - array.offset % mmap.ALLOCATIONGRANULARITY  # a view has the offset of what it is a view of
    offset = begin + views.address(array) - views.address(_bytes_of(mapping))
    return str(file), array.dtype, "r" if array.mode == "r" else "r+", offset, array.shape, order


def opened(*place: Any) -> Any:
    import numpy as np

    file, dtype, mode, offset, shape, order = place
    return np.memmap(file, dtype=dtype, mode=mode, offset=offset, shape=shape, order=order)


def _bytes_of(mapping: mmap.mmap) -> Any:
    import numpy as np

    return np.frombuffer(mapping, "u1")
