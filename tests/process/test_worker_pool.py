"""Pools of routines: real nurseries, workers and files, and other interpreters where a case is about them."""

import asyncio
import contextvars
import gc
import importlib
import logging
import os
import re
import signal
import tempfile
from contextlib import AsyncExitStack, asynccontextmanager, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from tests.support import loops
from tests.support.cancelling import cancelled_at_each_wait
from tests.support.discovery import descriptors, generation_of, tree, worker
from tests.support.fake_discovery import FakeDiscovery
from tests.support.loops import settle, until
from tests.support.pool_process import PoolProcess
from tests.support.pool_routines import (
    Gated,
    counted,
    dies,
    doubled,
    exits,
    lingers,
    nested,
    pids_of,
    says,
    stays,
    waits,
    worker_pid,
)
from tests.support.pools import hold_still, lives, pool_processes
from wool_jupyter import host
from wool_jupyter.discovery import locks, registry
from wool_jupyter.discovery.local import LocalDiscovery
from wool_jupyter.discovery.root import choose_root
from wool_jupyter.discovery.scan import Scan
from wool_jupyter.discovery.subscriber import LocalSubscriber
from wool_jupyter.dispatch import channels
from wool_jupyter.dispatch.proxy import WorkerProxy
from wool_jupyter.errors import (
    CallFailed,
    CannotShip,
    DiscoveryCapacityExhausted,
    DiscoveryNamespaceInUse,
    DiscoveryNamespaceNotFound,
    MessageTooLarge,
    NoWorkersAvailable,
    StartFailed,
    WorkerDied,
)
from wool_jupyter.pool import supervisor
from wool_jupyter.pool.home import Home
from wool_jupyter.pool.worker_pool import WorkerPool
from wool_jupyter.records import ChannelOptions
from wool_jupyter.wire import calls, layout

DEADLINE_S = 60  # a worker's start is most of a second of CPU, and the machine may be busy
SHARED = "shared"


def run(coroutine):
    return loops.run(coroutine, DEADLINE_S)


@pytest.fixture(autouse=True)
def base(monkeypatch):
    """Where this process has its namespaces. No test leaves a file or a process there."""
    with tempfile.TemporaryDirectory(prefix="w", dir="/tmp") as top:
        monkeypatch.setenv("WOOL_JUPYTER_RUNTIME_DIR", top)
        before = pool_processes(os.getpid())
        yield Path(top) / f"wool-{os.geteuid()}" / "1"
        assert pool_processes(os.getpid()) == before
        assert namespaces(Path(top)) == []


def namespaces(top):
    return [name for name in tree(top) if name.count("/") >= 2 and not name.startswith("memory")]


@asynccontextmanager
async def owned(**options):
    """A namespace beside the pools."""
    async with LocalDiscovery(SHARED, **options) as discovery:
        yield discovery


@asynccontextmanager
async def workers_elsewhere(workers=1):
    """A namespace with workers that a hybrid pool has started. Its own `use` ends here."""
    async with owned() as discovery:
        borrowed = LocalDiscovery.borrow(SHARED)
        async with WorkerPool(spawn=workers, discovery=borrowed) as pool:
            yield discovery, pool


class Watched(WorkerPool):
    """Its crew can be looked at."""

    async def _crew(self, *given):
        self.crew = await super()._crew(*given)
        return self.crew


def registered(namespace):
    binding = registry.bind(namespace, choose_root())
    with closing(binding):
        return {event.metadata.pid for event in Scan().take(binding.blocks())}


@pytest.fixture(scope="module")
def elsewhere():
    """The worker of another interpreter's pool, for tests that leave it as it is."""
    with tempfile.TemporaryDirectory(prefix="w", dir="/tmp") as top:
        environment = {**os.environ, "WOOL_JUPYTER_RUNTIME_DIR": top}
        with PoolProcess("own", SHARED, env=environment) as owner:
            yield top, int(owner.hear())
            assert owner.end() == 0


@pytest.fixture
def elsewhere_pid(elsewhere, monkeypatch):
    top, pid = elsewhere
    monkeypatch.setenv("WOOL_JUPYTER_RUNTIME_DIR", top)
    return pid


# What its workers are told.


def enough(active, task):
    return active >= LIMIT and task.routine == "call"


LIMIT = 1


async def enough_later(active, task):
    await asyncio.sleep(0)
    return enough(active, task)


@pytest.mark.parametrize(
    "hook", [enough, enough_later, lambda active, _: active >= 1], ids=["plain", "async", "nameless"]
)
def test_a_worker_turns_borrowers_away_as_its_pool_says(hook, tmp_path):
    async def main():
        async with (
            owned(),
            WorkerPool(spawn=1, discovery=LocalDiscovery.borrow(SHARED), backpressure=hook),
            WorkerPool(discovery=LocalDiscovery.borrow(SHARED)),
        ):
            waiting = asyncio.create_task(waits(str(tmp_path)))
            await until((tmp_path / "inside").exists)
            for _ in range(2):
                with pytest.raises(NoWorkersAvailable, match="enough to do"):
                    await doubled(1)
            waiting.cancel()
            await asyncio.wait({waiting})
            assert await doubled(1) == 2

    run(main())


def test_the_pool_itself_waits_until_its_worker_has_room(tmp_path):
    async def main():
        async with WorkerPool(spawn=1, backpressure=enough):
            pid = await worker_pid()
            waiting = asyncio.create_task(waits(str(tmp_path)))
            await until((tmp_path / "inside").exists)
            second = asyncio.create_task(worker_pid())
            await settle()
            waiting.cancel()
            assert await second == pid, "it was busy, not broken"

    run(main())


def test_a_hook_that_can_not_travel_is_said_and_leaves_nothing():
    numbers = (number for number in range(3))

    async def main():
        with pytest.raises(CannotShip, match="generator"):
            async with WorkerPool(spawn=1, backpressure=lambda active, _: active > next(numbers)):
                pytest.fail("it is entered")

    run(main())


def test_workers_advertise_the_options_of_their_pool_and_keep_to_them():
    options = ChannelOptions(max_receive_bytes=1 << 20, max_send_bytes=2 << 20, compression="gzip")

    async def main():
        async with owned(), WorkerPool(spawn=1, discovery=LocalDiscovery.borrow(SHARED), options=options):
            async with WorkerProxy(SHARED) as proxy:
                await proxy.start()
                (candidate,) = proxy.workers.workers.values()
                assert candidate.metadata.options == options
                connection = candidate.connection
                with pytest.raises(MessageTooLarge, match="larger than 1 MiB"):
                    await connection.dispatch("call", bytes(1 << 20))
            assert await doubled(b"x" * (3 << 20)) == b"x" * (6 << 20), "data goes beside the messages"

    run(main())


# The arms.


@asynccontextmanager
async def default_pool(monkeypatch):
    monkeypatch.setattr(host, "usable_cpus", lambda: 2)
    async with WorkerPool() as pool:
        yield pool, 2


@asynccontextmanager
async def ephemeral_pool(monkeypatch):
    async with WorkerPool(spawn=1) as pool:
        yield pool, 1


@asynccontextmanager
async def durable_pool(monkeypatch):
    async with workers_elsewhere(1), borrowing_pool(monkeypatch) as given:
        yield given


@asynccontextmanager
async def borrowing_pool(monkeypatch):
    async with WorkerPool(discovery=LocalDiscovery.borrow(SHARED)) as pool:
        yield pool, 1


@asynccontextmanager
async def hybrid_pool(monkeypatch):
    async with workers_elsewhere(1), WorkerPool(spawn=1, discovery=LocalDiscovery.borrow(SHARED)) as pool:
        yield pool, 2


ARMS = [default_pool, ephemeral_pool, durable_pool, hybrid_pool]


@pytest.mark.parametrize("arm", ARMS)
def test_every_arm_runs_coroutines_and_generators_on_its_workers(arm, monkeypatch):
    async def main():
        async with arm(monkeypatch) as (pool, workers):
            assert await doubled("ab") == "abab"
            pids = await pids_of(pool, workers)
            assert os.getpid() not in pids
            steps = [step async for step in counted(3)]
            assert [number for number, _ in steps] == [0, 1, 2]
            assert {pid for _, pid in steps} <= pids
            with pytest.raises(TypeError, match="unsupported operand"):
                await doubled(None)

    run(main())


def test_routines_may_wait_for_routines_of_their_own_pool_of_one():
    async def main():
        async with WorkerPool(spawn=1):
            pids = await nested(3)
            assert len(pids) == 3
            assert len(set(pids)) == 1

    run(main())


def test_workers_find_the_modules_that_the_caller_finds(tmp_path, monkeypatch):
    (tmp_path / "halves.py").write_text("def half(value):\n    return value / 2\n")
    (tmp_path / "routines_beside.py").write_text(
        "import halves\nfrom wool_jupyter import routine\n\n@routine\nasync def halved(value):\n    return halves.half(value)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("routines_beside")

    async def main():
        async with WorkerPool(spawn=1):
            assert await module.halved(3) == 1.5

    run(main())


def test_data_that_no_message_holds_goes_beside_it():
    async def main():
        async with WorkerPool(spawn=1):
            data = bytes(20 << 20)
            assert len(await doubled(data)) == 2 * len(data)

    run(main())


@pytest.mark.parametrize("refused", [{"spawn": -1}, {"lease": 0, "discovery": object()}, {"shutdown_timeout": 0}])
def test_numbers_that_mean_nothing_are_refused_at_once(refused):
    with pytest.raises(ValueError, match=next(iter(refused))):
        WorkerPool(**refused)


@pytest.mark.parametrize("name", ["spawn", "lease"])
@pytest.mark.parametrize("value", ["2", 1.5])
def test_what_is_no_number_of_workers_is_named(name, value):
    with pytest.raises(TypeError, match=re.escape(f"{name} is a whole number of workers, not {value!r}")):
        WorkerPool(**{"discovery": object(), name: value})


@pytest.mark.parametrize(
    ("argument", "kind"),
    [
        ({"spawn": True}, TypeError),
        ({"quorum": -1}, ValueError),
        ({"quorum": "1"}, TypeError),
        ({"quorum": True}, TypeError),
        ({"quorum_timeout": 0}, ValueError),
        ({"quorum_timeout": "3"}, TypeError),
        ({"shutdown_timeout": "3"}, TypeError),
        ({"shutdown_timeout": True}, TypeError),
        ({"shutdown_timeout": float("inf")}, ValueError),
        ({"start_timeout": -1}, ValueError),
        ({"start_timeout": float("nan")}, ValueError),
        ({"start_timeout": None}, TypeError),
        ({"lazy": 1}, TypeError),
        ({"loadbalancer": object()}, TypeError),
        ({"backpressure": 3}, TypeError),
        ({"options": {}}, TypeError),
    ],
    ids=str,
)
def test_what_an_argument_can_t_be_is_said_at_once_by_its_name(argument, kind):
    (name,) = argument
    with pytest.raises(kind, match=name if name != "loadbalancer" else "balancer"):
        WorkerPool(**{"spawn": 1, **argument})


def test_what_workers_write_comes_out_at_stderr_while_they_run_and_to_the_last(capfd):
    async def main():
        async with WorkerPool(spawn=1):
            await says("one\ntwo", 1)
            heard = ""
            while "one\n" not in heard:
                heard += capfd.readouterr().err
                await asyncio.sleep(0)
            assert "two" not in heard, "a line is shown when it is whole"
            await says("\nlast", 2)
        return capfd.readouterr()

    rest = run(main())
    assert rest.err.startswith("two\nlast\n")
    assert rest.out == ""


def test_a_pool_can_be_used_in_contexts_that_its_entry_does_not_reach():
    pool = WorkerPool(spawn=1)

    async def in_a_context_of_its_own(function):
        return await asyncio.create_task(function(), context=contextvars.Context())

    async def enter():
        await pool.__aenter__()

    async def call():
        with pytest.raises(NoWorkersAvailable, match=r"with pool\.use\(\)"):
            await doubled(1)
        with pool.use():
            found = await doubled(2), await nested(2), [number async for number, _ in counted(3)]
        with pytest.raises(NoWorkersAvailable):
            await doubled(1)
        return found

    async def main():
        with pytest.raises(RuntimeError, match=r"is not entered$"):
            pool.use()
        await in_a_context_of_its_own(enter)
        doubled_two, pids, numbers = await in_a_context_of_its_own(call)
        assert (doubled_two, len(pids), numbers) == (4, 2, [0, 1, 2])
        await pool.__aexit__(None, None, None)
        with pytest.raises(RuntimeError, match="is not entered any more"):
            pool.use()

    run(main())


def test_a_tag_is_a_str():
    with pytest.raises(TypeError, match="a tag is a str, not 3"):
        WorkerPool("gpu", 3)


@pytest.mark.parametrize("option", [{"backpressure": len}, {"options": ChannelOptions()}])
def test_what_is_for_own_workers_is_refused_where_there_are_none(option):
    with pytest.raises(ValueError, match="it starts none"):
        WorkerPool(discovery=LocalDiscovery.borrow(SHARED), **option)


@pytest.mark.parametrize(
    ("option", "kind"),
    [
        ({"max_receive_bytes": 10}, ValueError),
        ({"max_send_bytes": "1"}, TypeError),
        ({"max_concurrent_streams": 0}, ValueError),
        ({"keepalive_time_s": 0}, ValueError),
        ({"keepalive_timeout_s": None}, TypeError),
        ({"compression": "zip"}, ValueError),
    ],
    ids=str,
)
def test_an_option_of_channels_is_refused_by_its_name(option, kind):
    with pytest.raises(kind, match=next(iter(option))):
        WorkerPool(options=ChannelOptions(**option))


def test_a_pool_is_entered_once():
    async def main():
        async with workers_elsewhere():
            pool = WorkerPool(discovery=LocalDiscovery.borrow(SHARED))
            async with pool:
                with pytest.raises(RuntimeError, match="entered once"):
                    await pool.__aenter__()
            with pytest.raises(RuntimeError, match="entered once"):
                await pool.__aenter__()
            with pytest.raises(RuntimeError, match="stopped"):
                await pool.proxy.start()

    run(main())


# What a discovery may be.


class Given:
    """A context manager that gives `part`, and counts."""

    def __init__(self, part):
        self.part, self.entered, self.left = part, 0, 0

    async def __aenter__(self):
        self.entered += 1
        return self.part

    async def __aexit__(self, *_):
        self.left += 1


@contextmanager
def given_at_once(part):
    yield part


@asynccontextmanager
async def given_later(part):
    yield part


async def made(part):
    return part


FORMS = {
    "itself": lambda part: part,
    "a function": lambda part: lambda: part,
    "an async function": lambda part: partial(made, part),
    "an awaitable": made,
    "a context manager": given_at_once,
    "an async context manager": given_later,
    "a function of one": lambda part: partial(given_at_once, part),
    "a function of an async one": lambda part: partial(given_later, part),
}


@pytest.mark.case("OWN-30", "OWN-16")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("part", [LocalDiscovery.borrow, LocalSubscriber])
def test_a_borrowed_registry_may_come_in_every_form(form, part, elsewhere_pid):
    async def main():
        async with WorkerPool(discovery=FORMS[form](part(SHARED))):
            assert await worker_pid() == elsewhere_pid

    run(main())


@pytest.mark.case("OWN-16")
def test_a_service_that_can_be_iterated_too_is_used_as_a_service(elsewhere_pid):
    class Both(LocalDiscovery.borrow):
        async def __aiter__(self):
            await hangs()
            yield

    async def main():
        async with WorkerPool(discovery=Both(SHARED)):
            assert await worker_pid() == elsewhere_pid

    run(main())


@pytest.mark.case("OWN-18")
@pytest.mark.parametrize("form", [lambda given: given, lambda given: lambda: given])
@pytest.mark.parametrize("ending", ["in order", "with an error"])
def test_what_is_entered_is_entered_and_left_once(form, ending, elsewhere_pid):
    given = Given(LocalSubscriber(SHARED))

    async def main():
        async with WorkerPool(discovery=form(given)):
            assert await worker_pid() == elsewhere_pid
            assert (given.entered, given.left) == (1, 0)
            if ending == "with an error":
                raise ZeroDivisionError

    if ending == "with an error":
        with pytest.raises(ZeroDivisionError):
            run(main())
    else:
        run(main())
    assert (given.entered, given.left) == (1, 1)


@pytest.mark.case("OWN-17")
@pytest.mark.parametrize(
    ("spawn", "part", "names"),
    [
        (None, object(), "DiscoveryLike or DiscoverySubscriberLike"),
        (1, object(), "DiscoveryLike"),
        (1, LocalSubscriber(SHARED), "DiscoveryLike"),
    ],
)
def test_a_part_that_is_none_of_what_is_needed_is_refused_and_left(spawn, part, names):
    given = Given(part)

    async def main():
        with pytest.raises(TypeError, match=f"has to be a {names}, and a"):
            await WorkerPool(spawn=spawn, discovery=given).__aenter__()

    run(main())
    assert (given.entered, given.left) == (1, 1)


# Namespaces.


@pytest.mark.case("OWN-25", "REG-39")
def test_a_namespace_that_is_taken_or_has_no_owner_is_said_at_once(base):
    async def main():
        async with owned():
            with pytest.raises(DiscoveryNamespaceInUse):
                await WorkerPool(spawn=1, discovery=LocalDiscovery(SHARED)).__aenter__()
        loop = asyncio.get_running_loop()
        for ownerless in (LocalDiscovery.borrow(SHARED), LocalSubscriber(SHARED)):
            began = loop.time()
            with pytest.raises(DiscoveryNamespaceNotFound):
                await WorkerPool(discovery=ownerless, lazy=False, quorum_timeout=300).__aenter__()
            assert loop.time() - began < 5
        async with WorkerPool(spawn=1, discovery=LocalDiscovery(SHARED)):
            assert await doubled(1) == 2

    run(main())


@pytest.mark.case("OWN-26", "OWN-27")
def test_a_pool_of_another_interpreter_serves_until_it_ends_and_its_successor_after():
    async def main():
        with PoolProcess("own", SHARED) as owner:
            pid = int(await asyncio.to_thread(owner.hear))
            assert owner.process.pid in {parent.pid for parent in psutil.Process(pid).parents()}
            with pytest.raises((NoWorkersAvailable, DiscoveryNamespaceNotFound)):  # noqa: PT012
                async with WorkerPool(discovery=LocalDiscovery.borrow(SHARED)):
                    assert await worker_pid() == pid
                    assert await asyncio.to_thread(owner.end) == 0
                    async with asyncio.timeout(10):
                        await worker_pid()
        with PoolProcess("own", SHARED) as successor:
            pid = int(await asyncio.to_thread(successor.hear))
            async with WorkerPool(discovery=LocalDiscovery.borrow(SHARED)):
                assert await worker_pid() == pid
            assert await asyncio.to_thread(successor.end) == 0

    run(main())


@pytest.mark.case("REG-38")
def test_each_life_of_a_pool_makes_one_namespace_and_removes_it(base):
    async def main():
        seen = set()
        for _ in range(3):
            async with WorkerPool(spawn=1):
                (namespace,) = base.iterdir()
                seen.add(namespace.name)
                assert generation_of(namespace).is_dir()
                assert await doubled(1) == 2
            assert list(base.iterdir()) == []
        assert len(seen) == 3

    run(main())


def test_a_root_with_a_long_path_has_room_for_sockets_too(monkeypatch):
    with tempfile.TemporaryDirectory(prefix="w" * 32, dir="/tmp") as top:
        monkeypatch.setenv("WOOL_JUPYTER_RUNTIME_DIR", top)

        def sockets():
            return next(Path(top).glob("*/*/pool-*/*/s"))

        async def main():
            async with WorkerPool(spawn=1):
                assert len(str(sockets())) + len("/12345678") > host.SOCKET_PATH_MAX_BYTES
                assert await doubled(1) == 2
                async with WorkerPool(discovery=LocalDiscovery.borrow(sockets().parents[1].name)):
                    assert await doubled(2) == 4

        run(main())
        assert namespaces(Path(top)) == []


@pytest.mark.case("X-15")
@pytest.mark.parametrize("asked", [{"spawn": 3}, {}])
def test_a_registry_has_a_place_for_each_worker_and_no_more(asked, base, monkeypatch):
    """So that no number of workers is one too many."""
    monkeypatch.setattr(host, "usable_cpus", lambda: 3)

    async def main():
        async with WorkerPool(**asked):
            (namespace,) = base.iterdir()
            header = (generation_of(namespace) / "registry").read_bytes()[: registry.HEADER.size]
            assert registry.HEADER.unpack(header)[1] == 3
            assert len(registered(namespace.name)) == 3

    run(main())


@pytest.mark.case("X-15")
def test_a_home_holds_more_workers_than_a_discovery_does_by_default():
    async def main():
        home = await Home.enter(capacity=130)
        try:
            async with home.discovery.publisher as into:
                for number in range(1, 131):
                    await into.publish("worker-added", worker(number))
            assert len(registered(home.namespace)) == 130
        finally:
            await home.leave()

    run(main())


# Starts that fail.


@pytest.mark.parametrize("workers", [1, 2])
def test_what_the_starts_of_workers_raise_comes_as_a_group_and_strands_none(workers):
    async def main():
        async with owned(capacity=2) as discovery, discovery.publisher as into:
            for number in range(1, 4 - workers):
                await into.publish("worker-added", worker(number))
            with pytest.raises(ExceptionGroup, match=f"1 of {workers} workers did not start") as caught:
                await WorkerPool(spawn=workers, discovery=LocalDiscovery.borrow(SHARED)).__aenter__()
            assert [type(error) for error in caught.value.exceptions] == [DiscoveryCapacityExhausted]
            assert registered(SHARED) == set(range(1, 4 - workers))

    run(main())


def test_workers_that_are_not_up_in_time_are_all_named():
    async def main():
        with pytest.raises(ExceptionGroup) as caught:
            await WorkerPool(spawn=2, start_timeout=0.01).__aenter__()
        assert [type(error) for error in caught.value.exceptions] == [StartFailed, StartFailed]

    run(main())


@pytest.mark.parametrize("spawn", [None, 1])
def test_a_quorum_that_is_not_there_in_time_comes_bare(spawn):
    async def main():
        async with owned():
            borrowed = LocalDiscovery.borrow(SHARED)
            with pytest.raises(TimeoutError, match=f"{spawn or 0} of 2 workers"):
                await WorkerPool(spawn=spawn, discovery=borrowed, quorum=2, quorum_timeout=0.3, lazy=False).__aenter__()
            assert registered(SHARED) == set()

    run(main())


def test_a_start_that_is_cancelled_anywhere_leaves_nothing(base):
    async def main():
        async with owned():
            borrowed = LocalDiscovery.borrow(SHARED)

            async def start():
                async with WorkerPool(spawn=1, discovery=borrowed):
                    pass

            await start()
            await channels.of_this_loop().clear()
            gc.collect()
            before = descriptors()

            async def prepare():
                return start()

            async def check():
                await channels.of_this_loop().clear()
                gc.collect()
                assert pool_processes(os.getpid()) == []
                assert registered(SHARED) == set()
                assert [path.name for path in base.iterdir()] == [SHARED]
                # Connections that earlier tests have left to gRPC's own threads may try again for a moment.
                await until(lambda: descriptors() <= before)

            assert await cancelled_at_each_wait(prepare, check) > 5

    loops.run(main(), 110)


@pytest.mark.parametrize("moment", ["a process is there", "one is registered"])
def test_a_start_of_several_that_is_cancelled_leaves_nothing(moment, base):
    async def main():
        async with owned():
            entering = asyncio.create_task(WorkerPool(spawn=3, discovery=LocalDiscovery.borrow(SHARED)).__aenter__())
            if moment == "one is registered":
                await until(lambda: registered(SHARED))
            else:
                await until(lambda: len(pool_processes(os.getpid())) > 1)
            assert entering.cancel()
            with pytest.raises(asyncio.CancelledError):
                await entering
            assert registered(SHARED) == set()
            assert pool_processes(os.getpid()) == []
            assert [path.name for path in base.iterdir()] == [SHARED]

    run(main())


# Workers that fail or die.


@pytest.mark.parametrize("used", [True, False])
def test_a_pool_whose_workers_die_all_at_once_has_its_number_again(used):
    async def main():
        async with WorkerPool(spawn=2) as pool:
            if used:
                await pids_of(pool, 2)
            before = {process.pid for process in pool_processes(os.getpid())[1:]}
            for pid in before:
                os.kill(pid, signal.SIGKILL)
            await until(lambda: not pool.proxy.workers.workers or used)
            assert await answer() not in before
            assert not await pids_of(pool, 2) & before

    run(main())


async def answer():
    """Of a pool whose dead it may not have missed yet."""
    while True:
        try:
            return await worker_pid()
        except WorkerDied:
            pass


def test_a_routine_that_kills_its_worker_is_told_so_and_the_next_one_runs():
    async def main():
        async with WorkerPool(spawn=1):
            with pytest.raises(WorkerDied, match=r"^The worker \(pid \d+\) was killed by SIGKILL"):
                await dies()
            await answer()
            with pytest.raises(WorkerDied, match=r"^The worker \(pid \d+\) exited with code 7$"):
                await exits(7)
            assert await answer() != os.getpid()

    run(main())


@pytest.mark.parametrize("called_before", [True, False])
def test_nothing_can_be_started_once_the_nursery_is_gone(called_before, base):
    async def main():
        async with WorkerPool(spawn=1):
            if called_before:
                assert await doubled(1) == 2
            (namespace,) = base.iterdir()
            nursery, _ = pool_processes(os.getpid())
            nursery.kill()
            await until(lambda: not registered(namespace.name))
            for _ in range(2):
                with pytest.raises(StartFailed):
                    await doubled(1)

    run(main())


def test_a_worker_that_dies_while_the_first_call_waits_for_its_quorum_is_replaced(tmp_path):
    """It had run nothing."""
    gate = tmp_path / "gate"

    async def main():
        async with owned():
            borrowed, seen = LocalDiscovery.borrow(SHARED), Gated(SHARED, str(gate))
            service = Service(borrowed.publisher, seen, lambda _: seen)
            async with WorkerPool(spawn=1, discovery=service):
                (dead,) = registered(SHARED)
                calling = asyncio.create_task(worker_pid())
                await settle()
                os.kill(dead, signal.SIGKILL)
                await until(lambda: registered(SHARED) - {dead})
                gate.touch()
                assert await calling in registered(SHARED)

    run(main())


@pytest.mark.case("X-22")
def test_a_worker_that_refused_and_answers_again_is_back_with_its_uid(base):
    """It does not accept this process's token for a while."""

    async def main():
        async with WorkerPool(spawn=1) as pool:
            await pool.proxy.start()
            (uid,) = pool.proxy.workers.workers
            (namespace,) = base.iterdir()
            with another_token(generation_of(namespace)):
                calling = asyncio.create_task(doubled(1))
                await until(lambda: not pool.proxy.workers.workers)
            assert await calling == 2
            assert set(pool.proxy.workers.workers) == {uid}

    run(main())


def test_a_worker_that_is_well_is_spared_while_another_has_its_place(base, monkeypatch):
    """Under the lease; and it is back when there is room."""
    monkeypatch.setattr(supervisor, "ROOM_S", 0.05)

    async def main():
        async with owned() as discovery:
            borrowed = LocalDiscovery.borrow(SHARED)
            async with (
                borrowed.publisher as publisher,
                WorkerPool(spawn=1, lease=1, discovery=borrowed, lazy=False) as pool,
            ):
                (uid,) = pool.proxy.workers.workers
                (home,) = (place for place in base.iterdir() if place.name != SHARED)
                with another_token(generation_of(home)):
                    calling = asyncio.create_task(doubled(1))
                    await until(lambda: not pool.proxy.workers.workers)
                    others = [worker(number) for number in (8, 9)]
                    for other in others:
                        await publisher.publish("worker-added", other)
                    await until(lambda: len(pool.proxy.workers.workers) == 2)
                published = publishes(discovery)
                await until(lambda: publishes(discovery) > published + supervisor.PROBES)  # it answers, each time
                assert uid not in pool.proxy.workers.workers
                await publisher.publish("worker-dropped", others[0])
                assert await calling == 2
                assert uid in pool.proxy.workers.workers

    run(main())


@contextmanager
def another_token(pool):
    """Workers have read theirs, and refuse who comes with it."""
    token = layout.token(pool)
    right = token.read_text()
    token.write_text("0" * len(right))
    try:
        yield
    finally:
        token.write_text(right)


def publishes(discovery):
    """So far, in its generation."""
    return int.from_bytes((discovery.directory / "notify").read_bytes(), "little")


def test_a_death_while_the_registry_is_locked_leaves_no_ghost_and_its_place_to_another(base):
    async def main():
        async with WorkerPool(spawn=1):
            (namespace,) = base.iterdir()
            (dead,) = registered(namespace.name)
            assert await worker_pid() == dead
            with locked(namespace):
                os.kill(dead, signal.SIGKILL)
                await until(lambda: len(pool_processes(os.getpid())) == 2 and not psutil.pid_exists(dead))
                await asyncio.sleep(1)  # longer than an announcement at a pool's end may take
                assert registered(namespace.name) == {dead}
            await until(lambda: registered(namespace.name) - {dead})
            assert dead not in registered(namespace.name)
            assert await answer() != dead

    run(main())


@contextmanager
def locked(namespace):
    """The registry, by somebody else."""
    held = locks.try_lock(os.open(generation_of(namespace) / "registry", os.O_RDWR))
    try:
        yield
    finally:
        held.release()


def test_a_first_call_that_no_worker_comes_for_is_told_so_in_time(base):
    """The one that there was is gone, and another can't be announced."""

    async def main():
        async with Watched(spawn=1, start_timeout=4) as pool:
            (namespace,) = base.iterdir()
            (dead,) = registered(namespace.name)
            with locked(namespace):
                os.kill(dead, signal.SIGKILL)
                await until(lambda: not pool.crew.snapshot())
                with pytest.raises(NoWorkersAvailable, match="no worker of the pool was there within 4 s"):
                    await doubled(1)

    run(main())


# The end.


def test_a_call_that_waits_for_a_worker_hears_at_once_that_its_pool_was_left(base):
    """The one that there was is gone, and another can't be announced."""

    async def main():
        loop = asyncio.get_running_loop()
        async with AsyncExitStack() as stack, WorkerPool(spawn=1) as pool:
            dead = await worker_pid()
            (namespace,) = base.iterdir()
            stack.enter_context(locked(namespace))
            os.kill(dead, signal.SIGKILL)
            await until(lambda: not pool.proxy.workers.workers)
            calling = asyncio.create_task(doubled(1))
            await settle()
            assert not calling.done()
            left = loop.time()
            stack.push_async_callback(ends, calling)
        assert loop.time() - left < 15

    async def ends(calling):
        with pytest.raises(NoWorkersAvailable, match="the pool was stopped"):
            await calling

    run(main())


def said(caplog):
    return [
        (record.getMessage(), record.exc_info[0])
        for record in caplog.records
        if record.levelno >= logging.WARNING and record.exc_info
    ]


@pytest.mark.case("OWN-29")
def test_an_end_that_can_t_be_announced_for_a_lock_is_logged_and_happens(base, caplog):
    async def main():
        async with owned(), AsyncExitStack() as stack:
            loop = asyncio.get_running_loop()
            async with WorkerPool(spawn=1, discovery=LocalDiscovery.borrow(SHARED)):
                pid = await worker_pid()
                stack.enter_context(locked(base / SHARED))
                began = loop.time()
            assert loop.time() - began < 10
            assert not psutil.pid_exists(pid)
            assert registered(SHARED) == {pid}

    run(main())
    ((message, kind),) = said(caplog)
    assert "could not be announced" in message
    assert kind is TimeoutError


class Announcing(FakeDiscovery):
    """`add` and `drop` are what happens when a worker was added, and before it is dropped."""

    def __init__(self, *, add=None, drop=None):
        super().__init__()
        self._add, self._drop = add, drop

    async def publish(self, type, metadata):
        if type == "worker-dropped" and self._drop is not None:
            await self._drop()
        await super().publish(type, metadata)
        if type == "worker-added" and self._add is not None:
            await self._add()

    @property
    def known(self):
        return set(self._workers)

    @property
    def service(self):
        """Without its context manager: somebody else has entered it."""
        return Service(self.publisher, self.subscriber, self.subscribe)


class Service(NamedTuple):
    publisher: object
    subscriber: object
    subscribe: object


async def hangs():
    await asyncio.get_running_loop().create_future()


async def fails():
    raise OSError("no room")


@pytest.mark.parametrize("add", [hangs, fails])
def test_a_worker_that_was_announced_for_all_that_is_dropped_when_its_start_fails(add):
    async def main():
        async with Announcing(add=add) as discovery:
            entering = asyncio.create_task(WorkerPool(spawn=2, discovery=discovery.service).__aenter__())
            if add is hangs:
                await until(lambda: discovery.known)
                entering.cancel()
            with pytest.raises((ExceptionGroup, asyncio.CancelledError)):
                await entering
            assert discovery.known == set()

    run(main())


def test_a_successor_that_can_t_be_announced_does_not_stay(caplog):
    announced = []

    async def once():
        announced.append(1)
        if len(announced) > 1:
            await fails()

    async def main():
        async with Announcing(add=once) as discovery, WorkerPool(spawn=1, discovery=discovery.service) as pool:
            await pool.proxy.start()
            (first,) = pool_processes(os.getpid())[1:]
            asked = calls.pack_call(calls.Invocation(worker_pid, (), {}), places=(), proxy=b"")
            (await pool.proxy.dispatch("call", asked.body)).close()  # it has run something: its place is taken at once
            first.kill()
            await until(lambda: len(announced) == 2)
            await until(lambda: not discovery.known)
            await until(lambda: len(pool_processes(os.getpid())) == 1)

    run(main())


@pytest.mark.case("OWN-29")
@pytest.mark.parametrize(("drop", "kind"), [(hangs, TimeoutError), (fails, OSError)])
def test_no_announcement_strands_a_worker(drop, kind, caplog):
    async def main():
        loop = asyncio.get_running_loop()
        async with Announcing(drop=drop) as discovery:
            async with WorkerPool(spawn=2, discovery=lambda: discovery.service, shutdown_timeout=20) as pool:
                await pool.proxy.start()
                processes = pool_processes(os.getpid())
                assert len(processes) == 3
                began = loop.time()
            assert loop.time() - began < 10
            assert not any(map(lives, processes))

    run(main())
    assert [found for _, found in said(caplog)] == [kind, kind]


@pytest.mark.case("REG-40")
@pytest.mark.parametrize("noticed", [False, True])
def test_a_registry_that_is_gone_strands_no_worker(noticed, base, caplog):
    processes = []

    async def main():
        async with WorkerPool(spawn=2) as pool:
            await pids_of(pool, 2)
            processes.extend(pool_processes(os.getpid()))
            (namespace,) = base.iterdir()
            (generation_of(namespace) / "registry").unlink()
            if noticed:
                await until(lambda: pool.proxy.failure)

    if noticed:
        with pytest.raises(DiscoveryNamespaceNotFound):
            run(main())
    else:
        run(main())
    assert len(processes) == 3
    assert not any(map(lives, processes))
    assert [kind for _, kind in said(caplog)] == [DiscoveryNamespaceNotFound] * 2


def test_the_end_cancels_what_runs_and_lets_it_clean_up(tmp_path):
    async def main():
        async with WorkerPool(spawn=1):
            waiting = asyncio.create_task(waits(str(tmp_path)))
            await until((tmp_path / "inside").exists)
        with pytest.raises(WorkerDied, match="stopped before the routine had ended"):
            await waiting
        assert (tmp_path / "cancelled").exists()

    run(main())


def test_a_borrower_s_call_hears_in_words_that_the_owner_left(tmp_path):
    """A cancellation would end a task of a group without a word, and the group with it."""

    async def both(owner):
        async with asyncio.TaskGroup() as group:
            group.create_task(waits(str(tmp_path)))
            await until((tmp_path / "inside").exists)
            asyncio.get_running_loop().run_in_executor(None, owner.end)

    async def main():
        with PoolProcess("own", SHARED) as owner:
            owner.hear()
            async with WorkerPool(discovery=LocalDiscovery.borrow(SHARED)) as pool:
                with pytest.raises(ExceptionGroup) as caught:
                    await both(owner)
                assert await asyncio.to_thread(owner.process.wait) == 0
                (error,) = caught.value.exceptions
                assert type(error) is WorkerDied
                assert "stopped before the routine had ended" in str(error)
                await until(lambda: pool.proxy.failure is not None)
                with pytest.raises(DiscoveryNamespaceNotFound):
                    await worker_pid()

    run(main())


def test_who_cancels_a_call_is_cancelled_though_the_pool_ends_as_well(tmp_path):
    async def main():
        async with WorkerPool(spawn=1, shutdown_timeout=4):
            staying = asyncio.create_task(lingers(str(tmp_path)))
            await until((tmp_path / "inside").exists)
            staying.cancel()
            await until((tmp_path / "cancelled").exists)
        with pytest.raises(asyncio.CancelledError):
            await staying

    run(main())


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("ignoring", ["cancellation", "all"])
def test_workers_that_ignore_their_end_are_named_and_killed_in_time(ignoring, tmp_path, recwarn):
    async def main():
        loop = asyncio.get_running_loop()
        async with WorkerPool(spawn=1, shutdown_timeout=5):
            pid = await worker_pid()
            staying = asyncio.create_task(stays(str(tmp_path)))
            await until((tmp_path / "inside").exists)
            if ignoring == "all":
                hold_still(pid)
            began = loop.time()
        assert loop.time() - began < 5 + 1.5
        assert [str(warning.message) for warning in recwarn] == [
            f"the pool waits for a routine on worker pid {pid}, which does not end: it is killed in 3 s, or by Ctrl-C"
        ]
        assert not psutil.pid_exists(pid)
        with pytest.raises((WorkerDied, asyncio.CancelledError)):
            await staying

    run(main())


def test_a_stopped_worker_with_a_routine_is_not_replaced_and_others_get_the_calls(monkeypatch):
    monkeypatch.setattr(supervisor, "PROBES", 1)

    async def main():
        async with WorkerPool(spawn=2):
            stream = counted(3)
            _, busy = await anext(stream)
            others = {await worker_pid() for _ in range(4)} - {busy}
            (idle,) = others
            hold_still(busy)
            hold_still(idle)
            assert await worker_pid() not in (busy, idle)  # in the place of the idle one
            assert not psutil.pid_exists(idle)
            os.kill(busy, signal.SIGCONT)
            assert [pid async for _, pid in stream] == [busy, busy]

    run(main())


@pytest.mark.parametrize("ending", ["left", "killed"])
def test_a_stream_whose_pool_ends_is_not_taken_for_a_whole_one(ending):
    async def main():
        async with WorkerPool(spawn=1):
            begun = counted(10)
            _, pid = await anext(begun)
            if ending == "killed":
                os.kill(pid, signal.SIGKILL)
        with pytest.raises((CallFailed, WorkerDied)):
            await anext(begun)

    run(main())


@pytest.mark.parametrize("arm", [ephemeral_pool, borrowing_pool])
def test_no_task_is_left_when_a_pool_was(arm, monkeypatch):
    async def main():
        async with AsyncExitStack() as stack:
            if arm is borrowing_pool:
                await stack.enter_async_context(workers_elsewhere(1))
            before = ours()
            async with arm(monkeypatch):
                await doubled(1)
                assert ours() > before
            assert ours() == before

    run(main())


def ours():
    """gRPC's own have no names."""
    return {task for task in asyncio.all_tasks() if not task.get_name().startswith("Task-")}


def test_a_stream_that_a_loop_finds_at_its_end_is_closed_without_a_word(caplog):
    held = []

    async def main():
        async with WorkerPool(spawn=1):
            held.append(counted(10))
            await anext(held[0])

    run(main())
    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []


@pytest.mark.parametrize("arm", [ephemeral_pool, durable_pool])
def test_a_pool_may_be_left_in_another_task_than_it_was_entered(arm, monkeypatch):
    """What still has it in use gets an error in words."""

    async def main():
        pool = arm(monkeypatch)
        await pool.__aenter__()
        assert await doubled(1) == 2
        await asyncio.create_task(pool.__aexit__(None, None, None))
        with pytest.raises((NoWorkersAvailable, RuntimeError), match="was stopped"):
            await doubled(1)

    run(main())


def test_an_end_that_is_cancelled_is_as_complete_and_sooner(tmp_path):
    async def main():
        loop = asyncio.get_running_loop()
        async with owned():
            pool = WorkerPool(spawn=1, discovery=LocalDiscovery.borrow(SHARED))
            await pool.__aenter__()
            processes = pool_processes(os.getpid())
            staying = asyncio.create_task(stays(str(tmp_path)))
            await until((tmp_path / "inside").exists)
            leaving = asyncio.create_task(pool.__aexit__(None, None, None))
            await until(lambda: registered(SHARED) == set())
            began = loop.time()
            leaving.cancel()
            with pytest.raises(asyncio.CancelledError):
                await leaving
            assert loop.time() - began < 10
            assert not any(map(lives, processes))
            with pytest.raises((WorkerDied, asyncio.CancelledError)):
                await staying

    run(main())


def test_an_end_that_is_cancelled_as_its_time_is_up_is_complete_too(tmp_path):
    async def main():
        pool = await Watched(spawn=1).__aenter__()
        processes = pool_processes(os.getpid())
        staying = asyncio.create_task(stays(str(tmp_path)))
        await until((tmp_path / "inside").exists)
        leaving = asyncio.create_task(pool.__aexit__(None, None, None))
        await until(lambda: pool.crew._ends._patience)
        (patience,) = pool.crew._ends._patience
        patience.reschedule(0)  # expires in the next turn, in which the cancellation arrives
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        assert not any(map(lives, processes))
        with pytest.raises((WorkerDied, asyncio.CancelledError)):
            await staying

    run(main())


def test_a_discovery_that_does_not_end_is_named_and_strands_nothing():
    class Endless(Given):
        async def __aexit__(self, *_):
            await hangs()

    async def main():
        async with owned():
            loop, given = asyncio.get_running_loop(), Endless(LocalDiscovery.borrow(SHARED))
            with pytest.raises(TimeoutError, match="discovery has not ended within 3 s"):  # noqa: PT012
                async with WorkerPool(spawn=1, discovery=given, shutdown_timeout=3):
                    os.kill(await worker_pid(), signal.SIGSTOP)
                    began = loop.time()
            assert loop.time() - began < 3 + 2.5  # one time for all of it
            assert registered(SHARED) == set()

    run(main())


def test_an_interrupt_of_the_owner_s_group_spares_its_workers_until_it_leaves(base):
    with PoolProcess("be_interrupted", Path("n"), start_new_session=True) as owner:
        worker = int(owner.hear())
        processes = pool_processes(owner.process.pid)
        assert len(processes) == 3
        os.killpg(owner.process.pid, signal.SIGINT)
        assert int(owner.hear()) in {process.pid for process in processes} - {owner.process.pid}
        assert owner.hear() == "interrupted"
        assert owner.process.wait(30) == 0
        assert worker in {process.pid for process in processes}
    assert not any(map(lives, processes))


# Whom it asks.


def test_a_lease_bounds_how_many_workers_of_others_a_pool_holds():
    async def main():
        async with workers_elsewhere(2):
            borrowed = LocalDiscovery.borrow(SHARED)
            async with WorkerPool(discovery=borrowed, lease=1, lazy=False) as durable:
                assert len(durable.proxy.workers.workers) == 1
            async with WorkerPool(spawn=1, discovery=borrowed, lease=1, quorum=2, lazy=False) as hybrid:
                assert len(hybrid.proxy.workers.workers) == 2

    run(main())


def test_a_lease_without_a_discovery_is_pointed_out():
    with pytest.warns(UserWarning, match="lease"):
        WorkerPool(spawn=1, lease=2)


@pytest.mark.parametrize("tags", [(), ("gpu",)])
def test_a_proxy_for_a_namespace_finds_the_workers_of_the_pools_there(tags):
    async def main():
        async with owned():
            async with WorkerPool(*tags, spawn=2, discovery=LocalDiscovery.borrow(SHARED)):
                started = registered(SHARED)
                async with WorkerProxy(SHARED, quorum=2, lazy=False) as proxy:
                    assert {view.metadata.pid for view in proxy.workers.workers.values()} == started
            await channels.of_this_loop().clear()

    run(main())


def test_a_pool_asks_only_workers_that_have_one_of_its_tags():
    async def main():
        async with owned():
            borrowed = LocalDiscovery.borrow(SHARED)
            async with WorkerPool("gpu", "large", spawn=1, discovery=borrowed) as tagged:
                gpu = await worker_pid()
                async with WorkerPool(spawn=1, discovery=borrowed) as any_of_them:
                    assert await pids_of(any_of_them, 2) > {gpu}
                    async with WorkerPool("gpu", discovery=borrowed):
                        assert {await worker_pid() for _ in range(4)} == {gpu}
                    with pytest.raises(TimeoutError):
                        await WorkerPool("small", discovery=borrowed, lazy=False, quorum_timeout=0.2).__aenter__()
                    assert len(tagged.proxy.workers.workers) == 1

    run(main())
