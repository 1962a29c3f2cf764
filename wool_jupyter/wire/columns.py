"""Frames and series of polars, whose own pickling copies all into one run of bytes (polars 2.1): columns of numbers and times leave
as they lie in memory, the others as those bytes."""

import pickle
from typing import Any

from wool_jupyter.wire.arrays import LARGE_BYTES, Reduced

Column = tuple[str, Any, Any, bool, bool]  # name, buffer, dtype, sorted upwards, sorted downwards

_AS_IN_NUMPY = frozenset("Int8 Int16 Int32 Int64 UInt8 UInt16 UInt32 UInt64 Float32 Float64".split())


def is_polars(t: type) -> bool:
    return t.__name__ in ("DataFrame", "Series") and t.__module__ in (
        "polars.dataframe.frame",
        "polars.series.series",
    )


def reduced(held: Any) -> Reduced | None:
    """None where no column would leave."""
    is_series = type(held).__name__ == "Series"
    series = [held] if is_series else held.get_columns()
    columns = {number: column for number, each in enumerate(series) if (column := _column(each)) is not None}
    if not columns:
        return None
    rest = None if len(columns) == len(series) else pickle.PickleBuffer(_without(held, columns))
    return made, (columns, rest, is_series)


def _column(series: Any) -> Column | None:
    if series.estimated_size() < LARGE_BYTES or series.n_chunks() != 1 or series.null_count():
        return None
    dtype = series.dtype
    if not (dtype.is_numeric() or dtype.is_temporal()):
        return None
    physical = series.to_physical()
    if str(physical.dtype) not in _AS_IN_NUMPY:
        return None
    array = physical.to_numpy(allow_copy=False)
    flags = series.flags
    return (
        series.name,
        pickle.PickleBuffer(array),
        (dtype, array.dtype),
        flags["SORTED_ASC"],
        flags["SORTED_DESC"],
    )


def _without(frame: Any, columns: dict[int, Column]) -> bytes:
    rest = frame.select([name for number, name in enumerate(frame.columns) if number not in columns])
    return pickle.dumps(rest, 5)


def made(columns: dict[int, Column], rest: Any, is_series: bool) -> Any:
    import numpy as np
    import polars as pl

    series = [] if rest is None else pickle.loads(rest).get_columns()
    for number, (name, buffer, (dtype, physical), upwards, downwards) in columns.items():
        each = pl.Series(name, np.frombuffer(buffer, physical)).cast(dtype)
        series.insert(number, each.set_sorted(descending=downwards) if upwards or downwards else each)
    return series[0] if is_series else pl.DataFrame(series)
