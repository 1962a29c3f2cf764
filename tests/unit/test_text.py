"""What a worker writes (`worker.cell.spool`), and what the kernel reads of it (`notebook.outputs`)."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wool_jupyter.notebook.outputs import TextReader
from wool_jupyter.wire.text import ERR, MARK, NAMES, OUT
from wool_jupyter.worker.cell.spool import Spool


@pytest.fixture
def reader(tmp_path):
    reader = TextReader(str(tmp_path))
    yield reader
    reader.close()


@pytest.fixture
def spool(tmp_path, reader):
    spool = Spool(str(tmp_path))
    yield spool
    closed(spool)


@pytest.fixture
def interrupts():
    """What a job in the background of a shell would ignore."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def closed(spool):
    """On a worker the garbage collector does it."""


def merged(parts):
    """Neighbours of one stream are one text."""
    grouped = groupby((part for part in parts if part[1]), key=lambda part: part[0])
    return [(name, "".join(text for _, text in group)) for name, group in grouped]


def raw(spool, stream, data):
    """As a child or a C library writes."""
    os.write(spool.descriptor(stream), data if isinstance(data, bytes) else data.encode())


def test_text_arrives_once(spool, reader):
    spool.write(OUT, "one\n")
    assert merged(reader.ready()) == [("stdout", "one\n")]
    assert merged(reader.ready()) == []
    spool.write(OUT, "two\n")
    assert merged(reader.ready()) == [("stdout", "two\n")]


def test_switches_between_the_streams_keep_their_order(spool, reader):
    for k in range(4):
        spool.write(k % 2, str(k))
    assert merged(reader.ready()) == [("stdout", "0"), ("stderr", "1"), ("stdout", "2"), ("stderr", "3")]


def test_no_marks_are_written_while_one_stream_goes_on(spool, tmp_path):
    for _ in range(100):
        spool.write(OUT, "line\n")
    assert (tmp_path / "order").stat().st_size == 0
    for _ in range(100):
        spool.write(ERR, "line\n")
    assert (tmp_path / "order").stat().st_size == MARK.size


def test_text_written_below_python_keeps_its_place(spool, reader):
    spool.write(OUT, "a")
    raw(spool, ERR, "b")
    spool.write(OUT, "c")
    raw(spool, ERR, "d")
    spool.write(ERR, "e")
    raw(spool, OUT, "f")
    spool.write(ERR, "g")
    assert merged(reader.ready()) == [
        ("stdout", "a"),
        ("stderr", "b"),
        ("stdout", "c"),
        ("stderr", "de"),
        ("stdout", "f"),
        ("stderr", "g"),
    ]


def test_what_came_before_an_event_is_read_up_to_it(spool, reader):
    spool.write(OUT, "a")
    spool.write(ERR, "b")
    at = spool.lengths()
    spool.write(OUT, "c")
    spool.write(ERR, "d")
    assert merged(reader.ready(at)) == [("stdout", "a"), ("stderr", "b")]
    assert merged(reader.ready(at)) == []
    assert merged(reader.ready()) == [("stdout", "c"), ("stderr", "d")]


def test_an_event_with_nothing_before_it_reads_nothing(spool, reader):
    at = spool.lengths()
    spool.write(OUT, "later")
    assert merged(reader.ready(at)) == []


class Interrupted(TextReader):
    """Somebody writes between its two looks at the sizes."""

    write = staticmethod(lambda: None)

    def _size(self, stream):
        size = super()._size(stream)
        if stream == OUT:
            self.write()
        return size


def test_text_written_between_the_two_sizes_keeps_its_order(tmp_path):
    """The reader takes the length of stdout first; what then goes to both must not show its second half only."""
    reader = Interrupted(str(tmp_path))
    spool = Spool(str(tmp_path))

    def write():
        spool.write(OUT, "before ")
        spool.write(ERR, "after")
        reader.write = lambda: None

    reader.write = write
    parts = [*reader.ready(), *reader.ready(), *reader.rest()]
    reader.close()
    closed(spool)
    assert merged(parts) == [("stdout", "before "), ("stderr", "after")]


WRITES = st.tuples(st.sampled_from([OUT, ERR]), st.text(st.sampled_from("aé€𝄞\n"), min_size=1, max_size=5))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("print"), WRITES),
        st.tuples(st.just("raw"), WRITES),
        st.tuples(st.just("read"), st.none()),
        st.tuples(st.just("event"), st.none()),
        st.tuples(st.just("read event"), st.none()),
    ),
    max_size=40,
)


@settings(deadline=None)
@given(STEPS)
def test_every_text_is_read_once_in_the_order_of_its_writing(steps):
    """Two writes below Python to both streams with no print between them are beyond telling: the second is left out."""
    with tempfile.TemporaryDirectory() as directory:
        reader, spool = TextReader(directory), Spool(directory)
        written, read, events, below = [], [], [], None
        for what, detail in steps:
            if what == "print":
                below = None
                spool.write(*detail)
                written.append((NAMES[detail[0]], detail[1]))
            elif what == "raw" and below in (None, detail[0]):
                below = detail[0]
                raw(spool, *detail)
                written.append((NAMES[detail[0]], detail[1]))
            elif what == "read":
                read += reader.ready()
                events.clear()
            elif what == "event":
                events.append((spool.lengths(), list(written)))
            elif what == "read event" and events:
                at, before = events.pop(0)
                read += reader.ready(at)
                assert merged(read) == merged(before)
        read += reader.rest()
        reader.close()
        closed(spool)
        assert merged(read) == merged(written)


def test_two_threads_lose_nothing_and_keep_each_its_own_order(spool, reader):
    lines = 2000

    def speak(stream):
        for k in range(lines):
            spool.write(stream, f"{k}\n")

    threads = [threading.Thread(target=speak, args=(stream,)) for stream in (OUT, ERR)]
    for thread in threads:
        thread.start()
    parts = []
    while any(thread.is_alive() for thread in threads):
        parts += reader.ready()
    for thread in threads:
        thread.join()
    parts += reader.rest()
    for name in NAMES:
        assert "".join(text for stream, text in parts if stream == name) == "".join(f"{k}\n" for k in range(lines))


def test_a_character_split_over_two_reads_is_whole(spool, reader):
    data = "€𝄞".encode()
    texts = []
    for byte in data:
        raw(spool, OUT, bytes([byte]))
        texts += [text for _, text in reader.ready()]
    assert texts == ["€", "𝄞"]


def test_a_character_split_by_text_of_the_other_stream_is_whole(spool, reader):
    raw(spool, OUT, "€".encode()[:1])
    spool.write(ERR, "!")
    raw(spool, OUT, "€".encode()[1:])
    assert [*reader.ready(), *reader.rest()] == [("stderr", "!"), ("stdout", "€")]


def test_what_is_no_text_is_shown_as_such_at_the_end(spool, reader):
    raw(spool, OUT, b"\xff ok \xe2\x82")
    assert merged(reader.ready()) == [("stdout", "� ok ")]
    assert merged(reader.rest()) == [("stdout", "�")]


def test_lone_surrogates_are_printed_escaped(spool, reader):
    spool.write(OUT, "\udcff")
    assert merged(reader.ready()) == [("stdout", "\\udcff")]


def test_a_mark_that_is_half_written_is_read_when_it_is_whole(tmp_path, reader, spool):
    mark = MARK.pack(1, 0, ERR)
    spool.write(OUT, "a")
    raw(spool, ERR, "b")
    with (tmp_path / "order").open("ab") as order:
        order.write(mark[:10])
    assert merged(reader.ready()) == [("stdout", "a"), ("stderr", "b")]
    with (tmp_path / "order").open("ab") as order:
        order.write(mark[10:] + MARK.pack(2, 1, OUT))
    raw(spool, OUT, "c")
    assert merged(reader.ready()) == [("stdout", "c")]


def test_a_file_that_a_child_truncated_is_read_from_its_start(spool, reader):
    """`echo … > /dev/stdout` opens it anew."""
    spool.write(OUT, "a long text before\n")
    assert merged(reader.ready()) == [("stdout", "a long text before\n")]
    path = f"/proc/self/fd/{spool.descriptor(OUT)}"
    subprocess.run(["sh", "-c", f"echo anew > {path}"], check=True, pass_fds=[spool.descriptor(OUT)])
    assert merged(reader.ready()) == [("stdout", "anew\n")]
    spool.write(OUT, "after\n")
    spool.write(ERR, "error\n")
    assert merged([*reader.ready(), *reader.rest()]) == [("stdout", "after\n"), ("stderr", "error\n")]


def test_switches_after_a_truncation_keep_their_order(spool, reader):
    for _ in range(10):
        spool.write(OUT, "a long text before\n")
        spool.write(ERR, "error\n")
    list(reader.ready())
    os.truncate(f"/proc/self/fd/{spool.descriptor(OUT)}", 0)
    for k in range(3):
        spool.write(k % 2, str(k))
    assert merged([*reader.ready(), *reader.rest()]) == [("stdout", "0"), ("stderr", "1"), ("stdout", "2")]


def test_a_large_text_is_given_back_to_the_file_system_while_it_is_read(tmp_path, reader, spool):
    """200,000 lines must not stay in memory: the files lie on tmpfs."""
    block = "x" * 999_999 + "\n"
    read = 0
    for _ in range(30):
        spool.write(OUT, block)
        read += sum(len(text) for _, text in reader.ready())
    assert read == 30_000_000
    status = (tmp_path / "stdout").stat()
    assert status.st_size == 30_000_000
    assert status.st_blocks * 512 < 8_000_000


def test_a_large_text_comes_in_pieces_of_bounded_size(spool, reader):
    spool.write(OUT, "x" * 5_000_000)
    assert max(len(text) for _, text in reader.ready()) <= 1 << 20


def test_a_reader_that_comes_late_finds_all(tmp_path, spool):
    spool.write(OUT, "early")
    late = TextReader(str(tmp_path))
    assert merged(late.ready()) == [("stdout", "early")]
    late.close()
    late.close()


def test_what_was_written_survives_the_writers_death(tmp_path, reader):
    script = f"""
import os, signal
from wool_jupyter.worker.cell.spool import Spool
spool = Spool({str(tmp_path)!r})
for k in range(1000):
    spool.write(k % 2, f"{{k}} ")
os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", script], check=False)
    assert "".join(text for _, text in reader.rest()) == "".join(f"{k} " for k in range(1000))


def test_files_are_the_users_only(tmp_path, spool):
    assert {oct(path.stat().st_mode & 0o777) for path in Path(tmp_path).iterdir()} == {"0o600"}


def test_a_signal_handler_may_print_while_a_print_is_under_way(spool):
    with spool.lock:
        spool.write(OUT, "handler")


def test_process_streams_follow_the_running_cell(tmp_path):
    """In a process of its own: it takes over the process's streams for good."""
    first, second = tmp_path / "1", tmp_path / "2"
    first.mkdir()
    second.mkdir()
    script = f"""
import contextvars, os, sys, threading, subprocess
from concurrent.futures import ThreadPoolExecutor
from wool_jupyter.worker.cell import spool
capture = spool.Capture()
capture.install()
executor = ThreadPoolExecutor(1)
go_on = threading.Event()
print("nobody's", flush=True)

def cell(directory, body):
    files = spool.Spool(directory)
    capture.begin(files)
    contextvars.Context().run(lambda: (spool.own(files), body()))
    capture.flush()

def first():
    global thread
    print("first")
    print("warned", file=sys.stderr)
    os.write(1, b"below\\n")
    sys.__stdout__.write("real\\n")
    subprocess.run(["echo", "child"])
    thread = threading.Thread(target=lambda: (go_on.wait(20), print("late")))
    thread.start()
    executor.submit(print, "job of the first").result()
    pid = os.fork()
    if pid == 0:
        print("forked", flush=True)
        os._exit(0)
    os.waitpid(pid, 0)

def second():
    go_on.set()
    thread.join()
    print("second")
    executor.submit(print, "job of the second").result()
    try:
        sys.stdout.write(b"bytes")
    except TypeError as error:
        print(error)
    sys.stdout.close()
    print(sys.stdout.isatty(), sys.stdout.encoding, sys.stdout.fileno(), sys.stderr.fileno())

cell({str(first)!r}, first)
cell({str(second)!r}, second)
"""
    # Its fork beside threads is warned of from 3.12 on, as it is in a plain cell.
    command = [sys.executable, "-W", "ignore:This process:DeprecationWarning", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "nobody's\n"
    assert (first / "stderr").read_text() == "warned\n"
    assert (first / "stdout").read_text().splitlines() == [
        *("first", "below", "real", "child", "job of the first", "forked", "late")
    ]
    assert (second / "stdout").read_text().splitlines() == [
        *("second", "job of the second", "write() argument must be str, not <class 'bytes'>", "False UTF-8 1 2")
    ]


def test_text_that_is_younger_than_an_event_waits_for_it(spool, reader):
    """The text is in a file at once; the event comes by way of the loop."""
    sent = []
    spool.emit = sent.append
    spool.write(OUT, "before\n")
    spool.event(lambda at: repr(at).encode())
    spool.write(OUT, "after\n")
    assert merged(reader.ready()) == [("stdout", "before\n")]
    assert reader.waiting() == 0
    assert sent == [b"(7, 0)"]
    reader.came()
    assert merged(reader.ready((7, 0))) == []
    assert merged(reader.ready()) == [("stdout", "after\n")]


def test_text_after_an_event_that_never_came_is_not_lost(spool, reader):
    spool.event(lambda _: b"")
    spool.write(ERR, "last words\n")
    assert merged(reader.ready()) == []
    assert merged(reader.rest()) == [("stderr", "last words\n")]


def test_an_event_keeps_the_stream_that_goes_on(spool, reader):
    spool.write(ERR, "a")
    spool.event(lambda _: b"")
    spool.write(ERR, "b")
    raw(spool, OUT, "c")
    spool.write(ERR, "d")
    reader.came()
    assert merged(reader.ready()) == [("stderr", "ab"), ("stdout", "c"), ("stderr", "d")]


def test_an_event_after_the_end_is_dropped_and_holds_nothing_up(spool, reader):
    sent = []
    spool.emit = sent.append
    spool.end()
    spool.event(lambda _: b"late")
    spool.write(OUT, "late\n")
    assert sent == []
    assert merged(reader.ready()) == [("stdout", "late\n")]


def test_a_file_system_that_is_full_is_said_in_words(spool, tmp_path):
    import errno
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))  # Python ignores the signal: EFBIG
    try:
        with pytest.raises(OSError, match=r"output waits in .* until the notebook has it") as failure:
            spool.write(OUT, "x" * 200)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert failure.value.errno == errno.EFBIG
    assert str(tmp_path) in str(failure.value)


def test_a_signal_does_not_come_between_an_event_and_its_mark(spool, reader, interrupts):
    """Text would wait for an event that never comes."""

    def interrupted_while_it_is_sent(_):
        signal.raise_signal(signal.SIGINT)

    spool.emit = interrupted_while_it_is_sent
    with pytest.raises(KeyboardInterrupt):
        spool.event(lambda _: (signal.raise_signal(signal.SIGINT), b"sent")[1])
    spool.write(OUT, "after\n")
    reader.came()
    assert merged(reader.ready()) == [("stdout", "after\n")]


def test_an_event_is_sent_before_a_signal_is_heard(spool, interrupts):
    sent = []
    spool.emit = sent.append
    with pytest.raises(KeyboardInterrupt):
        spool.event(lambda _: (signal.raise_signal(signal.SIGINT), b"sent")[1])
    assert sent == [b"sent"]
