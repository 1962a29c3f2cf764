"""A worker that has a hook of its own to say when it has enough to do."""

import asyncio
import threading
from contextlib import asynccontextmanager

import pytest

from tests.support.channels import proxied
from tests.support.loops import run, until
from tests.support.routine_workers import TOKEN, pool_directory, worker
from wool_jupyter.balance.round_robin import RoundRobinLoadBalancer
from wool_jupyter.dispatch.routine import routine, use
from wool_jupyter.errors import NotReached, NoWorkersAvailable, WorkerRefused

begun = []


@routine
async def waits():
    begun.append(1)
    await asyncio.get_running_loop().create_future()


@routine
async def answers():
    return 5


@pytest.fixture
def at():
    begun.clear()
    with pool_directory() as directory:
        yield directory


def plain(active, task):
    return active >= 2 and task.routine == "call"


async def later(active, task):
    await asyncio.sleep(0)
    return plain(active, task)


@asynccontextmanager
async def hooked(at, hook):
    one = worker(at, hook=hook)
    async with (
        one as (metadata, service),
        proxied(metadata, token=TOKEN, loadbalancer=RoundRobinLoadBalancer()) as proxy,
    ):
        with use(proxy):
            yield metadata, service, proxy


@pytest.mark.parametrize("hook", [plain, later], ids=["plain", "async"])
def test_who_is_turned_away_may_come_again(at, hook):
    """The worker stays: it is busy, not broken."""

    async def main():
        async with hooked(at, hook) as (metadata, service, proxy):
            busy = [asyncio.create_task(waits()) for _ in range(2)]
            await until(lambda: len(begun) == 2)
            with pytest.raises(NoWorkersAvailable, match="enough to do") as caught:
                await answers()
            assert [type(error) for error in caught.value.failures.values()] == [NotReached]
            assert list(proxy.workers.workers) == [metadata.uid]
            busy[0].cancel()
            await until(lambda: service.active == 1)
            assert await answers() == 5
            busy[1].cancel()
            await asyncio.gather(*busy, return_exceptions=True)

    run(main())


def test_a_hook_that_fails_costs_the_worker_its_place(at):
    def fails(active, task):
        raise LookupError("in the hook")

    async def main():
        async with hooked(at, fails) as (_, _, proxy):
            with pytest.raises(NoWorkersAvailable, match="LookupError: in the hook") as caught:
                await answers()
            assert [type(error) for error in caught.value.failures.values()] == [WorkerRefused]
            assert list(proxy.workers.workers) == []

    run(main())


def test_a_hook_that_blocks_holds_up_no_other_frame(at):
    """It runs where routines run, and not on the loop that talks to clients."""
    go_on, released = threading.Event(), []

    def blocks(active, task):
        released.append(go_on.wait(5))
        return False

    async def main():
        async with hooked(at, blocks) as (metadata, _, proxy):
            connection = proxy.workers.workers[metadata.uid].connection
            waiting = asyncio.create_task(answers())
            await until(lambda: connection.load)
            assert await connection.idle_s() >= 0
            assert not waiting.done()
            go_on.set()
            assert await waiting == 5
            assert released == [True]

    run(main())
