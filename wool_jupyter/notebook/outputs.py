"""A cell's text, read by offset from the files that its worker writes (`worker.cell.spool`), in the order of the marks."""

import bisect
import codecs
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from wool_jupyter import host
from wool_jupyter.wire.text import EVENT, MARK, NAMES, ORDER, OUT, PAIR

_READ_BYTES = 1 << 20
_LINE_BYTES = 4 << 10  # in which a line's end is looked for
_PUNCH_BYTES = 4 << 20  # give pages back to the file system in steps of this

_Mark = tuple[int, int, int]


class TextReader:
    """Opens the files of the call's directory, made empty here so that both sides find them; `close` lets them go."""

    def __init__(self, directory: str) -> None:
        flags = os.O_CREAT | os.O_RDWR | os.O_CLOEXEC
        self._fds = [os.open(Path(directory) / name, flags, 0o600) for name in (*NAMES, ORDER)]
        self._read = [0, 0, 0]
        self._punched = [0, 0, 0]
        self._goes_on = OUT
        self._events = 0  # that have come, and whose marks have not been passed
        decoder = codecs.getincrementaldecoder("utf-8")
        self._decoders = [decoder("replace"), decoder("replace")]

    def came(self) -> None:
        """An event that has its place in the text: what follows it may be read."""
        self._events += 1

    def no_more_events(self) -> None:
        """None will come: nothing waits for one."""
        self._events = sys.maxsize

    @property
    def has_more(self) -> bool:
        """Something was written that has not been read. Had in a microsecond."""
        return any(os.fstat(fd).st_size != read for fd, read in zip(self._fds, self._read, strict=True))

    def waiting(self, upto: PAIR | None = None) -> int:
        """Bytes that could be read now."""
        until, _ = self._readable(upto)
        return sum(max(0, until[stream] - self._read[stream]) for stream in (0, 1))

    def ready(self, upto: PAIR | None = None, *, most: int | None = None) -> Iterator[tuple[str, str]]:
        """(stream's name, text) of what has been written and not been read: up to the next event that has not come, or what came
        before `upto`, or the lines that fit into `most` bytes."""
        for stream, data in self._pieces(*self._readable(upto), most):
            if text := self._decoders[stream].decode(data):
                yield NAMES[stream], text

    def skipped(self, upto: PAIR | None = None, *, sparing: int) -> Iterator[tuple[int, bytes]]:
        """(stream, bytes) of what is not to be shown: all but about the last `sparing` bytes, from a line's beginning."""
        until, marks = self._readable(upto)
        yield from self._pieces(self._cut(until, marks, sparing), marks)
        for decoder in self._decoders:
            decoder.reset()

    def leap(self, upto: PAIR | None = None, *, sparing: int) -> int:
        """As `skipped`, without reading it; how many bytes it was."""
        until, marks = self._readable(upto)
        cut, before = self._cut(until, marks, sparing), sum(self._read[:2])
        for mark in marks:
            if mark[0] > cut[0] or mark[1] > cut[1]:
                break
            self._pass(mark)
        for stream in (0, 1):
            self._read[stream] = max(self._read[stream], cut[stream])
            self._decoders[stream].reset()
        for file in range(3):
            self._give_back(file)
        return sum(self._read[:2]) - before

    def _readable(self, upto: PAIR | None) -> tuple[PAIR, list[_Mark]]:
        """How far, and the marks on the way. They are read after the sizes: one that lies beyond them was made later."""
        until = upto or (self._size(0), self._size(1))
        marks: list[_Mark] = []
        events = self._events
        for mark in self._marks():
            events -= mark[2] >= EVENT
            if events < 0 or mark[0] > until[0] or mark[1] > until[1]:
                # Also where the two sizes were not taken at one moment: what of this text is younger than the mark comes after it.
                return (min(until[0], mark[0]), min(until[1], mark[1])), marks
            marks.append(mark)
        return until, marks

    def _cut(self, until: PAIR, marks: list[_Mark], sparing: int) -> PAIR:
        """The point after which about `sparing` bytes follow, in the order in which both streams are read."""
        marks = [(self._read[0], self._read[1], self._goes_on), *marks]
        target = sum(until) - sparing
        if target <= sum(self._read[:2]):
            return self._read[0], self._read[1]
        at = bisect.bisect(marks, target, key=lambda mark: mark[0] + mark[1]) - 1
        *cut, stream = marks[at]
        stream %= EVENT
        end = marks[at + 1][:2] if at + 1 < len(marks) else until
        target -= sum(cut)
        if target >= end[stream] - cut[stream]:
            target -= end[stream] - cut[stream]
            cut[stream] = end[stream]
            stream = 1 - stream
        cut[stream] = self._line_after(stream, cut[stream] + target, end[stream])
        return cut[0], cut[1]

    def _line_after(self, stream: int, at: int, until: int) -> int:
        """Where a line begins soon after `at`, else a character."""
        data = os.pread(self._fds[stream], min(_LINE_BYTES, until - at), at)
        if (end := data.find(b"\n")) >= 0:
            return at + end + 1
        return at + next((i for i, byte in enumerate(data[:4]) if byte & 0xC0 != 0x80), 0)

    def _pieces(self, until: PAIR, marks: list[_Mark], most: int | None = None) -> Iterator[tuple[int, bytes]]:
        room = [sys.maxsize if most is None else most]
        for mark in marks:
            if mark[0] > until[0] or mark[1] > until[1]:
                break
            yield from self._segment((mark[0], mark[1]), room)
            if not room[0]:
                return
            self._pass(mark)
        self._give_back(2)
        yield from self._segment(until, room)

    def _pass(self, mark: _Mark) -> None:
        self._goes_on = mark[2] % EVENT
        self._events -= mark[2] >= EVENT
        self._read[2] += MARK.size

    def _marks(self) -> Iterator[_Mark]:
        data = os.pread(self._fds[2], max(0, os.fstat(self._fds[2]).st_size - self._read[2]), self._read[2])
        yield from MARK.iter_unpack(data[: len(data) // MARK.size * MARK.size])

    def _segment(self, until: PAIR, room: list[int]) -> Iterator[tuple[int, bytes]]:
        """`room` holds how many bytes may still come; nothing more does once it is 0."""
        for stream in (self._goes_on, 1 - self._goes_on):
            while room[0] and (data := self._take(stream, until[stream], room)):
                yield stream, data

    def _take(self, stream: int, until: int, room: list[int]) -> bytes:
        wanted = min(_READ_BYTES, until - self._read[stream])
        data = os.pread(self._fds[stream], min(wanted, room[0]), self._read[stream]) if wanted > 0 else b""
        room[0] -= len(data)
        if data and not room[0] and wanted > len(data):
            data = data[: data.rfind(b"\n") + 1] or data  # the last line is whole
        self._read[stream] += len(data)
        self._give_back(stream)
        return data

    def _give_back(self, file: int) -> None:
        if (length := self._read[file] - self._punched[file]) >= _PUNCH_BYTES:
            host.punch_hole(self._fds[file], self._punched[file], length)
            self._punched[file] = self._read[file]

    def _size(self, stream: int) -> int:
        """A child that opens /dev/stdout anew truncates the file: its text is read from the start."""
        size = os.fstat(self._fds[stream]).st_size
        if size < self._read[stream]:
            self._read[stream] = self._punched[stream] = 0
        return size

    def rest(self) -> Iterator[tuple[str, str]]:
        """The end: also what waits for events that will not come, and bytes that never became a whole character."""
        self.no_more_events()
        yield from self.ready()
        for stream, decoder in enumerate(self._decoders):
            if text := decoder.decode(b"", final=True):
                yield NAMES[stream], text

    def close(self) -> None:
        while self._fds:
            os.close(self._fds.pop())
