"""What a run of blocking calls says to its worker, and what the worker reports.

A run has one `Opening`, then a `Batch` for each answer to a `Report`. Each call is one `Item`, and its outcome that of
`wire.calls`. Its number stands in the ledger before anything of it runs: who reads it after a death knows what has begun.
"""

import os
import struct
import weakref

import msgspec

_LEDGER = "begun"
_NUMBER = struct.Struct("<Q")

BATCH_BYTES = 2 << 20  # of items in one message, and of outcomes: large data are files


class Item(msgspec.Struct, frozen=True, array_like=True):
    number: int  # rises from call to call
    function: int  # index of what the run was told of; -1: `call` says all
    call: bytes  # a `calls.Request`, or the arguments alone (`calls.pack_arguments`)


class Batch(msgspec.Struct, frozen=True, array_like=True):
    functions: tuple[bytes, ...]  # more of them, each a `calls.Request` without arguments
    items: tuple[Item, ...]
    last: bool  # nothing follows: the report of the last one ends the run


class Opening(msgspec.Struct, frozen=True):
    directory: str  # of whoever submitted the calls; each worker has its own text inside (`text_directory`)
    places: tuple[str, ...]  # for large results, in order of preference
    ambient: dict[str, bytes]  # an `ambient.State`
    batch: Batch
    native_threads: int  # that a library below Python may use for each of the calls


class Done(msgspec.Struct, frozen=True, array_like=True):
    number: int
    outcome: bytes  # `calls.Outcome`
    took_s: float  # with what loading and packing took


class Report(msgspec.Struct, frozen=True, array_like=True):
    done: tuple[Done, ...]  # what they have printed is in the files by now
    given_back: tuple[int, ...]  # numbers of calls that will not begin here, as was asked
    shown: tuple[bytes, ...]  # `cells.Event`s, of these calls or later ones
    goes_on: bool  # threads or children of the calls are still there, and may print


encode = msgspec.msgpack.Encoder().encode
decode_opening = msgspec.msgpack.Decoder(Opening).decode
decode_batch = msgspec.msgpack.Decoder(Batch).decode
decode_report = msgspec.msgpack.Decoder(Report).decode


def text_directory(directory: str, worker: str) -> str:
    """`worker`: its uid."""
    return f"{directory}/{worker[:8]}"


class ItemLedger:
    """The worker's side; open until it is dropped."""

    def __init__(self, directory: str) -> None:
        self._fd = os.open(f"{directory}/{_LEDGER}", os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        weakref.finalize(self, os.close, self._fd).atexit = False

    def begins(self, number: int) -> None:
        """What is written survives any death of this process."""
        os.pwrite(self._fd, _NUMBER.pack(number), 0)


def last_begun(directory: str) -> int:
    """0 if none has."""
    try:
        with open(f"{directory}/{_LEDGER}", "rb") as file:
            data = file.read(_NUMBER.size)
    except FileNotFoundError:
        return 0
    return _NUMBER.unpack(data)[0] if len(data) == _NUMBER.size else 0
