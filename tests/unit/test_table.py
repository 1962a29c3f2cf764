"""The picture in text and in HTML."""

from html.parser import HTMLParser

import pytest

from tests.support.snapshots import SNAPSHOTS, uid
from wool_jupyter.notebook.table import as_html, as_text, mimebundle

every_snapshot = pytest.mark.parametrize("name", sorted(SNAPSHOTS))


class Table(HTMLParser):
    """Cells by row, the caption, and whether every tag was closed in its turn."""

    def __init__(self, html):
        super().__init__()
        self.rows, self.caption, self.open, self.tags = [], "", [], set()
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "tr" in self.open:
            self.rows[-1][-1] += data
        else:
            self.caption += data


@every_snapshot
def test_both_forms_have_every_worker_and_no_other(name):
    snapshot = SNAPSHOTS[name]
    names = [worker.uid[:8] for worker in snapshot.workers]
    lines = [line for line in as_text(snapshot).splitlines() if line.startswith("worker ")]
    assert [line.split()[1] for line in lines] == names
    assert [row[0] for row in Table(as_html(snapshot)).rows[1:]] == names


@every_snapshot
def test_html_has_no_more_than_a_table(name):
    assert Table(as_html(SNAPSHOTS[name])).tags <= {"table", "caption", "thead", "tbody", "tr", "th", "td", "code", "p"}


def test_a_busy_and_an_idle_worker():
    busy, idle = as_text(SNAPSHOTS["two-workers"]).splitlines()
    assert busy.split() == (
        f"worker {uid(1)[:8]} pid 4711 busy In[5] for 51 s 97% CPU 184 MB (peak 193 MB) 12 done 9 min old".split()
    )
    assert idle.split() == f"worker {uid(2)[:8]} pid 4712 idle 0% CPU 101 MB (peak 106 MB) 3 done 9 min old".split()
    assert busy.index("12 done") == idle.index("3 done")


def test_a_death_has_its_reason():
    text = as_text(SNAPSHOTS["dead"])
    assert "was killed by SIGKILL, as the system does when memory runs out; its peak was 7.9 GB, 2 s ago" in text


def test_what_pins_and_who_owns_a_worker():
    assert "keeps 1 value of the notebook" in as_text(SNAPSHOTS["draining"])
    assert "of another process" in as_text(SNAPSHOTS["borrowed"])


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("empty", "wool: no pool runs; the next %%wool cell starts one"),
        ("failed", "wool: the last start has failed: A worker exited with code 1 before it was ready"),
        ("starting", "wool: 1 waits for a free worker"),
        ("lost", "wool: The process that looks after the workers has ended, and they with it"),
    ],
)
def test_what_is_said_of_the_pool(name, said):
    assert said in as_text(SNAPSHOTS[name]).splitlines()
    assert said.removeprefix("wool: ") in Table(as_html(SNAPSHOTS[name])).caption


def test_words_of_workers_are_no_markup():
    import msgspec

    snapshot = SNAPSHOTS["dead"]
    worker = msgspec.structs.replace(snapshot.workers[0], why="<script>alert(1)</script> & co")
    html = as_html(msgspec.structs.replace(snapshot, workers=(worker,)))
    assert "<script>" not in html
    assert "<script>alert(1)</script> & co" in Table(html).rows[1][-1]


def test_a_repr_has_both_forms():
    assert mimebundle(SNAPSHOTS["empty"]) == {
        "text/plain": as_text(SNAPSHOTS["empty"]),
        "text/html": as_html(SNAPSHOTS["empty"]),
    }
