"""How much of a cell's output reaches the notebook: a budget that fills up again. What is beyond is left out, and kept."""

from collections.abc import Callable, Iterator
from time import monotonic
from typing import Any

from wool_jupyter.notebook.left_out import LeftOut, Pieces
from wool_jupyter.notebook.outputs import TextReader
from wool_jupyter.wire.text import NAMES, PAIR

_BYTES_PER_S = 10_000  # 36 MB in an hour: a front end can still hold that
_TAIL_BYTES = 20_000  # of each stream: what is shown of a flood every two seconds, and at its end
_BATCH_BYTES = 1 << 20
_DISPLAYS = 2_000
_DISPLAYS_PER_S = 50.0  # an animation goes on for ever


class Bucket:
    """Full at first."""

    def __init__(self, most: float, per_s: float, clock: Callable[[], float] = monotonic) -> None:
        self._most, self._per_s, self._clock = most, per_s, clock
        self._level, self._since = most, clock()

    @property
    def level(self) -> float:
        now = self._clock()
        self._level = min(self._most, self._level + (now - self._since) * self._per_s)
        self._since = now
        return self._level

    def take(self, amount: float) -> None:
        self._level = self.level - amount

    def fill(self) -> None:
        self._level = self._most


class Flow:
    """A cell's text, as `TextReader` has it, within the budget; `None`: all of it. `shelve` makes the place for what is left out.

    Owns the reader."""

    def __init__(
        self,
        reader: TextReader,
        budget_bytes: int | None,
        *,
        cell: int,
        shelve: Callable[[], LeftOut],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._reader = reader
        self._cell = cell
        self._shelve = shelve
        self._is_limited = budget_bytes is not None
        self._text = Bucket(float(budget_bytes or 0), _BYTES_PER_S, clock)
        self._displays = Bucket(_DISPLAYS, _DISPLAYS_PER_S, clock)
        self._tail_bytes = min(_TAIL_BYTES, (budget_bytes or 0) // 4)
        self._left_out: LeftOut | None = None
        self._gap_bytes = self._gap_displays = 0
        self._has_told = False

    def came(self) -> None:
        """As `TextReader.came`."""
        self._reader.came()

    def no_more_events(self) -> None:
        """As `TextReader.no_more_events`."""
        self._reader.no_more_events()

    def ready(self, upto: PAIR | None = None) -> Iterator[tuple[str, str]]:
        """As `TextReader.ready`."""
        if not self._is_limited:
            yield from self._reader.ready(upto)
            return
        waiting, level = self._reader.waiting(upto), int(self._text.level)
        if not waiting:
            return
        if waiting > level and not self._gap_bytes and level > self._tail_bytes:
            yield from self._reader.ready(upto, most=level)
            self._text.take(level)
            level = 0
        if waiting > level:
            self._skip(upto, sparing=0 if upto else self._tail_bytes)
            waiting = self._reader.waiting(upto)
        if waiting <= level:
            self._text.take(waiting)
            yield from self._gap()
            yield from self._reader.ready(upto)

    def rest(self) -> Iterator[tuple[str, str]]:
        """The end: what is left, as far as it is not too much; a flood's last lines in any case."""
        if self._is_limited:
            yield from self.ready()
            self._skip(None, sparing=self._tail_bytes)
            yield from self._gap()
        yield from self._reader.rest()

    def allows_display(self) -> bool:
        """Asked before each. What is not allowed goes to `leave_out`."""
        if self._is_limited and self._displays.level < 1:
            return False
        self._displays.take(1)
        return True

    def leave_out(self, content: dict[str, Any], nbytes: int) -> None:
        """A display."""
        self._gap_displays += 1
        self._shelf().add_display(content, nbytes)

    def cleared(self) -> None:
        """Nothing of the cell stands in the notebook any more."""
        self._text.fill()
        self._displays.fill()

    def close(self) -> None:
        self._reader.close()

    def _skip(self, upto: PAIR | None, *, sparing: int) -> None:
        if self._reader.waiting(upto) <= sparing:
            return
        left_out = self._shelf()
        skipped = iter(()) if left_out.is_full else self._reader.skipped(upto, sparing=sparing)
        while batch := _batch(skipped):
            left_out.add_text(batch)
            self._gap_bytes += sum(len(data) for _, data in batch)
            if left_out.is_full:
                break
        if left_out.is_full:
            lost = self._reader.leap(upto, sparing=sparing)
            left_out.lose(lost)
            self._gap_bytes += lost

    def _shelf(self) -> LeftOut:
        if self._left_out is None:
            self._left_out = self._shelve()
        return self._left_out

    def _gap(self) -> Iterator[tuple[str, str]]:
        """A line where something is missing."""
        what = []
        if self._gap_bytes:
            what.append(f"{_amount(self._gap_bytes)} of text")
        if self._gap_displays:
            what.append(f"{self._gap_displays} display{'s' * (self._gap_displays > 1)}")
        if not what:
            return
        self._gap_bytes = self._gap_displays = 0
        kept = f"`%wool output In[{self._cell}]` has {'what came first of it' if self._shelf().is_full else 'it'}"
        why = "" if self._has_told else "too much for a notebook: "
        self._has_told = True
        yield "stderr", f"wool: {why}{' and '.join(what)} left out here ({kept})\n"


def _batch(pieces: Iterator[tuple[int, bytes]]) -> Pieces:
    """Some of them: one may be a line of ten bytes, or a million."""
    batch: Pieces = []
    nbytes = 0
    for stream, data in pieces:
        batch.append((NAMES[stream], data))
        nbytes += len(data)
        if nbytes >= _BATCH_BYTES:
            break
    return batch


def _amount(nbytes: int) -> str:
    return f"{nbytes / 1e6:,.1f} MB" if nbytes >= 100_000 else f"{nbytes / 1e3:,.1f} kB"
