import asyncio
import os
import shutil
import socket
import tempfile
from pathlib import Path

import pytest

from tests.support.discovery import tree
from tests.support.loops import run
from wool_jupyter.discovery import claim, generation, shortcut
from wool_jupyter.discovery import root as roots
from wool_jupyter.discovery.local import LocalDiscovery
from wool_jupyter.wire import layout

WORST_UID = 2**32 - 1
CANDIDATES = [
    ("/dev/shm", 107),
    (f"/run/user/{WORST_UID}", 107),
    ("/tmp", 107),
    ("/var/tmp", 107),
    ("/private/tmp", 103),
]
NAMESPACES = [roots.kernel_namespace("/x/kernel.json"), "n" * 64, "n" * 255]


@pytest.fixture
def base():
    """Short enough for a socket, unlike pytest's own."""
    path = Path(tempfile.mkdtemp(prefix="w", dir="/tmp"))
    yield path
    shutil.rmtree(path)


@pytest.mark.case("X-24")
@pytest.mark.parametrize(("candidate", "limit_bytes"), CANDIDATES)
@pytest.mark.parametrize("namespace", NAMESPACES, ids=["derived", "64", "255"])
def test_a_socket_s_path_fits_for_every_user_and_name(monkeypatch, candidate, limit_bytes, namespace):
    monkeypatch.setattr(shortcut.host, "SOCKET_PATH_MAX_BYTES", limit_bytes)
    for name in ("make_directory", "link"):  # what they would make is not asked for here
        monkeypatch.setattr(shortcut.files, name, lambda *args, **options: None)
    directory = roots.root_under(Path(candidate), WORST_UID) / namespace / generation.new_name()
    path = layout.behind_door(layout.socket(shortcut.shortened(directory), "f" * 32))
    assert len(os.fsencode(path)) <= limit_bytes
    longest = layout.behind_door(layout.socket(directory, "f" * 32))
    assert (shortcut.shortened(directory) == directory) == (len(os.fsencode(longest)) <= limit_bytes)


@pytest.mark.case("X-24")
@pytest.mark.parametrize("namespace", ["n", "n" * 255], ids=["short", "long"])
def test_a_socket_can_be_bound_and_goes_with_its_owner(base, namespace):
    root = roots.choose_root({}, [base])

    async def main():
        async with LocalDiscovery(namespace, root=root) as entered:
            (entered.directory / "s").mkdir()
            path = layout.socket(entered.short_directory, "f" * 32)
            with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
                listener.bind(str(path))
                listener.listen()
                client.connect(str(path))
            assert (entered.directory / "s" / "ffffffff").is_socket()
            assert (entered.short_directory == entered.directory) == (namespace == "n")
        with pytest.raises(RuntimeError, match="not entered"):
            str(entered.short_directory)

    run(main())
    assert tree(root.parent) == ["1"]


def test_a_link_to_what_a_killed_owner_left_is_removed_and_others_stay(base):
    root = roots.choose_root({}, [base])

    async def main():
        async with LocalDiscovery("n" * 255, root=root) as entered:
            (root / "dead").mkdir()
            dead = root.with_name("1-s") / "0123456789"
            dead.symlink_to(root / "dead" / "0123456789")
            claim.sweep_dead(root)
            assert not dead.is_symlink()
            assert entered.short_directory.is_dir()

    asyncio.run(main())
    assert tree(root.parent) == ["1"]


def test_a_folder_of_links_that_is_removed_in_between_is_made_again(base, monkeypatch):
    root = roots.choose_root({}, [base])
    directory = root / ("n" * 255) / "0123456789"
    directory.mkdir(parents=True)
    link, tried = shortcut.files.link, []

    def removing_once(*args, **options):
        tried.append(args)
        if len(tried) == 1:
            shortcut.remove_dangling(root)
        link(*args, **options)

    monkeypatch.setattr(shortcut.files, "link", removing_once)
    assert shortcut.shortened(directory).samefile(directory)
    assert len(tried) == 2
