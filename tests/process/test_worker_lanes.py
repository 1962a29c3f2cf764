"""The lanes of a worker process: routines beside cells, who can be interrupted, and how it leaves."""

import asyncio
import os
import signal
from contextlib import asynccontextmanager, contextmanager, nullcontext
from types import SimpleNamespace

import pytest

from tests.support.channels import opened, proxied
from tests.support.loops import run, until
from tests.support.requests import cell_request
from tests.support.sides import Side
from tests.support.worker_process import pool_directory, started
from wool_jupyter.balance.round_robin import RoundRobinLoadBalancer
from wool_jupyter.dispatch import routine as routines
from wool_jupyter.dispatch.connection import WorkerConnection
from wool_jupyter.errors import CallFailed, NoWorkersAvailable, PayloadTooLarge, WorkerDied
from wool_jupyter.wire import cells


@pytest.fixture
def pool():
    with pool_directory() as directory:
        yield directory


# What a notebook says of its routines.
ROUTINES = """
import asyncio, os, sys, threading
from wool_jupyter.dispatch.routine import routine

@routine
async def where():
    return os.getpid(), threading.current_thread() is threading.main_thread()

@routine
async def deep(n):
    return 0 if n == 0 else 1 + await deep(n - 1)

@routine
async def exits(code):
    raise SystemExit(code)

@routine
async def waits(path):
    open(path, "x").close()
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        os.unlink(path)

@routine
async def ticks(path):
    number = 0
    while not os.path.exists(path):
        number += 1
        yield number
        await asyncio.sleep(0)

@routine
async def length(data):
    return len(data)

@routine
async def nests():
    nested = asyncio.sleep(0)
    try:
        asyncio.get_running_loop().run_until_complete(nested)
    finally:
        nested.close()

import wsgiref.headers
import wsgiref

@routine
async def headers():
    return "wsgiref.headers" in sys.modules, wsgiref.headers.Headers.__name__
"""


NAMES = "where deep exits waits ticks length nests headers".split()


@contextmanager
def notebook(*sources):
    kernel = Side()
    for source in (ROUTINES, *sources):
        kernel.run(source)
    with kernel:
        yield SimpleNamespace(**{name: kernel.names[name] for name in NAMES})


@asynccontextmanager
async def in_use(worker, **options):
    async with proxied(worker.metadata, token=worker.token, loadbalancer=RoundRobinLoadBalancer()) as proxy:
        with routines.use(proxy, **options):
            yield proxy


def test_routines_run_on_a_side_thread_beside_a_cell_that_blocks_the_main_one(pool, tmp_path):
    with started(pool) as worker, notebook() as here:

        async def main():
            go_on = tmp_path / "go-on"
            source = f"import os\nprint(1, flush=True)\nwhile not os.path.exists({str(go_on)!r}): pass"
            cell = asyncio.create_task(worker.run(source))
            await until(lambda: any(path.stat().st_size for path in (pool / "calls").glob("*/stdout")))
            async with in_use(worker):
                assert await here.where() == (worker.pid, False)
                assert await here.deep(3) == 3
                assert await asyncio.gather(*(here.deep(2) for _ in range(10))) == [2] * 10
            assert not cell.done()
            go_on.touch()
            outcome, _ = await cell
            assert outcome.error == ""

        run(main())


def test_a_sigint_leaves_a_workers_routines_alone(pool, tmp_path):
    """Under Jupyter every ■ is one."""
    with started(pool) as worker, notebook() as here:

        async def main():
            async with in_use(worker):
                waiting = asyncio.create_task(here.waits(str(tmp_path / "waits")))
                await until((tmp_path / "waits").exists)
                for _ in range(3):
                    os.kill(worker.pid, signal.SIGINT)
                    assert await here.deep(1) == 1
                assert not waiting.done()
                waiting.cancel()
                await asyncio.gather(waiting, return_exceptions=True)
                assert not (tmp_path / "waits").exists()

        run(main())
        assert worker.log == ""


def test_a_system_exit_of_a_routine_ends_that_call_and_not_the_worker(pool):
    with started(pool) as worker, notebook() as here:

        async def main():
            async with in_use(worker):
                for code in (0, 3):
                    with pytest.raises(SystemExit) as caught:
                        await here.exits(code)
                    assert caught.value.code == code
                assert (await here.where())[0] == worker.pid

        run(main())


def test_an_argument_of_110_mib_travels_beside_the_message(pool):
    with started(pool) as worker, notebook() as here:

        async def main():
            place = pool / "calls" / "large"
            async with in_use(worker, places=lambda: nullcontext((str(place),))):
                assert await here.length(bytearray(110 << 20)) == 110 << 20
            async with in_use(worker):
                with pytest.raises(PayloadTooLarge, match=r"110\.0 MiB"):
                    await here.length(bytearray(110 << 20))
                assert await here.length(b"small") == 5

        run(main())


def test_nest_asyncio_in_a_cell_leaves_routines_as_they_are(pool, tmp_path):
    """It patches the loops that run, and the class of their tasks."""
    with started(pool) as worker, notebook() as here:

        async def main():
            async with in_use(worker):
                ticks = here.ticks(str(tmp_path / "stop"))
                assert [await anext(ticks), await anext(ticks)] == [1, 2]
                outcome, said = await worker.run("import nest_asyncio2 as n; n.apply(); print('applied')")
                assert (outcome.error, said) == ("", "applied\n")
                assert [await anext(ticks), await anext(ticks)] == [3, 4]
                assert await here.deep(3) == 3
                with pytest.raises(
                    RuntimeError, match="already running"
                ):  # patched, it would run other routines in this one
                    await here.nests()
                (tmp_path / "stop").touch()
                assert [tick async for tick in ticks] == []

        run(main())


def test_a_submodule_that_only_a_package_leads_to_is_imported(pool):
    with started(pool) as worker, notebook() as here:

        async def main():
            async with in_use(worker):
                assert await here.headers() == (True, "Headers")

        run(main())


@pytest.mark.parametrize("named", ["interrupt", "cancel"])
def test_a_cell_can_be_interrupted_by_its_client_wherever_that_is(pool, named):
    """A client on another host can't send a signal."""
    with started(pool) as worker:

        async def main():
            directory, waits = pool / "calls" / "1", pool / "calls" / "2"
            directory.mkdir()
            waits.mkdir()
            async with opened(worker.metadata, worker.token) as channel:
                running = channel.call(
                    worker.metadata, "cell", cell_request("print(1, flush=True)\nwhile True: pass", directory)
                )
                second = channel.call(worker.metadata, "cell", cell_request("print('second')", waits))
                third = channel.call(worker.metadata, "cell", cell_request("print('third')", waits))
                await until(lambda: (directory / "stdout").exists() and (directory / "stdout").stat().st_size)
                third.cancel()  # waits in the line: never begins
                with pytest.raises(CallFailed, match="cancelled"):
                    await third.step()
                getattr(running, named)()
                event = None
                while not running.ended:
                    event = cells.decode_event(await running.step())
                assert event.error.startswith("KeyboardInterrupt")
                while not second.ended:
                    event = cells.decode_event(await second.step())
                assert event.error == "", "the one that waited is not touched"
            assert (waits / "stdout").read_text() == "second\n"

        run(main())


@pytest.mark.parametrize("stepping", [True, False], ids=["that it waits for", "between two steps"])
def test_the_end_of_its_client_interrupts_a_cell(pool, stepping):
    with started(pool) as worker:

        async def main():
            directory = pool / "calls" / "1"
            directory.mkdir()
            source = "" if stepping else "display('x')\n"
            async with opened(worker.metadata, worker.token) as channel:
                request = cell_request(source + "print(1, flush=True)\nwhile True: pass", directory)
                call = channel.call(worker.metadata, "cell", request)
                await until(lambda: (directory / "stdout").exists() and (directory / "stdout").stat().st_size)
                if not stepping:
                    assert isinstance(cells.decode_event(await call.step()), cells.Display)
            outcome, said = await worker.run("print('free')")
            assert (outcome.error, said) == ("", "free\n")

        run(main())


async def asked_until_it_refuses(here):
    while True:
        await here.deep(0)


@pytest.mark.parametrize("timeout_s", [-1, 0], ids=["drained", "at once"])
def test_a_worker_that_is_stopped_leaves_by_itself(pool, timeout_s, tmp_path):
    with started(pool) as worker, notebook() as here:

        async def main():
            async with in_use(worker):
                connection = WorkerConnection(worker.metadata, token=worker.token)
                assert await connection.idle_s() > 0
                waiting = asyncio.create_task(here.waits(str(tmp_path / "waits")))
                await until((tmp_path / "waits").exists)
                assert await connection.idle_s() == 0
                stop = asyncio.create_task(connection.stop(timeout_s))
                if timeout_s:
                    with pytest.raises(NoWorkersAvailable):
                        await asked_until_it_refuses(here)
                    waiting.cancel()
                await stop
                [outcome] = await asyncio.gather(waiting, return_exceptions=True)
                # Who cancelled his own call knows; who did not is told why it ended.
                assert type(outcome) is (asyncio.CancelledError if timeout_s else WorkerDied)

        run(main())
        assert worker.exit_code() == 0
        assert not (tmp_path / "waits").exists(), "its clean-up has run"
        assert worker.log == ""
