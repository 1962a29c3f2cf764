"""A proxy that follows a discovery, and calls through it over real sockets."""

import asyncio
import copy
import pickle
import re
import tempfile
import traceback
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.cancelling import cancelled_at_each_wait
from tests.support.fake_discovery import FakeDiscovery
from tests.support.loops import ShiftedTimeLoop, begun, run, run_virtual, settle, until
from tests.support.services import TOKEN, Forever, answering, serving
from tests.support.sources import Source
from tests.support.workers import VERSION, added, dropped, updated, worker
from wool_jupyter.aio.resource_pool import ResourcePoolStats
from wool_jupyter.balance.round_robin import RoundRobinLoadBalancer
from wool_jupyter.balance.sticky import Sticky
from wool_jupyter.discovery import root as roots
from wool_jupyter.discovery.filtering import afilter
from wool_jupyter.discovery.local import LocalDiscovery
from wool_jupyter.discovery.subscription import SharedSubscription
from wool_jupyter.dispatch import channels
from wool_jupyter.dispatch.proxy import WorkerProxy
from wool_jupyter.dispatch.readmission import pause_before
from wool_jupyter.errors import DiscoveryNamespaceNotFound, NotReached, NoWorkersAvailable, WorkerRefused
from wool_jupyter.records import ChannelOptions, DiscoveryEvent
from wool_jupyter.settings import FIRST_LOOK_S
from wool_jupyter.wire import pickling
from wool_jupyter.wire.transport import grpc

NOTHING = ResourcePoolStats(0, 0, 0, 0)
ONE, TWO, THREE = (worker(number).uid for number in (1, 2, 3))


@pytest.fixture
def sockets():
    """Addresses by name, short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="w", dir="/tmp") as directory:
        yield lambda name: f"unix:{directory}/{name}"


@pytest.fixture
def own_root(monkeypatch):
    """Where namespaces of this test lie, also those that nobody gives a root."""
    with tempfile.TemporaryDirectory(prefix="w", dir="/tmp") as directory:
        monkeypatch.setenv(roots.OVERRIDE, directory)
        yield Path(directory)


@asynccontextmanager
async def following(source, **options):
    """A proxy that has started. Channels of the loop are closed at the end."""
    given = {"quorum": None, "loadbalancer": Sticky(), "token": TOKEN, **options}
    try:
        async with WorkerProxy(discovery=source, **given) as proxy:
            await proxy.start()
            await settle()
            yield proxy
    finally:
        await channels.of_this_loop().clear()


def members(proxy):
    return [candidate.metadata for candidate in proxy.workers.workers.values()]


async def shown(source, *events):
    for event in events:
        source.give(event)
    await settle()


async def answer_of(proxy, **options):
    """Who serves."""
    call = await proxy.dispatch("who", b"", **options)
    return (await call.step()).decode()


class Delayed:
    """As round robin, but something happens between its choice and the moment in which the proxy hears of it."""

    def __init__(self, meanwhile):
        self._meanwhile = meanwhile
        self._inner = RoundRobinLoadBalancer()
        self.heard = []

    async def delegate(self, task, *, context):
        candidates = self._inner.delegate(task, context=context)
        step = anext(candidates)
        while True:
            try:
                uid = await step
            except StopAsyncIteration:
                return
            await self._meanwhile(uid)
            try:
                taken = yield uid
            except Exception as error:
                self.heard.append((uid.int, type(error)))
                step = candidates.athrow(error)
            else:
                self.heard.append((uid.int, taken and taken.int))
                step = candidates.asend(taken)


# Membership.


@pytest.mark.case("LB-35")
def test_without_a_lease_everyone_is_admitted():
    async def main():
        async with following(Source(*(added(number) for number in range(1, 40)))) as proxy:
            assert members(proxy) == [worker(number) for number in range(1, 40)]

    run(main())


@pytest.mark.case("LB-36")
def test_a_place_that_became_free_goes_to_who_is_announced_next():
    async def main():
        source = Source(added(1), added(2), added(3))
        async with following(source, lease=2) as proxy:
            assert members(proxy) == [worker(1), worker(2)]
            await shown(source, dropped(1))
            assert members(proxy) == [worker(2)]  # nobody waits in a line
            await shown(source, added(4), added(3))
            assert members(proxy) == [worker(2), worker(4)]

    run(main())


@pytest.mark.case("LB-37", "LB-40", "LB-54")
def test_an_update_admits_nobody():
    async def main():
        source = Source(added(1), added(2))
        async with following(source, lease=1) as proxy:
            await shown(source, updated(2, tags=frozenset({"new"})))  # turned away
            assert members(proxy) == [worker(1)]
            await shown(source, dropped(1), updated(1, tags=frozenset({"new"})))  # dropped
            assert members(proxy) == []
            await shown(source, updated(2, tags=frozenset({"newer"})))  # turned away, and there is room now
            assert members(proxy) == []
            with pytest.raises(NoWorkersAvailable) as caught:
                await proxy.dispatch("once", b"")
            assert caught.value.failures == {}
            assert members(proxy) == []

    run(main())


@pytest.mark.case("LB-40")
def test_who_was_dropped_is_not_readmitted_after_an_update():
    async def main():
        source = Source(added(1), dropped(1), updated(1))
        async with following(source) as proxy:
            assert not proxy.readmit(ONE)
            await shown(source, added(1))
            proxy.evict(ONE)
            assert proxy.readmit(ONE)
            assert members(proxy) == [worker(1)]

    run(main())


def test_a_readmission_keeps_to_the_lease():
    async def main():
        source = Source(added(1), added(2))
        async with following(source, lease=1) as proxy:
            assert not proxy.readmit(TWO)
            assert proxy.readmit(ONE)
            assert members(proxy) == [worker(1)]
            proxy.evict(ONE)
            assert proxy.readmit(TWO)
            assert not proxy.readmit(ONE)
            assert members(proxy) == [worker(2)]

    run(main())


@pytest.mark.case("LB-38", "LB-39", "LB-41")
@pytest.mark.parametrize("lease", [None, 2], ids=["no lease", "full"])
@pytest.mark.parametrize("again", [updated, added], ids=["updated", "added again"])
def test_a_new_record_takes_the_place_of_the_old_one_and_no_other(lease, again):
    async def main():
        source = Source(added(1), added(2))
        async with following(source, lease=lease) as proxy:
            for name in ("new", "newer"):
                await shown(source, again(1, tags=frozenset({name})))
                assert members(proxy) == [worker(1, tags=frozenset({name})), worker(2)]
            await shown(source, dropped(2), added(3))
            assert members(proxy) == [worker(1, tags=frozenset({"newer"})), worker(3)]

    run(main())


@pytest.mark.parametrize(
    ("flaw", "words"),
    [
        ({"secure": True}, "it speaks TLS, and this process does not"),
        (
            {"version": "99.0.0"},
            rf"it has version 99\.0\.0 of wool_jupyter, and this process {VERSION}: start both with the same",
        ),
        ({"version": "?"}, r"it has version \? of"),
    ],
    ids=["TLS", "another version", "no version"],
)
def test_who_can_t_be_asked_from_here_is_no_member(flaw, words, caplog):
    """It takes no place under a lease, and makes no quorum; a user hears why."""

    async def main():
        source = Source(added(1, **flaw), added(2), added(3))
        async with following(source, lease=1) as proxy:
            assert members(proxy) == [worker(2)]
            assert not proxy.readmit(ONE)
            await shown(source, updated(2, **flaw))
            assert members(proxy) == []
            assert not proxy.readmit(TWO)
            await shown(source, updated(2))  # an update admits nobody
            assert members(proxy) == []
            with pytest.raises(NoWorkersAvailable, match=words) as caught:
                await proxy.dispatch("once", b"")
            assert str(caught.value).count(" it ") == 1
            await shown(source, dropped(1, **flaw))
            with pytest.raises(NoWorkersAvailable, match=r"could be asked$"):
                await proxy.dispatch("once", b"")
            await shown(source, added(2))
            assert members(proxy) == [worker(2)]

    run(main())
    assert len(caplog.messages) == 2
    assert all(re.search(words, said) for said in caplog.messages)


def test_a_quorum_that_is_not_there_says_who_could_not_be_asked():
    async def main():
        proxy = WorkerProxy(discovery=Source(added(1, version="99.0.0")), quorum_timeout=5)
        with pytest.raises(
            TimeoutError, match=r"0 of 1 workers were there after 5 s; of one that is announced: it has version"
        ):
            await proxy.start()

    run_virtual(main())


EVENTS = st.builds(
    DiscoveryEvent,
    st.sampled_from(["worker-added", "worker-updated", "worker-dropped"]),
    st.builds(
        worker,
        st.integers(1, 4),
        st.sampled_from(["unix:/shared", "unix:/other"]),
        tags=st.sets(st.sampled_from("ab")).map(frozenset),
        version=st.sampled_from([VERSION, VERSION, VERSION, "99.0.0"]),
    ),
)


@pytest.mark.case("LB-42")
@settings(deadline=None)
@given(st.lists(EVENTS, max_size=25), st.none() | st.integers(1, 3))
def test_the_membership_is_that_of_a_model_after_every_event(events, lease):
    async def main():
        source, model = Source(), {}
        async with following(source, lease=lease) as proxy:
            for event in events:
                uid = event.metadata.uid
                room = lease is None or len(model) < lease
                if event.type == "worker-dropped" or event.metadata.version != VERSION:
                    model.pop(uid, None)
                elif uid in model or (event.type == "worker-added" and room):
                    model[uid] = event.metadata
                await shown(source, event)
                assert members(proxy) == list(model.values())
                assert list(proxy.workers.workers) == list(model)

    run(main())


# Calls, while the membership changes.


@pytest.mark.case("LB-43")
def test_a_worker_that_moved_is_asked_at_its_new_address(sockets):
    async def main():
        old, new = worker(1, sockets("old")), worker(1, sockets("new"))
        source = Source(DiscoveryEvent("worker-added", old))
        async with serving(old), serving(new), following(source) as proxy:
            assert await answer_of(proxy) == old.address
            await shown(source, DiscoveryEvent("worker-updated", new))
            assert await answer_of(proxy) == new.address

    run(main())


@pytest.mark.parametrize(
    ("code", "error", "stays"),
    [
        pytest.param(grpc.StatusCode.FAILED_PRECONDITION, WorkerRefused, False, marks=pytest.mark.case("LB-44")),
        pytest.param(grpc.StatusCode.UNKNOWN, WorkerRefused, False, marks=pytest.mark.case("LB-44")),
        pytest.param(grpc.StatusCode.UNAVAILABLE, NotReached, True, marks=pytest.mark.case("LB-45")),
        pytest.param(grpc.StatusCode.INTERNAL, NotReached, True, marks=pytest.mark.case("LB-45")),
    ],
)
def test_a_worker_that_was_refreshed_while_it_failed(sockets, code, error, stays):
    """Evicted by its uid when asking it again is of no use, and else kept as it was announced last."""

    async def main():
        asked, go = asyncio.Event(), asyncio.Event()

        async def fails(context):
            asked.set()
            await go.wait()
            await context.abort(code, "no")

        failing, good = worker(1, sockets("1")), worker(2, sockets("2"))
        refreshed = replace(failing, tags=frozenset({"new"}))
        source = Source(DiscoveryEvent("worker-added", failing), DiscoveryEvent("worker-added", good))
        async with answering(failing, fails), serving(good), following(source) as proxy:
            told = []
            proxy.observe(placed=lambda _: None, failed=told.append)
            asking = asyncio.create_task(answer_of(proxy))
            await asked.wait()
            await shown(source, DiscoveryEvent("worker-updated", refreshed))
            go.set()
            assert await asking == good.address
            assert members(proxy) == ([refreshed] if stays else []) + [good]
            assert told == [ONE]
            proxy.evict(TWO)
            if stays:
                with pytest.raises(NoWorkersAvailable) as caught:
                    await proxy.dispatch("who", b"")
                assert [*map(type, caught.value.failures.values())] == [error]

    run(main())


@pytest.mark.case("LB-46")
def test_a_refresh_after_the_choice_counts(sockets):
    async def main():
        old, new = worker(1, sockets("old")), worker(1, sockets("new"))
        source = Source(DiscoveryEvent("worker-added", old))

        async def moves(_):
            await shown(source, DiscoveryEvent("worker-updated", new))

        async with serving(old), serving(new), following(source, loadbalancer=Delayed(moves)) as proxy:
            assert await answer_of(proxy) == new.address
            assert channels.of_this_loop().stats.entries == 1  # nobody opened the old one

    run(main())


@pytest.mark.case("LB-47")
def test_who_left_after_the_choice_is_passed_over_and_has_not_failed(sockets):
    async def main():
        gone, good = worker(1, sockets("1")), worker(2, sockets("2"))
        source = Source(DiscoveryEvent("worker-added", gone), DiscoveryEvent("worker-added", good))

        async def leaves(uid):
            if uid == ONE:
                await shown(source, DiscoveryEvent("worker-dropped", gone))

        balancer = Delayed(leaves)
        async with serving(gone), serving(good), following(source, loadbalancer=balancer) as proxy:
            told = []
            proxy.observe(placed=lambda _: None, failed=told.append)
            assert await answer_of(proxy) == good.address
            assert (balancer.heard, told) == ([(1, None), (2, 2)], [])

    run(main())


@pytest.mark.case("LB-48")
def test_when_the_only_worker_left_after_the_choice_there_is_none(sockets):
    async def main():
        only = worker(1, sockets("1"))
        source = Source(DiscoveryEvent("worker-added", only))

        async def leaves(_):
            await shown(source, DiscoveryEvent("worker-dropped", only))

        balancer = Delayed(leaves)
        async with serving(only), following(source, loadbalancer=balancer) as proxy:
            with pytest.raises(NoWorkersAvailable) as caught:
                await proxy.dispatch("who", b"")
            assert (caught.value.failures, balancer.heard) == ({}, [(1, None)])

    run(main())


@pytest.mark.case("X-22")
def test_a_worker_that_was_evicted_and_answers_again_is_readmitted_under_its_uid(sockets):
    async def main():
        refuses = True

        async def flawed(context):
            if refuses:
                await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "once")

        metadata = worker(1, sockets("1"))
        source = Source(DiscoveryEvent("worker-added", metadata))
        async with following(source) as proxy:
            async with answering(metadata, flawed):
                with pytest.raises(NoWorkersAvailable):
                    await proxy.dispatch("who", b"")
                assert members(proxy) == []
                await shown(source, DiscoveryEvent("worker-updated", metadata))
                assert members(proxy) == []
            async with serving(metadata):
                assert proxy.readmit(ONE)
                assert members(proxy) == [metadata]
                assert await answer_of(proxy) == metadata.address
            assert not proxy.readmit(TWO)

    run(main())


@pytest.mark.case("X-22")
def test_a_worker_of_somebody_else_that_refused_once_is_back_after_a_pause(sockets):
    """Nobody announces it again: nothing has changed of it."""
    loop = ShiftedTimeLoop()

    async def main():
        metadata = worker(1, sockets("1"))
        async with following(Source(DiscoveryEvent("worker-added", metadata))) as proxy:
            async with answering(metadata, refusing):
                with pytest.raises(NoWorkersAvailable, match="broke"):
                    await proxy.dispatch("who", b"")
                await settle()
                assert members(proxy) == []
                loop.shift_s += pause_before(0)
                await until(lambda: proxy._readmission._refusals[ONE] == 2)  # asked, and refused again
                assert members(proxy) == []
            async with serving(metadata):
                loop.shift_s += pause_before(1) / 2
                await settle()
                assert members(proxy) == []
                loop.shift_s += pause_before(1) / 2
                await until(lambda: members(proxy))
                assert members(proxy) == [metadata]
                assert await answer_of(proxy) == metadata.address
                assert proxy._readmission._refusals == {}

    run(main(), deadline_s=100_000, loop_factory=lambda: loop)


async def refusing(context):
    await context.abort(grpc.StatusCode.UNKNOWN, "once")


def test_a_worker_that_refuses_each_time_is_left_alone_in_the_end(sockets):
    loop, asked = ShiftedTimeLoop(), []

    async def counting(context):
        asked.append(1)
        await refusing(context)

    async def main():
        metadata = worker(1, sockets("1"))
        source = Source(DiscoveryEvent("worker-added", metadata))
        async with answering(metadata, counting), following(source) as proxy:
            with pytest.raises(NoWorkersAvailable):
                await proxy.dispatch("who", b"")
            for refusals in range(5):
                await until(lambda refusals=refusals: proxy._readmission._refusals[ONE] == refusals + 1)
                assert len(asked) == refusals + 1
                loop.shift_s += pause_before(refusals)
                await until(lambda refusals=refusals: len(asked) == refusals + 2)
            assert pause_before(5) is None
            await until(lambda: not proxy._readmission._tasks.running)
            loop.shift_s += 10_000
            await settle()
            assert len(asked) == 6
            await shown(source, DiscoveryEvent("worker-added", metadata))  # announced anew, it has its chance
            assert members(proxy) == [metadata]

    run(main(), deadline_s=100_000, loop_factory=lambda: loop)


@pytest.mark.parametrize("end", ["dropped", "unfit", "stopped", "announced again"])
def test_a_worker_that_refused_is_not_asked_again_when_there_is_no_need(sockets, end):
    loop, asked = ShiftedTimeLoop(), []

    async def counting(context):
        asked.append(1)
        await refusing(context)

    async def main():
        metadata = worker(1, sockets("1"))
        source = Source(DiscoveryEvent("worker-added", metadata))
        async with answering(metadata, counting), following(source) as proxy:
            with pytest.raises(NoWorkersAvailable):
                await proxy.dispatch("who", b"")
            match end:
                case "dropped":
                    await shown(source, DiscoveryEvent("worker-dropped", metadata))
                case "unfit":
                    await shown(source, DiscoveryEvent("worker-updated", replace(metadata, secure=True)))
                case "stopped":
                    await proxy.stop()
                case "announced again":
                    await shown(source, DiscoveryEvent("worker-added", metadata))
                    loop.shift_s += pause_before(0)
            await until(lambda: not proxy._readmission._tasks.running)
            assert len(asked) == 1

    run(main(), deadline_s=100_000, loop_factory=lambda: loop)


def test_who_looks_after_a_worker_decides_when_it_is_back(sockets):
    async def main():
        metadata = worker(1, sockets("1"))
        async with (
            answering(metadata, refusing),
            following(Source(DiscoveryEvent("worker-added", metadata))) as proxy,
        ):
            proxy.observe(placed=lambda _: None, failed=lambda _: True)
            with pytest.raises(NoWorkersAvailable):
                await proxy.dispatch("who", b"")
            assert proxy._readmission._tasks.running == 0
            proxy.observe(placed=lambda _: None, failed=lambda _: False)
            proxy.readmit(ONE)
            with pytest.raises(NoWorkersAvailable):
                await proxy.dispatch("who", b"")
            assert proxy._readmission._tasks.running == 1

    run(main())


# Workers that have as many calls as they take.


def small(number, address, most=1):
    return worker(number, address, options=ChannelOptions(max_concurrent_streams=most))


def in_turn(source):
    return following(source, loadbalancer=RoundRobinLoadBalancer())


class Gate:
    """A routine that says who is inside, and ends as it is told."""

    def __init__(self):
        self.inside = []
        self._ends = {}

    async def __call__(self, body):
        self.inside.append(body)
        self._ends[body] = asyncio.get_running_loop().create_future()
        await self._ends[body]
        yield body, True

    def end(self, body):
        self._ends[body].set_result(None)


async def answer_to(proxy, body):
    call = await proxy.dispatch("gate", body)
    return await call.step()


def test_calls_that_no_worker_has_room_for_wait_as_long_as_it_takes_and_in_order(sockets):
    loop, gate = ShiftedTimeLoop(), Gate()

    async def main():
        metadata = small(1, sockets("1"), most=2)
        async with (
            serving(metadata, gate=gate),
            in_turn(Source(DiscoveryEvent("worker-added", metadata))) as proxy,
        ):
            proxy.observe(placed=lambda _: None, failed=(failed := []).append)
            names = [bytes([number]) for number in range(8)]
            asking = await begun(*(answer_to(proxy, name) for name in names))
            await until(lambda: len(gate.inside) == 2)
            loop.shift_s += 1000  # any time-out would have come
            await settle()
            for k, name in enumerate(names):
                expected = names[: k + 2]
                await until(lambda expected=expected: len(gate.inside) >= len(expected))
                assert gate.inside == expected
                gate.end(name)
            assert await asyncio.gather(*asking) == names
            assert failed == []

    run(main(), deadline_s=100_000, loop_factory=lambda: loop)


def test_a_worker_that_has_no_room_is_passed_over_and_has_not_failed(sockets):
    gate = Gate()

    async def main():
        one, other = small(1, sockets("1")), small(2, sockets("2"))
        source = Source(*(DiscoveryEvent("worker-added", each) for each in (one, other)))
        async with serving(one, gate=gate), serving(other, gate=gate), in_turn(source) as proxy:
            asking = await begun(answer_to(proxy, b"a"), answer_to(proxy, b"b"))
            await until(lambda: len(gate.inside) == 2)
            gate.end(b"b")
            await asking[1]
            for name in (b"c", b"d", b"e"):  # wherever the rotation is
                (third,) = await begun(answer_to(proxy, name))
                await until(lambda name=name: name in gate.inside)
                gate.end(name)
                assert await third == name
            gate.end(b"a")
            await asking[0]

    run(main())


def test_a_call_that_waits_for_room_goes_on_when_a_stream_waits_for_its_reader(sockets):
    """Who may wait for that very call."""

    async def main():
        metadata = small(1, sockets("1"))
        async with serving(metadata), in_turn(Source(DiscoveryEvent("worker-added", metadata))) as proxy:
            streams = [await proxy.dispatch("echo", b"one")]
            (waiting,) = await begun(proxy.dispatch("who", b""))
            assert not waiting.done()
            assert await streams[0].step() == b"one"
            assert await (await waiting).step() == metadata.address.encode()
            streams += [await proxy.dispatch("echo", b"two") for _ in range(1)]
            assert [await stream.step() for stream in streams[1:]] == [b"two"]
            assert await answer_of(proxy) == metadata.address

    run(main())


@pytest.mark.parametrize("what", ["another joins", "it leaves", "it is stopped", "it is given up"])
def test_a_call_that_waits_for_room_hears_what_becomes_of_the_workers(sockets, what):
    gate = Gate()

    async def main():
        one, other = small(1, sockets("1")), small(2, sockets("2"))
        source = Source(DiscoveryEvent("worker-added", one))
        async with serving(one, gate=gate), serving(other, gate=gate), in_turn(source) as proxy:
            held, waiting, behind = await begun(*(answer_to(proxy, name) for name in (b"a", b"b", b"c")))
            await until(lambda: gate.inside == [b"a"])
            match what:
                case "another joins":
                    await shown(source, DiscoveryEvent("worker-added", other))
                    await until(lambda: gate.inside == [b"a", b"b"])
                    gate.end(b"b")
                case "it leaves":
                    await shown(source, DiscoveryEvent("worker-dropped", one))
                case "it is stopped":
                    await proxy.stop()
                case "it is given up":
                    waiting.cancel()
                    await settle()
            gate.end(b"a")
            assert await held == b"a"
            if what in ("it leaves", "it is stopped"):
                for lost in (waiting, behind):
                    with pytest.raises(NoWorkersAvailable, match=r"could be asked$"):
                        await lost
            else:
                await until(lambda: b"c" in gate.inside)
                gate.end(b"c")
                assert await behind == b"c"

    run(main())


def test_a_call_that_waits_for_room_does_not_ask_a_worker_in_vain_all_the_time(sockets):
    gate, failed = Gate(), []

    async def main():
        there, gone = small(1, sockets("1")), small(2, sockets("2"))
        source = Source(*(DiscoveryEvent("worker-added", each) for each in (there, gone)))
        async with serving(there, gate=gate), in_turn(source) as proxy:
            proxy.observe(placed=lambda _: None, failed=failed.append)
            held, waiting = await begun(answer_to(proxy, b"a"), answer_to(proxy, b"b"))
            await until(lambda: gate.inside == [b"a"] and failed)
            await asyncio.sleep(0.3)  # nothing happens, for a while
            assert failed == [TWO]
            gate.end(b"a")
            await until(lambda: b"b" in gate.inside)
            gate.end(b"b")
            assert await asyncio.gather(held, waiting) == [b"a", b"b"]

    run(main())


def test_a_balancer_that_lets_a_failure_pass_has_nobody_else(sockets):
    class First:
        async def delegate(self, task, *, context):
            for uid in context.workers:
                yield uid
                return

    async def main():
        async with (
            serving(there := worker(2, sockets("2"))),
            following(
                Source(DiscoveryEvent("worker-added", worker(1, sockets("1"))), DiscoveryEvent("worker-added", there)),
                loadbalancer=First(),
            ) as proxy,
        ):
            with pytest.raises(NoWorkersAvailable) as caught:
                await proxy.dispatch("who", b"")
            assert {uid: type(error) for uid, error in caught.value.failures.items()} == {ONE: NotReached}
            proxy.evict(ONE)
            assert await answer_of(proxy) == there.address

    run(main())


@pytest.mark.case("X-22")
def test_who_left_and_came_again_unseen_is_admitted_though_it_was_evicted_here():
    class Slow:
        """A reader that is busy for a while after each event."""

        def __init__(self, inner):
            self.inner = inner
            self.go_on = asyncio.Event()

        async def __aiter__(self):
            async with aclosing(aiter(self.inner)) as events:
                async for event in events:
                    yield event
                    await self.go_on.wait()

    async def main():
        source = Source(added(1))
        shared = SharedSubscription("one", lambda: source)
        async with aclosing(aiter(shared)) as quick, following(slow := Slow(shared)) as proxy:
            assert await anext(quick) == added(1)
            await settle()
            assert members(proxy) == [worker(1)]
            proxy.evict(ONE)
            source.give(dropped(1))
            source.give(added(1))
            assert [await anext(quick), await anext(quick)] == [dropped(1), added(1)]
            assert members(proxy) == []
            slow.go_on.set()
            await settle()
            assert members(proxy) == [worker(1)]

    run(main())


# Its start.


@pytest.mark.case("LB-50")
@pytest.mark.parametrize(
    ("quorum", "events"),
    [(1, [updated(1), updated(1)]), (2, [added(1), updated(2), added(1)]), (1, [added(1), dropped(1)])],
    ids=["updates only", "one worker twice", "who came has left"],
)
def test_a_quorum_of_other_than_present_workers_is_not_there_in_time(quorum, events):
    async def main():
        source = Source(*events)
        proxy = WorkerProxy(discovery=source, quorum=quorum, quorum_timeout=30)
        with pytest.raises(TimeoutError, match=rf"\d of {quorum} workers were there after 30 s"):
            await proxy.start()
        assert asyncio.get_running_loop().time() == pytest.approx(30)
        assert (source.opened, source.closed, proxy.started, members(proxy)) == (1, 1, False, [])

    run_virtual(main())


def test_a_quorum_that_is_there_ends_the_wait_at_once():
    async def main():
        source = Source()
        async with WorkerProxy(discovery=source, quorum=2) as proxy:
            starting = asyncio.create_task(proxy.start())
            await shown(source, added(1))
            assert not starting.done()
            await shown(source, added(2))
            assert starting.done()
        assert asyncio.get_running_loop().time() == 0

    run_virtual(main())


@pytest.mark.case("OWN-21", "REG-28")
@pytest.mark.parametrize("quorum", [5, None])
def test_a_namespace_without_an_owner_is_said_at_once(own_root, quorum):
    async def main():
        with pytest.raises(DiscoveryNamespaceNotFound, match="'nobody'"):
            async with WorkerProxy("nobody", quorum=quorum, lazy=False):
                pytest.fail("it is entered")
        async with WorkerProxy("nobody", quorum=quorum) as proxy:
            for _ in range(2):
                with pytest.raises(DiscoveryNamespaceNotFound, match="'nobody'"):
                    await proxy.dispatch("once", b"")
                assert not proxy.started

    run(main())


@pytest.mark.parametrize("way", ["by name", "a subscriber", "filtered"])
def test_a_first_call_without_a_quorum_finds_who_was_there(own_root, sockets, way):
    async def main():
        metadata = replace(worker(1, sockets("1")), tags=frozenset({"numbers"}))
        async with LocalDiscovery("numbers") as discovery, serving(metadata):
            await discovery.publisher.publish("worker-added", metadata)
            given = {
                "by name": {"pool_uri": "numbers"},
                "a subscriber": {"discovery": discovery.subscriber},
                "filtered": {"discovery": discovery.subscribe(bool)},
            }[way]
            async with WorkerProxy(**given, quorum=None, token=TOKEN) as proxy:
                assert await answer_of(proxy) == metadata.address
            await channels.of_this_loop().clear()

    run(main())


def test_a_call_without_a_quorum_hears_at_once_that_nobody_was_there(own_root):
    async def main():
        async with LocalDiscovery("numbers"), WorkerProxy("numbers", quorum=None) as proxy:
            for _ in range(2):
                began = asyncio.get_running_loop().time()
                with pytest.raises(NoWorkersAvailable):
                    await proxy.dispatch("who", b"")
                assert asyncio.get_running_loop().time() - began < FIRST_LOOK_S

    run(main())


class Looking(Source):
    """It can tell when it has looked."""

    async def marked(self):
        async for event in self:
            yield None if event == "looked" else event


@pytest.mark.parametrize("end", ["time", "stop", "failure", "look"])
def test_a_first_call_waits_for_the_first_look_and_not_for_ever(end):
    async def main():
        loop, source = asyncio.get_running_loop(), Looking()
        proxy = WorkerProxy(discovery=source, quorum=None)
        began = loop.time()
        asking = asyncio.create_task(proxy.dispatch("who", b""))
        await settle()
        assert not asking.done()
        if end == "stop":
            await proxy.stop()
        elif end == "failure":
            source.fail(Lost())
        elif end == "look":
            source.give("looked")
        with pytest.raises(Lost if end == "failure" else NoWorkersAvailable):
            await asking
        assert loop.time() - began == (FIRST_LOOK_S if end == "time" else 0)
        await proxy.stop()

    run_virtual(main())


@pytest.mark.case("REG-28")
@pytest.mark.parametrize("error", [LookupError("gone"), TimeoutError("the lock"), DiscoveryNamespaceNotFound("n")])
def test_a_discovery_that_fails_during_the_wait_for_a_quorum_is_said_at_once(error):
    async def main():
        source = Source(added(1))
        proxy = WorkerProxy(discovery=source, quorum=2)
        starting = asyncio.create_task(proxy.start())
        await settle()
        source.fail(error)
        with pytest.raises(type(error)) as caught:
            await starting
        assert (caught.value, proxy.started, source.closed) == (error, False, 1)
        assert asyncio.get_running_loop().time() == 0

    run_virtual(main())


def test_a_failed_start_leaves_nothing_and_the_next_call_tries_again(sockets):
    class Entered(Sticky):
        def __init__(self):
            super().__init__()
            self.seen = []

        async def __aenter__(self):
            self.seen.append("in")

        async def __aexit__(self, *_):
            self.seen.append("out")

    async def main():
        metadata, source, balancer = worker(1, sockets("1")), Source(), Entered()
        try:
            async with serving(metadata), WorkerProxy(discovery=source, loadbalancer=balancer, token=TOKEN) as proxy:
                source.fail(LookupError("not yet"))
                with pytest.raises(LookupError):
                    await proxy.dispatch("who", b"")
                assert (proxy.started, balancer.seen, source.closed) == (False, ["in", "out"], 1)
                source.give(DiscoveryEvent("worker-added", metadata))
                assert await answer_of(proxy) == metadata.address
            assert (balancer.seen, source.closed) == (["in", "out"] * 2, 2)
        finally:
            await channels.of_this_loop().clear()

    run(main())


def test_calls_at_the_same_time_start_it_once(sockets):
    async def main():
        metadata, source = worker(1, sockets("1")), Source()
        try:
            async with serving(metadata), WorkerProxy(discovery=source, token=TOKEN) as proxy:
                assert source.opened == 0
                asking = [asyncio.create_task(answer_of(proxy)) for _ in range(5)]
                await shown(source, DiscoveryEvent("worker-added", metadata))
                assert await asyncio.gather(*asking) == [metadata.address] * 5
                assert source.opened == 1
        finally:
            await channels.of_this_loop().clear()

    run(main())


@pytest.mark.parametrize("quorum", [1, None])
def test_what_was_stopped_does_not_start_again(quorum):
    async def main():
        source = Source(added(1))
        async with WorkerProxy(discovery=source, quorum=quorum) as proxy:
            await proxy.start()
            await proxy.stop()
            await proxy.stop()
            with pytest.raises(RuntimeError, match="was stopped"):
                await proxy.start()
            with pytest.raises(RuntimeError, match="was stopped"):
                await proxy.dispatch("once", b"")
            assert source.opened == source.closed <= 1
        with pytest.raises(RuntimeError, match="entered once"):
            await proxy.__aenter__()

    run(main())


def test_stopping_ends_a_start_that_waits():
    async def main():
        source = Source()
        async with WorkerProxy(discovery=source) as proxy:
            asking = asyncio.create_task(proxy.dispatch("once", b""))
            await settle()
        with pytest.raises(RuntimeError, match="was stopped"):
            await asking
        assert (source.closed, asyncio.get_running_loop().time()) == (1, 0)

    run_virtual(main())


# What it follows.


async def generated():
    yield added(1)


@pytest.mark.case("OWN-19")
@pytest.mark.parametrize(
    ("discovery", "words"),
    [
        (lambda: None, "callable"),
        (Source, "callable"),
        (object(), "no __aiter__"),
        ([added(1)], "no __aiter__"),
        (LocalDiscovery("ns"), "no __aiter__"),
        (generated(), "async generator"),
    ],
    ids=["function", "class", "object", "list", "service", "async generator"],
)
def test_what_is_no_subscriber_is_refused_at_once(discovery, words):
    with pytest.raises(TypeError, match=words):
        WorkerProxy(discovery=discovery)


@pytest.mark.case("OWN-16")
@pytest.mark.parametrize("through_the_service", [False, True])
def test_a_subscriber_is_iterated_as_it_was_given_and_never_entered(through_the_service):
    """Whoever owns it enters it, also when it is a service and a subscriber in one."""

    class Both(FakeDiscovery):
        entered = 0

        async def __aenter__(self):
            self.entered += 1
            return await super().__aenter__()

    async def main():
        async with Both() as discovery:
            await discovery.publish("worker-added", worker(1))
            async with following(discovery.subscriber if through_the_service else discovery) as proxy:
                assert (discovery.iterations, discovery.entered) == (1, 1)
                assert members(proxy) == [worker(1)]
            assert (discovery.iterations, discovery._serves) == (0, True)

    run(main())


@pytest.mark.case("OWN-20")
@pytest.mark.parametrize("what", ["discovery", "loadbalancer"])
def test_what_is_entered_can_t_travel(what):
    class Balancer(Sticky):
        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

    given = {"discovery": Source(), "loadbalancer": Sticky()}
    given[what] = {"discovery": FakeDiscovery(), "loadbalancer": Balancer()}[what]
    proxy = WorkerProxy(**given)
    with pytest.raises(TypeError, match=f"{what} is a context manager"):
        pickling.dumps(proxy)
    for leave in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="can't be pickled or copied"):
            leave(proxy)


def test_a_proxy_travels_with_its_options_and_without_its_token():
    proxy = WorkerProxy("ns", "tag", lease=3, quorum=2, quorum_timeout=7, lazy=False, token=TOKEN)
    data = pickling.dumps(proxy)
    assert TOKEN.encode() not in data
    again = pickle.loads(data)
    assert again.id == proxy.id
    names = ("_lease", "_quorum", "_quorum_timeout_s", "_lazy", "_static")
    assert [getattr(again, name) for name in names] == [3, 2, 7, False, None]
    assert again._token is None
    assert again._token_stays
    assert isinstance(again._discovery, afilter)
    assert again._discovery.inner.key == proxy._discovery.inner.key
    assert pickle.loads(pickling.dumps(WorkerProxy(workers=[worker(1)], quorum=None)))._static == [worker(1)]


def test_a_routine_whose_caller_has_a_token_of_its_own_is_told_that_it_stayed(sockets):
    async def main():
        metadata = replace(worker(1, "localhost:1"), tags=frozenset())
        given = pickling.dumps(WorkerProxy(workers=[metadata], token=TOKEN))
        for _ in range(2):  # handed on, too
            proxy = pickle.loads(given)
            with pytest.raises(NoWorkersAvailable, match="has not come along with the call") as caught:
                await proxy.dispatch("once", b"")
            assert TOKEN not in str(caught.value)
            given = pickling.dumps(proxy)
            await proxy.stop()
        plain = pickle.loads(pickling.dumps(WorkerProxy(workers=[metadata])))
        with pytest.raises(NoWorkersAvailable) as caught:
            await plain.dispatch("once", b"")
        assert "come along" not in str(caught.value)
        await plain.stop()

    run(main())


@pytest.mark.case("OWN-22")
def test_a_namespace_with_tags_gives_the_workers_that_have_one_of_them(own_root):
    async def main():
        async with LocalDiscovery("ns") as discovery:
            publisher = discovery.publisher
            for number, tags in enumerate([{"ns"}, {"extra", "other"}, {"other"}, set()], 1):
                await publisher.publish("worker-added", worker(number, tags=frozenset(tags)))
            async with WorkerProxy("ns", "extra", quorum=2, lazy=False) as proxy:
                await publisher.publish("worker-added", worker(5, tags=frozenset({"extra"})))
                await until(lambda: len(members(proxy)) == 3)
                assert sorted(metadata.uid.int for metadata in members(proxy)) == [1, 2, 5]
            publisher.close()

    run(main())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "takes one of"),
        ({"pool_uri": "ns", "discovery": Source()}, "takes one of"),
        ({"workers": [], "discovery": Source()}, "takes one of"),
        ({"discovery": Source(), "lease": 0}, "lease is a number of workers, at least 1"),
        ({"discovery": Source(), "quorum": -1}, "quorum is a number of workers, at least 0, not -1"),
        ({"discovery": Source(), "quorum": 3, "lease": 2}, "quorum of 3 is never there with a lease of 2"),
        ({"workers": [worker(1), worker(1)], "quorum": 2}, "never there with 1 workers"),
        ({"workers": [worker(1, secure=True)], "quorum": 1}, "never there with 0 workers"),
        ({"discovery": Source(), "quorum_timeout": 0}, "above 0"),
    ],
)
def test_options_that_can_t_be_met_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        WorkerProxy(**options)


def test_other_arguments_that_make_no_sense_are_said():
    for name in ("lease", "quorum"):
        with pytest.raises(TypeError, match=f"{name} is a whole number of workers, not '2'"):
            WorkerProxy(discovery=Source(), **{name: "2"})
    with pytest.raises(ValueError, match="tags go with a namespace"):
        WorkerProxy(None, "tag", discovery=Source())
    with pytest.raises(TypeError, match="no balancer"):
        WorkerProxy(discovery=Source(), loadbalancer=object())
    with pytest.warns(UserWarning, match="no effect without a quorum"):
        WorkerProxy(discovery=Source(), quorum=None, quorum_timeout=3)


# A discovery that has failed.


class Lost(Exception):
    """Of a discovery."""


@pytest.mark.case("REG-29", "REG-30", "REG-32")
def test_every_call_that_finds_no_worker_says_why_the_discovery_failed():
    async def main():
        source, depths = Source(added(1)), set()
        async with following(source) as proxy:
            await shown(source, dropped(1))
            with pytest.raises(NoWorkersAvailable):
                await proxy.dispatch("once", b"")
            failure = Lost()
            source.fail(failure)
            await settle()
            for _ in range(5):
                with pytest.raises(Lost) as caught:
                    await proxy.dispatch("once", b"")
                assert (caught.value, proxy.started) == (failure, True)
                depths.add(len(traceback.extract_tb(caught.value.__traceback__)))
            assert len(depths) == 1
            await proxy.stop()  # said already
        assert source.opened == 1

    run(main())


def test_workers_that_are_held_serve_on_and_a_call_that_none_takes_names_the_cause(sockets):
    async def main():
        metadata, failure = worker(1, sockets("1")), Lost()
        source = Source(DiscoveryEvent("worker-added", metadata))
        async with following(source) as proxy:
            source.fail(failure)
            await settle()
            async with serving(metadata):
                assert await answer_of(proxy) == metadata.address
            with pytest.raises(NoWorkersAvailable) as caught:
                await proxy.dispatch("who", b"")
            assert (caught.value.__cause__, list(caught.value.failures)) == (failure, [ONE])
            await proxy.stop()  # said already

    run(main())


@pytest.mark.case("X-14")
@pytest.mark.parametrize("handling", [False, True], ids=["plain", "while its caller handles an error"])
def test_a_failure_in_place_of_a_refusal_has_no_context_of_it(sockets, handling):
    async def dispatched_while_handling(proxy):
        try:
            raise LookupError
        except LookupError:
            await proxy.dispatch("who", b"")

    async def main():
        async def refuses(context):
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "no")

        metadata = worker(1, sockets("1"))
        source = Source(DiscoveryEvent("worker-added", metadata))
        async with answering(metadata, refuses), following(source) as proxy:
            source.fail(Lost())
            await settle()
            with pytest.raises(Lost) as caught:
                await (dispatched_while_handling(proxy) if handling else proxy.dispatch("who", b""))
            assert (caught.value.__context__, caught.value.__cause__) == (None, None)
            assert members(proxy) == []

    run(main())


@pytest.mark.case("REG-31")
def test_a_body_s_own_error_is_the_one_that_leaves_the_block(caplog):
    async def block(error=None):
        source = Source(added(1))
        async with WorkerProxy(discovery=source) as proxy:
            await proxy.start()
            source.fail(Lost("the cause"))
            await settle()
            if error is not None:
                raise error

    async def main():
        with pytest.raises(ZeroDivisionError):
            await block(ZeroDivisionError())
        assert ["the cause" in record.getMessage() for record in caplog.records] == [True]
        caplog.clear()
        with pytest.raises(Lost):
            await block()
        assert not caplog.records

    run(main())


def test_who_waits_for_a_worker_hears_that_the_discovery_failed():
    async def main():
        source = Source(added(1))
        async with following(source) as proxy:
            waiting = asyncio.create_task(proxy.admitted(TWO))
            await shown(source, added(3))
            assert not waiting.done()
            await shown(source, added(2))
            await waiting
            await proxy.admitted(TWO)
            waiting = asyncio.create_task(proxy.admitted(worker(9).uid))
            await settle()
            source.fail(Lost())
            with pytest.raises(Lost):
                await waiting

    run(main())


def test_who_waits_for_a_worker_hears_that_the_proxy_was_stopped():
    async def main():
        async with following(Source(added(1))) as proxy:
            waiting = [asyncio.create_task(proxy.admitted(uid)) for uid in (TWO, THREE)]
            await settle()
            await proxy.stop()
            for task in [*waiting, asyncio.create_task(proxy.admitted())]:
                with pytest.raises(RuntimeError, match="stopped"):
                    await task

    run(main())


# Nothing is left.


def test_a_proxy_that_was_stopped_has_closed_its_channels(sockets):
    async def main():
        metadata = worker(1, sockets("1"))
        async with serving(metadata):
            pool = channels.of_this_loop()
            async with WorkerProxy(workers=[metadata], token=TOKEN) as proxy:
                await answer_of(proxy)
                assert pool.stats.entries == 1
            assert (pool.stats, pool._tasks.running) == (NOTHING, 0)

    run(main())


@pytest.mark.parametrize("begun", [False, True])
def test_a_call_that_is_cancelled_at_any_moment_leaves_nothing(sockets, begun):
    """From a proxy that has not started, past a worker that is not there, to the stop."""

    async def main():
        forever = Forever()
        gone, good = worker(1, sockets("1")), worker(2, sockets("2"))
        pool = channels.of_this_loop()
        sources = []

        async def whole():
            sources.append(source := Source())
            for metadata in (gone, good):
                source.give(DiscoveryEvent("worker-added", metadata))
            async with WorkerProxy(discovery=source, quorum=2, token=TOKEN, loadbalancer=Sticky()) as proxy:
                call = await proxy.dispatch("forever", b"", begun=begun)
                try:
                    assert call.worker == good
                finally:
                    call.close()

        async def prepare():
            return whole()

        async def check():
            assert all(source.opened == source.closed for source in sources)
            await until(lambda: not forever.inside)
            assert (pool._loads, pool.stats.references) == ({}, 0)
            await pool.clear()
            assert (pool.stats, pool._current) == (NOTHING, {})

        async with serving(good, forever=forever):
            assert await cancelled_at_each_wait(prepare, check) >= 4 + (not begun)  # and those of who opens a channel

    run(main(), 60)


def test_a_stop_that_is_cancelled_leaves_no_member_and_no_sentinel():
    async def main():
        closing = asyncio.Event()

        class Slow(Source):
            async def __aiter__(self):
                try:
                    async for event in super().__aiter__():
                        yield event
                finally:
                    await closing.wait()

        source = Slow(added(1))
        proxy = WorkerProxy(discovery=source)
        await proxy.start()
        stopping = asyncio.create_task(proxy.stop())
        await settle()
        stopping.cancel()
        await settle()
        assert (stopping.cancelled(), members(proxy), proxy.started) == (True, [], False)
        closing.set()
        await proxy.stop()
        await settle()
        assert source.closed == 1

    run_virtual(main())
