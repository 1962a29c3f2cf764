"""A worker that is asked to stop, how long it has been idle, and whom it turns away: over a real socket."""

import asyncio
from contextlib import asynccontextmanager
from uuid import UUID

import pytest

from tests.support.carriers import direct_of, sockets_of
from tests.support.loops import run, settle, until
from tests.support.workers import VERSION
from wool_jupyter.dispatch import channels
from wool_jupyter.dispatch.connection import WorkerConnection
from wool_jupyter.errors import CallFailed, NotReached, RpcError, WorkerDied, WorkerRefused
from wool_jupyter.records import WorkerMetadata
from wool_jupyter.worker.admission import Admission
from wool_jupyter.worker.service import WorkerService

TOKEN = "0123456789abcdef"


@pytest.fixture
def sockets(carrier):
    with sockets_of(carrier) as directory:
        yield directory


class Held:
    """A routine that answers when it may; it counts who is inside, and who was cancelled."""

    def __init__(self):
        self.inside, self.cancelled = 0, 0
        self.go_on = asyncio.Event()

    async def __call__(self, body):
        self.inside += 1
        try:
            await self.go_on.wait()
            yield body, True
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.inside -= 1


@asynccontextmanager
async def serving(sockets, ask=None):
    held = Held()
    service = WorkerService({"held": held}, token=TOKEN, admission=Admission(ask))
    metadata = WorkerMetadata(UUID(int=1), f"unix:{sockets}/1", 1, VERSION)
    await service.start(metadata.address, direct=direct_of(metadata.address))
    try:
        yield service, WorkerConnection(metadata, token=TOKEN), held
    finally:
        held.go_on.set()
        await channels.of_this_loop().clear()
        await service.close()


async def running(connection, held, body=b"x"):
    before = held.inside
    call = await connection.dispatch("held", body, begun=True)
    await until(lambda: held.inside == before + 1)
    return call


async def refused(connection):
    before = connection.load
    with pytest.raises(RpcError) as caught:
        await connection.dispatch("held", b"")
    assert connection.load == before
    return caught.value


@pytest.mark.parametrize("timeout_s", [-1, 60], ids=["for ever", "for a minute"])
def test_a_worker_that_drains_takes_nothing_new_and_ends_with_its_last_call(sockets, timeout_s):
    async def main():
        async with serving(sockets) as (service, connection, held):
            call = await running(connection, held)
            stop = asyncio.create_task(connection.stop(timeout_s))
            await until(lambda: service._admission._stopping)
            refusal = await refused(connection)
            assert type(refusal) is NotReached, "another may take it"
            assert "stopping" in str(refusal)
            assert not stop.done()
            held.go_on.set()
            assert await call.step() == b"x"
            await stop
            await service.stopped()
            assert (held.cancelled, service.active) == (0, 0)

    run(main())


@pytest.mark.parametrize("timeout_s", [0, 0.05])
def test_a_worker_that_does_not_wait_cancels_what_runs(sockets, timeout_s):
    async def main():
        async with serving(sockets) as (service, connection, held):
            calls = [await running(connection, held) for _ in range(3)]
            await connection.stop(timeout_s)
            assert (held.cancelled, held.inside, service.active) == (3, 0, 0)
            for call in calls:
                with pytest.raises(CallFailed, match="cancelled"):
                    await call.step()

    run(main())


def test_an_idle_worker_stops_at_once_however_patient_it_is(sockets):
    async def main():
        async with serving(sockets) as (service, connection, _):
            await connection.stop(-1)
            await service.stopped()
            await connection.stop(-1)

    run(main())


def test_what_a_worker_says_last_reaches_its_client_before_it_leaves(sockets):
    async def main():
        async with serving(sockets) as (service, connection, held):
            body = bytes(12 << 20)
            made = [await running(connection, held, body) for _ in range(4)]
            stop = service.stop(-1)
            held.go_on.set()
            await stop
            answers = asyncio.gather(*(call.step() for call in made))
            await service.close()
            assert await answers == [body] * 4

    run(main())


def test_a_second_stop_may_be_in_more_of_a_hurry(sockets):
    async def main():
        async with serving(sockets) as (_, connection, held):
            await running(connection, held)
            patient = asyncio.create_task(connection.stop(-1))
            await settle()
            await connection.stop(0)
            await patient
            assert held.cancelled == 1

    run(main())


def test_a_drain_costs_no_turns_of_the_loop(sockets):
    """It waits for an event: a loop that spins starves what it waits for."""

    async def main():
        async with serving(sockets) as (_, connection, held):
            await running(connection, held)
            stop = asyncio.create_task(connection.stop(-1))
            await settle()
            loop, turns = asyncio.get_running_loop(), 0
            run_once = loop._run_once

            def counted():
                nonlocal turns
                turns += 1
                run_once()

            loop._run_once = counted
            quiet = asyncio.Event()
            loop.call_later(0.3, quiet.set)
            await quiet.wait()
            del loop._run_once
            held.go_on.set()
            await stop
            assert turns < 20

    run(main())


def test_who_stopped_a_worker_may_leave_before_it_has(sockets):
    async def main():
        async with serving(sockets) as (service, connection, held):
            await running(connection, held)
            asking = asyncio.create_task(connection.stop(-1))
            await until(lambda: service._admission._stopping)
            await channels.of_this_loop().clear()
            await asking
            held.go_on.set()
            await service.stopped()

    run(main())


def test_idle_is_told_from_the_end_of_the_last_call(sockets):
    async def main():
        async with serving(sockets) as (_, connection, held):
            call = await running(connection, held)
            assert await connection.idle_s() == 0
            held.go_on.set()
            await call.step()
            await until(lambda: held.inside == 0)
            first = await connection.idle_s()
            assert first > 0
            assert await connection.idle_s() > first

    run(main())


def test_a_worker_with_enough_to_do_turns_a_call_away_for_now_and_takes_the_next(sockets):
    async def main():
        async def at_most_one(active, task):
            assert task.routine == "held"
            return active >= 1

        async with serving(sockets, at_most_one) as (service, connection, held):
            call = await running(connection, held)
            assert type(await refused(connection)) is NotReached
            with pytest.raises(NotReached, match="enough to do"):
                await (await connection.dispatch("held", b"", begun=True)).step()
            assert service.active == 1
            held.go_on.set()
            assert await call.step() == b"x"
            await until(lambda: service.active == 0)
            assert await (await connection.dispatch("held", b"y")).step() == b"y"

    run(main())


def test_a_worker_whose_hook_fails_is_not_to_be_asked_again(sockets):
    async def main():
        async def fails(active, task):
            raise LookupError("in the hook")

        async with serving(sockets, fails) as (service, connection, _):
            refusal = await refused(connection)
            assert type(refusal) is WorkerRefused
            assert "LookupError: in the hook" in str(refusal)
            assert service.active == 0

    run(main())


def test_a_call_that_was_only_taken_does_not_run(sockets):
    """Until its first command it may be repeated elsewhere."""

    async def main():
        async with serving(sockets) as (service, connection, held):
            call = await connection.dispatch("held", b"x")
            await call.accepted()
            assert (service.active, held.inside) == (1, 0)
            held.go_on.set()
            assert await call.step() == b"x"

    run(main())


def test_a_connection_that_breaks_before_anything_ran_lets_the_call_be_repeated(sockets):
    async def main():
        never, asked = asyncio.Event(), []

        async def thinks(active, task):
            asked.append(active)
            await never.wait()

        async with serving(sockets, thinks) as (_, connection, _):
            begun = await connection.dispatch("held", b"", begun=True)
            waiting = [asyncio.create_task(connection.dispatch("held", b"")), asyncio.create_task(begun.step())]
            await until(lambda: len(asked) == 2)
            await channels.of_this_loop().clear()
            outcomes = await asyncio.gather(*waiting, return_exceptions=True)
            assert [type(outcome) for outcome in outcomes] == [NotReached, WorkerDied]

    run(main())


def test_a_step_that_was_cancelled_is_still_pending_and_the_next_one_waits_for_its_answer(sockets):
    async def main():
        async with serving(sockets) as (_, connection, held):
            call = await running(connection, held)
            step = asyncio.create_task(call.step())
            await settle()
            step.cancel()
            await asyncio.gather(step, return_exceptions=True)
            held.go_on.set()
            assert await call.step() == b"x"
            assert call.ended

    run(main())
