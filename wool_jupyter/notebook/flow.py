"""How much of a cell's output reaches the notebook: a budget that fills up again. What is beyond is left out, and kept.

worker's files ─▶ TextReader ─▶ Flow ─▶ the notebook     a cell has one, its calls one for each worker that they run on
                                 └─▶ LeftOut              Budget: what all flows of one cell share
"""

from collections.abc import Callable, Iterator
from time import monotonic
from typing import Any

from wool_jupyter.notebook.left_out import LeftOut, Pieces
from wool_jupyter.notebook.outputs import TextReader
from wool_jupyter.quantities import size
from wool_jupyter.wire.text import NAMES, PAIR

_BYTES_PER_S = 10_000  # 36 MB in an hour: a front end can still hold that
_TAIL_BYTES = 20_000  # of each stream: what is shown of a flood every two seconds, and at its end
_TAILS = 4  # on credit: several calls may end at one time
_BATCH_BYTES = 1 << 20
_DISPLAYS = 2_000
_DISPLAYS_PER_S = 50.0  # an animation goes on for ever
_AT_ONCE_BYTES = 4_000  # are never held back
_SHARE = 0.5  # of what is shown: new text of a flood waits until there is as much of it
_HELD_S = 1.0  # at most: it still reads as live
_NOTICE_BYTES = 1_000  # that a line about what is missing counts for: they become no flood of their own


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


class Budget:
    """Of one cell. `most_bytes` of text at once, `None`: all of it. `shelve` makes the place for what is left out."""

    def __init__(
        self,
        most_bytes: int | None,
        *,
        cell: int,
        shelve: Callable[[], LeftOut],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.cell = cell
        self.is_limited = most_bytes is not None
        self.text = Bucket(float(most_bytes or 0), _BYTES_PER_S, clock)
        self.displays = Bucket(_DISPLAYS, _DISPLAYS_PER_S, clock)
        self.shown_bytes = 0  # that stand in the notebook
        self.clock = clock
        self.tail_bytes = min(_TAIL_BYTES, (most_bytes or 0) // 4)
        self._shelve = shelve
        self._left_out: LeftOut | None = None
        self.has_told = False  # why something is missing

    @property
    def left_out(self) -> LeftOut:
        if self._left_out is None:
            self._left_out = self._shelve()
        return self._left_out


class Flow:
    """A cell's text, as `TextReader` has it, within the budget. Owns the reader."""

    def __init__(self, reader: TextReader, budget: Budget) -> None:
        self._reader = reader
        self._budget = budget
        self._gap_bytes = self._gap_displays = 0
        self._last_displays: dict[str, Callable[[], object]] = {}  # of those that were too many, by id
        self._shown_at = budget.clock()

    def came(self) -> None:
        """As `TextReader.came`."""
        self._reader.came()

    def no_more_events(self) -> None:
        """As `TextReader.no_more_events`."""
        self._reader.no_more_events()

    def due(self) -> Iterator[tuple[str, str]]:
        """As `ready`, for those who look again soon: of a flood, nothing for a while.

        A front end draws all text of a cell anew with each message that adds to it. So what is new should be a share of what is
        there: else the time that a page needs grows with the square of the text.
        """
        waiting = self._reader.waiting()
        is_much = waiting >= self._budget.shown_bytes * _SHARE
        if waiting <= _AT_ONCE_BYTES or is_much or self._budget.clock() >= self._shown_at + _HELD_S:
            yield from self.ready()

    def ready(self, upto: PAIR | None = None) -> Iterator[tuple[str, str]]:
        """As `TextReader.ready`."""
        for name, text in self._within_budget(upto):
            self._shown_at = self._budget.clock()
            self._budget.shown_bytes += len(text)
            yield name, text

    def _within_budget(self, upto: PAIR | None) -> Iterator[tuple[str, str]]:
        if not self._budget.is_limited:
            yield from self._reader.ready(upto)
            return
        waiting, level = self._reader.waiting(upto), int(self._budget.text.level)
        if not waiting:
            return
        if waiting > level and not self._gap_bytes and level > self._budget.tail_bytes:
            yield from self._reader.ready(upto, most=level)
            self._budget.text.take(level)
            level = 0
        if waiting > level:
            self._skip(upto, sparing=0 if upto else self._budget.tail_bytes)
            waiting = self._reader.waiting(upto)
        if waiting <= level:
            self._budget.text.take(waiting)
            yield from self._gap()  # on credit: the next one waits
            yield from self._reader.ready(upto)

    def rest(self) -> Iterator[tuple[str, str]]:
        """The end: what is left, as far as it is not too much; a flood's last lines in any case."""
        if self._budget.is_limited:
            yield from self.ready()
            self._skip(None, sparing=self._budget.tail_bytes)
            yield from self._gap()
        yield from self._reader.rest()

    def lull(self) -> Iterator[tuple[str, str]]:
        """Nothing follows for a while: as `rest`, unless there were too many such ends a moment ago."""
        if not (self._gap_bytes or self._gap_displays or self._reader.has_more):
            return
        yield from self.ready()
        if self._budget.is_limited and self._budget.text.level > -_TAILS * self._budget.tail_bytes:
            self._skip(None, sparing=self._budget.tail_bytes)
            self._budget.text.take(self._reader.waiting())
            yield from self._gap()
            yield from self._reader.ready()

    def display(self, content: dict[str, Any], nbytes: int, show: Callable[[], object]) -> None:
        """Shows it, or leaves it out."""
        budget, ident = self._budget, _display_id(content)
        if budget.is_limited and budget.displays.level < 1:
            self._gap_displays += 1
            budget.left_out.add_display(content, nbytes)
            self._last_displays[ident] = show
            return
        budget.displays.take(1)
        self._last_displays.pop(ident, None)
        show()

    def last_displays(self) -> list[Callable[[], object]]:
        """At the end, where displays were left out: what shows the last one."""
        shows = list(self._last_displays.values())
        self._last_displays.clear()
        return shows

    def cleared(self) -> None:
        """Nothing of the cell stands in the notebook any more."""
        self._budget.text.fill()
        self._budget.displays.fill()
        self._budget.shown_bytes = 0
        self._last_displays.clear()

    def close(self) -> None:
        self._reader.close()

    def _skip(self, upto: PAIR | None, *, sparing: int) -> None:
        if self._reader.waiting(upto) <= sparing:
            return
        left_out = self._budget.left_out
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

    def _gap(self) -> Iterator[tuple[str, str]]:
        """A line where something is missing."""
        what = []
        if self._gap_bytes:
            what.append(f"{size(self._gap_bytes)} of text")
        if self._gap_displays:
            what.append(f"{self._gap_displays} display{'s' * (self._gap_displays > 1)}")
        if not what:
            return
        self._gap_bytes = self._gap_displays = 0
        self._budget.text.take(_NOTICE_BYTES)
        kept = f"`%wool output In[{self._budget.cell}]` has {'what came first of it' if self._budget.left_out.is_full else 'it'}"
        why = "" if self._budget.has_told else "too much for a notebook: "
        self._budget.has_told = True
        yield "stderr", f"wool: {why}{' and '.join(what)} left out here ({kept})\n"


def _display_id(content: dict[str, Any]) -> str:
    return str((content["transient"] or {}).get("display_id", "")) if content["update"] else ""


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
