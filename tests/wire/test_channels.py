"""Channels are shared, end some time after their last call, and are given back once on every path."""

import asyncio
from contextlib import nullcontext
from dataclasses import replace

import pytest

from tests.support.cancelling import cancelled_at_each_wait
from tests.support.carriers import sockets_of
from tests.support.channels import opened, under_way
from tests.support.loops import ShiftedTimeLoop, run, settle, until
from tests.support.services import LET_IN, TOKEN, Forever, answering, serving
from tests.support.sources import Source
from tests.support.workers import worker
from wool_jupyter.aio.resource_pool import ResourcePoolStats
from wool_jupyter.balance.sticky import Sticky
from wool_jupyter.dispatch import channels
from wool_jupyter.dispatch.connection import WorkerConnection
from wool_jupyter.dispatch.link import ChannelKey
from wool_jupyter.dispatch.proxy import WorkerProxy
from wool_jupyter.errors import CallFailed, CallRejected, MessageTooLarge, NotReached, WorkerDied, WorkerRefused
from wool_jupyter.records import ChannelOptions, DiscoveryEvent
from wool_jupyter.settings import CHANNEL_TTL_S
from wool_jupyter.wire import frames
from wool_jupyter.wire.transport import grpc

NOTHING = ResourcePoolStats(0, 0, 0, 0)


@pytest.fixture
def at(carrier):
    """A worker's record by number, at an address that is short enough for a socket."""
    with sockets_of(carrier) as directory:
        yield lambda number=1, **changes: worker(number, f"unix:{directory}/{number}", **changes)


def run_shared(coroutine, deadline_s=20, **options):
    """As `run`; the loop's channels are cleared at the end, and then equal new ones."""

    async def main():
        pool = channels.of_this_loop()
        try:
            await coroutine
        finally:
            await pool.clear()
        assert (pool.stats, pool._loads, pool._current, pool._tasks.running) == (NOTHING, {}, {}, 0)

    run(main(), deadline_s, **options)


def connection_to(metadata, token=TOKEN):
    return WorkerConnection(metadata, token=token)


async def ran(connection, routine="once", **options):
    call = await connection.dispatch(routine, b"x", **options)
    return await call.step()


def found(metadata):
    return DiscoveryEvent("worker-added", metadata)


def stats():
    return channels.of_this_loop().stats


# Shared.


def test_connections_to_the_same_worker_share_a_channel_by_address_token_and_options(at):
    async def main():
        metadata = at()
        async with serving(metadata):
            same = [connection_to(metadata), connection_to(replace(metadata, tags=frozenset({"new"})))]
            calls = [await each.dispatch("echo", b"") for each in same]
            assert (stats().entries, stats().references) == (1, 2)
            narrow = connection_to(replace(metadata, options=ChannelOptions(max_concurrent_streams=1)))
            await ran(narrow)
            assert stats().entries == 2
            with pytest.raises(WorkerRefused):
                await ran(connection_to(metadata, "wrong"))
            assert (stats().entries, stats().references) == (2, 2)
            for call in calls:
                call.close()
            assert (stats().references, stats().idle) == (0, 2)

    run_shared(main())


def test_calls_that_come_while_a_channel_opens_wait_for_the_same_one(at):
    async def main():
        metadata, sessions = at(), []

        async def lets_in(context):
            sessions.append(context)
            await context.send_initial_metadata(LET_IN)
            while await context.read() is not grpc.aio.EOF:
                pass

        async with answering(metadata, lets_in):
            connections = [connection_to(metadata) for _ in range(5)]
            calls = await asyncio.gather(*(each.dispatch("once", b"", begun=True) for each in connections))
            assert (len(sessions), [each.load for each in connections]) == (1, [5] * 5)
            for call in calls:
                call.close()
            assert [each.load for each in connections] == [0] * 5

    run_shared(main())


def test_a_refused_opening_is_said_to_all_who_wait_and_tried_again(at):
    async def main():
        metadata, sessions, go = at(), [], asyncio.Event()

        async def refuses(context):
            sessions.append(context)
            await go.wait()
            await context.abort(grpc.StatusCode.UNAVAILABLE, "not now")

        async with answering(metadata, refuses):
            asking = [asyncio.create_task(connection_to(metadata).dispatch("once", b"")) for _ in range(3)]
            await until(lambda: sessions)
            go.set()
            outcomes = await asyncio.gather(*asking, return_exceptions=True)
            assert [type(outcome) for outcome in outcomes] == [NotReached] * 3
            await until(lambda: stats() == NOTHING)
            with pytest.raises(NotReached):
                await ran(connection_to(metadata))
            assert len(sessions) == 2

    run_shared(main())


def test_a_channel_s_name_does_not_tell_the_token(at):
    async def main():
        async with serving(at()):
            call = await connection_to(at()).dispatch("echo", b"")
            names = [task.get_name() for task in asyncio.all_tasks()]
            assert any(at().address in name for name in names)
            assert not any(TOKEN in name for name in names)
            call.close()

    run_shared(main())
    assert TOKEN not in repr(ChannelKey("unix:/w", TOKEN, ChannelOptions()))


# Their end.


def test_an_idle_channel_ends_after_its_time(at):
    async def main():
        loop = asyncio.get_running_loop()
        async with serving(at()):
            await ran(connection_to(at()))
            loop.shift_s += CHANNEL_TTL_S - 5
            await settle()
            assert (stats().entries, stats().idle) == (1, 1)
            call = await connection_to(at()).dispatch("echo", b"")
            loop.shift_s += 2 * CHANNEL_TTL_S  # it is in use
            await settle()
            assert (stats().entries, stats().idle, await call.step()) == (1, 0, b"")
            call.close()
            loop.shift_s += CHANNEL_TTL_S + 1
            await until(lambda: stats() == NOTHING)
            assert await ran(connection_to(at())) == b"x"

    run_shared(main(), 10_000, loop_factory=ShiftedTimeLoop)


@pytest.mark.parametrize("busy", [False, True])
@pytest.mark.parametrize("how", ["moved", "other options", "evicted"])
def test_a_channel_that_is_superseded_ends_with_its_last_call(at, how, busy):
    async def main():
        before, after = at(), replace(at(2), uid=at().uid)
        if how == "other options":
            after = replace(before, options=ChannelOptions(max_concurrent_streams=7))
        source = Source(found(before))
        async with serving(before), WorkerProxy(discovery=source, token=TOKEN) as proxy:
            call = await proxy.dispatch("echo", b"")
            if not busy:
                call.close()
            assert (stats().entries, stats().references) == (1, busy)
            if how == "evicted":
                proxy.evict(before.uid)
            else:
                source.give(found(after))
            await settle()
            if busy:
                assert [await call.step(), await call.step(b"on")] == [b"", b"on"]
                assert stats().entries == 1
                call.close()
            await until(lambda: stats() == NOTHING)

    run_shared(main())


def test_a_refresh_that_changes_nothing_of_the_channel_keeps_it(at):
    async def main():
        source = Source(found(at()))
        async with serving(at()), WorkerProxy(discovery=source, token=TOKEN) as proxy:
            await (await proxy.dispatch("once", b"")).step()
            key = ChannelKey(at().address, TOKEN, at().options)
            before, give_back = await channels.of_this_loop().acquire(key)
            give_back()
            source.give(found(at(tags=frozenset({"new"}))))
            await settle()
            after, give_back = await channels.of_this_loop().acquire(key)
            give_back()
            assert (after is before, before.broken) == (True, False)

    run_shared(main())


# Load and permits.


@pytest.mark.parametrize("again", ["refreshed", "evicted and readmitted"])
def test_a_busy_worker_is_known_to_be_busy_whatever_became_of_its_record(at, again):
    async def main():
        forever = Forever()
        source = Source(*map(found, (at(1), at(2))))
        proxy = WorkerProxy(discovery=source, quorum=2, token=TOKEN, loadbalancer=Sticky())
        async with serving(at(1), forever=forever), serving(at(2)), proxy:
            busy = await proxy.dispatch("forever", b"", begun=True)
            assert busy.worker == at(1)
            if again == "refreshed":
                source.give(found(at(1, tags=frozenset({"new"}))))
                await settle()
            else:
                proxy.evict(at(1).uid)
                proxy.readmit(at(1).uid)
            assert proxy.workers.workers[at(1).uid].connection.load == 1
            for _ in range(3):
                call = await proxy.dispatch("once", b"")
                assert (call.worker.uid, await call.step()) == (at(2).uid, b"")
            busy.close()
            assert proxy.workers.workers[at(1).uid].connection.load == 0

    run_shared(main())


def test_no_more_calls_than_the_worker_s_permits_are_under_way(at):
    async def main():
        forever, metadata = Forever(), at(options=ChannelOptions(max_concurrent_streams=2))
        async with serving(metadata, forever=forever):
            connection = connection_to(metadata)
            held = [await connection.dispatch("forever", b"", begun=True) for _ in range(2)]
            await until(lambda: forever.inside == 2)
            third = asyncio.create_task(connection.dispatch("forever", b"", begun=True))
            with pytest.raises(NotReached, match=r"did not answer in 0\.05 s"):
                await connection.dispatch("forever", b"", timeout_s=0.05)
            assert (third.done(), forever.inside, connection.load) == (False, 2, 3)
            held[0].close()
            held[0].close()
            held.append(await third)
            await until(lambda: forever.inside == 2)
            fourth = asyncio.create_task(connection.dispatch("forever", b"", begun=True))
            await settle()
            assert not fourth.done()
            for call in held:
                call.close()
            (await fourth).close()
            assert connection.load == 0

    run_shared(main())


def test_a_stream_that_nobody_asks_for_its_next_value_stands_in_no_call_s_way(at):
    """Whoever has it may wait for that call."""

    async def main():
        metadata = at(options=ChannelOptions(max_concurrent_streams=1))
        async with serving(metadata):
            connection = connection_to(metadata)
            stream = await connection.dispatch("echo", b"one")
            assert connection.is_full  # it has not begun, and may at any time
            assert await stream.step() == b"one"
            assert (connection.is_full, connection.load) == (False, 1)
            call = await connection.dispatch("once", b"", timeout_s=60)
            assert connection.is_full
            assert await stream.step(b"two") == b"two"  # it does not wait for its turn again
            assert connection.is_full
            assert await call.step() == b""
            assert not connection.is_full
            stream.close()
            assert (connection.is_full, connection.load) == (False, 0)
            last = await connection.dispatch("once", b"", timeout_s=60)
            assert connection.is_full  # the stream that ended at rest is not counted out twice
            last.close()

    run_shared(main())


def test_a_stream_that_was_set_aside_is_no_load_until_its_next_command(at):
    async def main():
        metadata = at()
        async with serving(metadata):
            connection = connection_to(metadata)
            stream = await connection.dispatch("echo", b"one")
            stream.set_aside()  # it may begin at any time
            assert connection.load == 1
            assert await stream.step() == b"one"
            stream.set_aside()
            stream.set_aside()
            assert connection.load == 0
            asked = asyncio.create_task(stream.step(b"two"))
            await asyncio.sleep(0)
            stream.set_aside()  # its command is under way
            assert (connection.load, await asked) == (1, b"two")
            stream.set_aside()
            stream.take_up()
            stream.take_up()
            assert connection.load == 1
            stream.set_aside()  # nothing came of it
            assert connection.load == 0
            stream.give(b"three")  # its command, ahead of who waits for the answer
            assert (connection.load, await stream.step()) == (1, b"three")
            stream.set_aside()
            assert connection.load == 0
            stream.close()
            stream.set_aside()
            assert connection.load == 0
            other = await connection.dispatch("echo", b"one")
            assert connection.load == 1
            other.close()

    run_shared(main())


async def _fails(body):
    raise LookupError
    yield


ENDS = {
    "ended": ("once", b"", None),
    "given up": ("forever", b"", None),
    "not taken": ("sing", b"", CallRejected),
    "too large": ("once", b"x" * (frames.FRAME_MAX_BYTES + 1), MessageTooLarge),
    "failed": ("fails", b"", CallFailed),
}


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("end", ENDS)
def test_permit_and_reference_are_given_back_once_however_a_call_ends(at, end, begun):
    async def main():
        routine, body, error = ENDS[end]
        metadata = at(options=ChannelOptions(max_concurrent_streams=2))
        async with serving(metadata, forever=Forever(), fails=_fails):
            connection = connection_to(metadata)
            channel, give_back = await channels.of_this_loop().acquire(
                ChannelKey(metadata.address, TOKEN, metadata.options)
            )

            async def one():
                call = await connection.dispatch(routine, body, begun=begun)
                try:
                    if end != "given up":
                        await call.step()
                        assert call.ended
                finally:
                    call.close()
                    call.close()

            for _ in range(3):
                with nullcontext() if error is None else pytest.raises(error):
                    await one()
                assert (channel.permits.free, under_way(channel), stats().references) == (2, 0, 1)
            give_back()

    run_shared(main())


def test_a_break_gives_the_permits_to_who_waits_though_nobody_asks_the_calls(at):
    async def main():
        forever, metadata = Forever(), at(options=ChannelOptions(max_concurrent_streams=1))
        async with serving(metadata, forever=forever):
            connection = connection_to(metadata)
            held = await connection.dispatch("forever", b"", begun=True)
            waiting = asyncio.create_task(connection.dispatch("once", b""))
            await until(lambda: forever.inside == 1)
            channel, give_back = await channels.of_this_loop().acquire(
                ChannelKey(metadata.address, TOKEN, metadata.options)
            )
            give_back()
            channel._link.cut()
            with pytest.raises(NotReached, match="broke"):
                await waiting
            assert (connection.load, channel.permits.free) == (0, 1)
            with pytest.raises(WorkerDied):
                await held.step()
            assert (connection.load, channel.permits.free) == (0, 1)
            await until(lambda: stats() == NOTHING)

    run_shared(main())


# Workers that do not answer, and clients that do not wait.


def test_a_worker_that_lets_nobody_in_is_given_up(at):
    async def main():
        left = asyncio.Event()

        async def never(context):
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                left.set()

        async with answering(at(), never):
            connection = connection_to(at())
            for ask in (connection.dispatch("once", b"", timeout_s=0.05), connection.probe(timeout_s=0.05)):
                with pytest.raises(NotReached, match=r"did not answer in 0\.05 s"):
                    await ask
                assert connection.load == 0
                await until(lambda: stats() == NOTHING)
            await left.wait()

    run_shared(main())


def test_a_call_that_a_worker_does_not_take_in_time_is_taken_back(at):
    async def main():
        heard = []

        async def deaf(context):
            await context.send_initial_metadata(LET_IN)
            while (data := await context.read()) is not grpc.aio.EOF:
                heard.extend(frames.decode_requests(data))

        async with answering(at(), deaf):
            connection = connection_to(at())
            with pytest.raises(NotReached, match=r"did not answer in 0\.05 s"):
                await connection.dispatch("once", b"", timeout_s=0.05)
            await until(lambda: len(heard) == 2)
            number = heard[0].call
            assert heard == [frames.Task(number, "once", b""), frames.Cancel(number)]
            with pytest.raises(NotReached, match=r"did not answer in 0\.05 s"):  # though it has let this client in
                await connection.probe(timeout_s=0.05)
            assert (connection.load, stats().references, stats().idle) == (0, 0, 1)

    run_shared(main())


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("situation", ["closed", "open", "full"])
def test_a_dispatch_that_is_cancelled_at_any_moment_leaves_nothing(at, situation, begun):
    async def main():
        forever, metadata = Forever(), at(options=ChannelOptions(max_concurrent_streams=1))
        connection, pool = connection_to(metadata), channels.of_this_loop()
        key = ChannelKey(metadata.address, TOKEN, metadata.options)
        helpers = []

        async def frees(call):
            await settle()
            call.close()

        async def whole():
            call = await connection.dispatch("forever", b"", begun=begun)
            call.close()

        async def prepare():
            if situation == "open":
                await connection.probe()
            if situation == "full":
                helpers.append(asyncio.create_task(frees(await connection.dispatch("forever", b"", begun=True))))
            return whole()

        async def check():
            await asyncio.gather(*helpers)
            await until(lambda: not forever.inside)
            assert (connection.load, pool.stats.references) == (0, 0)
            channel, give_back = await pool.acquire(key)
            assert (channel.permits.free, under_way(channel)) == (1, 0)
            give_back()
            await pool.clear()
            assert (pool.stats, pool._current, pool._loads) == (NOTHING, {}, {})

        async with serving(metadata, forever=forever):
            waits = {"closed": 1, "open": 0, "full": 1}[situation] + (not begun)
            assert await cancelled_at_each_wait(prepare, check) >= waits

    run_shared(main())


def test_an_opening_that_is_cancelled_at_any_moment_leaves_nothing(at):
    async def main():
        made = []

        async def prepare():
            channel = channels.Channel(ChannelKey(at().address, TOKEN, ChannelOptions()))
            made.append(channel)

            async def whole():
                await channel.open()
                await channel.close()

            return whole()

        async def check():
            await until(lambda: made[-1]._tasks.running == 0)
            assert made[-1].broken
            assert not await made[-1]._link.write(b"")
            with pytest.raises(NotReached):
                made[-1].call(at(), "once", b"")

        async with serving(at()):
            assert await cancelled_at_each_wait(prepare, check) >= 2
            async with opened(at(), TOKEN) as channel:
                assert await channel.call(at(), "once", b"x").step() == b"x"

    run_shared(main())


def test_calls_on_a_channel_that_can_t_send_any_more_end(at):
    async def main():
        async with serving(at()), opened(at(), TOKEN) as channel:
            channel._tasks._report = lambda *_: None
            call = channel.call(at(), "echo", b"x")
            assert await call.step() == b"x"
            channel._out._waiting.append(None)  # what no message can be made of
            with pytest.raises(WorkerDied):
                await call.step(b"y")
            assert channel.broken

    run_shared(main())
