"""A message carries all the frames that its sender had to say."""

import asyncio
import contextlib
import tempfile
from typing import get_args
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.channels import opened
from tests.support.loops import run, until
from tests.support.workers import VERSION
from wool_jupyter.errors import MessageTooLarge
from wool_jupyter.records import ChannelOptions, WorkerMetadata
from wool_jupyter.wire import frames
from wool_jupyter.wire.credentials import TOKEN_KEY
from wool_jupyter.wire.outbox import Outbox
from wool_jupyter.wire.protocol import METHOD, PROTOCOL, PROTOCOL_KEY, SERVICE, VERSION_KEY, package_version
from wool_jupyter.wire.transport import client_options, grpc, server_options
from wool_jupyter.worker.service import WorkerService

TOKEN = "0123456789abcdef"
CREDENTIALS = ((TOKEN_KEY, TOKEN), (PROTOCOL_KEY, PROTOCOL), (VERSION_KEY, package_version()))
LET_IN = ((PROTOCOL_KEY, PROTOCOL),)
REQUESTS, RESPONSES = get_args(frames.Request), get_args(frames.Response)

# INTERNAL is what this end makes of a write that the other end's status overtakes.
ENDS = {grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.INTERNAL}

numbers = st.integers(0, 2**63 - 1)
texts, values = st.text(max_size=20), st.binary(max_size=40)
requests = st.one_of(
    st.builds(frames.Task, numbers, texts, values),
    st.builds(frames.Next, numbers),
    st.builds(frames.Send, numbers, values),
    st.builds(frames.Cancel, numbers),
)
responses = st.one_of(
    st.builds(frames.Ack, numbers),
    st.builds(frames.Nack, numbers, texts),
    st.builds(frames.Yielded, numbers, values, st.booleans()),
    st.builds(frames.Returned, numbers),
    st.builds(frames.Failed, numbers, texts),
    st.builds(frames.TooLarge, numbers, texts),
)


def message(*batch):
    return frames.join([frames.encode(frame) for frame in batch])


@st.composite
def damaged(draw):
    """A message, cut, or with some bytes replaced, inserted or taken away."""
    data = bytearray(message(*draw(st.lists(st.one_of(requests, responses), max_size=4))))
    data = data[: draw(st.integers(0, len(data)))] if draw(st.booleans()) else data
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(data)))
        data[at : at + draw(st.integers(0, 2))] = draw(st.binary(max_size=2))
    return bytes(data)


@contextlib.asynccontextmanager
async def serving(**routines):
    with tempfile.TemporaryDirectory(prefix="w", dir="/tmp") as directory:
        service = WorkerService(routines, token=TOKEN)
        metadata = WorkerMetadata(UUID(int=1), f"unix:{directory}/1", 1, VERSION)
        await service.start(metadata.address)
        try:
            yield metadata
        finally:
            await service.close()


@contextlib.asynccontextmanager
async def raw_stream(metadata):
    async with grpc.aio.insecure_channel(metadata.address, options=client_options(ChannelOptions())) as channel:
        yield channel.stream_stream(f"/{SERVICE}/{METHOD}")(metadata=CREDENTIALS)


async def once(body):
    yield body, True


async def echo(body):
    answer = yield body, False
    while answer is not None:
        answer = yield answer, False


@given(st.lists(requests, max_size=5), st.lists(responses, max_size=5))
def test_a_batch_comes_back_in_order(asked, answered):
    assert frames.decode_requests(message(*asked)) == asked
    assert frames.decode_responses(message(*answered)) == answered


@settings(max_examples=500)
@given(st.one_of(damaged(), st.binary(max_size=60)))
def test_what_is_damaged_is_a_decode_error_or_frames(data):
    for decode, kinds in ((frames.decode_requests, REQUESTS), (frames.decode_responses, RESPONSES)):
        with contextlib.suppress(frames.DecodeError):
            assert all(isinstance(frame, kinds) for frame in decode(data))


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(frames.encode(frames.Next(1)), id="a frame without its array"),
        pytest.param(message(frames.Next(1)) + b"\0", id="too long"),
        pytest.param(message(frames.Next(1), frames.Ack(1)), id="a response among them"),
        pytest.param(b"\x91" * 100_000, id="deep"),
        pytest.param(b"\x91\x93\x02\x01" + b"\x91" * 100_000, id="deep in what follows a frame's fields"),
        pytest.param(b"\x91\x94\x01\x01\xa2\xff\xfe\xc4\x00", id="no text"),
        pytest.param(b"\xdd\xff\xff\xff\xff", id="longer than any memory"),
        pytest.param(b"\x91\x94\x01\x01\xdb\xff\xff\xff\xff", id="text longer than any memory"),
    ],
)
def test_what_is_no_batch_of_requests_is_a_decode_error(data):
    with pytest.raises(frames.DecodeError):
        frames.decode_requests(data)


def test_an_outbox_gives_all_that_waits_in_order():
    async def main():
        outbox = Outbox()
        asked = [frames.Send(number, b"x") for number in range(5)]
        for frame in asked:
            outbox.put(frame)
        assert frames.decode_requests(await outbox.take()) == asked
        waiting = asyncio.create_task(outbox.take())
        await asyncio.sleep(0)
        assert not waiting.done()
        outbox.put(frames.Next(9))
        assert frames.decode_requests(await waiting) == [frames.Next(9)]

    run(main())


class Way:
    """Of messages that are sent at once, as long as it is free."""

    def __init__(self):
        self.free, self.sent = True, []

    def __call__(self, message):
        if self.free:
            self.sent.append(frames.decode_requests(message))
        return self.free


def test_what_finds_the_way_free_is_sent_at_once_and_in_one_message():
    async def main():
        outbox, way = Outbox(), Way()
        outbox.sends_at_once = way
        outbox.put(frames.Next(1), frames.Next(2))
        assert way.sent == [[frames.Next(1), frames.Next(2)]]
        outbox.close()
        outbox.put(frames.Next(3))
        assert len(way.sent) == 1

    run(main())


def test_nothing_overtakes_what_waits():
    async def main():
        outbox, way = Outbox(), Way()
        outbox.put(frames.Next(1))  # before there was a way
        outbox.sends_at_once = way
        outbox.put(frames.Next(2))
        assert frames.decode_requests(await outbox.take()) == [frames.Next(1), frames.Next(2)]
        way.free = False
        outbox.put(frames.Next(3))
        way.free = True
        outbox.put(frames.Next(4))
        assert frames.decode_requests(await outbox.take()) == [frames.Next(3), frames.Next(4)]
        outbox.put(frames.Next(5))
        assert way.sent == [[frames.Next(5)]]

    run(main())


def test_frames_that_do_not_fit_into_one_message_are_not_sent_as_one_at_once():
    async def main():
        outbox, way = Outbox(message_max_bytes=100 + frames.HEAD_MAX_BYTES), Way()
        outbox.sends_at_once = way
        first, second = frames.Send(1, b"x" * 60), frames.Send(1, b"y" * 60)
        outbox.put(first, second)
        assert not way.sent
        assert [frames.decode_requests(await outbox.take()) for _ in range(2)] == [[first], [second]]
        with pytest.raises(MessageTooLarge):
            outbox.put(first, frames.Send(1, b"z" * 200))  # neither goes
        outbox.put(second)
        assert way.sent == [[second]]

    run(main())


def test_a_taker_that_is_cancelled_loses_nothing():
    async def main():
        outbox = Outbox()
        taker = asyncio.create_task(outbox.take())
        await asyncio.sleep(0)
        outbox.put(frames.Next(1))
        taker.cancel()
        await asyncio.wait([taker])
        assert taker.cancelled()
        assert frames.decode_requests(await outbox.take()) == [frames.Next(1)]

    run(main())


def test_what_does_not_fit_into_one_message_goes_into_several():
    frame = frames.Send(1, b"x" * 30)

    async def main():
        outbox = Outbox(message_max_bytes=100 + frames.HEAD_MAX_BYTES)
        for _ in range(7):
            outbox.put(frame)
        taken = [len(frames.decode_requests(await outbox.take())) for _ in range(4)]
        assert taken == [2, 2, 2, 1]

    assert len(frames.encode(frame)) * 2 <= 100 < len(frames.encode(frame)) * 3
    run(main())


def test_the_largest_frames_make_messages_that_a_worker_takes():
    def sized(nbytes):
        return frames.Send(1, b"x" * (nbytes - len(frames.encode(frames.Send(1, b"x" * 70_000))) + 70_000))

    async def main():
        outbox = Outbox()
        largest = sized(frames.FRAME_MAX_BYTES)
        outbox.put(largest)
        outbox.put(frames.Next(1))
        assert len(await outbox.take()) <= frames.MESSAGE_MAX_BYTES
        assert frames.decode_requests(await outbox.take()) == [frames.Next(1)]
        with pytest.raises(MessageTooLarge, match=r"16\.0 MiB is larger than 16 MiB"):
            outbox.put(sized(frames.FRAME_MAX_BYTES + 1))
        outbox.put(frames.Next(2))
        assert frames.decode_requests(await outbox.take()) == [frames.Next(2)]

    run(main())


def test_a_task_and_its_first_step_are_one_message():
    async def main():
        heard = []

        async def listens(_requests, context):
            await context.send_initial_metadata(LET_IN)
            while (data := await context.read()) is not grpc.aio.EOF:
                heard.append(frames.decode_requests(data))

        server = grpc.aio.server(options=server_options(ChannelOptions()))
        handler = grpc.stream_stream_rpc_method_handler(listens)
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler})])
        with tempfile.TemporaryDirectory(prefix="w", dir="/tmp") as directory:
            metadata = WorkerMetadata(UUID(int=1), f"unix:{directory}/1", 1, VERSION)
            server.add_insecure_port(metadata.address)
            await server.start()
            async with opened(metadata, TOKEN) as channel:
                call = channel.call(metadata, "cell", b"body")
                await until(lambda: heard)
                call.close()
                await until(lambda: len(heard) == 2)
                other = channel.call(metadata, "cell", b"other", begun=False)
                await until(lambda: len(heard) == 3)
            await server.stop(grace=None)
        first, second = call.number, other.number
        assert heard[:2] == [[frames.Task(first, "cell", b"body"), frames.Next(first)], [frames.Cancel(first)]]
        assert heard[2] == [frames.Task(second, "cell", b"other")]
        assert second > first

    run(main())


def test_who_asks_for_the_first_step_with_the_task_hears_its_answer_alone():
    async def main():
        async with serving(once=once) as metadata, raw_stream(metadata) as stream:
            await stream.write(message(frames.Task(1, "once", b"x"), frames.Next(1)))
            assert frames.decode_responses(await stream.read()) == [frames.Yielded(1, b"x", True)]
            await stream.write(message(frames.Task(2, "once", b"y")))
            assert frames.decode_responses(await stream.read()) == [frames.Ack(2)]
            await stream.write(message(frames.Task(3, "nobody", b"y"), frames.Next(3)))
            (refused,) = frames.decode_responses(await stream.read())
            assert isinstance(refused, frames.Nack)

    run(main())


def test_many_calls_in_one_message_are_all_answered_each_in_order():
    async def main():
        async with serving(echo=echo) as metadata, raw_stream(metadata) as stream:
            asked = [each for n in range(30) for each in (frames.Task(n, "echo", b"%d" % n), frames.Next(n))]
            await stream.write(message(*asked))
            heard = []
            while len(heard) < 30:
                heard += frames.decode_responses(await stream.read())
            for n in range(30):
                assert [frame for frame in heard if frame.call == n] == [frames.Yielded(n, b"%d" % n, False)]

    run(main())


@pytest.mark.parametrize(
    ("said", "code"), [([b"not a message"], grpc.StatusCode.INVALID_ARGUMENT), ([], grpc.StatusCode.OK)]
)
def test_a_stream_ends_with_its_status_though_a_write_is_under_way(said, code):
    async def main():
        yielded, left = asyncio.Event(), asyncio.Event()

        async def large(body):
            try:
                yielded.set()
                yield bytes(4 << 20), False  # more than a connection takes while nobody reads
            finally:
                left.set()

        async with serving(large=large) as metadata, raw_stream(metadata) as stream:
            await stream.write(message(frames.Task(1, "large", b""), frames.Next(1)))
            await yielded.wait()
            for data in said:
                await stream.write(data)
            await stream.done_writing()
            with contextlib.suppress(grpc.aio.AioRpcError):
                while await stream.read() is not grpc.aio.EOF:
                    pass
            assert await stream.code() is code
            await left.wait()

    run(main())


class SlowContext:
    """What gRPC gives to a handler: it says one batch and then `last`, once a write is under way that takes its time."""

    def __init__(self, *batch, last):
        self._said = iter([message(*batch), last])
        self._first = True
        self.under_way, self.may_end = asyncio.Event(), asyncio.Event()
        self.seen = []

    def invocation_metadata(self):
        return CREDENTIALS

    async def send_initial_metadata(self, _):
        self.seen.append("let in")

    async def read(self):
        if not self._first:
            await self.under_way.wait()
        self._first = False
        return next(self._said)

    async def write(self, _):
        self.under_way.set()
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            self.seen.append("cancelled")
            raise
        self.seen.append("written")

    async def abort(self, code, _):
        self.seen.append(code)


@pytest.mark.parametrize(
    ("last", "status"), [(b"not a message", [grpc.StatusCode.INVALID_ARGUMENT]), (grpc.aio.EOF, [])], ids=["bad", "end"]
)
def test_no_write_is_cancelled_before_a_status(last, status):
    """gRPC 1.85 can send none then, and the client would wait for ever."""

    async def main():
        service = WorkerService({"once": once}, token=TOKEN)
        context = SlowContext(frames.Task(1, "once", b"x"), frames.Next(1), last=last)
        handler = asyncio.create_task(service._session(None, context))
        await context.under_way.wait()
        for _ in range(20):
            await asyncio.sleep(0)
        assert context.seen == ["let in"]
        context.may_end.set()
        await handler
        assert context.seen == ["let in", "written", *status]
        await service.close()

    run(main())


def test_a_client_that_never_reads_and_leaves_ends_its_calls():
    async def main():
        yielded, left = asyncio.Event(), asyncio.Event()

        async def large(body):
            try:
                yielded.set()
                yield bytes(4 << 20), False
            finally:
                left.set()

        async with serving(large=large) as metadata:
            async with raw_stream(metadata) as stream:
                await stream.write(message(frames.Task(1, "large", b""), frames.Next(1)))
                await yielded.wait()
                await stream.write(b"not a message")
                stream.cancel()
            await left.wait()

    run(main())


def test_a_closed_outbox_gives_nothing_and_takes_nothing():
    async def main():
        outbox = Outbox()
        waiting = asyncio.create_task(outbox.take())
        await asyncio.sleep(0)
        outbox.put(frames.Next(1))
        outbox.close()
        outbox.put(frames.Next(2))
        assert (await waiting, await outbox.take()) == (None, None)

    run(main())


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.one_of(damaged(), st.binary(max_size=60)), min_size=1, max_size=4))
def test_whatever_a_stream_says_the_others_go_on(said):
    async def main():
        async with serving(once=once, echo=echo) as metadata, opened(metadata, TOKEN) as channel:
            call = channel.call(metadata, "echo", b"before")
            assert await call.step() == b"before"
            for data in said:
                async with raw_stream(metadata) as stream:
                    with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
                        await stream.write(data)
                        await stream.done_writing()
                        while await stream.read() is not grpc.aio.EOF:
                            pass
                    assert await stream.code() in ENDS
            assert await call.step(b"after") == b"after"
            assert await channel.call(metadata, "once", b"new").step() == b"new"

    run(main())
