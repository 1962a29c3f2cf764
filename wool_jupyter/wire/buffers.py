"""The bytes of a message: small ones inside it, large ones in one file beside it, mapped copy-on-write by the receiver."""

import errno
import mmap
import os
import pickle
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from wool_jupyter import host
from wool_jupyter.errors import NoRoom

THRESHOLD_BYTES = 128 << 10  # a file beats the message from here on: 1.3 times the message's time at 64 KiB, 0.6 at 256
_ALIGNMENT_BYTES = 64
_WRITE_BYTES = 1 << 30  # Linux writes at most 2 GiB - 4 KiB per call


class Parcel(msgspec.Struct, frozen=True, array_like=True):
    """A pickle stream and its out-of-band buffers. Whoever opened the call removes the file, with the call's directory."""

    stream: bytes  # empty when the stream is the file's first span
    file: str = ""
    spans: tuple[tuple[int, int], ...] = ()  # (offset, length) in the file
    stream_in_file: bool = False
    shared: tuple[tuple[int, str], ...] = ()  # (which buffer it is, its own file), rising: other parcels have it, too

    @property
    def nbytes(self) -> int:
        return len(self.stream) + sum(length for _, length in self.spans)


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


def pack(stream: bytes | memoryview, buffers: Sequence[memoryview], *, places: Sequence[str], name: str) -> Parcel:
    """Writes on the calling thread. `places` are directories in order of preference; `NoRoom` when none takes it."""
    stream_in_file = len(stream) >= THRESHOLD_BYTES
    chunks = [memoryview(stream), *buffers] if stream_in_file else list(buffers)
    if not chunks:
        return Parcel(bytes(stream))
    spans, end = [], 0
    for chunk in chunks:
        spans.append((end, chunk.nbytes))
        end += -(-chunk.nbytes // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
    for place in places:
        path = os.path.join(place, name)  # noqa: PTH118 (on the hot path)
        if _write(path, end, zip(chunks, spans, strict=True)):
            return Parcel(b"" if stream_in_file else bytes(stream), path, tuple(spans), stream_in_file)
    raise NoRoom(f"{end / 1e6:,.0f} MB do not fit into {' or '.join(places)}: free some space there, or ship less")


def _write(path: str, size: int, parts: "zip[tuple[memoryview, tuple[int, int]]]") -> bool:
    """False when the place is full: allocation fails before a byte is copied, where a store into a mapping would be SIGBUS."""
    fd = -1
    try:
        Path(path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        host.reserve(fd, size)
        for chunk, (offset, length) in parts:
            done = 0
            while done < length:
                done += os.pwrite(fd, chunk[done : done + _WRITE_BYTES], offset + done)
    except OSError as error:
        if fd >= 0:
            Path(path).unlink()
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            return False
        raise
    finally:
        if fd >= 0:
            os.close(fd)
    return True


def unpack(parcel: Parcel) -> tuple[bytes | memoryview, list[memoryview]]:
    """The stream and the buffers, writable; they keep the mapping alive, not the file's name."""
    stream: bytes | memoryview = parcel.stream
    views: list[memoryview] = []
    if parcel.file:
        mapping = _mapped(parcel.file)
        views = [mapping[offset : offset + length] for offset, length in parcel.spans]
        if parcel.stream_in_file:
            stream = views.pop(0)
    for number, file in parcel.shared:
        views.insert(number, _mapped(file))
    return stream, views


def _mapped(file: str) -> memoryview:
    fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        options = {"trackfd": False} if sys.version_info >= (3, 13) else {}
        return memoryview(mmap.mmap(fd, 0, access=mmap.ACCESS_COPY, **options))
    finally:
        os.close(fd)
