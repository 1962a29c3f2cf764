"""What a `%%wool` cell says to its worker, and what the worker says while it runs and at its end."""

import pickle

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
    directory: str  # the call's: its text goes here
    places: tuple[str, ...]  # for large buffers, in order of preference
    names: Names
    ambient: dict[str, bytes]  # an `ambient.State` that follows the kernel
    budget_bytes: int | None  # a result above this stays on the worker; None: a quarter of the free memory
    release: tuple[str, ...]  # keys of kept objects that nobody refers to any more


class _Event(msgspec.Struct, frozen=True):
    at: tuple[int, int]  # lengths of stdout and stderr when it was made: the text up to there comes first


class Display(_Event, frozen=True, tag="display"):
    content: Parcel  # pickled {data, metadata, transient, update}
    late: bool  # made after the body had ended: a plain cell shows its result first


class Clear(_Event, frozen=True, tag="clear"):
    wait: bool


class Interrupted(_Event, frozen=True, tag="interrupted"):
    """A SIGINT has reached the interpreter. `delivered`: the cell has had its KeyboardInterrupt, and answers for itself."""

    delivered: bool


class Ask(_Event, frozen=True, tag="ask"):
    """The client answers with `Send(Answer)`."""

    prompt: str
    password: bool


class Outcome(_Event, frozen=True, tag="outcome"):
    """The last event. `reply` is what `worker.cell.outcome` pickled."""

    reply: Parcel
    deleted: tuple[str, ...]
    kept: tuple[tuple[str, str, str, str], ...]  # name ("" is the last value), key, type, the culprit in words
    ambient: dict[str, bytes]  # the `ambient.State` after the cell
    payload: bytes  # pickled list of IPython payloads (pager, set_next_input)
    error: str  # in words, for a kernel that can't load it; "" for none
    interrupted: bool  # a SIGINT came when the body had ended
    bundle: Parcel | None  # pickled (data, metadata) of a last value that can't travel


class Refused(_Event, frozen=True, tag="refused"):
    """An input could not be loaded; nothing ran."""

    reason: str
    name: str  # of the variable, if it is one


Event = Display | Clear | Interrupted | Ask | Outcome | Refused


class Answer(msgspec.Struct, frozen=True):
    value: str | None
    error: bytes  # pickled exception, when there is no value


encode = msgspec.msgpack.Encoder().encode
decode_request = msgspec.msgpack.Decoder(CellRequest).decode
decode_event = msgspec.msgpack.Decoder(Event).decode
decode_answer = msgspec.msgpack.Decoder(Answer).decode
