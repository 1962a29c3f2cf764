"""Routines against workers that do as a test says: cut the stream, never answer, answer too late, speak out of turn."""

import asyncio
import contextlib
from contextlib import asynccontextmanager

import pytest

from tests.support.channels import proxied
from tests.support.loops import run, until
from tests.support.routine_workers import TOKEN, metadata_of, pool_directory, worker
from wool_jupyter.dispatch import routine as routines
from wool_jupyter.dispatch.routine import routine, use
from wool_jupyter.errors import (
    CallFailed,
    CallRejected,
    MessageTooLarge,
    NoWorkersAvailable,
    RpcError,
    WorkerDied,
    WorkerRefused,
)
from wool_jupyter.records import ChannelOptions
from wool_jupyter.wire import calls, frames, shipping
from wool_jupyter.wire.protocol import METHOD, PROTOCOL, PROTOCOL_KEY, SERVICE
from wool_jupyter.wire.transport import grpc, server_options

ran = []


@pytest.fixture(autouse=True)
def none_has_run():
    ran.clear()


@pytest.fixture
def sockets():
    with pool_directory() as directory:
        yield directory


@routine
async def once(x):
    ran.append(x)
    return x


@routine
async def numbers():
    yield 1
    yield 2


class Gated:
    """A worker that answers each frame with what `script` says, and notes what it hears."""

    def __init__(self, script):
        self.script = script
        self.heard = []

    async def serve(self, _requests, context):
        await context.send_initial_metadata(((PROTOCOL_KEY, PROTOCOL),))
        while (message := await context.read()) is not grpc.aio.EOF:
            for frame in frames.decode_requests(message):
                self.heard.append(type(frame))
                for answer in self.script(frame):
                    if answer == "cut":
                        await context.abort(grpc.StatusCode.UNAVAILABLE, "gone")
                    await context.write(frames.join([frames.encode(answer)]))


@asynccontextmanager
async def gated(directory, script, number=9):
    it = Gated(script)
    server = grpc.aio.server(options=server_options(ChannelOptions()))
    handler = grpc.stream_stream_rpc_method_handler(it.serve)
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler})])
    metadata = metadata_of(directory, number)
    server.add_insecure_port(metadata.address)
    await server.start()
    try:
        yield metadata, it
    finally:
        await server.stop(grace=None)


@asynccontextmanager
async def using(*metadata, token=TOKEN):
    """In that order."""
    async with proxied(*metadata, token=token, loadbalancer=InOrder()) as proxy:
        with use(proxy):
            yield proxy


class InOrder:
    async def delegate(self, task, *, context):
        for uid in list(context.workers):
            with contextlib.suppress(RpcError):
                if (yield uid) is not None:
                    return


def there(proxy):
    return list(proxy.workers.workers)


def value(number, made, *, last=True):
    return frames.Yielded(number, calls.pack_outcome(made, places=()), last)


def answering(**answers):
    """By the frame's name; what is not there is not answered."""
    return lambda frame: [make(frame.call) for make in answers.get(type(frame).__name__, [])]


def cut(_):
    return "cut"


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(lambda n: frames.Refused(n, "busy", True), id="busy"),
        pytest.param(lambda n: frames.Refused(n, "never", False), id="for good"),
        pytest.param(cut, id="cut before the Ack"),
    ],
)
def test_a_call_that_one_worker_does_not_take_runs_once_on_the_next(sockets, refusal):
    async def main():
        refuses = gated(sockets, answering(Task=[refusal]))
        async with refuses as (one, it), worker(sockets) as (other, _), using(one, other):
            assert await once(5) == 5
            assert ran == [5]
            assert it.heard[0] is frames.Task
            assert frames.Next not in it.heard

    run(main())


def test_only_a_refusal_for_good_costs_a_worker_its_place(sockets):
    transient = [True, False]

    def script(frame):
        return [frames.Refused(frame.call, "no", transient.pop(0))] if isinstance(frame, frames.Task) else []

    async def main():
        refuses = gated(sockets, script)
        async with refuses as (one, _), worker(sockets) as (other, _), using(one, other) as proxy:
            await once(1)
            assert there(proxy) == [one.uid, other.uid]
            await once(2)
            await once(3)
            assert there(proxy) == [other.uid]

    run(main())


def test_a_call_that_was_begun_is_not_begun_again_elsewhere(sockets):
    async def main():
        script = answering(Task=[frames.Ack], Next=[cut])
        async with gated(sockets, script) as (one, _), worker(sockets) as (other, _), using(one, other):
            with pytest.raises(WorkerDied):
                await once(5)
            assert ran == []

    run(main())


def test_a_stream_that_is_cut_between_two_values_ends_the_generator(sockets):
    steps = iter([[lambda n: value(n, 1, last=False)], [cut]])

    async def main():
        def script(frame):
            made = [frames.Ack] if isinstance(frame, frames.Task) else next(steps)
            return [make(frame.call) for make in made]

        async with gated(sockets, script) as (one, _), using(one):
            found = numbers()
            assert await anext(found) == 1
            with pytest.raises(WorkerDied):
                await anext(found)
            with pytest.raises(StopAsyncIteration):
                await anext(found)

    run(main())


def test_who_is_cancelled_waits_for_the_answer_and_takes_it(sockets):
    async def main():
        script = answering(Task=[frames.Ack], Cancel=[lambda n: value(n, "made of it")])
        async with gated(sockets, script) as (one, it), using(one):
            waiting = asyncio.create_task(once(5))
            await until(lambda: frames.Next in it.heard)
            waiting.cancel()
            assert await waiting == "made of it"
            assert it.heard == [frames.Task, frames.Next, frames.Cancel]

    run(main())


def test_a_worker_that_never_answers_a_cancellation_holds_nobody_for_ever(sockets, monkeypatch):
    monkeypatch.setattr(routines, "INTERRUPT_GRACE_S", 0.1)

    async def main():
        async with gated(sockets, answering(Task=[frames.Ack])) as (one, it), using(one) as proxy:
            waiting = asyncio.create_task(once(5))
            await until(lambda: frames.Next in it.heard)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert [candidate.connection.load for candidate in proxy.workers.workers.values()] == [0]

    run(main())


def test_each_further_cancellation_goes_to_the_body_too(sockets):
    async def main():
        cancels = []

        def script(frame):
            if isinstance(frame, frames.Cancel):
                cancels.append(1)
            return (
                [frames.Ack(frame.call)]
                if isinstance(frame, frames.Task)
                else [value(frame.call, "at last")] * (len(cancels) == 2)
            )

        async with gated(sockets, script) as (one, it), using(one):
            waiting = asyncio.create_task(once(5))
            await until(lambda: frames.Next in it.heard)
            waiting.cancel()
            await until(lambda: len(cancels) == 1)
            waiting.cancel()
            assert await waiting == "at last"

    run(main())


def test_an_answer_that_comes_after_the_call_was_given_up_reaches_no_other(sockets):
    async def main():
        late = []

        def script(frame):
            match frame:
                case frames.Task():
                    return [frames.Ack(frame.call)]
                case frames.Next() if not late:
                    late.append(frame.call)
                    return []
                case frames.Next():
                    return [value(late[0], "late"), value(frame.call, "mine")]
            return []

        async with gated(sockets, script) as (one, _), using(one) as proxy:
            call = await proxy.dispatch("call", b"")
            step = asyncio.create_task(call.step())
            await until(lambda: late)
            step.cancel()
            await asyncio.gather(step, return_exceptions=True)
            call.close()
            assert await once(5) == "mine"

    run(main())


def test_a_fault_of_the_call_is_raised_as_what_it_was_and_costs_no_worker_its_place(sockets):
    async def main():
        flaw = lambda n: frames.Nack(n, "odd", shipping.dump(LookupError("odd")))  # noqa: E731
        finds_fault = gated(sockets, answering(Task=[flaw]))
        async with finds_fault as (one, _), worker(sockets) as (other, _), using(one, other) as proxy:
            with pytest.raises(LookupError, match="odd"):
                await once(5)
            assert (there(proxy), ran) == ([one.uid, other.uid], [])

    run(main())


def test_a_routine_that_a_worker_does_not_know_is_the_call_s_fault_and_costs_no_worker_its_place(sockets):
    async def main():
        flaw = lambda n: frames.Nack(n, "this worker knows no routine 'call'")  # noqa: E731
        async with gated(sockets, answering(Task=[flaw])) as (one, _), using(one) as proxy:
            for _ in range(2):
                with pytest.raises(CallRejected, match="knows no routine"):
                    await once(5)
            assert there(proxy) == [one.uid]

    run(main())


@pytest.mark.parametrize("error", [b"\xff", b"x" * 50, shipping.dump(LookupError("odd"))[:-5]])
def test_a_fault_that_can_not_be_read_is_an_error_of_its_own(sockets, error):
    async def main():
        flaw = lambda n: frames.Nack(n, "odd", error)  # noqa: E731
        async with gated(sockets, answering(Task=[flaw])) as (one, _), using(one):
            with pytest.raises(WorkerRefused, match="fault with the call"):
                await once(5)

    run(main())


def test_a_worker_that_fails_at_a_call_is_said(sockets):
    async def main():
        script = answering(Task=[frames.Ack], Next=[lambda n: frames.Failed(n, "broken")])
        async with gated(sockets, script) as (one, _), using(one):
            with pytest.raises(CallFailed, match="broken"):
                await once(5)
        script = answering(Task=[frames.Ack], Next=[frames.Returned])
        async with gated(sockets, script, 8) as (one, _), using(one):
            with pytest.raises(CallFailed, match="without a result"):
                await once(5)
        script = answering(Task=[frames.Ack], Next=[lambda n: frames.TooLarge(n, "17 MiB")])
        async with gated(sockets, script, 7) as (one, _), using(one):
            with pytest.raises(MessageTooLarge, match="17 MiB"):
                await once(5)

    run(main())


def test_a_wrong_token_runs_nothing(sockets):
    async def main():
        async with worker(sockets) as (metadata, _), using(metadata, token="wrong") as proxy:
            with pytest.raises(NoWorkersAvailable):
                await once(5)
            assert (ran, there(proxy)) == ([], [])

    run(main())
