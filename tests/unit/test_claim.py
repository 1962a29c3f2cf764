import errno
import os
import shutil
import threading
import time

import pytest

from tests.support.discovery import NEVER, descriptors, generation_of, owned, tree
from wool_jupyter.discovery import claim, files, generation, locks, registry
from wool_jupyter.errors import DiscoveryNamespaceContended, DiscoveryNamespaceInUse, DiscoveryNamespaceNotFound


@pytest.fixture(autouse=True)
def no_descriptor_stays():
    before = descriptors()
    yield
    assert descriptors() <= before


def held(namespace):
    """Locked, and serving nothing: who sweeps or stages it."""
    namespace.mkdir(exist_ok=True)
    return locks.try_lock(files.open_directory(namespace))


@pytest.mark.case("REG-01", "OWN-01")
def test_a_namespace_is_there_from_claim_to_release(root):
    claimed = owned(root / "n")
    name = (root / "n" / "current").readlink().name
    below = [f"n/{name}", f"n/{name}/blocks", f"n/{name}/notify", f"n/{name}/registry"]
    assert tree(root) == sorted(["n", "n/current", *below])
    assert claim.is_served(root / "n")
    claimed.release()
    assert tree(root) == []


@pytest.mark.case("REG-02", "OWN-02", "X-21")
def test_a_live_owner_repels_at_once(root):
    claimed = owned(root / "n")
    before = tree(root)
    began = time.monotonic()
    with pytest.raises(DiscoveryNamespaceInUse) as caught:
        claim.claim(root / "n", give_up=NEVER, patience_s=30)
    assert time.monotonic() - began < 5
    assert caught.value.namespace == "n"
    assert tree(root) == before
    claimed.release()


def test_a_namespace_that_is_held_and_serves_nothing_is_in_use_only_after_a_while(root):
    lock = held(root / "n")
    with pytest.raises(DiscoveryNamespaceInUse):
        claim.claim(root / "n", give_up=NEVER, patience_s=0.1)
    lock.release()


@pytest.mark.case("X-21")
def test_who_waits_for_a_sweep_is_admitted(root):
    lock = held(root / "n")
    waiting = threading.Event()

    class Waiting(threading.Event):
        def wait(self, timeout=None):
            waiting.set()
            return super().wait(timeout)

    admitted = []
    thread = threading.Thread(target=lambda: admitted.append(claim.claim(root / "n", give_up=Waiting())))
    thread.start()
    assert waiting.wait(10)
    (root / "n").rmdir()  # as who sweeps does, before it lets go
    lock.release()
    thread.join(10)
    admitted[0].release()
    assert tree(root) == []


@pytest.mark.case("X-21")
def test_it_is_admitted_150_times_beside_a_busy_janitor(root):
    namespace, over = root / "n", threading.Event()
    generation_with_leftovers = namespace / "0123456789"
    (generation_with_leftovers / "blocks").mkdir(parents=True)
    for number in range(2000):
        (generation_with_leftovers / "blocks" / str(number)).touch()

    def sweep_all_the_time():
        while not over.is_set():
            claim.sweep_dead(root)

    janitor = threading.Thread(target=sweep_all_the_time)
    janitor.start()
    try:
        for _ in range(150):
            owned(namespace).release()
    finally:
        over.set()
        janitor.join()
    assert tree(root) == []


def test_who_gives_up_gets_nothing(root):
    lock = held(root / "n")
    give_up = threading.Event()
    give_up.set()
    assert claim.claim(root / "n", give_up=give_up) is None
    lock.release()


@pytest.mark.case("X-01")
def test_a_namespace_that_is_replaced_each_time_is_contended_after_eight_attempts(root, monkeypatch):
    lock, attempts = files.lock, []

    def replacing(fd):
        lock(fd)
        attempts.append(fd)
        (root / "n").rename(root / f"moved{len(attempts)}")
        (root / "n").mkdir()

    monkeypatch.setattr(files, "lock", replacing)
    with pytest.raises(DiscoveryNamespaceContended) as caught:
        claim.claim(root / "n", give_up=NEVER)
    assert caught.value.namespace == "n"
    assert len(attempts) == 8


@pytest.mark.parametrize("what", ["gone", "file", "link"])
def test_a_directory_that_is_not_what_was_locked_is_not_claimed(root, monkeypatch, what):
    lock, attempts = files.lock, []
    (root / "elsewhere").mkdir()

    def replacing_once(fd):
        lock(fd)
        attempts.append(fd)
        if len(attempts) == 1:
            (root / "n").rmdir()
            if what == "file":
                (root / "n").touch()
            if what == "link":
                (root / "n").symlink_to("elsewhere")

    monkeypatch.setattr(files, "lock", replacing_once)
    if what == "gone":
        claim.claim(root / "n", give_up=NEVER).release()
        assert len(attempts) == 2
    else:
        with pytest.raises(NotADirectoryError, match="n"):
            claim.claim(root / "n", give_up=NEVER)
        assert len(attempts) == 1


@pytest.mark.case("REG-07")
def test_a_lock_that_fails_is_reported_as_it_is(root, monkeypatch):
    incumbent = owned(root / "n")
    before, lock = tree(root), files.lock

    def failing(fd):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(files, "lock", failing)
    with pytest.raises(OSError, match="No locks available"):
        claim.claim(root / "n", give_up=NEVER)
    monkeypatch.setattr(files, "lock", lock)
    assert tree(root) == before
    assert claim.is_served(root / "n")
    incumbent.release()


@pytest.mark.case("REG-06")
@pytest.mark.parametrize(
    "operation",
    ["make_directory", "open_directory", "open_file", "write", "rename", "link", "lock", "listed", "status"],
)
@pytest.mark.parametrize("nth", range(6))
def test_an_entry_that_fails_anywhere_leaves_nothing(root, monkeypatch, operation, nth):
    real, calls = getattr(files, operation), []

    def failing(*args, **options):
        calls.append(args)
        if len(calls) == nth + 1:
            raise OSError(errno.EIO, "Input/output error")
        return real(*args, **options)

    claimed = None
    with monkeypatch.context() as patch:
        patch.setattr(files, operation, failing)
        try:
            claimed = claim.claim(root / "n", give_up=NEVER)
            claimed.sweep()
            claimed.stage(lambda at: registry.create(at, capacity=8, block_size=1024))
        except OSError as error:
            assert error.errno == errno.EIO  # noqa: PT017
    if claimed is not None:
        claimed.release()
        assert tree(root) == []


@pytest.mark.case("REG-04")
def test_what_a_killed_owner_left_is_swept(root):
    leftover = root / "n" / "0123456789"
    (leftover / "blocks").mkdir(parents=True)
    (leftover / "blocks" / "block").touch()
    (root / "n" / "current").symlink_to("0123456789")
    claimed = owned(root / "n")
    assert [each for each in tree(root / "n") if "/" not in each] == sorted([generation_of(root / "n").name, "current"])
    assert generation_of(root / "n").name != "0123456789"
    claimed.release()


@pytest.mark.case("REG-03")
def test_who_binds_while_a_generation_is_staged_gets_all_of_it_or_nothing(root, monkeypatch):
    """At each step: what can be found is complete, and owned."""
    seen = []

    def binding_after(name):
        real = getattr(files, name)

        def wrapped(*args, **options):
            result = real(*args, **options)
            with monkeypatch.context() as patch:
                patch.setattr(files, name, real)
                try:
                    binding = registry.bind("n", root)
                except DiscoveryNamespaceNotFound:
                    seen.append(False)
                    assert not (root / "n" / "current").is_symlink()
                else:
                    seen.append(True)
                    assert binding.capacity == 8
                    binding.close()
            return result

        return wrapped

    for name in ("make_directory", "write", "link", "rename", "lock"):
        monkeypatch.setattr(files, name, binding_after(name))
    claimed = owned(root / "n")
    monkeypatch.undo()
    assert seen == sorted(seen)
    assert set(seen) == {False, True}
    claimed.release()


@pytest.mark.case("X-03", "REG-05")
def test_a_second_release_touches_nothing(root):
    """The number of a closed descriptor may be another's."""
    claimed = owned(root / "n")
    claimed.release()
    successor = owned(root / "n")
    other = [files.open_directory(root) for _ in range(4)]
    before = tree(root)
    claimed.release()
    assert tree(root) == before
    for fd in other:
        os.fstat(fd)
        os.close(fd)
    successor.release()


@pytest.mark.case("X-03")
def test_an_owner_whose_directory_was_removed_leaves_its_successor_alone(root):
    first = owned(root / "n")
    shutil.rmtree(root / "n")
    second = owned(root / "n")
    before = tree(root)
    first.release()
    assert tree(root) == before
    assert claim.is_served(root / "n")
    second.release()
    assert tree(root) == []


@pytest.mark.case("REG-12")
def test_what_can_t_be_removed_is_one_warning_each(root, monkeypatch):
    claimed = owned(root / "n")
    unlink = files.unlink

    def refusing(name, *, at=None):
        if name in {"registry", "notify"}:
            raise PermissionError(errno.EPERM, "Operation not permitted")
        unlink(name, at=at)

    monkeypatch.setattr(files, "unlink", refusing)
    with pytest.warns(ResourceWarning) as caught:
        claimed.release()
    assert sorted(str(each.message).split(" can't")[0].rsplit("/", 1)[1] for each in caught) == ["notify", "registry"]
    assert not claim.is_served(root / "n")
    monkeypatch.undo()
    assert claim.sweep_if_dead(root / "n")
    assert tree(root) == []


def test_the_lock_is_released_before_the_files_go(root, monkeypatch):
    """Else a borrower would see a live lock over files that are gone."""
    claimed = owned(root / "n")
    fd, _ = generation.open_current(root / "n")
    unlink, alive = files.unlink, []

    def looking(name, *, at=None):
        alive.append(generation.is_owned(fd))
        unlink(name, at=at)

    monkeypatch.setattr(files, "unlink", looking)
    claimed.release()
    os.close(fd)
    assert alive
    assert not any(alive)


def test_a_release_waits_for_a_publish_under_way_but_not_for_ever(root):
    claimed = owned(root / "n")
    registry = generation_of(root / "n") / "registry"
    publishing = locks.try_lock(files.open_file(registry, files.WRITE))
    released = threading.Thread(target=claimed.release)
    released.start()
    released.join(0.2)
    assert released.is_alive()
    assert claim.is_served(root / "n")
    publishing.release()
    released.join(10)
    assert tree(root) == []

    claimed = owned(root / "n")
    stuck = locks.try_lock(files.open_file(generation_of(root / "n") / "registry", files.WRITE))
    claimed.release()
    assert tree(root) == []
    stuck.release()


def test_the_janitor_removes_the_dead_and_leaves_the_living(root):
    claimed = owned(root / "living")
    staging = held(root / "staging")
    for name in ("dead1", "dead2"):
        (root / name / "0123456789" / "blocks").mkdir(parents=True)
    (root / "a file").touch()
    (root / "outside").symlink_to(root.parent)
    claim.sweep_dead(root, sparing="dead2")
    assert sorted(each.name for each in root.iterdir()) == ["a file", "dead2", "living", "outside", "staging"]
    assert claim.is_served(root / "living")
    staging.release()
    claimed.release()


def test_a_killed_owner_s_namespace_is_swept_by_who_looks_after_it(root):
    (root / "n" / "0123456789" / "s").mkdir(parents=True)
    assert claim.sweep_if_dead(root / "n")
    assert tree(root) == []
    assert claim.sweep_if_dead(root / "n")  # nothing is there: nothing is made
    assert tree(root) == []


def test_a_successor_s_namespace_is_not_swept(root):
    claimed = owned(root / "n")
    assert not claim.sweep_if_dead(root / "n")
    assert claim.is_served(root / "n")
    claimed.release()


@pytest.mark.parametrize("current", ["file", "outwards", "dangling", "to a link"])
def test_a_planted_pointer_leads_nowhere(root, current):
    (root / "n" / "real").mkdir(parents=True)
    (root / "outside").mkdir()
    lock = locks.try_lock(files.open_directory(root / "outside"))
    match current:
        case "file":
            (root / "n" / "current").touch()
        case "outwards":
            (root / "n" / "current").symlink_to("../outside")
        case "dangling":
            (root / "n" / "current").symlink_to("nowhere")
        case "to a link":
            (root / "n" / "hop").symlink_to("../outside")
            (root / "n" / "current").symlink_to("hop")
    assert not claim.is_served(root / "n")
    claim.claim(root / "n", give_up=NEVER).release()
    assert (root / "outside").is_dir()
    lock.release()
