"""Service, connection and proxy over real sockets; routines are small, and no cell runs."""

import asyncio
from contextlib import asynccontextmanager, suppress
from functools import partial
from uuid import UUID

import grpc.aio
import pytest

from tests.support.carriers import direct_of, sockets_of
from tests.support.channels import opened, proxied, under_way
from tests.support.loops import run, until
from tests.support.services import TOKEN, Forever, echo, once
from tests.support.workers import VERSION
from wool_jupyter.aio.resource_pool import ResourcePoolStats
from wool_jupyter.dispatch import channels
from wool_jupyter.dispatch.connection import WorkerConnection
from wool_jupyter.dispatch.link import ChannelKey
from wool_jupyter.errors import CallFailed, CallRejected, NotReached, NoWorkersAvailable, WorkerDied, WorkerRefused
from wool_jupyter.records import ChannelOptions, WorkerMetadata
from wool_jupyter.wire import frames
from wool_jupyter.wire.credentials import TOKEN_KEY
from wool_jupyter.wire.protocol import METHOD, PROTOCOL, PROTOCOL_KEY, SERVICE, VERSION_KEY, package_version
from wool_jupyter.wire.transport import client_options, server_options
from wool_jupyter.worker.service import WorkerService

CREDENTIALS = ((TOKEN_KEY, TOKEN), (PROTOCOL_KEY, PROTOCOL), (VERSION_KEY, package_version()))
NOTHING = ResourcePoolStats(0, 0, 0, 0)


@pytest.fixture
def sockets(carrier):
    with sockets_of(carrier) as directory:
        yield directory


async def fails(body):
    raise LookupError("no such thing")
    yield


def metadata_of(sockets, number=1):
    return WorkerMetadata(UUID(int=number), f"unix:{sockets}/{number}", 1, VERSION)


@asynccontextmanager
async def serving(sockets, number=1, **routines):
    service = WorkerService({"echo": echo, "once": once, "fails": fails, **routines}, token=TOKEN)
    metadata = metadata_of(sockets, number)
    await service.start(metadata.address, direct=direct_of(metadata.address))
    try:
        yield metadata, service
    finally:
        await service.close()


def key_of(metadata):
    return ChannelKey(metadata.address, TOKEN, metadata.options)


async def read_to_end(stream):
    while await stream.read() is not grpc.aio.EOF:
        pass


def loads(proxy):
    return {uid: candidate.connection.load for uid, candidate in proxy.workers.workers.items()}


async def known_to_be_broken(channel):
    """Nothing has to be asked for that: a stream that ends is noticed."""
    await until(lambda: channel.broken)
    assert under_way(channel) == 0
    with pytest.raises(NotReached):
        channel.call(metadata_of("nowhere"), "once", b"")
    assert under_way(channel) == 0


async def values_of(call):
    values = []
    while (value := await call.step()) is not None:
        values.append(value)
    return values


def test_a_call_gets_its_values_and_the_routine_its_answers(sockets):
    async def main():
        async with serving(sockets) as (metadata, _), opened(metadata, TOKEN) as channel:
            call = channel.call(metadata, "echo", b"hello")
            assert call.worker == metadata
            assert under_way(channel) == 1
            assert await call.step() == b"hello"
            assert await call.step(b"more") == b"more"
            assert not call.ended
            assert await call.step() is None
            assert call.ended
            assert await call.step() is None
            assert under_way(channel) == 0

    run(main())


def test_a_last_value_ends_the_call_without_another_round(sockets):
    async def main():
        async with serving(sockets) as (metadata, _), opened(metadata, TOKEN) as channel:
            call = channel.call(metadata, "once", b"only")
            assert await call.step() == b"only"
            assert call.ended
            assert under_way(channel) == 0

    run(main())


def test_an_empty_value_is_a_value_and_an_empty_answer_an_answer(sockets):
    async def main():
        async with serving(sockets) as (metadata, _), opened(metadata, TOKEN) as channel:
            call = channel.call(metadata, "echo", b"")
            assert await call.step() == b""
            assert await call.step(b"") == b""
            assert not call.ended
            call.close()

    run(main())


def test_many_calls_on_one_stream_do_not_mix(sockets):
    async def main():
        async with serving(sockets) as (metadata, _), opened(metadata, TOKEN) as channel:

            async def converse(number):
                call = channel.call(metadata, "echo", f"{number}".encode())
                said = [await call.step()]
                said += [await call.step(f"{number}-{k}".encode()) for k in range(5)]
                assert await call.step() is None
                return said

            found = await asyncio.gather(*(converse(number) for number in range(40)))
            assert found == [[f"{n}".encode(), *(f"{n}-{k}".encode() for k in range(5))] for n in range(40)]
            assert under_way(channel) == 0

    run(main())


def test_a_call_that_never_answers_holds_up_no_other(sockets):
    async def main():
        forever = Forever()
        async with serving(sockets, forever=forever) as (metadata, _), opened(metadata, TOKEN) as channel:
            stuck = channel.call(metadata, "forever", b"")
            assert await values_of(channel.call(metadata, "echo", b"hello")) == [b"hello"]
            stuck.close()
            stuck.close()
            await until(lambda: forever.inside == 0)
            assert under_way(channel) == 0

    run(main())


def test_a_message_beyond_grpcs_default_limit_passes_both_ways(sockets):
    async def main():
        async with serving(sockets) as (metadata, _), opened(metadata, TOKEN) as channel:
            body = bytes(range(256)) * (8 << 12)
            call = channel.call(metadata, "echo", body)
            assert await call.step() == body
            assert await call.step(body) == body
            call.close()

    run(main())


def test_a_failing_routine_is_said_with_its_reason(sockets):
    async def main():
        async with serving(sockets) as (metadata, _), opened(metadata, TOKEN) as channel:
            call = channel.call(metadata, "fails", b"")
            with pytest.raises(CallFailed, match="LookupError: no such thing"):
                await call.step()
            assert call.ended
            assert await values_of(channel.call(metadata, "once", b"next")) == [b"next"]

    run(main())


def test_an_unknown_routine_is_a_refusal(sockets):
    async def main():
        async with serving(sockets) as (metadata, _), opened(metadata, TOKEN) as channel:
            call = channel.call(metadata, "sing", b"")
            with pytest.raises(CallRejected, match="no routine 'sing'"):
                await call.step()
            assert call.ended
            assert await call.step() is None
            assert under_way(channel) == 0
            assert await values_of(channel.call(metadata, "once", b"next")) == [b"next"]

    run(main())


@pytest.mark.parametrize("token", ["wrong", TOKEN[:-1], TOKEN + "0", ""])
def test_a_wrong_token_is_refused_before_anything_is_decoded(sockets, token, monkeypatch):
    decoded = []
    monkeypatch.setattr(frames, "decode_requests", decoded.append)

    async def main():
        async with serving(sockets) as (metadata, _):
            with pytest.raises(WorkerRefused, match="token"):
                async with opened(metadata, token):
                    pass

    run(main())
    assert decoded == []


def test_no_token_at_all_is_refused_with_the_reason(sockets):
    async def main():
        async with serving(sockets) as (metadata, _):
            raw = grpc.aio.insecure_channel(metadata.address, options=client_options(ChannelOptions()))
            stream = raw.stream_stream(f"/{SERVICE}/{METHOD}")()
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await stream.read()
            assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
            await raw.close()

    run(main())


def test_bytes_that_are_no_frame_end_that_stream_only(sockets):
    async def main():
        forever = Forever()
        async with serving(sockets, forever=forever) as (metadata, _), opened(metadata, TOKEN) as channel:
            raw = grpc.aio.insecure_channel(metadata.address, options=client_options(ChannelOptions()))
            stream = raw.stream_stream(f"/{SERVICE}/{METHOD}")(metadata=CREDENTIALS)
            for frame in (frames.Task(1, "forever", b""), frames.Next(1)):
                await stream.write(frames.join([frames.encode(frame)]))
            await until(lambda: forever.inside == 1)
            await stream.write(b"not a frame")
            with pytest.raises(grpc.aio.AioRpcError):
                await read_to_end(stream)
            await until(lambda: forever.inside == 0)
            await raw.close()
            assert await values_of(channel.call(metadata, "once", b"still here")) == [b"still here"]

    run(main())


def test_a_server_that_goes_ends_running_calls_and_is_not_reached_by_new_ones(sockets):
    async def main():
        forever = Forever()
        async with serving(sockets, forever=forever) as (metadata, service), opened(metadata, TOKEN) as channel:
            calls = [channel.call(metadata, "forever", b"") for _ in range(3)]
            steps = [asyncio.create_task(call.step()) for call in calls]
            waiting = channel.call(metadata, "echo", b"")
            await until(lambda: forever.inside == 3 and waiting.responses.qsize() == 1)
            await service.close()
            outcomes = await asyncio.gather(*steps, return_exceptions=True)
            assert [type(outcome) for outcome in outcomes] == [WorkerDied] * 3
            assert await waiting.step() == b""
            with pytest.raises(WorkerDied):
                await waiting.step()
            await known_to_be_broken(channel)
            assert all(call.ended for call in [*calls, waiting])

    run(main())


def test_an_address_where_nobody_listens_is_not_reached(sockets):
    async def main():
        with pytest.raises(NotReached):
            async with opened(metadata_of(sockets), TOKEN):
                pass

    run(main())


def test_a_worker_that_is_gone_is_known_without_asking_it(sockets):
    async def main():
        async with serving(sockets) as (metadata, service), opened(metadata, TOKEN) as channel:
            assert await values_of(channel.call(metadata, "once", b"here")) == [b"here"]
            await service.close()
            await known_to_be_broken(channel)

    run(main())


def test_a_call_needs_no_turn_of_the_loop_to_be_sent(sockets):
    """Whoever gets a `Call` is the one who must end it: nothing can be cancelled in between."""

    async def main():
        forever = Forever()
        async with serving(sockets, forever=forever) as (metadata, _), opened(metadata, TOKEN) as channel:
            call = channel.call(metadata, "forever", b"")
            assert (under_way(channel), call.worker, call.ended) == (1, metadata, False)
            await until(lambda: forever.inside == 1)  # the first step has been sent with it
            call.close()
            await until(lambda: forever.inside == 0)

    run(main())


def test_nothing_is_opened_before_the_first_call(sockets):
    """Not even the token is read."""

    async def main():
        connection = WorkerConnection(metadata_of(sockets))
        assert (connection.load, channels.of_this_loop().stats) == (0, NOTHING)
        with pytest.raises(NotReached, match=r"the pool of worker .* is gone"):
            await connection.dispatch("echo", b"")
        connection.close()
        assert channels.of_this_loop().stats == NOTHING

    run(main())


def test_closing_a_connection_ends_its_calls_here_and_on_the_worker(sockets):
    async def main():
        forever = Forever()
        async with serving(sockets, forever=forever) as (metadata, _), opened(metadata, TOKEN) as channel:
            call = channel.call(metadata, "forever", b"")
            step = asyncio.create_task(call.step())
            await until(lambda: forever.inside == 1)
            await channel.close()
            await channel.close()
            with pytest.raises(WorkerDied):
                await step
            await known_to_be_broken(channel)
            await until(lambda: forever.inside == 0)

    run(main())


@pytest.mark.parametrize("stepping", [False, True], ids=["closed", "step cancelled"])
def test_a_call_that_is_given_up_at_any_moment_leaves_nothing(sockets, stepping):
    """At each turn of the loop after it was sent: before the worker has it, before its Ack, within its first step."""

    async def main():
        forever = Forever()
        async with serving(sockets, forever=forever) as (metadata, _), opened(metadata, TOKEN) as channel:
            await values_of(channel.call(metadata, "once", b"warm"))
            for turns in range(12):
                call = channel.call(metadata, "forever", b"")
                step = asyncio.create_task(call.step()) if stepping else None
                for _ in range(turns):
                    await asyncio.sleep(0)
                if step is not None:
                    step.cancel()
                    with suppress(asyncio.CancelledError):
                        await step
                call.close()
                call.close()
                assert call.ended
                assert under_way(channel) == 0
            assert await values_of(channel.call(metadata, "once", b"still here")) == [b"still here"]
            await until(lambda: forever.inside == 0)

    run(main())


def test_a_client_that_vanishes_ends_its_calls_on_the_worker(sockets):
    async def main():
        forever = Forever()
        async with serving(sockets, forever=forever) as (metadata, _), opened(metadata, TOKEN) as channel:
            for _ in range(3):
                channel.call(metadata, "forever", b"")
            await until(lambda: forever.inside == 3)
            channel._link.cut()
            await until(lambda: forever.inside == 0)

    run(main())


def test_the_end_of_a_client_is_no_failure_worth_a_report(sockets, capfd):
    async def chatter(body):
        for _ in range(1000):
            yield body, False

    async def main():
        async with serving(sockets, chatter=chatter) as (metadata, _):
            for _ in range(5):
                async with opened(metadata, TOKEN) as channel:
                    for _ in range(10):
                        call = channel.call(metadata, "chatter", b"x" * 100_000)
                        await call.step()
                        channel.send(frames.Next(call.number))

    run(main())
    said = capfd.readouterr().err  # gRPC itself may log that a stream went away
    assert not [line for line in said.splitlines() if line.startswith(("Traceback", "wool_jupyter"))]


def test_a_proxy_passes_over_a_worker_that_is_not_reached_and_keeps_it(sockets):
    async def main():
        async with serving(sockets, 2) as (there, _), proxied(metadata_of(sockets, 1), there, token=TOKEN) as proxy:
            failed = []
            proxy.observe(placed=lambda _: None, failed=failed.append)
            for _ in range(3):
                call = await proxy.dispatch("once", b"hello")
                assert call.worker == there
                assert await values_of(call) == [b"hello"]
            assert failed == [UUID(int=1)]  # the one that served goes first from then on
            assert list(proxy.workers.workers) == [UUID(int=1), there.uid]
            proxy.evict(there.uid)
            with pytest.raises(NoWorkersAvailable) as caught:
                await proxy.dispatch("once", b"hello")
            assert [*map(type, caught.value.failures.values())] == [NotReached]

    run(main())


def test_a_connection_that_broke_while_idle_is_replaced_at_the_next_call(sockets):
    async def main():
        async with serving(sockets) as (metadata, service), proxied(metadata, token=TOKEN) as proxy:
            for _ in range(3):
                assert await values_of(await proxy.dispatch("once", b"here")) == [b"here"]
                channel, give_back = await channels.of_this_loop().acquire(key_of(metadata))
                give_back()
                channel._link.cut()
                await until(lambda: channels.of_this_loop().stats == NOTHING)
            await service.close()
            with pytest.raises(NoWorkersAvailable, match="broke"):
                await proxy.dispatch("once", b"gone")
        async with serving(sockets) as (again, _), proxied(again, token=TOKEN) as proxy:
            assert await values_of(await proxy.dispatch("once", b"back")) == [b"back"]

    run(main())


def test_a_balancer_hears_of_each_candidate_what_became_of_it(sockets):
    class Named:
        """Names all, in the order of joining."""

        def __init__(self):
            self.heard = []

        async def delegate(self, task, *, context):
            for uid in list(context.workers):
                try:
                    taken = yield uid
                except NotReached as error:
                    self.heard.append((uid.int, type(error)))
                    continue
                self.heard.append((uid.int, taken))
                return

    async def main():
        async with (
            serving(sockets, 2) as (there, _),
            proxied(metadata_of(sockets, 1), there, token=TOKEN, loadbalancer=(balancer := Named())) as proxy,
        ):
            assert await values_of(await proxy.dispatch("once", b"hello")) == [b"hello"]
            assert balancer.heard == [(1, NotReached), (2, there.uid)]

    run(main())


def test_a_proxy_whose_workers_are_all_gone_has_none_available(sockets):
    async def main():
        async with proxied(metadata_of(sockets, 1), metadata_of(sockets, 2), token=TOKEN) as proxy:
            with pytest.raises(NoWorkersAvailable) as caught:
                await proxy.dispatch("once", b"")
            assert set(caught.value.failures) == {UUID(int=1), UUID(int=2)}
            assert loads(proxy) == {UUID(int=1): 0, UUID(int=2): 0}
        async with proxied(token=TOKEN) as proxy:
            with pytest.raises(NoWorkersAvailable):
                await proxy.dispatch("once", b"")

    run(main())


def test_a_refusal_is_final(sockets):
    async def main():
        sung = []

        async def sing(body):
            sung.append(body)
            yield body, True

        singer = serving(sockets, 2, sing=sing)
        async with serving(sockets, 1) as (one, _), singer as (other, _), proxied(one, other, token=TOKEN) as proxy:
            call = await proxy.dispatch("sing", b"", begun=True)
            assert call.worker == one
            with pytest.raises(CallRejected):
                await call.step()
            assert sung == []
            assert loads(proxy) == {one.uid: 0, other.uid: 0}

    run(main())


def test_a_busy_worker_is_passed_over_and_the_last_one_is_asked_again(sockets):
    async def main():
        forever = Forever()
        stuck_on = serving(sockets, 1, forever=forever)
        async with stuck_on as (one, _), serving(sockets, 2) as (other, _), proxied(one, other, token=TOKEN) as proxy:
            stuck = await proxy.dispatch("forever", b"")
            assert loads(proxy) == {one.uid: 1, other.uid: 0}
            second = await proxy.dispatch("once", b"")
            assert await values_of(second) == [b""]
            assert (stuck.worker, second.worker) == (one, other)
            stuck.close()
            assert (await proxy.dispatch("once", b"")).worker == other

    run(main())


def test_only_asks_that_worker_or_nobody(sockets):
    async def main():
        async with (
            serving(sockets, 1) as (one, _),
            serving(sockets, 2) as (other, _),
            proxied(one, other, token=TOKEN) as proxy,
        ):
            for _ in range(2):
                assert (await proxy.dispatch("once", b"", only=other.uid)).worker == other
            proxy.evict(other.uid)
            with pytest.raises(NoWorkersAvailable):
                await proxy.dispatch("once", b"", only=other.uid)
        async with serving(sockets, 2) as (there, _), proxied(metadata_of(sockets, 1), there, token=TOKEN) as proxy:
            with pytest.raises(NoWorkersAvailable) as caught:
                await proxy.dispatch("once", b"", only=UUID(int=1))
            assert list(caught.value.failures) == [UUID(int=1)]
            assert (await proxy.dispatch("once", b"")).worker == there

    run(main())


def test_a_candidate_that_left_while_the_balancer_named_it_is_not_asked(sockets):
    async def main():
        async with (
            serving(sockets, 1) as (one, _),
            serving(sockets, 2) as (other, _),
            proxied(one, other, token=TOKEN) as proxy,
        ):

            class NamesTheGone:
                def __init__(self):
                    self.answers = []

                async def delegate(self, task, *, context):
                    for uid in (UUID(int=99), one.uid):
                        answer = yield uid
                        self.answers.append(answer)
                        if answer is not None:
                            return

            proxy._balancer = balancer = NamesTheGone()
            assert (await proxy.dispatch("once", b"")).worker == one
            assert balancer.answers == [None, one.uid]

    run(main())


def test_calls_on_a_worker_that_is_evicted_go_on(sockets):
    async def main():
        async with serving(sockets) as (metadata, _), proxied(metadata, token=TOKEN) as proxy:
            call = await proxy.dispatch("echo", b"")
            assert await call.step() == b""
            proxy.evict(metadata.uid)
            proxy.evict(metadata.uid)
            assert await call.step(b"still") == b"still"
            assert loads(proxy) == {}
            with pytest.raises(NoWorkersAvailable):
                await proxy.dispatch("once", b"")
            assert await call.step() is None
            await until(lambda: channels.of_this_loop().stats == NOTHING)  # nobody uses the channel any more

    run(main())


# What a worker has sent when its stream breaks.
GONE = [
    pytest.param(frames.Task, [], id="the task has come"),
    pytest.param(frames.Next, [], id="before the Ack"),
    pytest.param(frames.Next, [frames.Ack], id="after the Ack"),
    pytest.param(frames.Next, [partial(frames.Yielded, value=b"said", last=False)], id="after a value"),
]


@pytest.mark.parametrize(("received", "sent"), GONE)
def test_a_call_whose_stream_breaks_is_not_tried_on_the_next_candidate(sockets, received, sent):
    """What was sent may have begun, and done something: it must not begin a second time elsewhere."""

    async def main():
        started = []

        async def dies(_requests, context):
            await context.send_initial_metadata(((PROTOCOL_KEY, PROTOCOL),))
            while (data := await context.read()) is not grpc.aio.EOF:
                if found := [frame for frame in frames.decode_requests(data) if isinstance(frame, received)]:
                    started.append("first")
                    for made in sent:
                        await context.write(frames.join([frames.encode(made(found[0].call))]))
                    await context.abort(grpc.StatusCode.UNAVAILABLE, "gone")

        async def runs(body):
            started.append("second")
            yield b"", True

        server = grpc.aio.server(options=server_options(ChannelOptions()))
        handler = grpc.stream_stream_rpc_method_handler(dies)
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler})])
        one = metadata_of(sockets, 1)
        server.add_insecure_port(one.address)
        await server.start()
        async with serving(sockets, 2, cell=runs) as (other, _), proxied(one, other, token=TOKEN) as proxy:
            call = await proxy.dispatch("cell", b"", begun=True)
            assert call.worker == one
            if sent and sent != [frames.Ack]:
                assert await call.step() == b"said"
            with pytest.raises(WorkerDied):
                await call.step()
            assert call.ended
            assert started == ["first"]
            # Only what is asked for anew goes to the other.
            proxy.evict(one.uid)
            assert await values_of(await proxy.dispatch("cell", b"")) == [b""]
            assert started == ["first", "second"]
        await server.stop(grace=None)

    run(main())


class GoesOn:
    """A balancer that does not end when a candidate took the call."""

    async def delegate(self, task, *, context):
        while True:
            yield next(iter(context.workers))


class FailsAtLast:
    async def delegate(self, task, *, context):
        yield next(iter(context.workers))
        raise LookupError("of the balancer")


@pytest.mark.parametrize(
    ("balancer", "error", "words"),
    [(GoesOn, RuntimeError, "GoesOn goes on after"), (FailsAtLast, LookupError, "of the balancer")],
)
def test_a_call_is_cancelled_if_the_balancer_errs_when_it_hears_of_it(sockets, balancer, error, words):
    """It was sent, and nobody would read its answer."""

    async def main():
        forever = Forever()
        async with (
            serving(sockets, forever=forever) as (metadata, _),
            proxied(metadata, loadbalancer=balancer(), token=TOKEN) as proxy,
        ):
            with pytest.raises(error, match=words):
                await proxy.dispatch("forever", b"")
            assert list(loads(proxy).values()) == [0]
            await until(lambda: not forever.inside)

    run(main())
