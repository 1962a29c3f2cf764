"""Local discovery between real interpreters."""

import asyncio
import os
import shutil
import signal
import subprocess
import time
from contextlib import ExitStack, aclosing, contextmanager

import pytest

from tests.support.discovery import generation_of, owned, take, tree, worker
from tests.support.discovery_process import Interpreter
from tests.support.loops import run
from tests.support.waiting import wait_until
from wool_jupyter.discovery import claim, registry
from wool_jupyter.discovery.local import LocalDiscovery
from wool_jupyter.discovery.scan import Scan
from wool_jupyter.errors import DiscoveryNamespaceInUse


def registered(root):
    binding = registry.bind("n", root)
    found = sorted(event.metadata.uid.int for event in Scan().take(binding.blocks()))
    binding.close()
    return found


@contextmanager
def owner(root, role="own"):
    with Interpreter(role, root) as interpreter:
        assert interpreter.hear() == "entered"
        yield interpreter


@pytest.mark.case("OWN-23", "REG-35")
def test_of_four_that_race_one_is_admitted(root):
    """Each holds on until all have tried."""
    with ExitStack() as stack:
        racers = [stack.enter_context(Interpreter("race", root)) for _ in range(4)]
        assert [racer.hear() for racer in racers] == ["ready"] * 4
        moment = time.time() + 0.3
        for racer in racers:
            racer.say(str(moment))
        assert sorted(racer.hear() for racer in racers) == ["DiscoveryNamespaceInUse"] * 3 + ["entered"]
        assert claim.is_served(root / "n")
        assert [racer.end() for racer in racers] == [0] * 4
    assert tree(root) == []


@pytest.mark.case("REG-34", "REG-04", "REG-01")
def test_a_killed_owner_s_namespace_is_taken_over(root):
    with owner(root) as killed:
        first = generation_of(root / "n")
        killed.kill()
    assert first.is_dir()

    async def main():
        async with LocalDiscovery("n", root=root) as successor:
            assert not first.exists()
            with pytest.raises(DiscoveryNamespaceInUse):
                await LocalDiscovery("n", root=root).__aenter__()
            with Interpreter("own", root) as rival:
                assert rival.hear() == "DiscoveryNamespaceInUse"
            assert successor.directory.is_dir()
        assert tree(root) == []

    run(main(), 60)


@pytest.mark.case("OWN-01")
def test_an_owner_that_ends_without_leaving_leaves_no_file(root):
    with owner(root, "own_without_leaving") as interpreter:
        assert interpreter.end() == 0
    assert tree(root) == []


@pytest.mark.case("REG-08")
@pytest.mark.parametrize("how", ["leave", "exit", "in-c leave", "in-c exit"])
def test_a_fork_of_the_owner_removes_nothing(root, how):
    with owner(root, "own_and_fork") as interpreter:
        before = tree(root)
        assert interpreter.ask(how) == "0"
        assert tree(root) == before
        assert claim.is_served(root / "n")
        assert registered(root) == []
        assert interpreter.end() == 0
    assert tree(root) == []


@pytest.mark.case("REG-08")
@pytest.mark.parametrize(("how", "ending"), [("linger", "in order"), ("linger", "killed"), ("in-c linger", "in order")])
def test_a_fork_that_outlives_its_owner_does_not_keep_the_namespace(root, how, ending):
    with owner(root, "own_and_fork") as interpreter:
        child = int(interpreter.ask(how))
        try:
            if ending == "killed":
                interpreter.kill()
            else:
                assert interpreter.end() == 0
                assert tree(root) == []
            owned(root / "n").release()
            os.kill(child, 0)
        finally:
            os.kill(child, signal.SIGKILL)
    assert tree(root) == []


@pytest.mark.case("REG-36", "OWN-05", "REG-14")
def test_a_publisher_elsewhere_is_stranded_when_its_owner_leaves(root):
    with owner(root) as first, Interpreter("publish", root) as publisher:
        assert publisher.hear() == "bound"
        assert publisher.ask("added 1") == "published"
        assert first.end() == 0
        assert publisher.ask("added 2") == "DiscoveryNamespaceNotFound"
        with owner(root):
            assert publisher.ask("added 3") == "DiscoveryNamespaceNotFound"
            assert registered(root) == []
            assert publisher.end() == 0


@pytest.mark.case("X-08", "REG-15")
def test_a_publish_after_the_owner_was_killed_fails_though_its_files_are_there(root):
    with owner(root) as killed, Interpreter("publish", root) as publisher:
        assert publisher.hear() == "bound"
        killed.kill()
        assert (generation_of(root / "n") / "registry").exists()
        assert publisher.ask("added 1") == "DiscoveryNamespaceNotFound"


@pytest.mark.case("REG-37", "X-16", "OWN-28")
@pytest.mark.parametrize("ending", ["killed", "in order"])
def test_a_borrower_s_end_leaves_the_namespace_to_its_owner(root, ending):
    with owner(root) as interpreter:
        with Interpreter("publish", root) as publisher, Interpreter("follow", root) as follower:
            assert publisher.hear() == "bound"
            assert publisher.ask("added 1") == "published"
            assert follower.hear() == "added 1"
            if ending == "killed":
                follower.kill()
                publisher.kill()
            else:
                assert publisher.end() == 0
        assert registered(root) == [1]
        with Interpreter("publish", root) as another:
            assert another.hear() == "bound"
            assert another.ask("dropped 1") == "published"
        assert registered(root) == []
        assert interpreter.end() == 0
    assert tree(root) == []


@pytest.mark.case("REG-37")
def test_a_publisher_that_is_killed_at_it_leaves_a_registry_that_works(root):
    with owner(root) as interpreter:
        for _ in range(5):
            with Interpreter("publish_for_ever", root) as publisher:
                assert publisher.hear() == "bound"
                assert publisher.hear() == "busy"
                publisher.kill()
            with Interpreter("publish", root) as another:
                assert another.hear() == "bound"
                for number in range(1, 6):
                    assert another.ask(f"added {number}") == "published"
            assert registered(root) == [1, 2, 3, 4, 5]
        assert interpreter.end() == 0
    assert tree(root) == []


@pytest.mark.case("X-16")
def test_a_publish_elsewhere_is_told_without_polling(root):
    """The liveness interval, at which the counter is looked at too, is longer than the test."""
    with (
        owner(root),
        Interpreter("publish", root) as publisher,
        Interpreter("follow", root, "liveness_interval_s=300") as far,
    ):
        assert publisher.hear() == "bound"

        async def main():
            following = LocalDiscovery.Subscriber("n", root=root, liveness_interval_s=300)
            async with aclosing(aiter(following)) as near:
                for number in range(1, 6):
                    step = asyncio.ensure_future(take(near, 1))
                    assert await asyncio.to_thread(publisher.ask, f"added {number}") == "published"
                    assert await step == [("added", number)]
                    assert await asyncio.to_thread(far.hear) == f"added {number}"

        run(main())


def test_a_fork_of_who_follows_is_told_too(root):
    """It has none of its parent's threads."""
    with owner(root) as first, Interpreter("publish", root) as publisher:
        assert publisher.hear() == "bound"
        assert publisher.ask("added 1") == "published"
        with Interpreter("follow_and_fork", root, "liveness_interval_s=60") as parent:
            assert parent.hear() == "added 1"
            for number in (2, 3):
                assert publisher.ask(f"added {number}") == "published"
                assert parent.hear(20) == f"added {number}"
            assert first.end() == 0
            assert parent.hear(20) == "DiscoveryNamespaceNotFound"


@pytest.mark.case("REG-21", "REG-17")
@pytest.mark.parametrize("ending", ["killed", "in order"])
def test_all_who_follow_hear_that_the_owner_is_gone(root, ending):
    with owner(root) as interpreter, ExitStack() as stack:
        followers = [stack.enter_context(Interpreter("follow", root, "poll_interval=600")) for _ in range(3)]
        with Interpreter("publish", root) as publisher:
            assert publisher.hear() == "bound"
            assert publisher.ask("added 1") == "published"
            assert [follower.hear() for follower in followers] == ["added 1"] * 3
            if ending == "killed":
                interpreter.kill()
            else:
                assert interpreter.end() == 0
            assert [follower.hear() for follower in followers] == ["DiscoveryNamespaceNotFound"] * 3
            assert [follower.process.wait(30) for follower in followers] == [0] * 3


# Faults


@contextmanager
def tiny_tmpfs(path, size_bytes):
    if os.geteuid() != 0:
        pytest.skip("only root can mount")
    path.mkdir(mode=0o700)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size_bytes},mode=700", "tmpfs", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"mounting is forbidden here: {mounted.stderr.strip()}")
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


def fill(path):
    """The file system, to its last page."""
    with (path / "filler").open("wb", buffering=0) as filler:
        try:
            while True:
                filler.write(bytes(4096))
        except OSError:
            pass


def test_a_full_disk_refuses_a_new_worker_and_keeps_the_others(tmp_path):
    async def main(root):
        async with LocalDiscovery("n", root=root) as entered, entered.publisher as into:
            await into.publish("worker-added", worker(1))
            fill(root)
            async with aclosing(aiter(entered.subscriber)) as events:
                assert await take(events, 1) == [("added", 1)]
                with pytest.raises(OSError, match=f"No space left on device.*{worker(2).uid}"):
                    await into.publish("worker-added", worker(2))
                await into.publish("worker-updated", worker(1, tags=frozenset({"still"})))
                assert await take(events, 1) == [("updated", 1)]
                await into.publish("worker-dropped", worker(1))
                assert await take(events, 1) == [("dropped", 1)]
                await into.publish("worker-added", worker(2))
                assert await take(events, 1) == [("added", 2)]
            (root / "filler").unlink()
        assert tree(root) == []

    with tiny_tmpfs(tmp_path / "tiny", 256 << 10) as root:
        run(main(root))


def test_a_full_disk_refuses_an_owner_and_leaves_nothing(tmp_path):
    async def main(root):
        with pytest.raises(OSError, match="No space left on device"):
            await LocalDiscovery("n", root=root, capacity=1 << 16).__aenter__()
        assert tree(root) == []

    with tiny_tmpfs(tmp_path / "tiny", 256 << 10) as root:
        run(main(root))


def test_without_descriptors_nothing_hangs_and_the_error_says_so(root):
    with owner(root), Interpreter("publish", root) as publisher:
        assert publisher.hear() == "bound"
        assert publisher.ask("added 1") == "published"
        with Interpreter("follow_without_descriptors", root) as poor:
            assert (
                poor.hear(60) == "TimeoutError | Too many open files"
            )  # at first it can't bind, then it can't read the worker
            assert poor.hear() == "added 1"
        wait_until(lambda: registered(root) == [1, 2])


@pytest.mark.case("X-09")
def test_without_inotify_instances_a_subscription_looks_by_itself(root):
    """In a user namespace of its own, whose limit is its own too."""
    unshare = shutil.which("unshare")
    prefix = (unshare or "", "--user", "--map-root-user")
    limit = 'echo 0 > /proc/sys/user/max_inotify_instances && exec "$@"'
    if (
        unshare is None
        or subprocess.run([*prefix, "sh", "-c", limit, "sh", "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("no user namespaces here, in which a limit of its own could be set")
    with owner(root), Interpreter("publish", root) as publisher:
        assert publisher.hear() == "bound"
        with Interpreter("follow", root, "liveness_interval_s=300", prefix=(*prefix, "sh", "-c", limit, "sh")) as blind:
            for number in range(1, 4):
                assert publisher.ask(f"added {number}") == "published"
                assert blind.hear() == f"added {number}"


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_two_hundred_owners_of_whom_a_third_are_killed_leave_nothing_to_the_next(root):
    """Four at a time: each that enters removes what the killed have left, while others enter and leave."""
    for first in range(0, 200, 4):
        with ExitStack() as stack:
            owners = [stack.enter_context(Interpreter("own", root, f"n{number}")) for number in range(4)]
            assert [each.hear() for each in owners] == ["entered"] * 4
            for number, each in enumerate(owners, first):
                if number % 3 == 0:
                    each.kill()
                else:
                    assert each.end() == 0
    assert tree(root) != []  # the last of all was killed
    with owner(root) as last:
        assert last.end() == 0
    assert tree(root) == []
