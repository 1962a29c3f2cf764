"""What a call of a routine says to its worker, and what comes back: user's objects, as bytes.

Packed on the thread that calls and unpacked in the context that runs it (`wire.homes`): never on a loop that others wait for.
"""

import importlib
import io
import pickle
import types
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import msgspec

from wool_jupyter.errors import CannotLoad, NoRoom, PayloadTooLarge, in_words
from wool_jupyter.wire import (
    buffers,
    callers,
    contents,
    culprits,
    frames,
    homes,
    pickling,
    rebuilding,
    refusals,
    shell_names,
    shipping,
    standins,
    type_facts,
)
from wool_jupyter.wire.buffers import Parcel
from wool_jupyter.wire.rows import Failed, Row
from wool_jupyter.wire.store import Digest, Lease, Store

_IN_A_MESSAGE_BYTES = frames.FRAME_MAX_BYTES - (64 << 10)  # beside what else a frame says
_ITSELF = ""  # in place of a name: the call
_SCALARS = frozenset({int, float, complex, bool, str, bytes, type(None)})  # a notebook's pickler has nothing to add


class Request(msgspec.Struct, frozen=True):
    parcel: Parcel  # a row of dumps with one memo
    order: tuple[str, ...]  # what each is: a global name of the notebook's functions, or the call itself
    submodules: tuple[str, ...]
    places: tuple[str, ...]  # directories for large results, in order of preference; none: in the message
    proxy: bytes  # pickled: whom the routine asks in its turn
    path: tuple[str, ...] = ()  # where the caller finds its modules


class Value(msgspec.Struct, frozen=True, tag="value"):
    parcel: Parcel


class Raised(msgspec.Struct, frozen=True, tag="raised"):
    parcel: Parcel  # whose stream is that of `wire.shipping`


Outcome = Value | Raised

encode = msgspec.msgpack.Encoder().encode
decode_request = msgspec.msgpack.Decoder(Request).decode
decode_outcome = msgspec.msgpack.Decoder(Outcome).decode
_decode_parcel = msgspec.msgpack.Decoder(Parcel).decode


class Invocation(NamedTuple):
    """What is called. The function is the one that the name stands for: perhaps a wrapper of what is to run."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


# ---- there


class Packed(NamedTuple):
    body: bytes
    keep: object  # until the call has ended: classes that what comes back refers to


def pack_call(invocation: Invocation, *, places: tuple[str, ...], proxy: bytes) -> Packed:
    """Writes large buffers into the first of `places` that has room. `CannotShip` names an argument that does not pickle;
    `PayloadTooLarge`, `NoRoom`."""
    shipment = _Shipment(invocation, in_band=not places)
    request = _request(shipment, places, proxy=proxy, path=callers.path())
    return Packed(encode(request), shipment.described)


def _request(
    shipment: "_Shipment", places: tuple[str, ...], *, proxy: bytes = b"", path: tuple[str, ...] = ()
) -> Request:
    parcel = _parcel(shipment.row.stream, shipment.row.buffers, places)
    return _described(shipment, parcel, places, proxy=proxy, path=path)


def _described(
    shipment: "_Shipment", parcel: Parcel, places: tuple[str, ...], *, proxy: bytes = b"", path: tuple[str, ...] = ()
) -> Request:
    return Request(parcel, shipment.order, shipment.row.submodules(), places, proxy, path)


class Data(NamedTuple):
    """Where the large data of blocking calls goes."""

    places: tuple[str, ...]
    store: Store | None = None  # what it has is not written again
    digest: Digest = contents.watched  # by which it knows


class PackedCall(NamedTuple):
    """Of a blocking call. `file` is to be removed when no worker needs it any more, and may be ""; `lease` is to be released."""

    body: bytes
    file: str
    keep: object
    lease: Lease | None = None


def pack_blocking(invocation: Invocation, data: Data, *, parts: Sequence[Invocation] = ()) -> PackedCall:
    """As `pack_call`, for a call that finds the process's state there (`wire.ambient`). `parts`: calls that it consists of, whose
    arguments are named in its place."""
    shipment = _Shipment(invocation, in_band=False, parts=parts)
    parcel, lease = _stored(shipment.row.stream, shipment.row.buffers, data)
    return PackedCall(encode(_described(shipment, parcel, data.places)), parcel.file, shipment.described, lease)


def _stored(stream: memoryview, out_of_band: list[memoryview], data: Data) -> tuple[Parcel, Lease | None]:
    if data.store is None or not out_of_band:
        return _parcel(stream, out_of_band, data.places), None
    return data.store.pack(stream, out_of_band, places=data.places, name=uuid4().hex, digest=data.digest)


class PackedFunction:
    """A function that is called many times, as it is now: with what it needs of the notebook, and without arguments."""

    def __init__(self, function: Callable[..., Any], data: Data) -> None:
        shipment = _Shipment(Invocation(function, (), {}), in_band=False)
        parcel, lease = _stored(shipment.row.stream, shipment.row.buffers, data)
        self.body = encode(_described(shipment, parcel, ()))  # its run is told of places
        self.has_data = bool(parcel.file)  # beside `body`, for as long as this lives
        self._known = shipment.known_classes
        self._shipped = frozenset(shipment.order)
        self._functions = {id(f): (name, weakref.ref(f)) for name, f in shipment.functions()}
        self.keep = shipment.described
        if parcel.file:
            weakref.finalize(self, Path(parcel.file).unlink, missing_ok=True)
        if lease is not None:
            weakref.finalize(self, lease.release).atexit = False

    def pack_arguments(self, invocation: Invocation, data: Data) -> PackedCall | None:
        """Of a call of this function. None if they need more of the notebook than the function does, and have to go with it.
        `CannotShip`, `NoRoom`."""
        args, kwargs = invocation.args, invocation.kwargs
        if _SCALARS.issuperset(map(type, args)) and _SCALARS.issuperset(map(type, kwargs.values())):
            parcel, _ = _stored(memoryview(pickle.dumps((args, kwargs), pickling.PROTOCOL)), [], data)
            return PackedCall(encode(parcel), parcel.file, None)
        file, out_of_band = io.BytesIO(), buffers.OutOfBand()
        pickler = pickling.ArgumentsPickler(
            file, out_of_band, known_classes=self._known, known_functions=self._functions
        )
        refusals.dumped(lambda: pickler.dump((args, kwargs)), partial(refusals.of_arguments, [invocation]))
        needed = _variables(pickler.names | pickler.text, rebuilding.main_globals())
        if pickler.whole_namespace or needed - self._shipped:
            return None
        parcel, lease = _stored(file.getbuffer(), out_of_band.buffers, data)
        return PackedCall(encode(parcel), parcel.file, list(pickler.described.values()), lease)


def _variables(names: AbstractSet[str], namespace: Mapping[str, Any]) -> set[str]:
    return (names & namespace.keys()) - shell_names.ALL | shell_names.are_users(names, namespace)


class _Shipment:
    """The call, and every global that the notebook functions in it read, directly or by way of others."""

    def __init__(self, invocation: Invocation, *, in_band: bool, parts: Sequence[Invocation] = ()) -> None:
        """`parts`: what the call consists of, for people."""
        self._invocation = invocation
        self._parts = parts
        self._in_band = in_band
        self._globals = rebuilding.main_globals()
        self._absent: dict[str, standins.Absent] = {}
        self._left_out: set[str] = set()
        self._first: set[str] = set()
        while True:
            try:
                self._pack()
            except Exception:
                if self.row.failed is None or self.row.failed.name == _ITSELF:
                    raise
                self._without(self.row.failed)
                continue
            # Methods run when objects are loaded, and may read what came after them.
            if not (self.described and self.order[-1] != _ITSELF):
                return
            self._first = self.row.names - {_ITSELF}

    def _pack(self) -> None:
        self.row = Row(in_band=self._in_band)
        for name in sorted(self._first - self._left_out, key=self._order):
            self._dump(name)
        self._dump_call()
        self.row.dump_all(self._wanted, self._value, self._dump, order=self._order)

    @property
    def order(self) -> tuple[str, ...]:
        return tuple(dump.name for dump in self.row.dumps)

    @property
    def described(self) -> list[type]:
        return list(self.row.pickler.described.values())

    @property
    def known_classes(self) -> frozenset[str]:
        return frozenset(self.row.pickler.described)

    def functions(self) -> Iterator[tuple[str, types.FunctionType]]:
        """With the global names under which they arrive."""
        for dump, root in zip(self.row.dumps, self.row.roots, strict=True):
            if isinstance(root, types.FunctionType):
                yield dump.name, root

    def _wanted(self) -> set[str]:
        pickler = self.row.pickler
        names = pickler.names | pickler.text | (self._globals.keys() if pickler.whole_namespace else set())
        return _variables(names, self._globals) - self._left_out

    def _value(self, name: str) -> Any:
        return self._absent.get(name, self._globals[name])

    def _order(self, name: str) -> tuple[int, str]:
        return type_facts.load_order(self._value(name)), name

    def _dump(self, name: str) -> None:
        self.row.dump(name, self._value(name), value=self._value(name))

    def _dump_call(self) -> None:
        call = tuple(self._invocation)
        refusals.dumped(
            lambda: self.row.dump(_ITSELF, call, value=call),
            partial(refusals.of_arguments, self._parts or [self._invocation]),
        )

    def _without(self, failed: Failed) -> None:
        name = failed.name
        if name in self.row.pickler.names:
            found = culprits.find(self._globals[name], name)
            self._absent[name] = standins.Absent(
                f"{found} can't be shipped to a worker: {found.advice(refusals.INSIDE)}"
            )
        else:
            self._left_out.add(name)  # it stood in a text only


def unpack_call(request: Request) -> Invocation:
    """In a context with a home of its own. Raises whatever the user's objects raise."""
    callers.follow(request.path)
    for module in request.submodules:
        with suppress(ImportError):  # reached through a package perhaps; who needs it, says so
            importlib.import_module(module)
    unpickler = homes.Unpickler(*buffers.unpack(request.parcel))
    home = rebuilding.main_globals()
    for name in request.order:
        value = unpickler.load()
        if name == _ITSELF:
            call = value
        else:
            home[name] = value
    return Invocation(*call)


def unpack_arguments(data: bytes) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Where the function has been unpacked just now. Raises whatever the user's objects raise."""
    arguments: tuple[tuple[Any, ...], dict[str, Any]] = homes.Unpickler(*buffers.unpack(_decode_parcel(data))).load()
    return arguments


# ---- and back, and to and fro


def pack_value(
    value: Any, *, places: tuple[str, ...], known_classes: Collection[str] = (), what: Callable[[], str]
) -> Parcel:
    """`what` it is, for people. `CannotShip`, `PayloadTooLarge`, `NoRoom`. The receiver removes the file."""
    if type(value) in _SCALARS:
        return _parcel(memoryview(pickle.dumps(value, pickling.PROTOCOL)), [], places, pack=buffers.pack_to_give)
    file, out_of_band = io.BytesIO(), buffers.OutOfBand()
    pickler = pickling.NotebookPickler(file, out_of_band if places else None, known_classes=known_classes)
    pickler.root = value
    refusals.dumped(lambda: pickler.dump(value), lambda error: refusals.of_result(value, error, what=what()))
    return _parcel(file.getbuffer(), out_of_band.buffers, places, pack=buffers.pack_to_give)


def _parcel(
    stream: memoryview,
    out_of_band: list[memoryview],
    places: tuple[str, ...],
    *,
    pack: Callable[..., Parcel] = buffers.pack,
) -> Parcel:
    if not out_of_band and stream.nbytes < buffers.THRESHOLD_BYTES:
        return Parcel(bytes(stream))  # most of them, without a name for a file
    if places:
        return pack(stream, out_of_band, places=places, name=uuid4().hex)
    if stream.nbytes > _IN_A_MESSAGE_BYTES:
        raise PayloadTooLarge(
            f"{stream.nbytes / 2**20:,.1f} MiB are more than the {_IN_A_MESSAGE_BYTES / 2**20:,.1f} MiB that a message holds, "
            "and this worker shares no directory with its caller: send less, or the name of a file"
        )
    return Parcel(bytes(stream))


def unpack_value(parcel: Parcel) -> Any:
    stream, views = buffers.take(parcel)
    if parcel.file:
        Path(parcel.file).unlink(missing_ok=True)  # what is mapped stays
    return homes.Unpickler(stream, views).load()


def pack_sent(value: Any, *, places: tuple[str, ...]) -> bytes:
    return encode(pack_value(value, places=places, what=lambda: "a value that is sent"))


def unpack_sent(data: bytes) -> Any:
    return unpack_value(_decode_parcel(data))


def pack_outcome(
    value: Any,
    *,
    places: tuple[str, ...],
    known_classes: Collection[str] = (),
    what: Callable[[], str] = lambda: "the result",
) -> bytes:
    """A value that can't go is an error that goes instead, and says `what` it is."""
    try:
        return encode(Value(pack_value(value, places=places, known_classes=known_classes, what=what)))
    except BaseException as error:  # noqa: BLE001 (a user's `__reduce__` may raise anything)
        return pack_raised(error, places=places)


def pack_raised(error: BaseException, *, places: tuple[str, ...] = ()) -> bytes:
    """One that is too large is another that says so."""
    try:
        parcel = _parcel(memoryview(shipping.dump(error)), [], places)
    except (PayloadTooLarge, NoRoom):
        words = f"an exception is too large for a message: {in_words(error, at_most=1000)}"
        parcel = Parcel(shipping.dump(PayloadTooLarge(words)))
    return encode(Raised(parcel))


def _raised(outcome: Raised) -> bytes:
    stream, _ = buffers.unpack(outcome.parcel)
    if outcome.parcel.file:
        Path(outcome.parcel.file).unlink(missing_ok=True)
    return bytes(stream)


def unpack_outcome(data: bytes) -> Any:
    """Raises what the body raised. On the thread of whoever waits for it."""
    outcome = decode_outcome(data)
    if isinstance(outcome, Raised):
        raise shipping.load(_raised(outcome))
    return unpack_value(outcome.parcel)


class Arrived:
    """An outcome that nobody has asked for yet. Its file is gone already: what is mapped lives as long as this."""

    def __init__(self, data: bytes) -> None:
        outcome = decode_outcome(data)
        self.raised = isinstance(outcome, Raised)
        if isinstance(outcome, Raised):
            self._error = _raised(outcome)
            return
        self._stream, self._views = buffers.take(outcome.parcel)
        if outcome.parcel.file:
            Path(outcome.parcel.file).unlink(missing_ok=True)

    def loaded(self) -> tuple[Any, BaseException | None]:
        """Value and error. Once, on the thread of whoever asks: it runs a user's code. What can't be loaded is an error, too."""
        if self.raised:
            try:
                return None, shipping.load(self._error)
            except CannotLoad as error:
                return None, error
        try:
            return homes.Unpickler(self._stream, self._views).load(), None
        except Exception as error:  # noqa: BLE001 (a user's `__setstate__`)
            return None, unloaded(error)


def unloaded(error: Exception) -> CannotLoad:
    """What became of a result that has come."""
    failure = CannotLoad(f"the call has returned, and its result can't be loaded here: {in_words(error)}")
    failure.__cause__ = error
    return failure
