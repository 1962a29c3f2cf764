import asyncio
import errno
import fcntl
import gc
import os
import struct

import pytest

from tests.support.cancelling import CancelledAt
from tests.support.discovery import descriptors, generation_of, kill, owned, tree, worker
from tests.support.loops import run, settle
from wool_jupyter.discovery import files, registry
from wool_jupyter.discovery.publisher import LocalPublisher
from wool_jupyter.discovery.scan import Scan
from wool_jupyter.errors import (
    DiscoveryBlockExhausted,
    DiscoveryCapacityExhausted,
    DiscoveryNamespaceNotFound,
    DiscoveryWorkerNotFound,
)


@pytest.fixture(autouse=True)
def no_descriptor_stays():
    before = descriptors()
    yield
    if descriptors() > before:
        gc.collect()  # of errors that hold a frame
    assert descriptors() <= before


@pytest.fixture
def owner(root):
    claimed = owned(root / "n")
    yield claimed
    claimed.release()


def publisher(root, **options):
    return LocalPublisher("n", root=root, **options)


def registered(root):
    """Numbers of the workers that a new subscriber would see."""
    binding = registry.bind("n", root)
    found = sorted(event.metadata.uid.int for event in Scan().take(binding.blocks()))
    assert sorted(uid.int for uid in binding.slots().workers()) == found
    binding.close()
    return found


def blocks(root):
    return sorted(int(path.name.replace("-", ""), 16) for path in (generation_of(root / "n") / "blocks").iterdir())


def block(root, number):
    return generation_of(root / "n") / "blocks" / str(worker(number).uid)


def counter(root):
    return struct.unpack("<Q", (generation_of(root / "n") / "notify").read_bytes())[0]


async def publish(root, *steps, **options):
    async with publisher(root, **options) as into:
        for kind, metadata in steps:
            await into.publish(f"worker-{kind}", metadata)


@pytest.mark.case("REG-13", "REG-01")
def test_what_lies_on_disk(root, owner):
    async def main():
        async with publisher(root) as into:
            await into.publish("worker-added", worker(1))
            await into.publish("worker-added", worker(2))
            slots = (generation_of(root / "n") / "registry").read_bytes()
            assert slots[:16] == struct.pack("<4sIII", b"WOOL", 8, 1024, 0)
            assert slots[16:48] == worker(1).uid.bytes + worker(2).uid.bytes
            assert slots[48:] == bytes(16 * 6)
            assert block(root, 1).stat().st_size == 1024
            assert struct.unpack_from("<IQ", block(root, 2).read_bytes())[1] == 2
            assert counter(root) == 2
            await into.publish("worker-dropped", worker(1))
            slots = (generation_of(root / "n") / "registry").read_bytes()
            assert slots[16:48] == bytes(16) + worker(2).uid.bytes
            assert blocks(root) == [2]
            assert counter(root) == 3

    run(main())


def test_a_worker_has_one_slot_however_often_it_is_added(root, owner):
    tagged = worker(1, tags=frozenset({"gpu"}))
    run(publish(root, ("added", worker(1)), ("added", worker(2)), ("added", tagged)))
    assert registered(root) == blocks(root) == [1, 2]


@pytest.mark.case("REG-10", "OWN-08")
def test_a_full_registry_refuses_another_worker_and_keeps_what_it_has(root):
    claimed = owned(root / "n", capacity=1)

    async def main():
        async with publisher(root) as into:
            await into.publish("worker-added", worker(1))
            with pytest.raises(DiscoveryCapacityExhausted) as caught:
                await into.publish("worker-added", worker(2))
            assert caught.value.capacity == 1
            await into.publish("worker-added", worker(1, tags=frozenset("x")))
            assert registered(root) == blocks(root) == [1]
            await into.publish("worker-dropped", worker(1))
            await into.publish("worker-added", worker(2))
            assert registered(root) == [2]

    run(main())
    claimed.release()


@pytest.mark.case("REG-09")
def test_the_owner_s_block_size_is_the_ceiling(root):
    large = worker(1, extra={"k": "v" * 3000})
    for block_size, fits in [(4096, True), (1024, False)]:
        claimed = owned(root / "n", block_size=block_size)
        if fits:
            run(publish(root, ("added", large)))
            assert registered(root) == [1]
        else:
            with pytest.raises(DiscoveryBlockExhausted) as caught:
                run(publish(root, ("added", worker(1)), ("updated", large)))
            assert 3000 < caught.value.size < 3400
            assert registered(root) == [1]
        claimed.release()


def test_the_smallest_block_size_holds_the_smallest_record(root):
    from uuid import UUID

    from wool_jupyter.records import WorkerMetadata

    claimed = owned(root / "n", block_size=registry.BLOCK_SIZE_MIN)
    run(publish(root, ("added", WorkerMetadata(UUID(int=1), "", 0, ""))))
    assert registered(root) == [1]
    with pytest.raises(DiscoveryBlockExhausted):
        run(publish(root, ("added", WorkerMetadata(UUID(int=1), "x", 0, ""))))
    claimed.release()


@pytest.mark.case("OWN-06", "OWN-10")
def test_there_is_nothing_to_bind_to_without_an_owner(root):
    with pytest.raises(DiscoveryNamespaceNotFound) as caught:
        run(publish(root))
    assert caught.value.namespace == "n"
    with pytest.raises(DiscoveryNamespaceNotFound):
        run(publisher(root).publish("worker-added", worker(1)))
    assert tree(root) == []


@pytest.mark.case("OWN-05", "REG-14", "OWN-06")
def test_a_publisher_never_reaches_a_successor(root):
    async def main():
        first = owned(root / "n")
        async with publisher(root) as into:
            first.release()
            with pytest.raises(DiscoveryNamespaceNotFound):
                await into.publish("worker-added", worker(1))
            second = owned(root / "n")
            for kind in ("added", "dropped"):
                with pytest.raises(DiscoveryNamespaceNotFound):
                    await into.publish(f"worker-{kind}", worker(1))
            assert registered(root) == []
            await publish(root, ("added", worker(2)))
            assert registered(root) == [2]
            second.release()

    run(main())


@pytest.mark.case("X-08", "REG-15", "REG-19")
def test_an_owner_that_lost_its_lock_is_dead_though_its_files_are_there(root):
    """As after a SIGKILL: nothing was removed."""

    async def main():
        claimed = owned(root / "n")
        async with publisher(root) as into:
            await into.publish("worker-added", worker(1))
            kill(claimed)
            for kind in ("added", "updated", "dropped"):
                with pytest.raises(DiscoveryNamespaceNotFound):
                    await into.publish(f"worker-{kind}", worker(1))
            with pytest.raises(DiscoveryNamespaceNotFound):
                async with publisher(root):
                    pass
        assert counter(root) == 1
        claimed.release()

    run(main())


def test_a_publish_is_no_success_if_the_owner_dies_meanwhile(root, monkeypatch):
    claimed = owned(root / "n")

    async def main():
        async with publisher(root) as into:
            write = files.write

            def dying(fd, data, offset=0):
                write(fd, data, offset)
                if len(data) == 8:  # the counter: everything is written
                    kill(claimed)

            monkeypatch.setattr(files, "write", dying)
            with pytest.raises(DiscoveryNamespaceNotFound):
                await into.publish("worker-added", worker(1))

    run(main())
    monkeypatch.undo()
    claimed.release()


@pytest.mark.case("REG-11")
@pytest.mark.parametrize("damage", ["unstamped", "cut short", "empty", "removed", "another size", "no notify"])
def test_a_damaged_registry_is_bound_by_nobody(root, owner, damage):
    path = generation_of(root / "n") / "registry"
    match damage:
        case "unstamped":
            path.write_bytes(b"\0" * 16 + path.read_bytes()[16:])
        case "cut short":
            path.write_bytes(path.read_bytes()[:-1])
        case "empty":
            path.write_bytes(b"")
        case "removed":
            path.unlink()
        case "another size":
            path.write_bytes(struct.pack("<4sIII", b"WOOL", 2**31, 1024, 0) + path.read_bytes()[16:])
        case "no notify":
            path.with_name("notify").unlink()
    with pytest.raises(DiscoveryNamespaceNotFound):
        run(publish(root))


@pytest.mark.parametrize("damage", ["removed", "replaced", "cut short", "unstamped"])
def test_a_registry_that_is_damaged_later_ends_the_binding(root, owner, damage):
    async def main():
        path = generation_of(root / "n") / "registry"
        async with publisher(root) as into:
            await into.publish("worker-added", worker(1))
            match damage:
                case "removed":
                    path.unlink()
                case "replaced":
                    path.with_name("new").write_bytes(path.read_bytes())
                    path.with_name("new").rename(path)
                case "cut short":
                    os.truncate(path, 40)
                case "unstamped":
                    with path.open("r+b") as file:
                        file.write(b"\0" * 4)
            if damage == "replaced":  # a publisher that follows names alone would write into the new one
                await into.publish("worker-added", worker(2))
            else:
                with pytest.raises(DiscoveryNamespaceNotFound):
                    await into.publish("worker-added", worker(2))

    run(main())


@pytest.mark.case("REG-16")
def test_a_closed_publisher_says_so(root, owner):
    async def main():
        into = publisher(root)
        async with into:
            pass
        with pytest.raises(RuntimeError, match="closed"):
            await into.publish("worker-added", worker(1))
        with pytest.raises(RuntimeError, match="closed"):
            async with into:
                pass
        into.close()

    run(main())


@pytest.mark.parametrize("kind", ["added", "worker-gone", ""])
def test_an_unknown_kind_is_refused(root, owner, kind):
    with pytest.raises(RuntimeError, match="worker-added, worker-updated, worker-dropped"):
        run(publisher(root).publish(kind, worker(1)))
    assert counter(root) == 0


def test_dropping_an_unknown_worker_tells_nobody(root, owner):
    run(publish(root, ("added", worker(1)), ("dropped", worker(2))))
    assert counter(root) == 1
    assert registered(root) == [1]


@pytest.mark.parametrize("wrong", [{"pid": "1"}, {"tags": frozenset({3})}, {"extra": {"k": 3}}, {"address": 3}])
def test_a_record_that_nobody_could_read_is_refused(root, owner, wrong):
    import dataclasses

    with pytest.raises(ValueError, match=next(iter(wrong))):
        run(publish(root, ("added", dataclasses.replace(worker(1), **wrong))))
    with pytest.raises(ValueError, match="zero"):
        run(publish(root, ("added", worker(0))))
    assert registered(root) == []


@pytest.mark.case("X-05")
def test_a_worker_whose_block_is_gone_is_added_anew_and_can_t_be_updated(root, owner):
    async def main():
        async with publisher(root) as into:
            await into.publish("worker-added", worker(1))
            await into.publish("worker-added", worker(2))
            block(root, 1).unlink()
            with pytest.raises(DiscoveryWorkerNotFound) as caught:
                await into.publish("worker-updated", worker(1))
            assert caught.value.uid == worker(1).uid
            await into.publish("worker-added", worker(1))
            assert registered(root) == blocks(root) == [1, 2]
            with pytest.raises(DiscoveryWorkerNotFound):
                await into.publish("worker-updated", worker(3))
            block(root, 2).unlink()
            await into.publish("worker-dropped", worker(2))
            assert registered(root) == [1]

    run(main())


def test_two_slots_together_are_not_mistaken_for_a_third_worker(root, owner):
    from uuid import UUID

    from wool_jupyter.records import WorkerMetadata

    one, other = UUID(int=1 << 64 | 2), UUID(int=3 << 64 | 4)
    between = UUID(int=2 << 64 | 3)
    records = [WorkerMetadata(uid, "", 0, "") for uid in (one, other)]
    run(publish(root, *(("added", record) for record in records)))
    with pytest.raises(DiscoveryWorkerNotFound):
        run(publish(root, ("updated", WorkerMetadata(between, "", 0, ""))))
    run(publish(root, ("added", WorkerMetadata(between, "", 0, ""))))
    assert registered(root) == sorted(uid.int for uid in (one, other, between))


def test_a_full_registry_takes_a_worker_back_whose_block_is_gone(root):
    claimed = owned(root / "n", capacity=1)
    run(publish(root, ("added", worker(1))))
    block(root, 1).unlink()
    run(publish(root, ("added", worker(1))))
    assert registered(root) == [1]
    claimed.release()


def test_a_block_without_a_slot_is_replaced(root, owner):
    """A publisher that was killed between the two leaves one."""
    block(root, 1).write_bytes(b"half")
    run(publish(root, ("added", worker(1))))
    assert registered(root) == [1]
    assert block(root, 1).stat().st_size == 1024


@pytest.mark.case("X-06")
@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), asyncio.CancelledError(), KeyboardInterrupt()]
)
@pytest.mark.parametrize(
    ("at", "when"), [("block", "before"), ("block", "after"), ("slot", "before"), ("slot", "after")]
)
def test_a_registration_that_fails_part_way_leaves_nothing(root, owner, monkeypatch, error, at, when):
    run(publish(root, ("added", worker(7))))
    before = tree(root), descriptors()
    into, write, failed = publisher(root), files.write, []

    def failing(fd, data, offset=0):
        hit = len(data) == {"block": 1024, "slot": 16}[at] and not failed
        if not (hit and when == "before"):
            write(fd, data, offset)
        if hit:
            failed.append(fd)
            raise error

    monkeypatch.setattr(files, "write", failing)

    async def main():
        with pytest.raises(type(error)):
            await into.publish("worker-added", worker(1))

    run(main())
    monkeypatch.undo()
    assert failed
    into.close()
    assert (tree(root), descriptors()) == before
    assert registered(root) == [7]
    run(publish(root, ("added", worker(1)), lock_timeout=0))  # the lock is free
    assert registered(root) == [1, 7]


def test_a_block_that_vanishes_while_it_is_written_gets_no_slot(root, owner, monkeypatch):
    write = files.write

    def removing(fd, data, offset=0):
        write(fd, data, offset)
        if len(data) == 1024:
            block(root, 1).unlink()

    monkeypatch.setattr(files, "write", removing)
    with pytest.raises(FileNotFoundError, match="removed while it was written"):
        run(publish(root, ("added", worker(1))))
    monkeypatch.undo()
    assert registered(root) == []


@pytest.mark.case("X-07")
def test_a_lock_that_is_held_elsewhere_is_waited_for_and_then_reported(root, owner):
    async def main():
        with (generation_of(root / "n") / "registry").open("rb") as elsewhere:
            fcntl.flock(elsewhere, fcntl.LOCK_EX)
            async with publisher(root, lock_timeout=0.05) as into:
                with pytest.raises(TimeoutError, match=r"'n' was locked for 0\.05 s"):
                    await into.publish("worker-added", worker(1))
            async with publisher(root, lock_timeout=None) as patient:
                waiting = asyncio.ensure_future(patient.publish("worker-added", worker(1)))
                await settle()
                assert not waiting.done()
                fcntl.flock(elsewhere, fcntl.LOCK_UN)
                await waiting
        assert registered(root) == [1]

    run(main())


@pytest.mark.case("X-07")
def test_a_publish_that_fails_gives_the_lock_back(root, owner):
    async def main():
        async with publisher(root) as into:
            with pytest.raises(DiscoveryWorkerNotFound):
                await into.publish("worker-updated", worker(1))
            await publish(root, ("added", worker(1)), lock_timeout=0)

    run(main())
    assert registered(root) == [1]


def test_a_publisher_that_is_closed_while_it_waits_says_so(root, owner):
    async def main():
        with (generation_of(root / "n") / "registry").open("rb") as elsewhere:
            fcntl.flock(elsewhere, fcntl.LOCK_EX)
            into = publisher(root)
            waiting = asyncio.ensure_future(into.publish("worker-added", worker(1)))
            await settle()
            into.close()
            with pytest.raises(RuntimeError, match="closed"):
                await waiting

    run(main())


@pytest.mark.parametrize("nth", [1, 2, 3])
def test_a_publish_that_is_cancelled_while_it_waits_has_done_nothing(root, owner, nth):
    async def main():
        with (generation_of(root / "n") / "registry").open("rb") as elsewhere:
            fcntl.flock(elsewhere, fcntl.LOCK_EX)
            async with publisher(root) as into:
                with pytest.raises(asyncio.CancelledError):
                    await CancelledAt(into.publish("worker-added", worker(1)), nth)
                asyncio.current_task().uncancel()
        assert counter(root) == 0

    run(main())


@pytest.mark.case("X-04")
def test_publishes_at_the_same_time_are_all_there(root, owner):
    async def main():
        async with publisher(root) as one, publisher(root) as other:
            both = [(one, other)[number % 2].publish("worker-added", worker(number)) for number in range(1, 9)]
            await asyncio.gather(*both)

    run(main())
    assert registered(root) == blocks(root) == list(range(1, 9))
    assert counter(root) == 8


def test_publishes_on_two_loops_are_all_there(root, owner):
    import threading

    def add(first):
        asyncio.run(
            publish(
                root,
                *(("added", worker(number)) for number in range(first, first + 4)),
                *(("updated", worker(first)),) * 50,
            )
        )

    threads = [threading.Thread(target=add, args=(first,)) for first in (1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert registered(root) == list(range(1, 9))
    assert counter(root) == 108


def test_descriptors_that_run_out_are_reported_as_that(root, owner, monkeypatch):
    open_directory = files.open_directory
    for nth in range(2):
        calls = []

        def exhausted(name, *, at=None, calls=calls, nth=nth):
            calls.append(name)
            if len(calls) == nth + 1:
                raise OSError(errno.EMFILE, "Too many open files")
            return open_directory(name, at=at)

        with monkeypatch.context() as patch:
            patch.setattr(files, "open_directory", exhausted)
            with pytest.raises(OSError, match="Too many open files"):
                run(publish(root))


def test_an_abandoned_publisher_gives_its_descriptors_back(root, owner):
    gc.collect()  # of what earlier tests left
    before = descriptors()
    into = publisher(root)
    run(into.publish("worker-added", worker(1)))
    assert descriptors() > before
    del into
    gc.collect()
    assert descriptors() <= before
