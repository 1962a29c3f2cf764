"""Arrays that share memory, which numpy's own pickling would turn into independent copies.

A pickler notes the arrays that it meets. Where two of them overlap, the pickle is made again with the smaller as views into a base:
the largest of them if it covers the others, else the bytes that they cover together.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

Bases = dict[int, tuple[Any, int]]  # id(array) -> its base, and the offset in it in bytes


def make_view(base: Any, offset: int, dtype: Any, shape: Any, strides: Any, writeable: bool) -> Any:
    import numpy as np

    view: Any = np.ndarray(shape, dtype, base, offset, strides)
    if not writeable:
        view.flags.writeable = False
    return view


def as_view(array: Any, base: Any, offset: int) -> tuple[Any, tuple[Any, ...]]:
    return make_view, (base, offset, array.dtype, array.shape, array.strides, bool(array.flags.writeable))


def address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def overlapping(arrays: Iterable[Any]) -> Bases:
    groups: dict[int, dict[int, Any]] = defaultdict(dict)
    for array in arrays:
        if array.size and not array.dtype.hasobject:
            groups[id(_root(array))][id(array)] = array
    bases: Bases = {}
    for group in groups.values():
        if len(group) > 1:
            for cluster in _clusters(list(group.values())):
                bases.update(_bases_in(cluster))
    return bases


def by_root(arrays: Iterable[Any]) -> dict[int, Any]:
    """Of arrays that came in a message: the one to which views can refer, by what owns their memory."""
    found: dict[int, Any] = {}
    for array in sorted(arrays, key=lambda array: -array.nbytes):
        # Of an array that was not contiguous the receiver got a copy that owns its data.
        if array.flags.c_contiguous and not array.flags.owndata:
            found.setdefault(id(_root(array)), array)
    return found


def inside(array: Any, bases: Mapping[int, Any]) -> tuple[Any, int] | None:
    """The array of `bases` (as `by_root` gives them) that `array` is a view of."""
    base = bases.get(id(_root(array)))
    if base is None or base is array or not array.size:
        return None
    (low, high), (base_low, base_high) = _bounds(array), _bounds(base)
    return (base, address(array) - base_low) if base_low <= low and high <= base_high else None


def _root(array: Any) -> Any:
    while hasattr(array.base, "__array_interface__"):
        array = array.base
    return array


def _bounds(array: Any) -> tuple[int, int]:
    low = high = address(array)
    for length, stride in zip(array.shape, array.strides, strict=True):
        if stride < 0:
            low += (length - 1) * stride
        else:
            high += (length - 1) * stride
    return low, high + array.itemsize


def _clusters(arrays: list[Any]) -> Iterable[list[Any]]:
    """Those whose spans of memory overlap: two columns of one table do, two halves of one array do not."""
    cluster: list[Any] = []
    end = 0
    for array in sorted(arrays, key=_bounds):
        low, high = _bounds(array)
        if cluster and low >= end:
            yield cluster
            cluster = []
        cluster.append(array)
        end = max(end, high) if len(cluster) > 1 else high
    yield cluster


def _bases_in(cluster: list[Any]) -> Bases:
    if len(cluster) < 2:
        return {}
    low, high = min(_bounds(a)[0] for a in cluster), max(_bounds(a)[1] for a in cluster)
    base = next((a for a in cluster if a.flags.c_contiguous and _bounds(a) == (low, high)), None)
    if base is None:
        root = _root(cluster[0])
        if not (root.flags.c_contiguous or root.flags.f_contiguous):
            return {}
        flat = root.reshape(-1, order="A").view("u1")
        base = flat[low - address(root) : high - address(root)]
    return {id(a): (base, address(a) - low) for a in cluster if a is not base}
