"""The bytes of a message: small ones inside it, large ones in files beside it, mapped copy-on-write by the receiver.

What is medium-sized shares one file, the message's own. A large buffer has one of its own (`segments`): other messages may refer
to it, too, and it is written again when nobody needs it any more.
"""

import pickle
from collections.abc import Callable, Mapping, Sequence

import msgspec

from wool_jupyter.errors import NoRoom
from wool_jupyter.quantities import size
from wool_jupyter.wire import layout, mappings, segments

THRESHOLD_BYTES = 128 << 10  # a file beats the message from here on: 1.3 times the message's time at 64 KiB, 0.6 at 256
_ALIGNMENT_BYTES = 64


class Ref(msgspec.Struct, frozen=True, array_like=True):
    """A buffer in a file that may have others, too."""

    number: int  # of the message's buffers
    file: str
    offset: int
    length: int
    digest: bytes = b""  # `contents.digest`, if it is known


class Parcel(msgspec.Struct, frozen=True, array_like=True):
    """A pickle stream and its out-of-band buffers. Whoever opened the call removes its own file, with the call's directory."""

    stream: bytes  # empty when the stream is the file's first span
    file: str = ""
    spans: tuple[tuple[int, int], ...] = ()  # (offset, length) in the file
    stream_in_file: bool = False
    refs: tuple[Ref, ...] = ()  # their numbers rise

    @property
    def nbytes(self) -> int:
        return len(self.stream) + sum(length for _, length in self.spans) + sum(ref.length for ref in self.refs)


class OutOfBand:
    """A `buffer_callback` that keeps large buffers and leaves small ones in the stream."""

    def __init__(self) -> None:
        self.buffers: list[memoryview] = []
        self.nbytes = 0

    def __call__(self, buffer: pickle.PickleBuffer) -> bool:
        view = buffer.raw()
        if view.nbytes < THRESHOLD_BYTES:
            return True
        self.buffers.append(view)
        self.nbytes += view.nbytes
        return False


def pack(
    stream: bytes | memoryview,
    buffers: Sequence[memoryview],
    *,
    places: Sequence[str],
    name: str,
    refs: tuple[Ref, ...] = (),
) -> Parcel:
    """Writes on the calling thread. `places` are directories in order of preference; `NoRoom` when none takes it. `refs` are
    buffers that have been written."""
    stream_in_file = len(stream) >= THRESHOLD_BYTES
    chunks = [memoryview(stream), *buffers] if stream_in_file else list(buffers)
    if not chunks:
        return Parcel(bytes(stream), refs=refs)
    spans, end = [], 0
    for chunk in chunks:
        spans.append((end, chunk.nbytes))
        end += -(-chunk.nbytes // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
    for place in segments.in_order(places, end):
        path = f"{place}/{name}"
        if segments.create(path, end, [(chunk, offset) for chunk, (offset, _) in zip(chunks, spans, strict=True)]):
            return Parcel(b"" if stream_in_file else bytes(stream), path, tuple(spans), stream_in_file, refs)
    raise NoRoom(f"{size(end)} do not fit into {' or '.join(places)}: free some space there, or ship less")


def pack_to_give(
    stream: bytes | memoryview, buffers: Sequence[memoryview], *, places: Sequence[str], name: str
) -> Parcel:
    """As `pack`, for a receiver that takes over what is large (`take`)."""
    refs = []
    idles = {place: segments.Idles(layout.idle_beside(place)) for place in places}
    for number, view in enumerate(buffers):
        if view.nbytes >= segments.SEGMENT_BYTES and (file := _written(view, places, idles)):
            refs.append(Ref(number, file, 0, view.nbytes))
    return pack(stream, without(buffers, refs), places=places, name=name, refs=tuple(refs))


def without(buffers: Sequence[memoryview], refs: Sequence[Ref]) -> list[memoryview]:
    numbers = {ref.number for ref in refs}
    return [view for number, view in enumerate(buffers) if number not in numbers]


def _written(view: memoryview, places: Sequence[str], idles: Mapping[str, segments.Idles]) -> str | None:
    for place in segments.in_order(places, view.nbytes):
        if file := segments.write(view, place, idle=idles[place]):
            return file
    return None


def unpack(parcel: Parcel) -> tuple[bytes | memoryview, list[memoryview]]:
    """The stream and the buffers, writable; they keep the mapping alive, not the file's name. FileNotFoundError."""
    return _unpacked(parcel, _mapped)


def take(parcel: Parcel) -> tuple[bytes | memoryview, list[memoryview]]:
    """As `unpack`. What was packed to give has no other owner then, and is written again when it is let go here."""
    return _unpacked(parcel, _taken)


def _unpacked(parcel: Parcel, opened: Callable[[Ref], memoryview]) -> tuple[bytes | memoryview, list[memoryview]]:
    stream: bytes | memoryview = parcel.stream
    views: list[memoryview] = []
    if parcel.file:
        mapping = mappings.mapped(parcel.file, 0, sum(parcel.spans[-1]))
        views = [mapping[offset : offset + length] for offset, length in parcel.spans]
        if parcel.stream_in_file:
            stream = views.pop(0)
    for ref in parcel.refs:
        views.insert(ref.number, opened(ref))
    return stream, views


def _mapped(ref: Ref) -> memoryview:
    return mappings.mapped(ref.file, ref.offset, ref.length, idle=_idle_of(ref))


def _taken(ref: Ref) -> memoryview:
    view = _mapped(ref)
    name = segments.let_go(ref.file, idle=_idle_of(ref))
    if (mapping := mappings.of(view)) is not None:
        mapping.file = name
    return view


def _idle_of(ref: Ref) -> str:
    return layout.idle_beside(ref.file.rpartition("/")[0])
