"""Which types leave the message as buffers, and arrive as they were."""

import io
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse

from wool_jupyter.wire import buffers, pickling

N = 200_000
numbers = np.arange(float(N))
dates = np.datetime64("2020-01-01", "s") + np.arange(N)
table = np.arange(float(N)).reshape(100, -1)


def frame(**columns):
    return pd.DataFrame(columns)


def read_only(array):
    array.flags.writeable = False
    return array


LEAVE = {
    "numbers": numbers,
    "in Fortran order": np.asfortranarray(table),
    "transposed": table.T,
    "rows": table[20:80],
    "structured": np.zeros(N, [("a", "i4"), ("b", "f8")]),
    "fixed text": np.full(N, "abc"),
    "read-only": read_only(numbers.copy()),
    "dates": dates,
    "durations": dates - dates[0],
    "dates in Fortran order": np.asfortranarray(dates.reshape(100, -1)),
    "read-only dates": read_only(dates.copy()),
    "columns": table[:, 10:500],
    "backwards": numbers[::-1],
    "every second date": dates[::2],
    "read-only with gaps": read_only(numbers[::2]),
    "frame": frame(a=numbers, b=numbers.astype("i4"), c=numbers > 5),
    "frame of dates": frame(a=dates, b=numbers),
    "frame of dates with a zone": frame(a=pd.date_range("2020-01-01", periods=N, tz="UTC")),
    "series of durations": pd.Series(dates - dates[0]),
    "index of dates": pd.DatetimeIndex(dates),
    "nullable": pd.Series(range(N), dtype="Int64"),
    "categories": pd.Series(pd.Categorical.from_codes(np.arange(N) % 300, [f"c{n}" for n in range(300)])),
    "rows of a frame": frame(a=numbers, b=numbers)[500:-500],
    "sparse": scipy.sparse.random(1000, 1000, 0.1, "csr", random_state=1),
    "polars numbers": pl.DataFrame({"a": numbers, "b": numbers.astype("u2"), "c": numbers.astype("f4")}),
    "polars times": pl.DataFrame({"a": dates.astype("M8[us]")}).with_columns(
        b=pl.col("a").dt.replace_time_zone("UTC"),
        c=pl.col("a") - pl.col("a").min(),
        d=pl.col("a").dt.date(),
        e=pl.col("a").dt.time(),
    ),
    "polars sorted": pl.Series("s", numbers).set_sorted(descending=False),
    "polars between others": pl.DataFrame(
        {
            "t": [f"row {n}" for n in range(N)],
            "a": numbers,
            "none": [None, *numbers[1:]],
            "small": [True] * N,
            "z": numbers,
        }
    ),
    "containers": {"a": [numbers, (dates,)]},
}

# Their own pickling writes bytes, or object by object.
STAY = {
    "objects": np.array(["abc"] * N, dtype=object),
    "polars text": pl.Series("t", [f"row {n}" for n in range(N)]),
    "polars in two parts": pl.concat([pl.Series("a", numbers)] * 2, rechunk=False),
    "masked": np.ma.masked_array(numbers, mask=numbers % 2),
    "frame of objects": frame(a=pd.Series([(1,)] * N, dtype=object)),
}


def dumped(value):
    file, out_of_band = io.BytesIO(), buffers.OutOfBand()
    pickling.NotebookPickler(file, out_of_band).dump(value)
    return file.getvalue(), [bytearray(view) for view in out_of_band.buffers]


def loaded(stream, copies):
    return pickle.loads(stream, buffers=iter(copies))


def same(one, other):
    if isinstance(one, np.ndarray):
        np.testing.assert_array_equal(one, other)
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
    elif isinstance(one, pd.DataFrame):
        pd.testing.assert_frame_equal(one, other)
    elif isinstance(one, pd.Series):
        pd.testing.assert_series_equal(one, other)
    elif isinstance(one, pd.Index):
        pd.testing.assert_index_equal(one, other)
    elif isinstance(one, pl.DataFrame | pl.Series):
        assert one.equals(other)
        assert list(one.schema.items() if isinstance(one, pl.DataFrame) else [one.dtype]) == list(
            other.schema.items() if isinstance(one, pl.DataFrame) else [other.dtype]
        )
        assert one.flags == other.flags
    elif scipy.sparse.issparse(one):
        assert (one != other).nnz == 0
    else:
        same(one["a"][0], other["a"][0])
        same(one["a"][1][0], other["a"][1][0])


@pytest.mark.parametrize("name", LEAVE)
def test_it_leaves_the_message_and_arrives_as_it_was(name):
    value = LEAVE[name]
    stream, copies = dumped(value)
    assert len(stream) < 20_000
    assert sum(map(len, copies)) > 100_000
    same(value, loaded(stream, copies))


@pytest.mark.parametrize("name", STAY)
def test_what_stays_is_known(name):
    stream, copies = dumped(STAY[name])
    assert len(stream) > 100_000
    assert len(copies) == 0
    assert type(loaded(stream, copies)) is type(STAY[name])


@pytest.mark.parametrize("name", [name for name, value in LEAVE.items() if isinstance(value, np.ndarray)])
def test_order_is_what_pickle_gives_and_a_read_only_array_stays_so(name):
    value = LEAVE[name]
    found, plain = loaded(*dumped(value)), pickle.loads(pickle.dumps(value, 5))
    for flag in ("c_contiguous", "f_contiguous", "aligned"):
        assert getattr(found.flags, flag) == getattr(plain.flags, flag)
    with_gaps = not (value.flags.c_contiguous or value.flags.f_contiguous)
    assert found.flags.writeable == value.flags.writeable
    assert found.flags.owndata == with_gaps


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(numbers[:10], id="numbers"),
        pytest.param(numbers[:10:2], id="with gaps"),
        pytest.param(np.broadcast_to(numbers[:10], (3, 10)), id="broadcast"),
        pytest.param(dates[:10:2], id="dates with gaps"),
        pytest.param(np.array([1, "a", None]), id="objects"),
        pytest.param(np.array([[1, "a"], [2, "b"]], dtype=object)[:, 0], id="objects with gaps"),
    ],
)
@pytest.mark.parametrize("writeable", [True, False])
def test_a_small_one_is_writable_if_it_was(value, writeable):
    value = value if not writeable else value.copy()
    if not writeable:
        value = read_only(value.view())
    found = loaded(*dumped(value))
    assert found.flags.writeable == writeable
    same(value, found)


def test_a_part_of_an_array_sends_no_more_than_itself():
    _, copies = dumped(table[:, 10:500])
    assert sum(map(len, copies)) == table[:, 10:500].nbytes


def test_small_ones_stay_in_the_message():
    for value in (dates[:100], numbers[:100:2]):
        stream, copies = dumped(value)
        assert copies == []
        same(value, loaded(stream, copies))
