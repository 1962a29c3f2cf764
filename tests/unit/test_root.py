import os
import re
import stat
import sys
from pathlib import Path

import pytest

from wool_jupyter.discovery import root as roots
from wool_jupyter.errors import NoUsableRoot
from wool_jupyter.wire import layout

WORST_UID = 2**32 - 1


@pytest.fixture
def base():
    """Short enough for a socket, unlike pytest's own."""
    import shutil
    import tempfile

    path = Path(tempfile.mkdtemp(prefix="w", dir="/private/tmp" if sys.platform == "darwin" else "/tmp"))
    yield path
    shutil.rmtree(path)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_root_is_the_user_s_own_and_private(base):
    root = roots.choose_root({}, [base])
    assert root == base / f"wool-{os.geteuid()}" / "1"
    assert (mode(root), mode(root.parent)) == (0o700, 0o700)
    assert list(root.iterdir()) == []
    assert roots.choose_root({}, [base]) == root


def test_override_comes_first(base):
    environment = {roots.OVERRIDE: str(base), "XDG_RUNTIME_DIR": "/run/user/7"}
    assert roots.choose_root(environment).parent.parent == base
    assert roots.default_candidates(environment)[0] == base
    assert Path("/run/user/7") in roots.default_candidates(environment)


def test_first_usable_candidate_is_taken(base):
    second = base / "b"
    second.mkdir()
    assert roots.choose_root({}, [base / "missing", second]).is_relative_to(second)


def test_candidate_that_is_a_link_is_resolved(base):
    (base / "real").mkdir()
    (base / "link").symlink_to("real")
    assert roots.choose_root({}, [base / "link"]).is_relative_to(base / "real")


def make_user_a_link(base: Path) -> None:
    (base / "elsewhere").mkdir(mode=0o700)
    (base / f"wool-{os.geteuid()}").symlink_to("elsewhere")


def make_layout_a_link(base: Path) -> None:
    user = base / f"wool-{os.geteuid()}"
    user.mkdir(mode=0o700)
    (base / "elsewhere").mkdir(mode=0o700)
    (user / "1").symlink_to(base / "elsewhere")


def make_user_readable(base: Path) -> None:
    (base / f"wool-{os.geteuid()}").mkdir()
    (base / f"wool-{os.geteuid()}").chmod(0o755)


def make_user_a_file(base: Path) -> None:
    (base / f"wool-{os.geteuid()}").touch()


def make_base_open_to_all(base: Path) -> None:
    base.chmod(0o777)


@pytest.mark.parametrize(
    ("arrange", "reason"),
    [
        (make_user_a_link, "Not a directory|symbolic links"),
        (make_layout_a_link, "Not a directory|symbolic links"),
        (make_user_readable, "mode 755, not 700"),
        (make_user_a_file, "Not a directory"),
        (make_base_open_to_all, "no sticky bit"),
        (Path.rmdir, "No such file"),
    ],
)
def test_untrustworthy_directory_is_refused(base, arrange, reason):
    inner = base / "b"
    inner.mkdir()
    arrange(inner)
    with pytest.raises(NoUsableRoot, match=f"{inner}: .*({reason})"):
        roots.choose_root({}, [inner])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_directory_of_another_user_is_refused(base):
    user = base / f"wool-{os.geteuid()}"
    user.mkdir(mode=0o700)
    os.chown(user, 12345, -1)
    with pytest.raises(NoUsableRoot, match="belongs to user 12345"):
        roots.choose_root({}, [base])


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "lustre", "afs"])
def test_network_file_system_is_refused(base, kind):
    with pytest.raises(NoUsableRoot, match=re.escape(kind)):
        roots.choose_root({}, [base], mount_type=lambda path: kind)


def test_network_file_system_by_override_warns(base):
    with pytest.warns(UserWarning, match="nfs4"):
        root = roots.choose_root({roots.OVERRIDE: str(base)}, mount_type=lambda path: "nfs4")
    assert root.is_relative_to(base)


def test_full_file_system_is_refused(base):
    with pytest.raises(NoUsableRoot, match="only 7 MiB free, 8 needed"):
        roots.choose_root({}, [base], free_bytes=lambda path: (8 << 20) - 1)


def test_path_too_long_for_a_socket_is_refused(base):
    deep = base / ("d" * 80)
    deep.mkdir()
    with pytest.raises(NoUsableRoot, match="too long for a Unix socket"):
        roots.choose_root({}, [deep])


def test_error_lists_each_candidate_with_its_reason(base):
    with pytest.raises(NoUsableRoot) as caught:
        roots.choose_root({}, [base / "a", base / "b"])
    assert [line.strip() for line in str(caught.value).splitlines()[1:]] == [
        f"{base / 'a'}: No such file or directory",
        f"{base / 'b'}: No such file or directory",
    ]


@pytest.mark.parametrize(
    ("candidate", "limit_bytes"),
    [
        ("/dev/shm", 107),
        (f"/run/user/{WORST_UID}", 107),
        ("/tmp", 107),
        ("/var/tmp", 107),
        ("/private/tmp", 103),
    ],
)
def test_socket_path_fits_for_every_user(candidate, limit_bytes):
    generation = roots.root_under(Path(candidate), WORST_UID) / roots.kernel_namespace("/x/kernel.json") / ("f" * 10)
    assert len(os.fsencode(layout.behind_door(layout.socket(generation, "f" * 8)))) <= limit_bytes


def test_namespace_is_stable_and_short():
    first = roots.kernel_namespace("/run/kernel-1.json")
    assert first == roots.kernel_namespace("/run/kernel-1.json")
    assert first != roots.kernel_namespace("/run/kernel-2.json")
    assert re.fullmatch("k[0-9a-f]{10}", first)
