import asyncio
import errno
import gc
import os
import pickle
import shutil
import struct
import tempfile
import threading
import time
from contextlib import aclosing
from pathlib import Path

import cloudpickle
import pytest

from tests.support.cancelling import CancelledAt
from tests.support.discovery import descriptors, generation_of, kill, owned, shown, silent, stop, take, tree, worker
from tests.support.loops import run, until
from tests.support.waiting import wait_until
from wool_jupyter import host
from wool_jupyter.discovery import files, locks, observing, registry, subscriber, watcher
from wool_jupyter.discovery import root as roots
from wool_jupyter.discovery.local import LocalDiscovery
from wool_jupyter.discovery.protocol import DiscoveryLike, DiscoverySubscriberLike
from wool_jupyter.errors import DiscoveryNamespaceInUse, DiscoveryNamespaceNotFound
from wool_jupyter.wire.codec import encode_worker

LONG_S = 60.0  # longer than any test: what comes earlier came by another way


def discovery(root, namespace="n", **options):
    return LocalDiscovery(namespace, root=root, **options)


async def publish(root, *steps, namespace="n"):
    async with LocalDiscovery.Publisher(namespace, root=root) as into:
        for kind, metadata in steps:
            await into.publish(f"worker-{kind}", metadata)


def follow(root, **options):
    return aclosing(aiter(LocalDiscovery.Subscriber("n", root=root, **options)))


def watchers():
    return [
        thread
        for thread in threading.enumerate()
        if "watch" in type(thread).__module__ or thread.name == "wool-watcher"
    ]


@pytest.fixture
def looks(monkeypatch):
    """Counts the scans."""
    counted = []

    class Counting(subscriber.Scan):
        def take(self, blocks):
            counted.append(self)
            return super().take(blocks)

    monkeypatch.setattr(subscriber, "Scan", Counting)
    return counted


@pytest.fixture
def no_watching(monkeypatch):
    monkeypatch.setattr(host, "watches_files", lambda: False)


@pytest.fixture(autouse=True)
def nothing_is_watched_after_it():
    yield
    wait_until(lambda: not watchers())


# Arguments


@pytest.mark.case("X-02")
@pytest.mark.parametrize(
    "make", [LocalDiscovery, LocalDiscovery.Publisher, LocalDiscovery.Subscriber, LocalDiscovery.borrow]
)
@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/", "a\0b", "x" * 256, "ü" * 128])
def test_a_name_that_is_no_single_component_is_refused(make, name):
    with pytest.raises(ValueError, match="namespace"):
        make(name)


@pytest.mark.parametrize(
    "make", [LocalDiscovery, LocalDiscovery.Publisher, LocalDiscovery.Subscriber, LocalDiscovery.borrow]
)
def test_a_root_that_a_change_of_directory_would_move_is_refused(make):
    with pytest.raises(ValueError, match="absolute"):
        make("n", root=Path("relative"))


@pytest.mark.parametrize("make", [LocalDiscovery.Publisher, LocalDiscovery.Subscriber, LocalDiscovery.borrow])
def test_only_an_owner_gets_a_name_of_its_own(make):
    with pytest.raises(TypeError):
        make(None)
    assert LocalDiscovery().namespace != LocalDiscovery().namespace
    assert LocalDiscovery("x" * 255).namespace == "x" * 255


@pytest.mark.case("X-02")
def test_a_block_holds_at_least_the_smallest_record():
    assert LocalDiscovery("n", block_size=registry.BLOCK_SIZE_MIN)
    with pytest.raises(ValueError, match="block_size"):
        LocalDiscovery("n", block_size=registry.BLOCK_SIZE_MIN - 1)


@pytest.mark.case("X-02")
@pytest.mark.parametrize(
    ("make", "options"),
    [
        (LocalDiscovery, {"capacity": 0}),
        (LocalDiscovery, {"capacity": 1 << 17}),
        (LocalDiscovery, {"block_size": 1 << 21}),
        (LocalDiscovery, {"lock_timeout": -1}),
        (LocalDiscovery, {"poll_interval": 0}),
        (LocalDiscovery, {"liveness_interval_s": 0}),
        (LocalDiscovery.Publisher, {"lock_timeout": -0.1}),
        (LocalDiscovery.Publisher, {"lock_timeout": float("nan")}),
        (LocalDiscovery.Subscriber, {"poll_interval": 0}),
        (LocalDiscovery.Subscriber, {"poll_interval": -1}),
        (LocalDiscovery.Subscriber, {"liveness_interval_s": 0}),
        (LocalDiscovery.borrow, {"poll_interval": 0}),
    ],
)
def test_a_number_out_of_range_is_refused_by_name(make, options):
    with pytest.raises(ValueError, match=next(iter(options))):
        make("n", **options)


@pytest.mark.case("OWN-09")
@pytest.mark.parametrize("make", [LocalDiscovery.Publisher, LocalDiscovery.Subscriber, LocalDiscovery.borrow])
@pytest.mark.parametrize("option", ["capacity", "block_size"])
def test_who_borrows_has_no_say_in_the_sizes(make, option):
    with pytest.raises(TypeError, match=option):
        make("n", **{option: 4096})


@pytest.mark.case("OWN-13")
@pytest.mark.parametrize("pickler", [pickle, cloudpickle])
def test_a_subscriber_travels_with_all_its_arguments(root, pickler):
    original = LocalDiscovery.Subscriber("n", poll_interval=7.0, root=root)
    assert isinstance(original, DiscoverySubscriberLike)
    copy = pickler.loads(pickler.dumps(original))
    assert copy.key == original.key
    assert copy.__reduce__() == original.__reduce__()
    assert original.__reduce__()[1][2] == {"poll_interval": 7.0, "root": root}
    assert LocalDiscovery.Subscriber("n", root=root).key != original.key


def test_instances_of_one_namespace_are_equal():
    assert LocalDiscovery("n") == LocalDiscovery("n", capacity=3)
    assert hash(LocalDiscovery("n")) == hash(LocalDiscovery("n", capacity=3))
    assert LocalDiscovery("n") != LocalDiscovery("m")
    assert LocalDiscovery("n") != "n"


@pytest.mark.case("X-19")
def test_services_fall_back_to_what_the_constructor_was_given(root):
    for service in (
        discovery(root, poll_interval=7.0, lock_timeout=3.0),
        LocalDiscovery.borrow("n", root=root, poll_interval=7.0),
    ):
        given = LocalDiscovery.Subscriber("n", poll_interval=7.0, root=root).key
        assert service.subscriber.key == service.subscribe().key == given

    async def publishes_beside_another():
        async with discovery(root, lock_timeout=0.0) as owned:
            binding = registry.bind("n", root)
            publication = binding.try_lock()
            async with owned.publisher as into:
                with pytest.raises(TimeoutError, match="'n' was locked for 0 s"):
                    await into.publish("worker-added", worker(1))
            publication.release()
            binding.close()

    run(publishes_beside_another())


# Owning


@pytest.mark.case("OWN-01", "REG-01")
def test_files_are_there_while_it_is_entered(root):
    async def main():
        async with discovery(root, capacity=3, block_size=512) as entered:
            assert entered.directory == generation_of(root / "n")
            assert struct.unpack("<4sIII", (entered.directory / "registry").read_bytes()[:16]) == (b"WOOL", 3, 512, 0)
            (entered.directory / "token").write_text("the pool's own")
        assert tree(root) == []
        with pytest.raises(RuntimeError, match="not entered"):
            str(entered.directory)

    run(main())


@pytest.mark.case("OWN-02", "REG-02")
def test_a_second_owner_is_turned_away_and_the_first_keeps_its_workers(root):
    async def main():
        async with discovery(root) as first:
            await publish(root, ("added", worker(1)))
            rejected = discovery(root)
            with pytest.raises(DiscoveryNamespaceInUse) as caught:
                await rejected.__aenter__()
            assert caught.value.args == ("n",)
            await rejected.__aexit__(None, None, None)
            async with aclosing(aiter(first.subscriber)) as events:
                assert await take(events, 1) == [("added", 1)]

    run(main())


@pytest.mark.case("OWN-03")
def test_an_instance_is_entered_once(root):
    async def main():
        once = discovery(root)
        async with once:
            with pytest.raises(RuntimeError, match="once"):
                await once.__aenter__()
            rejected = discovery(root)
            with pytest.raises(DiscoveryNamespaceInUse):
                await rejected.__aenter__()
        for each in (once, rejected):
            with pytest.raises(RuntimeError, match="once"):
                await each.__aenter__()
        assert tree(root) == []

    run(main())


@pytest.mark.case("X-03", "REG-05")
def test_leaving_twice_or_without_having_entered_is_nothing(root):
    async def main():
        entered = discovery(root)
        async with entered:
            pass
        async with discovery(root):
            before = tree(root)
            await entered.__aexit__(None, None, None)
            await discovery(root).__aexit__(None, None, None)
            assert tree(root) == before

    run(main())


def test_entering_removes_what_dead_owners_left_beside_it(root):
    (root / "dead" / "0123456789").mkdir(parents=True)

    async def main():
        async with discovery(root, "living"), discovery(root):
            assert sorted(path.name for path in root.iterdir()) == ["living", "n"]
        assert tree(root) == []

    run(main())


@pytest.mark.parametrize("nth", range(1, 8))
def test_an_entry_that_is_cancelled_leaves_nothing(root, nth):
    async def main():
        before = descriptors()
        entering = CancelledAt(discovery(root).__aenter__(), nth)
        try:
            entered = await entering
        except asyncio.CancelledError:
            asyncio.current_task().uncancel()
        else:
            assert entering.waits < nth
            await entered.__aexit__(None, None, None)
        assert tree(root) == []
        assert descriptors() == before

    run(main())


def test_an_entry_that_waits_is_cancelled_at_once(root):
    async def main():
        (root / "n").mkdir()
        lock = locks.try_lock(files.open_directory(root / "n"))
        entering = asyncio.ensure_future(discovery(root).__aenter__())
        assert await silent(entering, 0.1)
        began = time.monotonic()
        entering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await entering
        assert time.monotonic() - began < 2
        lock.release()

    run(main())


@pytest.mark.case("REG-06")
@pytest.mark.parametrize("step", ["open_directory", "write", "rename", "link", "make_directory"])
def test_an_entry_that_fails_leaves_nothing(root, monkeypatch, step):
    async def main():
        before = descriptors()
        real, calls = getattr(files, step), []

        def failing(*args, **options):
            calls.append(args)
            if len(calls) == 2 or step in {"write", "link"}:
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(*args, **options)

        monkeypatch.setattr(files, step, failing)
        rejected = discovery(root)
        with pytest.raises(OSError, match="No space left on device"):
            await rejected.__aenter__()
        monkeypatch.undo()
        await rejected.__aexit__(None, None, None)
        assert tree(root) == []
        assert descriptors() == before

    run(main())


def test_the_default_root_is_the_user_s(monkeypatch):
    base = Path(tempfile.mkdtemp(prefix="w", dir="/tmp"))  # short enough for a socket
    monkeypatch.setattr(
        roots, "default_candidates", lambda environment: [base]
    )  # and no other: a janitor would sweep it

    async def main():
        name = f"test-{os.getpid()}"
        async with LocalDiscovery(name) as entered:
            assert entered.directory.parents[1] == roots.root_under(base, os.geteuid())
            await LocalDiscovery.Publisher(name).publish("worker-added", worker(1))
            async with aclosing(aiter(LocalDiscovery.Subscriber(name))) as events:
                assert await take(events, 1) == [("added", 1)]

    run(main())
    gc.collect()
    shutil.rmtree(base)


@pytest.mark.case("OWN-10")
def test_who_looks_for_a_namespace_makes_no_root(root, monkeypatch):
    monkeypatch.setenv(roots.OVERRIDE, str(root))
    monkeypatch.setattr(roots, "default_candidates", lambda environment: [root])

    async def main():
        with pytest.raises(DiscoveryNamespaceNotFound):
            await LocalDiscovery.Publisher("n").publish("worker-added", worker(1))
        with pytest.raises(DiscoveryNamespaceNotFound):
            await anext(aiter(LocalDiscovery.Subscriber("n")))

    run(main())
    assert tree(root) == []


def test_a_root_that_another_could_have_made_is_not_looked_into(root, monkeypatch):
    monkeypatch.setattr(roots, "default_candidates", lambda environment: [root])
    base = roots.root_under(root, os.geteuid())
    base.mkdir(parents=True, mode=0o755)
    base.parent.chmod(0o755)
    claimed = owned(base / "n")
    with pytest.raises(DiscoveryNamespaceNotFound):
        registry.bind("n", None)
    base.parent.chmod(0o700)
    base.chmod(0o700)
    registry.bind("n", None).close()
    claimed.release()


def test_without_descriptors_a_root_is_not_called_missing(root, monkeypatch):
    monkeypatch.setattr(roots, "default_candidates", lambda environment: [root])

    def exhausted(*args, **options):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "open", exhausted)
    with pytest.raises(OSError, match="Too many open files"):
        registry.bind("n", None)


def test_a_borrowed_namespace_offers_the_same(root):
    async def main():
        borrowed = LocalDiscovery.borrow("n", root=root)
        assert isinstance(borrowed, DiscoveryLike)
        assert not hasattr(borrowed, "__aenter__")
        with pytest.raises(DiscoveryNamespaceNotFound):
            await borrowed.publisher.publish("worker-added", worker(1))
        async with discovery(root):
            async with borrowed.publisher as into:
                await into.publish("worker-added", worker(1))
            async with aclosing(aiter(borrowed.subscribe(lambda metadata: True))) as events:
                assert await take(events, 1) == [("added", 1)]

    run(main())


# Following


@pytest.mark.case("OWN-10")
def test_there_is_nothing_to_follow_without_an_owner(root):
    async def main():
        before = descriptors()
        for _ in range(2):
            with pytest.raises(DiscoveryNamespaceNotFound) as caught:
                await anext(aiter(LocalDiscovery.Subscriber("n", root=root)))
            assert caught.value.namespace == "n"
        assert descriptors() == before

    run(main())
    assert tree(root) == []


@pytest.mark.case("OWN-11", "REG-22")
def test_a_subscription_that_has_failed_binds_to_the_successor(root):
    async def main():
        following = LocalDiscovery.Subscriber("n", root=root)
        async with discovery(root):
            await publish(root, ("added", worker(1)))
            async with aclosing(aiter(following)) as events:
                assert await take(events, 1) == [("added", 1)]
        with pytest.raises(DiscoveryNamespaceNotFound):
            await anext(aiter(following))
        async with discovery(root):
            await publish(root, ("added", worker(2)))
            async with aclosing(aiter(following)) as events:
                assert await take(events, 1) == [("added", 2)]

    run(main())


@pytest.mark.case("REG-17")
def test_an_owner_that_leaves_between_two_events_ends_the_iteration(root):
    async def main():
        owner = discovery(root)
        async with owner:
            await publish(root, ("added", worker(1)), ("added", worker(2)))
            # The raw one: a shared subscription holds what it has read.
            raw = type(subscriber.LocalSubscriber).build(subscriber.LocalSubscriber, "n", root=root)
            async with aclosing(aiter(raw)) as events:
                assert await take(events, 1) == [("added", 1)]
                await owner.__aexit__(None, None, None)
                with pytest.raises(DiscoveryNamespaceNotFound):
                    await anext(events)

    run(main())


@pytest.mark.case("REG-17", "REG-19")
def test_what_was_read_while_the_owner_died_is_not_served(root, monkeypatch):
    claimed = owned(root / "n")

    class Dying(subscriber.Scan):
        def take(self, blocks):
            events = super().take(blocks)
            kill(claimed)
            return events

    monkeypatch.setattr(subscriber, "Scan", Dying)

    async def main():
        await publish(root, ("added", worker(1)))
        async with follow(root) as events:
            with pytest.raises(DiscoveryNamespaceNotFound):
                await anext(events)

    run(main())
    claimed.release()


@pytest.mark.case("REG-19", "REG-21")
@pytest.mark.parametrize("poll_interval", [None, LONG_S])
def test_an_owner_that_was_killed_is_noticed_within_the_liveness_interval(root, poll_interval):
    async def main():
        claimed = owned(root / "n")
        await publish(root, ("added", worker(1)))
        async with follow(root, poll_interval=poll_interval, liveness_interval_s=0.2) as events:
            assert await take(events, 1) == [("added", 1)]
            step = asyncio.ensure_future(anext(events))
            assert await silent(step, 0.5)
            kill(claimed)
            with pytest.raises(DiscoveryNamespaceNotFound):
                await step
        claimed.release()

    run(main())


@pytest.mark.case("REG-20")
def test_an_idle_namespace_says_nothing(root, looks):
    async def main():
        async with discovery(root):
            await publish(root, ("added", worker(1)))
            async with follow(root, liveness_interval_s=0.02) as events:
                assert await take(events, 1) == [("added", 1)]
                step = asyncio.ensure_future(anext(events))
                assert await silent(step, 0.5)
                await stop(step)
        assert len(looks) == 1

    run(main())


@pytest.mark.case("X-18")
def test_a_publish_costs_every_subscription_few_looks_and_then_none(root, looks):
    async def main():
        async with discovery(root), follow(root) as one, follow(root, poll_interval=LONG_S) as other:
            steps = [asyncio.ensure_future(anext(each)) for each in (one, other)]
            assert await silent(steps[0], 0.2)
            before = len(looks)
            await publish(root, ("added", worker(1)))
            assert [shown(await step) for step in steps] == [("added", 1)] * 2
            steps = [asyncio.ensure_future(anext(each)) for each in (one, other)]
            assert await silent(steps[0], 2)
            assert 2 <= len(looks) - before <= 6
            await stop(*steps)

    run(main())


def test_reading_a_registry_wakes_nobody(root, looks, monkeypatch):
    """A subscription that reads, or binds, must not be told of it, nor must others."""

    async def main():
        async with discovery(root):
            await publish(root, ("added", worker(1)))
            async with follow(root, poll_interval=0.01) as busy, follow(root) as idle:
                assert await take(busy, 1) == await take(idle, 1) == [("added", 1)]
                steps = [asyncio.ensure_future(anext(each)) for each in (busy, idle)]
                assert await silent(steps[0], 0.1)
                wakes = []
                monkeypatch.setattr(watcher._switchboard, "ring", wakes.append)
                async with follow(root, poll_interval=7) as newcomer, LocalDiscovery.Publisher("n", root=root):
                    assert await take(newcomer, 1) == [("added", 1)]
                assert await silent(steps[0], 0.5)
                assert wakes == []
                await stop(*steps)
        assert len(looks) > 10

    run(main())


def test_a_publish_during_a_look_causes_another(root, monkeypatch):
    """Nobody tells of it again, and the next look by itself is far away."""

    class Publishing(subscriber.Scan):
        done = False

        def take(self, blocks):
            events = super().take(blocks)
            if not Publishing.done:
                Publishing.done = True
                binding = registry.bind("n", root)
                publication = binding.try_lock()
                publication.apply("worker-added", worker(2).uid, encode_worker(worker(2)))
                publication.release()
                binding.close()
            return events

    monkeypatch.setattr(subscriber, "Scan", Publishing)
    monkeypatch.setattr(host, "watches_files", lambda: False)
    monkeypatch.setattr(subscriber, "COUNTER_POLL_S", LONG_S)

    async def main():
        async with discovery(root):
            await publish(root, ("added", worker(1)))
            async with follow(root, liveness_interval_s=LONG_S) as events:
                assert await take(events, 2) == [("added", 1), ("added", 2)]

    run(main())


@pytest.mark.case("X-23")
@pytest.mark.usefixtures("no_watching")
def test_a_publish_of_this_process_is_seen_at_once_without_watching(root, monkeypatch):
    monkeypatch.setattr(subscriber, "COUNTER_POLL_S", LONG_S)

    async def main():
        async with discovery(root), follow(root, liveness_interval_s=LONG_S) as events:
            step = asyncio.ensure_future(anext(events))
            assert await silent(step, 0.1)
            assert watchers() == []
            await publish(root, ("added", worker(1)))
            assert shown(await step) == ("added", 1)

    run(main())


@pytest.mark.parametrize("how", ["lost wake", "no watching"])
def test_a_publish_that_woke_nobody_is_found_by_the_counter(root, monkeypatch, how):
    if how == "no watching":
        monkeypatch.setattr(host, "watches_files", lambda: False)

    async def main():
        async with discovery(root), follow(root, liveness_interval_s=0.1 if how == "lost wake" else LONG_S) as events:
            step = asyncio.ensure_future(anext(events))
            assert await silent(step, 0.05)
            monkeypatch.setattr(watcher._switchboard, "ring", lambda directory: None)
            await publish(root, ("added", worker(1)))
            assert shown(await step) == ("added", 1)

    run(main())


@pytest.mark.parametrize(("poll_interval", "found"), [(0.1, True), (None, False)], ids=["polls", "does not"])
def test_polling_finds_what_no_publisher_told(root, poll_interval, found):
    async def main():
        async with discovery(root) as owner:
            await publish(root, ("added", worker(1)))
            async with follow(root, poll_interval=poll_interval, liveness_interval_s=0.05) as events:
                assert await take(events, 1) == [("added", 1)]
                step = asyncio.ensure_future(anext(events))
                await asyncio.sleep(0)
                with (owner.directory / "registry").open("r+b") as file:
                    file.seek(16)
                    file.write(bytes(16))
                if found:
                    assert shown(await step) == ("dropped", 1)
                else:
                    assert await silent(step, 0.3)
                    await stop(step)

    run(main())


@pytest.mark.case("REG-18", "X-10")
def test_a_block_that_was_removed_or_torn_hides_no_other(root, caplog):
    async def main():
        async with discovery(root) as owner:
            await publish(root, ("added", worker(1)), ("added", worker(2)), ("added", worker(3)))
            (owner.directory / "blocks" / str(worker(1).uid)).unlink()
            with (owner.directory / "blocks" / str(worker(2).uid)).open("r+b") as file:
                file.seek(40)
                file.write(b"torn")
            async with follow(root, poll_interval=0.02) as events:
                assert await take(events, 1) == [("added", 3)]
                step = asyncio.ensure_future(anext(events))
                await until(lambda: caplog.text.count("could not be read") >= 4)
                assert not step.done()
                await publish(root, ("added", worker(2)))
                assert shown(await step) == ("added", 2)
                await publish(root, ("added", worker(1)))
                assert await take(events, 1) == [("added", 1)]

    run(main())


def test_a_pipe_in_the_place_of_a_block_is_not_waited_for(root):
    async def main():
        async with discovery(root) as owner:
            await publish(root, ("added", worker(1)), ("added", worker(2)))
            block = owner.directory / "blocks" / str(worker(1).uid)
            block.unlink()
            os.mkfifo(block)
            async with follow(root) as events:
                assert await take(events, 1) == [("added", 2)]

    run(main())


def test_a_block_that_becomes_readable_again_is_found_without_a_publish(root):
    async def main():
        async with discovery(root) as owner:
            await publish(root, ("added", worker(1)), ("added", worker(2)))
            block = owner.directory / "blocks" / str(worker(1).uid)
            block.rename(block.with_name("away"))
            async with follow(root, liveness_interval_s=0.1) as events:
                assert await take(events, 1) == [("added", 2)]
                step = asyncio.ensure_future(anext(events))
                assert await silent(step, 0.05)
                block.with_name("away").rename(block)
                assert shown(await step) == ("added", 1)

    run(main())


@pytest.mark.case("REG-11")
@pytest.mark.parametrize("damage", ["removed", "replaced", "cut short", "unstamped", "whole generation"])
def test_a_registry_that_is_damaged_ends_the_subscription(root, damage):
    async def main():
        async with discovery(root) as owner:
            await publish(root, ("added", worker(1)))
            path = owner.directory / "registry"
            looking_again = 0.1 if damage == "unstamped" else None  # what is wrong inside is seen by a look alone
            async with follow(root, poll_interval=looking_again, liveness_interval_s=0.1) as events:
                assert await take(events, 1) == [("added", 1)]
                match damage:
                    case "removed":
                        path.unlink()
                    case "replaced":
                        path.with_name("new").write_bytes(path.read_bytes())
                        path.with_name("new").rename(path)
                    case "cut short":
                        os.truncate(path, 20)
                    case "unstamped":
                        path.write_bytes(bytes(path.stat().st_size))
                    case "whole generation":
                        shutil.rmtree(owner.directory)
                with pytest.raises(DiscoveryNamespaceNotFound):
                    await anext(events)

    run(main())


# Watching


@pytest.mark.case("X-09")
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EMFILE], ids=["ENOSPC", "EMFILE"])
def test_where_watches_have_run_out_the_counter_is_looked_at(root, monkeypatch, number):
    def exhausted(self, *args, **options):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(observing.Observer, "schedule", exhausted)
    monkeypatch.setattr(watcher._switchboard, "ring", lambda directory: None)

    async def main():
        async with discovery(root), follow(root, liveness_interval_s=LONG_S) as events:
            step = asyncio.ensure_future(anext(events))
            assert await silent(step, 0.05)
            await publish(root, ("added", worker(1)))
            assert shown(await step) == ("added", 1)
        await until(lambda: not watchers())

    run(main())


@pytest.mark.case("X-09")
def test_another_error_of_the_watcher_is_raised_as_it_is(root, monkeypatch):
    def failing(self, *args, **options):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(observing.Observer, "schedule", failing)

    async def main():
        async with discovery(root), follow(root) as events:
            with pytest.raises(OSError, match="Input/output error"):
                await anext(events)
        await until(lambda: not watchers())

    run(main())


@pytest.mark.case("X-09")
def test_a_directory_that_has_gone_before_it_is_watched_is_a_namespace_that_is_not_found(root, monkeypatch):
    async def main():
        async with discovery(root) as owner:
            bind = registry.bind

            def then_removed(*args):
                binding = bind(*args)
                shutil.rmtree(owner.directory)
                return binding

            monkeypatch.setattr(registry, "bind", then_removed)
            async with follow(root) as events:
                with pytest.raises(DiscoveryNamespaceNotFound) as caught:
                    await anext(events)
            assert isinstance(caught.value.__cause__, FileNotFoundError)

    run(main())


def test_one_observer_serves_the_process_and_ends_with_the_last_subscription(root):
    async def main():
        assert watchers() == []
        async with discovery(root), discovery(root, "m"):
            async with follow(root) as one, follow(root, poll_interval=LONG_S) as two:
                await publish(root, ("added", worker(1)))
                assert await take(one, 1) == await take(two, 1) == [("added", 1)]
                assert sum(thread.name == "wool-watcher" for thread in watchers()) == 1
                for_one_directory = len(watchers())
                async with aclosing(aiter(LocalDiscovery.Subscriber("m", root=root))) as third:
                    step = asyncio.ensure_future(anext(third))
                    assert await silent(step, 0.05)
                    assert len(watchers()) <= for_one_directory + 2
                    await stop(step)
                await until(lambda: len(watchers()) == for_one_directory)
                await publish(root, ("added", worker(2)))
                assert await take(one, 1) == await take(two, 1) == [("added", 2)]
            await until(lambda: not watchers())
            async with follow(root) as again:
                assert await take(again, 2) == [("added", 1), ("added", 2)]
        await until(lambda: not watchers())

    run(main())


def test_an_abandoned_watch_does_not_hold_the_observer(root):
    async def main():
        async with discovery(root) as owner:
            watch = watcher.Watch(owner.directory)
            assert watch.watched
            assert watchers()
            del watch
            gc.collect()
            await until(lambda: not watchers())

    run(main())


def test_ringing_a_loop_that_was_closed_is_nothing(root):
    loop = asyncio.new_event_loop()

    async def watching():
        return watcher.Watch(root)

    watch = loop.run_until_complete(watching())
    loop.close()
    watcher.ring(root)
    watch.close()
    watch.close()


def test_two_loops_are_both_called(root):
    other_has_it = threading.Event()
    ready = threading.Event()

    async def elsewhere():
        async with follow(root) as events:
            assert await take(events, 1) == [("added", 1)]
            ready.set()
            assert await take(events, 1) == [("added", 2)]
            other_has_it.set()

    async def main():
        async with discovery(root):
            await publish(root, ("added", worker(1)))
            thread = threading.Thread(target=asyncio.run, args=(elsewhere(),))
            thread.start()
            await until(ready.is_set)
            await publish(root, ("added", worker(2)))
            await until(other_has_it.is_set)
            await asyncio.to_thread(thread.join)

    run(main())


def test_the_claim_can_be_taken_without_heavy_imports():
    """The process that sweeps after a kernel has neither a loop nor a codec."""
    import subprocess
    import sys

    code = (
        "import sys; from wool_jupyter.discovery import claim;"
        "print([name for name in ('asyncio', 'msgspec', 'watchdog', 'grpc', 'IPython', 'cloudpickle') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2]
    )
    assert done.stdout.strip() == "[]"
