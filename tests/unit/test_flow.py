"""How much of a cell's text reaches the notebook (`notebook.flow`), and what becomes of the rest (`notebook.left_out`)."""

import re
from itertools import groupby

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wool_jupyter.notebook import left_out
from wool_jupyter.notebook.flow import Bucket, Budget, Flow
from wool_jupyter.notebook.left_out import LeftOut, Shelf
from wool_jupyter.notebook.outputs import TextReader
from wool_jupyter.wire.text import ERR, OUT
from wool_jupyter.worker.cell.spool import Spool

NOTICE = re.compile(r"wool: .* left out here \(.*\)\n")
NAMES = ("stdout", "stderr")


class Side:
    """A cell that prints, and what is shown of it."""

    def __init__(self, top, budget_bytes, *, name="cell", budget=None):
        directory = top / name
        directory.mkdir()
        self.now = 0.0
        self.kept = LeftOut()
        self.spool = Spool(str(directory))
        self.budget = budget or Budget(budget_bytes, cell=5, shelve=lambda: self.kept, clock=lambda: self.now)
        self.flow = Flow(TextReader(str(directory)), self.budget)
        self.shown = []

    def displays(self, count):
        """Those of so many that are shown at once."""
        at_once = []
        for n in range(count):
            content = {"data": {"text/plain": str(n)}, "transient": None, "update": False}
            self.flow.display(content, 100, lambda n=n: at_once.append(n) or n)
        return list(at_once)

    def look(self):
        self.shown += self.flow.ready()

    def end(self):
        self.shown += self.flow.rest()
        self.flow.close()
        return self.text()

    def text(self, *names):
        return "".join(text for name, text in self.shown if name in (names or NAMES))

    def gaps(self):
        return NOTICE.findall(self.text("stderr"))


@pytest.fixture
def side(tmp_path):
    return Side(tmp_path, 10_000)


def lines(first, last):
    return "".join(f"line {n}\n" for n in range(first, last))


def test_text_within_the_budget_is_all_there_is(side):
    side.spool.write(OUT, lines(0, 500))
    side.look()
    assert side.end() == lines(0, 500)
    assert list(side.kept.records()) == []


def test_a_flood_shows_its_beginning_its_end_and_where_something_is_missing(side):
    side.spool.write(OUT, lines(0, 20_000))
    side.look()
    first = side.text()
    shown = side.end()
    assert lines(0, 20_000).startswith(first)
    assert first.endswith("\n")
    assert 8_000 < len(first) <= 10_000
    beginning, end = NOTICE.split(shown)
    assert beginning == first
    assert end.startswith("line ")
    assert end.endswith("line 19999\n")
    assert side.kept.text() == lines(0, 20_000)[len(first) : -len(end)]
    assert "`%wool output In[5]` has it" in side.gaps()[0]


def test_a_flood_comes_in_few_pieces_and_never_later_than_a_second(tmp_path):
    side = Side(tmp_path, None)
    looks, pieces, since = 400, 0, 0.0
    for n in range(looks):
        side.now += 0.05
        side.spool.write(OUT, lines(n * 500, n * 500 + 500))
        new = list(side.flow.due())
        side.shown += new
        pieces += bool(new)
        since = side.now if new else since
        assert side.now - since <= 1.0
    assert pieces < 40  # one a second, and some more at the beginning
    assert side.end() == lines(0, looks * 500)


def test_a_little_text_comes_at_once_also_after_much(tmp_path):
    side = Side(tmp_path, None)
    side.spool.write(OUT, lines(0, 50_000))
    side.shown += side.flow.due()
    for n in range(5):
        side.now += 0.05
        side.spool.write(OUT, f"progress {n}\n")
        side.shown += side.flow.due()
        assert side.text().endswith(f"progress {n}\n")


def test_what_was_cleared_holds_nothing_back(side):
    side.spool.write(OUT, lines(0, 1_000))
    side.shown += side.flow.due()
    side.flow.cleared()
    side.spool.write(OUT, lines(0, 500))
    assert "".join(text for _, text in side.flow.due()) == lines(0, 500)


def test_a_flood_is_read_on_while_nothing_of_it_is_shown(side):
    """Or its file would grow."""
    for n in range(20):
        side.spool.write(OUT, lines(n * 1000, n * 1000 + 1000))
        side.look()
    assert side.kept.kept_bytes > len(lines(0, 20_000)) - 40_000
    assert len(side.text()) <= 10_000


def test_a_little_of_the_other_stream_does_not_hold_a_flood_up(side):
    side.spool.write(OUT, "begin\n")
    side.spool.write(ERR, "warning\n")
    for n in range(20):
        side.spool.write(OUT, lines(n * 1000, n * 1000 + 1000))
        side.look()
    assert side.kept.kept_bytes > len(lines(0, 20_000)) - 40_000
    assert "warning\n" in side.text("stderr")


def test_what_is_left_out_of_both_streams_keeps_their_order(side):
    written = [f"line {n}\n" for n in range(5_000)]
    for n, line in enumerate(written):
        side.spool.write(n % 2, line)
        if n % 500 == 0:
            side.look()
    side.look()
    kept = side.kept.text()
    assert len(kept) > 20_000
    assert kept in "".join(written)


def test_a_flood_is_looked_at_again_when_the_budget_has_filled_up(tmp_path):
    side = Side(tmp_path, 100_000)
    for n in range(80):
        side.now += 0.1
        side.spool.write(OUT, lines(n * 1000, n * 1000 + 1000))
        side.look()
    assert 2 <= len(side.gaps()) <= 5
    assert NOTICE.split(side.text())[-1].endswith("999\n")


def test_slow_text_is_shown_for_ever(side):
    for n in range(1000):
        side.now += 0.1
        side.spool.write(OUT, f"epoch {n} " + "." * 50 + "\n")
        side.look()
    assert side.gaps() == []
    assert side.text().endswith("\n")
    assert side.text().count("\n") == 1000


def test_a_line_without_an_end_is_cut_between_characters(side):
    side.spool.write(OUT, "日本🎉" * 100_000)
    side.look()
    assert "\ufffd" not in side.end()


def test_bytes_that_are_no_text_are_cut_too(side, tmp_path):
    import os

    os.write(side.spool.descriptor(OUT), bytes(range(256)) * 1000)
    side.look()
    assert len(side.end()) < 40_000


def test_without_a_budget_all_is_shown(tmp_path):
    side = Side(tmp_path, None)
    side.spool.write(OUT, lines(0, 100_000))
    side.look()
    assert side.end() == lines(0, 100_000)
    assert side.displays(10_000) == list(range(10_000))


def test_what_has_no_place_is_counted_and_not_read(side, monkeypatch):
    monkeypatch.setattr(left_out, "KEPT_BYTES", 100_000)
    side.spool.write(OUT, lines(0, 100_000))
    side.look()
    side.spool.write(OUT, lines(100_000, 300_000))
    side.look()
    side.end()
    assert side.kept.kept_bytes <= 100_000
    assert len(side.text()) < 20_000
    left = len(lines(0, 300_000)) - len(NOTICE.sub("", side.text()))
    assert side.kept.kept_bytes + side.kept.lost_bytes == left
    assert "has what came first of it" in side.gaps()[-1]


def test_too_many_displays_are_left_out_and_kept(side):
    shown = side.displays(3_000)
    assert shown == list(range(len(shown)))
    assert 1_000 < len(shown) < 3_000
    side.end()
    assert f"{3_000 - len(shown)} displays left out" in side.gaps()[0]
    assert side.kept.text() == "".join(f"{n}\n" for n in range(len(shown), 3_000))
    (last,) = side.flow.last_displays()
    assert last() == 2_999
    assert side.flow.last_displays() == []


def test_lines_about_what_is_missing_are_no_flood(side):
    """Where text and displays alternate, each display waits for the text before it."""
    for _ in range(2_000):
        side.now += 0.001
        side.spool.write(OUT, "x" * 1_000 + "\n")
        side.shown += side.flow.ready(side.spool.lengths())
    assert 2 < len(side.gaps()) < 40


def test_the_end_of_a_call_shows_the_end_of_a_flood_once_in_a_while(side):
    for n in range(100):
        side.spool.write(OUT, lines(0, 5_000) + f"end {n}\n")
        side.shown += side.flow.lull()
    assert "end 0\n" in side.text()
    assert len(side.text()) < 30_000
    shown = len(side.gaps())
    assert 1 < shown < 10
    side.now += 10
    side.spool.write(OUT, "later\n")
    side.shown += side.flow.lull()
    assert side.text().endswith("end 99\nlater\n")
    assert len(side.gaps()) == shown + 1


def test_text_within_the_budget_is_there_at_the_end_of_a_call(side):
    side.spool.write(OUT, "text\n")
    side.shown += side.flow.lull()
    assert (side.text(), side.gaps()) == ("text\n", [])


def test_flows_of_one_cell_share_its_budget_and_say_why_once(tmp_path):
    sides = [Side(tmp_path, 10_000, name="one")]
    sides.append(Side(tmp_path, 10_000, name="other", budget=sides[0].budget))
    for side in sides:
        side.spool.write(OUT, lines(0, 2_000))
        side.look()
    assert 8_000 < sum(len(side.text("stdout")) for side in sides) <= 10_000
    assert sum(side.end().count("too much for a notebook") for side in sides) == 1
    assert sides[0].kept.kept_bytes > 20_000


def test_a_cell_that_clears_its_output_has_the_whole_budget_again(side):
    for n in range(20):
        side.spool.write(OUT, lines(0, 900))
        side.look()
        side.flow.cleared()
        assert len(side.displays(500)) == 500, n
    assert side.gaps() == []


writes = st.lists(
    st.tuples(st.sampled_from([OUT, ERR]), st.integers(1, 3_000), st.sampled_from("abé日\n")), max_size=30
)


@settings(deadline=None)
@given(writes=writes, looks=st.sets(st.integers(0, 29)), budget=st.sampled_from([500, 5_000, 50_000]))
def test_what_is_shown_and_what_is_kept_is_all_there_is_in_order(tmp_path_factory, writes, looks, budget):
    side = Side(tmp_path_factory.mktemp("cell"), budget)
    for n, (stream, count, character) in enumerate(writes):
        side.spool.write(stream, character * count + "\n")
        if n in looks:
            side.look()
    side.end()
    for stream, name in enumerate(NAMES):
        written = "".join(c * count + "\n" for s, count, c in writes if s == stream)
        kept = "".join(
            data.decode(errors="replace") for record in side.kept.records() for n, data in record if n == name
        )
        shown = NOTICE.sub("", side.text(name))
        if not kept:
            assert shown == written
        assert _without_cut_characters(sorted(shown + kept)) == _without_cut_characters(sorted(written))


def _without_cut_characters(characters):
    return [(c, len(list(group))) for c, group in groupby(characters) if c in "ab\n"]


def test_the_shelf_makes_room_for_the_newest(monkeypatch):
    monkeypatch.setattr(left_out, "KEPT_BYTES", 1_000)
    shelf = Shelf()
    for cell in (1, 2, 3):
        shelf.of(cell, run="").add_text([("stdout", b"x" * 400)])
    shelf.of(4, run="")
    assert shelf.cells() == [2, 3, 4]
    assert shelf.find(None) is shelf.find(4)
    assert shelf.find(1) is None


def test_a_cell_that_is_run_again_begins_anew_and_its_lines_go_together():
    shelf = Shelf()
    for run, text in (("one", b"a"), ("one", b"b"), ("two", b"c"), ("two", b"d")):
        shelf.of(1, run=run).add_text([("stdout", text)])
    assert shelf.find(1).text() == "cd"


def test_a_bucket_fills_up_again_and_never_overflows():
    now = [0.0]
    bucket = Bucket(100, 10, lambda: now[0])
    bucket.take(100)
    assert bucket.level == 0
    now[0] = 3
    assert bucket.level == 30
    now[0] = 300
    assert bucket.level == 100
