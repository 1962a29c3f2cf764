"""What a `%%wool` cell says to its worker, and what the worker says while it runs and at its end."""

import pickle
from typing import Literal

import msgspec

from wool_jupyter.wire.buffers import Parcel


class Names(msgspec.Struct, frozen=True):
    """Variables in one pickle stream, a `dump` per name."""

    parcel: Parcel
    segments: tuple[tuple[str, int, int], ...]  # name, bytes of the stream, buffers
    submodules: tuple[str, ...]
    sources: bytes  # pickled {file name: (cell number or None, source lines)} of the functions inside


NO_NAMES = Names(Parcel(b""), (), (), pickle.dumps({}))


class CellRequest(msgspec.Struct, frozen=True):
    source: str  # as the user wrote it, below the magic line
    transformed: str  # Python, padded to the lines that the user sees
    filename: str
    number: int  # In[number]
    compiler_flags: int  # a `__future__` import holds for the cells that follow
    directory: str  # the call's: its text goes here
    places: tuple[str, ...]  # for large buffers, in order of preference
    names: Names
    ambient: dict[str, bytes]  # an `ambient.State` that follows the kernel
    budget_bytes: int | None  # a result above this stays on the worker; None: a quarter of the free memory
    release: tuple[str, ...]  # keys of kept objects that nobody refers to any more
    results: tuple[str, ...] | None  # the names that come back, whatever their size; None: all that the cell binds
    message: str  # the front end's, which output widgets name to have what follows; "": there is none
    terminal: tuple[int, int] | None  # its columns and lines, where the kernel is IPython in a terminal


class _Event(msgspec.Struct, frozen=True):
    at: tuple[int, int]  # lengths of stdout and stderr when it was made: the text up to there comes first


class Display(_Event, frozen=True, tag="display"):
    content: Parcel  # pickled {data, metadata, transient, update}
    late: bool  # made after the body had ended: a plain cell shows its result first


class Clear(_Event, frozen=True, tag="clear"):
    wait: bool


class Failure(_Event, frozen=True, tag="failure"):
    """An error that the cell shows and survives: of a formatter, of a script that it runs."""

    name: str  # of its class
    words: str
    traceback: tuple[str, ...]
    error: Parcel | None  # pickled, if it can be


class Comm(_Event, frozen=True, tag="comm"):
    """What a widget says to its model in the browser."""

    kind: Literal["comm_open", "comm_msg", "comm_close"]
    comm: str  # its id
    content: Parcel  # pickled {target_name, target_module} of one that opens, with data, metadata and buffers


class Notice(_Event, frozen=True, tag="notice"):
    """A line of ours."""

    text: str


class Interrupted(_Event, frozen=True, tag="interrupted"):
    """A SIGINT has reached the interpreter. `delivered`: the cell has had its KeyboardInterrupt, and answers for itself."""

    delivered: bool


class Ask(_Event, frozen=True, tag="ask"):
    """The client answers with `Send(Answer)`."""

    prompt: str
    password: bool


# A reply is a row of dumps with one memo, each ((kind, variable or ""), what it holds):
#   contents   of a changed input: patching.Contents
#   classes    of classes that were changed: a list of classes.Change
#   name       a variable that the cell has bound; modules come first, then functions and classes
#   apart      {variable: value} of changed inputs that come as new objects
#   value      of the last expression
#   error      the exception that ended the cell
PartKey = tuple[Literal["contents", "classes", "name", "apart", "value", "error"], str]


class KeptResult(msgspec.Struct, frozen=True):
    """A result that stays on its worker."""

    name: str  # "" is the last value
    key: str  # under which the worker has it
    kind: str  # its type
    why: str  # a sentence's beginning: "`x` (…) can't be shipped"


class Outcome(_Event, frozen=True, tag="outcome"):
    """The last event."""

    reply: Parcel
    deleted: tuple[str, ...]
    missing: tuple[str, ...]  # of the results asked for; then all that the cell has bound came back
    kept: tuple[KeptResult, ...]
    ambient: dict[str, bytes]  # the `ambient.State` after the cell, where its body has changed it
    ambient_before: dict[str, bytes]  # the same aspects when the body began
    compiler_flags: int
    payload: bytes  # pickled list of IPython payloads (pager, set_next_input)
    error: str  # in words, for a kernel that can't load it; "" for none
    goes_on: bool  # threads or children of the cell are still there, and may print
    interrupted: bool  # a SIGINT came when the body had ended
    bundle: Parcel | None  # pickled (data, metadata) of a last value that can't travel


class Refused(_Event, frozen=True, tag="refused"):
    """An input could not be loaded; nothing ran."""

    reason: str
    name: str  # of the variable, if it is one


Shown = Display | Clear | Failure | Comm | Notice
InPlace = Shown | Ask  # between two texts: each has its mark in the order file
Event = InPlace | Interrupted | Outcome | Refused


class Answer(msgspec.Struct, frozen=True):
    value: str | None
    error: bytes  # pickled exception, when there is no value


encode = msgspec.msgpack.Encoder().encode
decode_request = msgspec.msgpack.Decoder(CellRequest).decode
decode_event = msgspec.msgpack.Decoder(Event).decode
decode_answer = msgspec.msgpack.Decoder(Answer).decode
