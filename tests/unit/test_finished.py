"""What is over and only tells of it (`wire.finished`), there and back again."""

import contextlib
import io
import multiprocessing
import re
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool

import pytest
from tqdm import tqdm

from tests.support.travels import stays, travelled
from wool_jupyter.wire import pickling

FORK = multiprocessing.get_context("fork")


class Adds(threading.Thread):
    def __init__(self, number):
        super().__init__(name="adds", daemon=True)
        self.number, self.sum = number, None

    def run(self):
        self.sum = self.number + 1


def test_a_joined_thread_has_ended_and_has_what_it_made():
    thread = Adds(1)
    thread.start()
    thread.join()
    found = travelled(thread)
    assert type(found) is Adds
    assert (found.is_alive(), found.name, found.daemon, found.number, found.sum) == (False, "adds", True, 1, 2)
    found.join()
    with pytest.raises(RuntimeError, match="once"):
        found.start()


class Raises(Adds):
    """A well-known way to hear of a thread's error where it is joined."""

    def run(self):
        self.error = None

    def start(self):
        self.begun = self.number
        super().start()

    def join(self, timeout=None):
        super().join(timeout)
        if self.error:
            raise self.error


class Shuts(ThreadPoolExecutor):
    def __init__(self):
        super().__init__(1)
        self.said = "shut"

    def shutdown(self, wait=True, **options):
        assert self.said
        super().shutdown(wait, **options)


class Knows(Adds):
    """Knows better what of it travels."""

    def __getstate__(self):
        return {"number": self.number}

    def __setstate__(self, state):
        self.__init__(state["number"] + 1)


def test_a_thread_that_was_not_started_can_be_started_where_it_arrives():
    thread = travelled(threading.Thread(target=Adds.run, args=(Adds(3),), name="adds later"))
    adds, timer = travelled([Adds(1), threading.Timer(0, abs, (-1,))])
    assert (thread.ident, adds.ident, thread.name, adds.daemon) == (None, None, "adds later", True)
    for each in (thread, adds, timer):
        each.start()
        each.join(20)
    assert (thread.is_alive(), adds.sum, timer.finished.is_set()) == (False, 2, True)


def test_a_process_that_was_not_started_can_be_started_where_it_arrives():
    process = travelled(FORK.Process(target=sys.exit, args=(3,), name="later", daemon=True))
    assert (process.exitcode, process.pid, process.name, process.daemon) == (None, None, "later", True)
    assert FORK.Process().daemon is travelled(FORK.Process()).daemon is False
    process.start()
    process.join()
    assert process.exitcode == 3
    process.close()
    closed = travelled(process)
    assert repr(closed) == repr(process)
    with pytest.raises(ValueError, match="closed"):
        closed.is_alive()


def test_methods_of_a_users_own_are_not_called_on_what_is_half_made():
    thread = Raises(1)
    thread.start()
    thread.join()
    assert (travelled(thread).begun, travelled(thread).error) == (1, None)
    with Shuts() as executor:
        executor.submit(abs, 1).result()
    assert travelled(executor).said == "shut"


def test_a_class_that_says_how_it_is_pickled_is_asked():
    thread = Knows(1)
    thread.start()
    thread.join()
    found = pickling.loads(pickling.dumps(thread))
    assert (found.number, found.sum, found.ident) == (2, None, None)


@pytest.fixture
def go():
    """Set at the end of the test, whatever waits for it."""
    event = threading.Event()
    yield event
    event.set()


def test_a_thread_that_runs_stays(go):
    thread = threading.Thread(target=go.wait)
    thread.start()
    stays(thread)
    go.set()
    thread.join()
    assert not travelled(thread).is_alive()


@pytest.mark.parametrize("made", [lambda: FORK.Pool(2), lambda: ThreadPool(2)])
@pytest.mark.parametrize("end", ["close", "terminate"])
def test_a_pool_that_was_ended_takes_no_work_and_can_be_ended_again(made, end):
    pool = made()
    pool.map(abs, [-1])
    stays(pool)
    getattr(pool, end)()
    pool.join()
    found = travelled(pool)
    assert (type(found), repr(found)) == (type(pool), repr(pool))
    with pytest.raises(ValueError, match="Pool not running"):
        found.map(abs, [1])
    found.close()
    found.terminate()
    found.join()


def test_a_closed_pool_that_owes_a_result_stays(go):
    pool = ThreadPool(1)
    owed = pool.apply_async(go.wait)
    pool.close()
    stays(pool)
    go.set()
    pool.join()
    assert owed.get() is True
    travelled(pool)


def test_an_executor_that_was_shut_down_takes_no_work():
    with ThreadPoolExecutor(3, "mine") as executor:
        future = executor.submit(abs, -1)
        stays(executor)
    found, its = travelled([executor, future])
    assert its.result() == 1
    assert (found._max_workers, found._thread_name_prefix) == (3, "mine")
    with pytest.raises(RuntimeError, match="after shutdown"):
        found.submit(abs, -1)
    found.shutdown()


def test_an_executor_whose_calls_go_on_stays(go):
    executor = ThreadPoolExecutor(1)
    executor.submit(go.wait)
    executor.shutdown(wait=False)
    stays(executor)
    go.set()
    executor.shutdown()
    travelled(executor)


def test_a_process_that_has_ended_says_how():
    process = FORK.Process(target=sys.exit, args=(3,), name="child", daemon=True)
    process.start()
    process.join()
    found = travelled(process)
    assert (found.exitcode, found.pid, found.name, found.daemon) == (3, process.pid, "child", True)
    assert not found.is_alive()
    found.join()
    assert repr(found) == repr(process)
    assert "exitcode=3" in repr(found)
    with pytest.raises(AssertionError, match="twice"):
        found.start()
    found.close()


def test_a_process_that_runs_stays():
    go = FORK.Event()
    process = FORK.Process(target=go.wait)
    process.start()
    try:
        stays(process)
    finally:
        go.set()
        process.join()


def test_a_generator_that_is_used_up_yields_nothing():
    numbers = (n for n in [1])
    stays(numbers)
    assert list(numbers) == [1]
    found = travelled(numbers)
    assert list(found) == []
    assert (type(found), found.__name__) == (type(numbers), "<genexpr>")


TEXT = "one two  three"


@pytest.mark.parametrize(
    "match",
    [
        pytest.param(re.match(r"(?P<first>\w+) (\w)", TEXT), id="match"),
        pytest.param(re.search(r"t(\w)", TEXT), id="search"),
        pytest.param(re.fullmatch(r".*?(e)?", TEXT), id="fullmatch"),
        pytest.param(re.compile(r"\w+").search(TEXT, 3, 6), id="a part"),
        pytest.param(re.compile(r".*?").fullmatch(TEXT, 4, 7), id="fullmatch of a part"),
        pytest.param(re.search(r"(?<= )\w|(x)", TEXT), id="what stands before"),
        pytest.param(re.search(rb"w.", TEXT.encode()), id="bytes"),
        pytest.param(re.search(r"$", TEXT), id="empty"),
    ],
)
def test_a_match_is_the_same_match(match):
    found = travelled(match)
    assert (found.re, found.string, found.regs, found.pos, found.endpos, found.lastgroup, found.lastindex) == (
        match.re, match.string, match.regs, match.pos, match.endpos, match.lastgroup, match.lastindex)  # fmt: skip
    assert (found.groups(), found.groupdict(), repr(found)) == (match.groups(), match.groupdict(), repr(match))


def test_matches_of_one_text_are_found_where_they_were():
    matches = list(re.finditer(r"(\w)\w*", TEXT))
    found = travelled(matches)
    assert [each.regs for each in found] == [each.regs for each in matches]
    assert len({id(each.string) for each in found}) == 1


def test_a_match_behind_much_text_is_not_searched_for_again():
    match = re.search("x+", "-" * 1_000_000 + "xx")
    found = travelled(match)
    assert (found.span(), found.pos) == (match.span(), match.start())


def test_a_match_that_would_be_another_one_stays():
    text = bytearray(b"one two")
    match = re.search(b"t", text)
    text[:] = b"two one"
    stays(match)


def test_the_standard_streams_are_those_of_the_receiver(monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO())
    stays(stream)
    monkeypatch.setattr(sys, "stdout", stream)
    data = pickling.dumps([stream])
    other = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(sys, "stdout", other)
    assert pickling.loads(data)[0] is other


def test_a_progress_bar_travels_when_it_is_closed(monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(sys, "stderr", stream)
    bar = tqdm(range(3))
    stays(bar)
    assert list(bar) == [0, 1, 2]
    assert pickling.loads(pickling.dumps(bar)).n == 3


def test_nothing_is_numbered_anew():
    """Later threads and processes have the names that they would have had."""

    def names():
        return threading.Thread().name, FORK.Process().name, ThreadPoolExecutor(1)._thread_name_prefix

    def number(name):
        return int(name.rpartition("-")[2])

    thread, process = threading.Thread(target=abs, args=(1,)), FORK.Process(target=abs, args=(1,))
    with ThreadPoolExecutor(1) as executor:
        executor.submit(abs, 1)
    for each in (thread, process):
        each.start()
        each.join()
    before = names()
    travelled([thread, process, executor])
    assert [number(after) - number(name) for name, after in zip(before, names(), strict=True)] == [1, 1, 1]


@contextlib.contextmanager
def noted(name):
    yield name


def test_a_context_manager_that_nobody_has_entered_is_new_and_one_that_was_stays():
    manager = noted("name")
    found = travelled(manager)
    with found as name:
        assert name == "name"
        stays(found)
