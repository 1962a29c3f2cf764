"""Files that were closed, as `with` leaves them (`finished`): compressed ones, those in archives, answers of a server.

Each arrives as one that is closed, and has of its attributes what can travel.
"""

import io
import os
from contextlib import suppress
from typing import Any

from wool_jupyter.wire import rebuilding

Reduced = tuple[Any, ...]

# What these are is not in their attributes.
_IN_C = io.FileIO, io.BufferedReader, io.BufferedWriter, io.BufferedRandom, io.BufferedRWPair, io.TextIOWrapper


def in_c(file: Any) -> Reduced:
    """One that was closed."""
    facts: dict[str, Any] = {}
    for name in ("name", "mode"):
        with suppress(AttributeError, ValueError):  # it has none, or as it is closed (`bz2` of Python 3.13)
            facts[name] = getattr(file, name)
    return make_closed_file, (type(file), facts, getattr(file, "encoding", None))


def make_closed_file(cls: type, facts: dict[str, Any], encoding: str | None) -> Any:
    mode = "r+b" if cls is io.BufferedRandom else "wb" if cls is io.BufferedWriter else "rb"
    raw = io.FileIO(os.devnull, mode)
    if "name" in facts:
        raw.name = facts["name"]
    else:
        del raw.name
    file = io.TextIOWrapper(io.BufferedReader(raw), encoding=encoding) if cls is io.TextIOWrapper else cls(raw)
    if isinstance(file, io.TextIOWrapper) and "mode" in facts:
        vars(file)["mode"] = facts["mode"]
    file.close()
    return file


def _file(file: Any) -> Reduced | None:
    """Of a class in Python, whose attributes say that it is closed."""
    if isinstance(file, _IN_C) or not file.closed:
        return None
    return closed_file, (type(file),), _what_travels(vars(file)), None, None, rebuilding.set_attributes


def _what_travels(attributes: dict[str, Any]) -> dict[str, Any]:
    """A compressor does not, say, and nobody has a use for that of a closed file."""
    from wool_jupyter.wire import pickling  # which imports this

    pickler = pickling.NotebookPickler(io.BytesIO())
    return {name: value for name, value in attributes.items() if pickler.pickles(value)}


def closed_file(cls: Any) -> Any:
    return cls.__new__(cls)


def in_memory(file: io.StringIO | io.BytesIO) -> Reduced | None:
    """Made as an open one is, which pickles with what stands in it: so one can become the other."""
    if not file.closed or type(file) not in (io.StringIO, io.BytesIO):
        return None
    return rebuilding.NEW_OBJECT, (type(file),), dict(vars(file)), None, None, close_in_memory


def close_in_memory(file: Any, attributes: dict[str, Any]) -> None:
    file.__init__()
    file.close()
    vars(file).update(attributes)


def _mapped(mapped: Any) -> Reduced | None:
    return (closed_map, ()) if mapped.closed else None


def closed_map() -> Any:
    import mmap

    mapped = mmap.mmap(-1, 1)
    mapped.close()
    return mapped


def _chunks(reader: Any) -> Reduced | None:
    """Of `pandas.read_csv(..., chunksize=...)`."""
    handles = reader.handles
    if handles is not None and not getattr(handles.handle, "closed", False):
        return None
    return ended_chunks, ({name: getattr(reader, name) for name in ("chunksize", "nrows", "_currow")},)


def ended_chunks(attributes: dict[str, Any]) -> Any:
    import pandas as pd

    with io.StringIO("a\n1\n") as file, pd.read_csv(file, chunksize=1) as reader:
        list(reader)
    vars(reader).update(attributes)
    return reader


REDUCERS = {
    ("_io", "_IOBase"): _file,
    ("mmap", "mmap"): _mapped,
    ("pandas.io.parsers.readers", "TextFileReader"): _chunks,
}
