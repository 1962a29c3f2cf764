"""Messages on a socket come out as they were put in, however the system cuts them."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from wool_jupyter.wire.direct import Line, Notice, decode_notice, encode

LIMIT = 50


class Sink(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self):
        super().__init__()
        self.data = b""

    def writelines(self, parts):
        self.data += b"".join(parts)

    def is_closing(self):
        return False


class Heard:
    def __init__(self):
        self.all = []

    def received(self, message):
        self.all.append(message)

    def noticed(self, notice):
        self.all.append(decode_notice(notice))

    def too_large(self):
        self.all.append("too large")

    def ended(self):
        self.all.append("ended")


def written(*said):
    async def main():
        line, sink = Line(Heard(), message_max_bytes=LIMIT), Sink()
        line.connection_made(sink)
        for each in said:
            if isinstance(each, Notice):
                line.notice(each)
            else:
                assert await line.write(each)
        return sink.data

    return asyncio.run(main())


def read(data, cuts):
    async def main():
        heard = Heard()
        line = Line(heard, message_max_bytes=LIMIT)
        begin = 0
        for cut in [*sorted(cuts), len(data)]:
            line.data_received(data[begin:cut])
            begin = cut
        return heard.all

    return asyncio.run(main())


messages = st.binary(max_size=LIMIT) | st.builds(Notice, st.text(max_size=5), st.text(max_size=5))


@given(st.lists(messages, max_size=6), st.data())
def test_whatever_is_cut_comes_out_whole_and_in_order(said, data):
    bytes_ = written(*said)
    cuts = data.draw(st.lists(st.integers(0, len(bytes_)), max_size=8))
    assert read(bytes_, cuts) == said


def test_nothing_is_read_from_a_message_that_is_too_large_on():
    bytes_ = written(b"first", b"x" * (LIMIT + 1), b"after")
    for cuts in ([], [9], [12, 15], range(len(bytes_))):
        assert read(bytes_, cuts) == [b"first", "too large"]


def test_a_notice_is_told_from_a_message_with_the_same_bytes():
    notice = Notice("kind", "words")
    assert read(written(encode(notice), notice), []) == [encode(notice), notice]


def test_nothing_can_be_said_before_there_is_a_connection():
    assert asyncio.run(Line(Heard(), message_max_bytes=LIMIT).write(b"")) is False
