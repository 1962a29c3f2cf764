"""A cell's text, read by offset from the files that its worker writes (`worker.cell.spool`), in the order of the marks."""

import codecs
import os
from collections.abc import Iterator
from pathlib import Path

from wool_jupyter import host
from wool_jupyter.wire.text import MARK, NAMES, ORDER, OUT, PAIR

_READ_BYTES = 1 << 20
_PUNCH_BYTES = 4 << 20  # give pages back to the file system in steps of this


class TextReader:
    """Opens the files of the call's directory, made empty here so that both sides find them; `close` lets them go."""

    def __init__(self, directory: str) -> None:
        flags = os.O_CREAT | os.O_RDWR | os.O_CLOEXEC
        self._fds = [os.open(Path(directory) / name, flags, 0o600) for name in (*NAMES, ORDER)]
        self._read = [0, 0, 0]
        self._punched = [0, 0]
        self._goes_on = OUT
        decoder = codecs.getincrementaldecoder("utf-8")
        self._decoders = [decoder("replace"), decoder("replace")]

    def ready(self, upto: PAIR | None = None) -> Iterator[tuple[str, str]]:
        """(stream's name, text) of what has been written and not been read: all of it, or what came before `upto`."""
        until = upto or (self._size(0), self._size(1))
        # Marks are read after the sizes: one that lies beyond them was made later, and is kept for the next time.
        for lengths_and_stream in self._marks():
            *lengths, goes_on = lengths_and_stream
            if lengths[0] > until[0] or lengths[1] > until[1]:
                # The two sizes were not taken at one moment: what of this text is younger than the mark comes after it.
                until = min(until[0], lengths[0]), min(until[1], lengths[1])
                break
            yield from self._segment((lengths[0], lengths[1]))
            self._goes_on = goes_on
            self._read[2] += MARK.size
        yield from self._segment(until)

    def _marks(self) -> Iterator[tuple[int, int, int]]:
        data = os.pread(self._fds[2], max(0, os.fstat(self._fds[2]).st_size - self._read[2]), self._read[2])
        whole = len(data) // MARK.size * MARK.size
        for lengths in MARK.iter_unpack(data[:whole]):
            yield lengths[0], lengths[1], lengths[2]

    def _segment(self, until: PAIR) -> Iterator[tuple[str, str]]:
        for stream in (self._goes_on, 1 - self._goes_on):
            while (text := self._take(stream, until[stream])) is not None:
                if text:
                    yield NAMES[stream], text

    def _take(self, stream: int, until: int) -> str | None:
        wanted = min(_READ_BYTES, until - self._read[stream])
        data = os.pread(self._fds[stream], wanted, self._read[stream]) if wanted > 0 else b""
        if not data:
            return None
        self._read[stream] += len(data)
        if self._read[stream] - self._punched[stream] >= _PUNCH_BYTES:
            host.punch_hole(self._fds[stream], self._punched[stream], self._read[stream] - self._punched[stream])
            self._punched[stream] = self._read[stream]
        return self._decoders[stream].decode(data)

    def _size(self, stream: int) -> int:
        """A child that opens /dev/stdout anew truncates the file: its text is read from the start."""
        size = os.fstat(self._fds[stream]).st_size
        if size < self._read[stream]:
            self._read[stream] = self._punched[stream] = 0
        return size

    def rest(self) -> Iterator[tuple[str, str]]:
        """The end: also bytes that never became a whole character."""
        yield from self.ready()
        for stream, decoder in enumerate(self._decoders):
            if text := decoder.decode(b"", final=True):
                yield NAMES[stream], text

    def close(self) -> None:
        while self._fds:
            os.close(self._fds.pop())
