"""The pool with its real nursery and workers. Bodies do what the test orders them to, over a socket."""

import asyncio
import itertools
import os
import re
import signal
import sys
import tempfile
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from uuid import UUID

import psutil
import pytest

from tests.support import loops
from tests.support.channels import in_the_pool
from tests.support.loops import settle, until
from tests.support.pools import hold_still, lives, names_in, pool_in, pool_processes, pool_workers
from tests.support.requests import cell_request
from wool_jupyter import host
from wool_jupyter.discovery.local import LocalDiscovery
from wool_jupyter.discovery.root import OVERRIDE, kernel_namespace
from wool_jupyter.errors import (
    DiscoveryNamespaceNotFound,
    KeptOnWorker,
    NoWorkersAvailable,
    StartFailed,
    WoolError,
    WorkerDied,
)
from wool_jupyter.pool import events, supervisor
from wool_jupyter.pool.home import Home
from wool_jupyter.pool.kernel_pool import KernelPool
from wool_jupyter.pool.lent import OtherWorkers
from wool_jupyter.pool.processes import Processes
from wool_jupyter.pool.worker_pool import WorkerPool
from wool_jupyter.settings import PoolSettings
from wool_jupyter.wire import calls, cells
from wool_jupyter.worker.identity import Identity

DEADLINE_S = 60  # a worker's start is most of a second of CPU, and the machine may be busy

BODY = """\
import os, signal, socket
with socket.socket(socket.AF_UNIX) as stage:
    stage.connect({address!r})
    stage.sendall(f"{name} {{os.getpid()}}\\n".encode())
    order = stage.makefile().readline()
exec(order)
"""


def run(coroutine):
    return loops.run(coroutine, DEADLINE_S)


class Stage:
    """Where bodies come to say that they have begun, and to hear how they shall end."""

    def __init__(self, address):
        self.address = address
        self.begun = []  # names, each as often as its body has begun
        self.pids = {}
        self._writers = {}
        self._gone = {}

    async def serve(self, reader, writer):
        try:
            name, pid = (await reader.readline()).split()
            name = name.decode()
            self.begun.append(name)
            self.pids[name], self._writers[name] = int(pid), writer
            with suppress(ConnectionResetError):
                await reader.read()  # to its end
            self._writers.pop(name)
        finally:
            writer.close()

    @property
    def inside(self):
        return set(self._writers)

    def order(self, name, order="pass"):
        self._writers[name].write(f"{order}\n".encode())


class Bench:
    """A pool, and what a test does with it."""

    def __init__(self, pool, directory, stage):
        self.pool, self.directory, self.stage = pool, directory, stage
        self._names = (f"b{number}" for number in itertools.count())

    def request(self, source):
        calls = self.directory / "calls" / next(self._names)
        calls.mkdir()
        return cell_request(source, calls)

    async def run(self, source, **options):
        """A call that was sent."""
        return await self.pool.run("cell", self.request(source), **options)

    def begin(self, name="", **options):
        """Asks for a body that waits for an order: its name and the task of `run`."""
        name = name or next(self._names)
        return name, asyncio.create_task(self.run(BODY.format(address=self.stage.address, name=name), **options))

    async def inside(self, **options):
        """A body that has begun: its name and its call."""
        name, asking = self.begin(**options)
        call = await asking
        await until(lambda: name in self.stage.inside)
        return name, call

    async def inside_all(self, count):
        return [await self.inside() for _ in range(count)]

    async def works(self, **options):
        """A body from its begin to its end: its worker's pid."""
        name, call = await self.inside(**options)
        self.stage.order(name)
        assert await finish(call)
        return self.stage.pids[name]

    async def warm(self, workers):
        """Each worker has run something."""
        held = await self.inside_all(workers)
        await self.end(held)
        return {call.worker.uid: call.worker.pid for _, call in held}

    async def gone(self, *pids):
        """Until that is known: a call that comes earlier may be sent to one of them, and dies."""
        await until(lambda: not set(pids) & {worker.pid for worker in self.pool.crew.snapshot()})

    async def end(self, held, order="pass"):
        for name, _ in held:
            self.stage.order(name, order)
        return [await finish(call) for _, call in held]

    async def fits(self, workers):
        """Exactly that many calls run side by side, and one more has to wait."""
        pool, stage = self.pool, self.stage
        asked = dict(self.begin() for _ in range(workers + 1))
        names = set(asked)
        await until(lambda: len(names & stage.inside) >= workers)
        await until(lambda: pool.crew.starting == 0)
        await settle()
        assert (pool.crew.size, sum(worker.busy for worker in pool.crew.snapshot())) == (workers, workers)
        assert sum(asking.done() for asking in asked.values()) == workers
        assert len(names & stage.inside) == workers
        assert len({worker.pid for worker in pool.crew.snapshot()}) == workers
        (waits,) = names - stage.inside
        for name in names - {waits}:
            stage.order(name)
            assert await finish(await asked[name])
        await until(lambda: waits in stage.inside)
        stage.order(waits)
        assert await finish(await asked[waits])
        assert {name: stage.begun.count(name) for name in names} == dict.fromkeys(names, 1)
        assert not any(worker.busy for worker in pool.crew.snapshot())


async def to_end(call):
    """Its last value; the call is not closed."""
    last = None
    while not call.ended:
        last = await call.step()
    return last


async def finish(call):
    """The outcome; None if the worker died, and no other would do. Gives the slot back."""
    try:
        return cells.decode_event(await to_end(call))
    except (WorkerDied, KeptOnWorker):
        return None
    finally:
        await call.close()


async def obituary(call):
    try:
        with pytest.raises(WorkerDied) as caught:
            await to_end(call)
        return str(caught.value)
    finally:
        await call.close()


@asynccontextmanager
async def pool_of(workers=None, *, environment=os.environ, tell=events.to_nobody, pinned=lambda _: False, **settings):
    """Whatever a test does to it, it leaves no process and no file."""
    with tempfile.TemporaryDirectory(prefix="w", dir="/tmp") as top:
        home = await Home.enter(kernel_namespace("/run/kernel.json"), within=Path(top))
        stage = Stage(f"{top}/stage")
        server = await asyncio.start_unix_server(stage.serve, stage.address)
        pool = await pool_in(
            home, PoolSettings(workers=workers, **settings), environment=environment, tell=tell, pinned=pinned
        )
        processes = pool_processes(os.getpid())
        try:
            yield Bench(pool, home.directory, stage)
        finally:
            with suppress(psutil.NoSuchProcess):
                processes += pool_processes(os.getpid())
            await pool.stop()
            await home.leave()
            server.close()
            await until(lambda: not any(map(lives, processes)))
            await until(lambda: not stage.inside)
            assert names_in(top) == ["stage"]


def kill(*pids):
    for pid in pids:
        with suppress(ProcessLookupError):  # one that was told to exit may be faster
            os.kill(pid, signal.SIGKILL)


def test_its_workers_are_found_by_the_name_of_their_namespace():
    """A `WorkerProxy` asks for those that have it as a tag."""

    async def main():
        async with pool_of(1) as bench:
            (found,) = bench.pool._proxy.workers.workers.values()
            assert found.metadata.tags == {kernel_namespace("/run/kernel.json")}

    run(main())


# How many there are.


@pytest.mark.parametrize("workers", [1, 3])
def test_a_fixed_number_of_workers_runs_that_many_calls_side_by_side(workers):
    async def main():
        async with pool_of(workers) as bench:
            assert bench.pool.crew.size == workers
            assert len(bench.pool.crew.snapshot()) >= 1
            await bench.fits(workers)

    run(main())


def test_work_that_waits_grows_the_pool_up_to_the_usable_cpus(monkeypatch):
    monkeypatch.setattr(host, "usable_cpus", lambda: 3)

    async def main():
        async with pool_of() as bench:
            assert bench.pool.crew.size == 2  # one and a spare
            await until(lambda: len(bench.pool.crew.snapshot()) == 2)
            held = await bench.inside_all(2)
            assert bench.pool.crew.size == 2
            third, asking = bench.begin()
            await until(lambda: third in bench.stage.inside)
            await bench.end([*held, (third, await asking)])
            await bench.fits(3)

    run(main())


def test_with_one_usable_cpu_there_is_no_spare(monkeypatch):
    monkeypatch.setattr(host, "usable_cpus", lambda: 1)

    async def main():
        async with pool_of() as bench:
            assert bench.pool.crew.size == 1
            await bench.fits(1)

    run(main())


def test_grow_adds_workers_and_never_takes_any(monkeypatch):
    monkeypatch.setattr(host, "usable_cpus", lambda: 2)

    async def main():
        async with pool_of(1) as bench:
            held = await bench.inside()
            waiting, asking = bench.begin()
            await bench.pool.crew.grow(3)
            assert bench.pool.crew.size == 3
            await until(lambda: waiting in bench.stage.inside)  # it was in the line before they were
            await bench.end([held, (waiting, await asking)])
            for fewer in (3, 1, 0):
                await bench.pool.crew.grow(fewer)
                assert bench.pool.crew.size == 3
            await bench.fits(3)

    run(main())


def test_calls_in_a_row_stay_on_one_worker():
    async def main():
        async with pool_of(2) as bench:
            await until(lambda: len(bench.pool.crew.snapshot()) == 2)
            assert len({await bench.works() for _ in range(5)}) == 1

    run(main())


# Workers that die.

ROUNDS = 2


async def exits_in_the_body(bench, workers):
    await bench.end(await bench.inside_all(workers), "os._exit(3)")


async def is_killed_in_the_body(bench, workers):
    held = await bench.inside_all(workers)
    kill(*(bench.stage.pids[name] for name, _ in held))
    assert [await finish(call) for _, call in held] == [None] * workers


async def is_killed_while_idle(bench, workers):
    pids = (await bench.warm(workers)).values()
    kill(*pids)
    await bench.gone(*pids)


async def exits_and_is_killed(bench, workers):
    held = await bench.inside_all(workers)
    for name, _ in held:
        bench.stage.order(name, "os._exit(3)")
        kill(bench.stage.pids[name])
    assert [await finish(call) for _, call in held] == [None] * workers


async def one_exits_and_another_is_killed_while_idle(bench, workers):
    held = await bench.inside_all(workers)
    (last, call), *others = held
    await bench.end(others)
    bench.stage.order(last, "os._exit(3)")
    pids = [bench.stage.pids[name] for name, _ in others]
    kill(*pids)
    assert await finish(call) is None
    await bench.gone(*pids)


async def is_killed_between_its_last_value_and_the_close(bench, workers):
    held = await bench.inside_all(workers)
    for name, call in held:
        bench.stage.order(name)
        await to_end(call)
        kill(bench.stage.pids[name])
    await bench.gone(*(bench.stage.pids[name] for name, _ in held))
    for _, call in held:
        await call.close()
        await call.close()


async def is_killed_as_it_is_asked(bench, workers):
    """Nobody knows yet, or it is known and the worker not yet gone: the call goes to another, unless it had begun."""
    pids = (await bench.warm(workers)).values()
    await until(lambda: len(bench.pool.crew.snapshot()) == workers)
    asked = [bench.begin() for _ in range(2 * workers)]
    kill(*pids)

    async def to_its_end(name, asking):
        stepping = asyncio.create_task(finish(await asking))
        await until(lambda: stepping.done() or name in bench.stage.inside)
        if name in bench.stage.inside:
            bench.stage.order(name)
        await stepping

    await asyncio.gather(*(to_its_end(*each) for each in asked))
    await bench.gone(*pids)


async def is_killed_while_others_wait(bench, workers):
    held = await bench.inside_all(workers)
    asked = [bench.begin() for _ in range(workers)]
    await settle()
    kill(*(bench.stage.pids[name] for name, _ in held))
    assert [await finish(call) for _, call in held] == [None] * workers
    await bench.end([(await started(bench, name), await asking) for name, asking in asked])


async def started(bench, name):
    await until(lambda: name in bench.stage.inside)
    return name


WAYS = [
    exits_in_the_body,
    is_killed_in_the_body,
    is_killed_while_idle,
    exits_and_is_killed,
    one_exits_and_another_is_killed_while_idle,
    is_killed_between_its_last_value_and_the_close,
    is_killed_as_it_is_asked,
    is_killed_while_others_wait,
]


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("dies", WAYS, ids=lambda way: way.__name__)
def test_no_slot_is_lost_or_made_when_each_worker(dies, workers):
    async def main():
        async with pool_of(workers) as bench:
            for _ in range(ROUNDS):
                await dies(bench, workers)
            await bench.fits(workers)

    run(main())


def test_a_worker_that_dies_is_replaced_at_once_if_it_was_used():
    async def main():
        async with pool_of(1) as bench:
            before = await bench.works()
            kill(before)
            await bench.gone(before)
            await until(lambda: len(bench.pool.crew.snapshot()) == 1)  # nobody asks for it
            assert await bench.works() != before

    run(main())


def test_a_worker_that_dies_unused_is_replaced_when_work_waits():
    async def main():
        async with pool_of(2) as bench:
            await until(lambda: len(bench.pool.crew.snapshot()) == 2)
            kill(*(worker.pid for worker in bench.pool.crew.snapshot()))
            await bench.works()
            await bench.fits(2)

    run(main())


def test_workers_that_die_unused_are_replaced_after_a_pause_when_nothing_waits():
    async def main():
        async with pool_of(2) as bench:
            for _ in range(2):
                await until(lambda: len(bench.pool.crew.snapshot()) == 2)
                pids = {worker.pid for worker in bench.pool.crew.snapshot()}
                kill(*pids)
                await until(lambda pids=pids: pids.isdisjoint(worker.pid for worker in bench.pool.crew.snapshot()))
            await until(lambda: len(bench.pool.crew.snapshot()) == 2)

    run(main())


def test_a_call_that_dies_begins_once_and_never_elsewhere():
    async def main():
        async with pool_of(2) as bench:
            for _ in range(3):
                name, call = await bench.inside()
                await bench.end([(name, call)], "os._exit(0)")
                assert call.ended
                assert await call.step() is None
            await bench.fits(2)
            assert max(map(bench.stage.begun.count, bench.stage.begun)) == 1

    run(main())


@pytest.fixture
def stopped_in_between(monkeypatch):
    """A worker that is stopped is so since it was looked at."""
    monkeypatch.setattr(host, "is_stopped", lambda _: False)


async def sent_to_one_that_is_stopped(bench):
    """A body that was sent to a worker, which holds still: its name, its call, and the worker."""
    await bench.works()
    pid = await bench.works()
    hold_still(pid)
    name, asking = bench.begin()
    call = await asking
    assert call.worker.pid == pid
    return name, call, pid


@pytest.mark.usefixtures("stopped_in_between")
@pytest.mark.parametrize("workers", [1, 2])
def test_a_call_whose_worker_died_before_it_began_runs_elsewhere(workers):
    async def main():
        async with pool_of(workers) as bench:
            for ending in ("by itself", "interrupted"):
                name, call, pid = await sent_to_one_that_is_stopped(bench)
                outcome = asyncio.create_task(finish(call))
                kill(pid)
                await until(lambda name=name: name in bench.stage.inside)
                assert call.worker.pid == bench.stage.pids[name] != pid
                if ending == "interrupted":
                    await bench.pool.crew.interrupt(call.worker.uid)
                else:
                    bench.stage.order(name)
                assert await outcome
                assert bench.stage.begun.count(name) == 1
            await bench.fits(workers)

    run(main())


@pytest.mark.usefixtures("stopped_in_between")
def test_a_call_whose_worker_was_ended_on_purpose_runs_nowhere():
    async def main():
        async with pool_of(2) as bench:
            name, call, _ = await sent_to_one_that_is_stopped(bench)
            outcome = asyncio.create_task(obituary(call))
            await bench.pool.crew.kill(call.worker.uid)
            assert "as was asked" in await outcome
            await bench.fits(2)
            assert name not in bench.stage.begun

    run(main())


@pytest.mark.usefixtures("stopped_in_between")
@pytest.mark.parametrize("given_up", ["closed", "cancelled", "both"])
def test_a_call_that_is_given_up_while_it_is_placed_again_holds_no_slot(given_up):
    async def main():
        waits = asyncio.Event()

        def told(event):
            if isinstance(event, events.Waits):
                waits.set()

        async with pool_of(1, tell=told) as bench:
            name, call, pid = await sent_to_one_that_is_stopped(bench)
            waits.clear()
            step = asyncio.create_task(call.step())
            kill(pid)
            await waits.wait()  # once more
            if given_up != "closed":
                step.cancel()
            if given_up != "cancelled":
                await call.close()
            with pytest.raises(asyncio.CancelledError):
                await step
            await call.close()
            await bench.fits(1)
            assert name not in bench.stage.begun

    run(main())


def test_a_worker_that_is_stopped_gets_no_call_while_another_is_there():
    async def main():
        async with pool_of(2) as bench:
            await bench.warm(2)
            pid = await bench.works()
            hold_still(pid)
            assert await bench.works() != pid
            os.kill(pid, signal.SIGCONT)
            await bench.fits(2)

    run(main())


def test_a_stopped_worker_is_replaced_unless_a_value_lives_there_alone(monkeypatch):
    monkeypatch.setattr(supervisor, "PROBES", 1)
    pinned = set()

    async def main():
        async with pool_of(2, pinned=pinned.__contains__) as bench:
            workers = await bench.warm(2)
            pid = await bench.works()
            pinned.update(uid for uid, each in workers.items() if each == pid)
            (other,) = set(workers.values()) - {pid}
            hold_still(pid)
            hold_still(other)
            asked = [bench.begin(), bench.begin()]
            await bench.gone(other)
            await until(lambda: len(bench.stage.inside) == 1)
            assert psutil.Process(pid).status() == psutil.STATUS_STOPPED
            os.kill(pid, signal.SIGCONT)
            await until(lambda: len(bench.stage.inside) == 2)
            assert pid in {bench.stage.pids[name] for name, _ in asked}
            await bench.end([(name, await asking) for name, asking in asked])
            await bench.fits(2)

    run(main())


def test_a_fixed_number_stays_when_the_next_call_comes_with_the_death():
    """The one who asks next and the one who saw the death must not both start a worker."""

    async def main():
        async with pool_of(1) as bench:
            for _ in range(3):
                held = await bench.inside()
                await bench.end([held], "os._exit(3)")
                name, asking = bench.begin()
                await until(lambda name=name: name in bench.stage.inside)
                await until(lambda: bench.pool.crew.starting == 0)
                assert bench.pool.crew.size == 1
                await bench.end([(name, await asking)])

    run(main())


async def break_the_channel():
    (channel,) = in_the_pool()
    channel._link.cut()
    await until(lambda: channel.broken)


def test_a_worker_whose_channel_broke_while_it_was_idle_is_asked_over_a_new_one():
    async def main():
        async with pool_of(1) as bench:
            before = await bench.works()
            await break_the_channel()
            assert await bench.works() == before
            await bench.fits(1)

    run(main())


def test_a_worker_that_somebody_else_drops_is_announced_again():
    """Any publisher may drop any worker. Its main thread must not count as free when nobody can be asked to use it."""

    async def main():
        async with pool_of(1) as bench:
            before = await bench.works()
            (worker,) = bench.pool.crew.snapshot()
            borrowed = LocalDiscovery.borrow(bench.directory.parent.name, root=bench.directory.parents[1])
            publisher = borrowed.publisher
            await publisher.publish("worker-dropped", bench.pool.crew.member(worker.uid).metadata)
            publisher.close()
            await until(lambda: not bench.pool._proxy.workers.workers)
            assert await bench.works() == before
            await bench.fits(1)

    run(main())


def test_workers_that_others_announce_in_the_namespace_get_no_call(monkeypatch):
    """Their main threads are not the pool's to give."""

    async def main():
        async with pool_of(2) as bench:
            top = bench.directory.parents[1]
            monkeypatch.setenv(OVERRIDE, str(top.parent))
            borrowed = LocalDiscovery.borrow(bench.directory.parent.name, root=top)
            await until(lambda: len(bench.pool.crew.snapshot()) == 2)
            own = {worker.pid for worker in bench.pool.crew.snapshot()}
            async with WorkerPool(spawn=2, discovery=borrowed) as others:
                await others.proxy.start()
                await until(lambda: len(others.proxy.workers.workers) == 4)  # it asks whoever is there
                for uid in own_uids(bench):
                    bench.pool._proxy.evict(uid)
                    bench.pool._proxy.readmit(uid)  # behind the others
                held = await bench.inside_all(2)
                assert {call.worker.pid for _, call in held} == own
                for each in held:
                    await bench.end([each])
                await bench.fits(2)

    run(main())


def test_a_worker_gives_no_call_to_workers_that_others_announce(monkeypatch):
    """Nor does its pool."""

    async def main():
        async with pool_of(1) as bench:
            top = bench.directory.parents[1]
            monkeypatch.setenv(OVERRIDE, str(top.parent))
            borrowed = LocalDiscovery.borrow(bench.directory.parent.name, root=top)
            (uid,) = own_uids(bench)
            lender = OtherWorkers(Identity(uid, str(bench.directory), None))
            async with WorkerPool(spawn=1, discovery=borrowed) as others:
                await others.proxy.start()
                await until(lambda: len(others.proxy.workers.workers) == 2)
                places = lender.places()
                body = calls.pack_blocking(calls.Invocation(os.getpid, (), {}), calls.Data(places)).body
                assert await lender.place(body, places=places, ambient={}, words="a call") is None
                lender.forget(places)
            await lender._found.stop()

    run(main())


def own_uids(bench):
    return [worker.uid for worker in bench.pool.crew.snapshot()]


def test_a_worker_that_has_ended_leaves_no_file():
    async def main():
        async with pool_of(1) as bench:
            for _ in range(2):
                kill(pid := await bench.works())
                await bench.gone(pid)
            await bench.works()
            assert len(names_in(bench.directory / "s")) == 1
            assert len([name for name in names_in(bench.directory) if name.startswith("crash")]) == 1

    run(main())


def test_a_value_that_was_kept_by_a_worker_that_does_not_answer_waits_for_what_becomes_of_it():
    """Though another one is free."""

    async def main():
        async with pool_of(2) as bench:
            await bench.warm(2)
            uid = bench.pool.crew.snapshot()[0].uid
            bench.pool._proxy.evict(uid)
            bench.pool.crew._failed_a_call(uid)
            _, call = await bench.inside(only=uid)
            assert call.worker.uid == uid
            await bench.end([(bench.stage.begun[-1], call)])
            await bench.fits(2)

    run(main())


def test_a_call_on_a_connection_that_broke_ends_though_the_worker_lives():
    async def main():
        async with pool_of(1) as bench:
            name, call = await bench.inside()
            await break_the_channel()
            pid = bench.stage.pids[name]
            assert await obituary(call) == f"The worker (pid {pid}) was lost: it does not answer any more"
            await until(lambda: not psutil.pid_exists(pid))  # its body still ran
            await bench.fits(1)

    run(main())


def test_two_calls_on_one_worker_cost_no_slot_when_it_dies():
    """A value that was kept asks for its worker, whether that is busy or not."""

    async def main():
        async with pool_of(2) as bench:
            await bench.warm(2)
            name, call = await bench.inside()
            _, asking = bench.begin(only=call.worker.uid)
            second = await asking
            assert second.worker == call.worker
            kill(bench.stage.pids[name])
            assert await finish(call) is None
            assert await finish(second) is None
            await bench.fits(2)

    run(main())


def test_two_calls_on_one_worker_cost_no_slot_when_it_dies_in_the_second():
    async def main():
        async with pool_of(2) as bench:
            await bench.warm(2)
            name, call = await bench.inside()
            other, asking = bench.begin(only=call.worker.uid)
            second = await asking
            bench.stage.order(name)
            assert await finish(call)
            await until(lambda: other in bench.stage.inside)
            assert call.worker.uid in [worker.uid for worker in bench.pool.crew.snapshot() if worker.busy]
            kill(bench.stage.pids[other])
            assert await finish(second) is None
            await bench.fits(2)

    run(main())


def test_a_call_that_has_ended_holds_its_worker_until_it_is_closed():
    """Two threads of a kernel: one has its outcome, and has not closed the call when the other's cell begins."""

    async def main():
        async with pool_of(2) as bench:
            await bench.warm(2)
            name, first = await bench.inside()
            bench.stage.order(name)
            await to_end(first)
            other, second = await bench.inside()
            await first.close()
            assert second.worker.uid in [worker.uid for worker in bench.pool.crew.snapshot() if worker.busy]
            kill(bench.stage.pids[other])
            assert await finish(second) is None
            await bench.fits(2)

    run(main())


def test_a_call_that_is_closed_while_its_body_runs_does_not_hold_up_the_next():
    async def main():
        async with pool_of(2) as bench:
            await bench.warm(2)
            abandoned, call = await bench.inside()
            await call.close()
            name, asking = bench.begin()
            await until(lambda: name in bench.stage.inside)
            await until(lambda: abandoned not in bench.stage.inside)  # interrupted, for nobody waits for it
            await bench.end([(name, await asking)])
            await bench.fits(2)

    run(main())


def test_a_value_that_was_kept_by_a_worker_that_is_gone():
    async def main():
        async with pool_of(2) as bench:
            workers = await bench.warm(2)
            one, other = workers
            assert await bench.works(only=other) == workers[other]
            assert await bench.works(only=one) == workers[one]
            kill(workers[one])
            await bench.gone(workers[one])
            for uid in (one, UUID(int=1)):
                with pytest.raises(KeptOnWorker):
                    await bench.run("pass", only=uid)
            assert await bench.works(only=other) == workers[other]
            await bench.fits(2)

    run(main())


# The end in words.

ENDS = [
    pytest.param("os._exit(0)", r"exited with code 0", id="code 0"),
    pytest.param("os._exit(7)", r"exited with code 7", id="code 7"),
    pytest.param("os.kill(os.getpid(), signal.SIGTERM)", r"was killed by SIGTERM", id="SIGTERM"),
    pytest.param("import ctypes; ctypes.string_at(0)", r"was killed by SIGSEGV(; .*)?", id="SIGSEGV"),
    pytest.param("os.abort()", r"was killed by SIGABRT(; .*)?", id="SIGABRT"),
    pytest.param(
        "os.kill(os.getpid(), signal.SIGKILL)",
        r"was killed by SIGKILL\b.*\bmemory\b.*\b\d+ [MG]B\b.*",
        id="SIGKILL",
    ),
]


def test_how_a_worker_ended_is_said_in_words():
    async def main():
        async with pool_of(1) as bench:
            for order, words in (case.values for case in ENDS):
                name, call = await bench.inside()
                bench.stage.order(name, order)
                said = await obituary(call)
                assert re.fullmatch(rf"The worker \(pid {bench.stage.pids[name]}\) {words}", said), said

    run(main())


def test_kill_ends_a_worker_and_its_call():
    async def main():
        async with pool_of(1) as bench:
            name, call = await bench.inside()
            await bench.pool.crew.kill(call.worker.uid)
            assert f"(pid {bench.stage.pids[name]}) was killed by SIGKILL" in await obituary(call)
            await bench.pool.crew.kill(call.worker.uid)
            await bench.pool.crew.kill(UUID(int=1))
            await bench.fits(1)

    run(main())


def test_an_interrupt_ends_the_body_and_not_the_worker():
    async def main():
        async with pool_of(1) as bench:
            name, call = await bench.inside()
            await bench.pool.crew.interrupt(call.worker.uid)
            assert isinstance(await finish(call), cells.Outcome)
            assert await bench.works() == bench.stage.pids[name]
            kill(bench.stage.pids[name])
            await bench.gone(bench.stage.pids[name])
            await bench.pool.crew.interrupt(call.worker.uid)  # of one that is gone
            await bench.fits(1)

    run(main())


def test_an_interrupt_that_is_on_its_way_when_its_call_ends_does_not_reach_the_next():
    async def main():
        async with pool_of(1) as bench:
            name, first = await bench.inside()
            nursery = pool_processes(os.getpid())[0]
            nursery.suspend()  # the signal takes its time
            interrupting = asyncio.create_task(first.interrupt())
            await settle()
            following, asking = bench.begin()
            bench.stage.order(name)
            assert await finish(first)
            await until(lambda: following in bench.stage.inside)
            await interrupting
            await settle()
            [outcome] = await bench.end([(following, await asking)])
            assert outcome.error == ""
            nursery.resume()

    run(main())


# Waiting for a turn.


def test_first_come_first_served():
    async def main():
        async with pool_of(1) as bench:
            held = await bench.inside()
            asked = [bench.begin() for _ in range(3)]
            await bench.end([held])
            for name, asking in asked:
                call = await asking
                await until(lambda name=name: name in bench.stage.inside)
                await bench.end([(name, call)])
            assert bench.stage.begun == [held[0], *(name for name, _ in asked)]

    run(main())


@pytest.mark.parametrize("turns", range(4))
def test_a_call_that_is_cancelled_while_it_waits_gives_its_turn_back(turns):
    """Cancelled before its turn, as it comes, and after: then there is a call, which is somebody's to close."""

    async def main():
        async with pool_of(1) as bench:
            held, call = await bench.inside()
            cancelled, first = bench.begin()
            name, second = bench.begin()
            await settle()
            bench.stage.order(held)
            await to_end(call)
            if turns:
                await call.close()
                for _ in range(turns - 1):
                    await asyncio.sleep(0)
            first.cancel()
            with suppress(asyncio.CancelledError):
                given = await first
                bench.stage.order(await started(bench, cancelled))
                assert await finish(given)
            await call.close()
            await bench.end([(await started(bench, name), await second)])
            await bench.fits(1)

    run(main())


def test_many_that_are_cancelled_cost_no_slot():
    async def main():
        async with pool_of(2) as bench:
            held = await bench.inside_all(2)
            asked = [bench.begin() for _ in range(20)]
            await settle()
            for _, asking in asked:
                asking.cancel()
            await bench.end(held)
            assert all(asking.cancelled() for _, asking in asked)
            await bench.fits(2)
            assert not {name for name, _ in asked} & set(bench.stage.begun)

    run(main())


# Ends of the pool.


def test_a_nursery_that_is_killed_ends_all_calls_and_the_pool_is_lost():
    async def main():
        async with pool_of(2) as bench:
            pool = bench.pool
            held = await bench.inside_all(2)
            waiting = [bench.begin()[1] for _ in range(3)]
            await settle()
            assert not pool.crew.lost
            kill(pool.crew.nursery_pid)
            for name, call in held:
                pid = bench.stage.pids[name]
                ended = f"The worker (pid {pid}) ended with the process that looks after the workers"
                assert await obituary(call) == ended
            assert pool.crew.lost
            for asking in waiting:
                with pytest.raises(StartFailed):
                    await asking
            for _ in range(3):
                with pytest.raises(StartFailed):
                    await bench.run("pass")
            assert (pool.crew.size, pool.crew.snapshot()) == (0, [])
            await pool.crew.interrupt(held[0][1].worker.uid)
            await pool.crew.kill(held[0][1].worker.uid)

    run(main())


def test_a_nursery_that_is_killed_while_nothing_runs():
    """Whoever asks before that is known has a call that dies, or none."""

    async def main():
        async with pool_of(2) as bench:
            await bench.warm(2)
            kill(bench.pool.crew.nursery_pid)
            asked = [bench.begin()[1] for _ in range(4)]
            for asking in asked:
                with suppress(StartFailed):
                    assert await finish(await asking) is None
            await until(lambda: bench.pool.crew.lost)
            with pytest.raises(StartFailed):
                await bench.run("pass")

    run(main())


def test_a_nursery_that_is_killed_while_workers_start():
    async def main():
        async with pool_of(1) as bench:
            held = await bench.inside()
            await bench.pool.crew.grow(3)
            _, asking = bench.begin()
            await settle()
            kill(bench.pool.crew.nursery_pid)
            assert await finish(held[1]) is None
            with pytest.raises(StartFailed):
                await asking
            await until(lambda: bench.pool.crew.size == 0)

    run(main())


def test_stop_during_a_call_ends_it_and_those_that_wait():
    async def main():
        async with pool_of(2) as bench:
            held = await bench.inside_all(2)
            waiting = [bench.begin()[1] for _ in range(2)]
            await settle()
            workers = pool_workers(os.getpid())
            assert len(workers) == 2
            ends = [asyncio.create_task(obituary(call)) for _, call in held]
            await bench.pool.stop()
            assert not any(map(lives, workers))
            for (name, _), end in zip(held, ends, strict=True):
                said = await end
                assert f"(pid {bench.stage.pids[name]})" in said
                assert "memory" not in said  # what the system does to hogs was not the cause
            for asking in waiting:
                with pytest.raises(NoWorkersAvailable):
                    await asking
            await bench.pool.stop()

    run(main())


def test_stop_while_workers_start():
    async def main():
        async with pool_of(1) as bench:
            await bench.pool.crew.grow(4)
            await bench.pool.stop()

    run(main())


@pytest.mark.timeout(30)
@pytest.mark.parametrize("idle", [True, False], ids=["idle", "busy"])
def test_a_pool_that_was_stopped_takes_no_call(idle):
    """Another thread's cell had the pool in its hands when `%wool stop` came."""

    async def main():
        async with pool_of(1) as bench:
            held = await bench.inside()
            request = bench.request("pass")
            if idle:
                await bench.end([held])
            await bench.pool.stop()
            with pytest.raises(WoolError):
                await bench.pool.run("cell", request)

    run(main())


def test_of_a_stopped_pool_the_nursery_alone_is_left():
    """Not the process that workers are forked from, which may be large."""

    async def main():
        async with pool_of(1) as bench:
            crew = bench.pool.crew
            await until(lambda: crew.template_pid or sys.platform != "linux")
            await bench.pool.stop()
            await until(lambda: [process.pid for process in pool_processes(os.getpid())] == [crew.nursery_pid])

    run(main())


# Starts that fail.


@pytest.fixture
def spoiled(tmp_path):
    """An environment in which workers start until `spoil` is called; the nursery always does."""

    def spoil():
        (tmp_path / "msgspec.py").write_text("raise SystemExit('no msgspec today')\n")

    return {**os.environ, "PYTHONPATH": str(tmp_path)}, spoil


async def without_forks(bench):
    """A fork has imported everything before anything was spoiled."""
    crew = bench.pool.crew
    await until(lambda: crew.template_pid or sys.platform != "linux")
    if crew.template_pid:
        kill(crew.template_pid)
        await until(lambda: crew.template_pid is None)


def test_a_pool_whose_workers_cannot_start_fails_and_leaves_nothing(spoiled):
    environment, spoil = spoiled
    spoil()
    told = r"A worker exited with code 1 before it was ready\n(.|\n)*no msgspec today"

    async def main():
        with tempfile.TemporaryDirectory(prefix="w", dir="/tmp") as top:
            home = await Home.enter(kernel_namespace("/run/kernel.json"), within=Path(top))
            with pytest.raises(StartFailed, match=told):
                await pool_in(home, PoolSettings(workers=2), environment=environment)
            await home.leave()
            assert names_in(top) == []
            assert pool_processes(os.getpid()) == []

    run(main())


def test_a_first_worker_that_nobody_takes_ends_with_the_start_that_fails():
    async def main():
        with tempfile.TemporaryDirectory(prefix="w", dir="/tmp") as top:
            home = await Home.enter(kernel_namespace("/run/kernel.json"), within=Path(top))
            processes = await Processes.begun(home, environment=os.environ)
            await until(lambda: len(pool_processes(os.getpid())) == 2)
            (home.directory.parent / "current").unlink()
            with pytest.raises(DiscoveryNamespaceNotFound):
                await KernelPool.start(home, PoolSettings(), processes)
            await until(lambda: len(pool_processes(os.getpid())) == 1)  # the nursery
            await home.leave()

    run(main())


def test_a_start_that_is_cancelled_leaves_nothing():
    async def main():
        with tempfile.TemporaryDirectory(prefix="w", dir="/tmp") as top:
            home = await Home.enter(kernel_namespace("/run/kernel.json"), within=Path(top))
            starting = asyncio.create_task(pool_in(home, PoolSettings()))
            await until(lambda: len(pool_processes(os.getpid())) > 1)
            starting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await starting
            await home.leave()
            assert names_in(top) == []
            assert pool_processes(os.getpid()) == []

    run(main())


def test_a_call_fails_when_the_last_worker_cannot_be_replaced_and_the_pool_recovers(spoiled, tmp_path):
    environment, spoil = spoiled

    async def main():
        async with pool_of(1, environment=environment) as bench:
            held = await bench.inside()
            waiting = [bench.begin()[1] for _ in range(2)]
            await settle()
            await without_forks(bench)
            spoil()
            await bench.end([held], "os._exit(3)")
            for asking in waiting:
                with pytest.raises(StartFailed, match="no msgspec today"):
                    await asking
            with pytest.raises(StartFailed, match="no msgspec today"):
                await bench.run("pass")
            assert bench.pool.crew.size == 0
            assert not bench.pool.crew.lost
            (tmp_path / "msgspec.py").unlink()
            await bench.fits(1)

    run(main())


def test_a_worker_that_cannot_be_replaced_leaves_the_work_to_the_others(spoiled):
    environment, spoil = spoiled

    async def main():
        async with pool_of(2, environment=environment) as bench:
            first, other = await bench.inside_all(2)
            _, asking = waits = bench.begin()
            await without_forks(bench)
            spoil()
            await bench.end([first], "os._exit(3)")
            await until(lambda: bench.pool.crew.size == 1)
            await bench.end([other])
            await bench.end([(await started(bench, waits[0]), await asking)])

    run(main())


def test_a_worker_that_takes_too_long_to_start_fails_it():
    async def main():
        with tempfile.TemporaryDirectory(prefix="w", dir="/tmp") as top:
            home = await Home.enter(kernel_namespace("/run/kernel.json"), within=Path(top))
            settings = PoolSettings(workers=1, start_timeout_s=0.01)
            with pytest.raises(StartFailed, match=r"not ready after 0\.01 s"):
                await pool_in(home, settings)
            await home.leave()
            assert names_in(top) == []
            assert pool_processes(os.getpid()) == []

    run(main())
