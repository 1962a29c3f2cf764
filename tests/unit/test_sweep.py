import errno
import os
import warnings

import pytest

from tests.support.discovery import descriptors, open_now, tree
from wool_jupyter.discovery import files
from wool_jupyter.discovery.sweep import sweep_below


def sweep(directory):
    fd = files.open_directory(directory)
    try:
        return sweep_below(fd, str(directory))
    finally:
        os.close(fd)


@pytest.fixture
def outside(tmp_path):
    path = tmp_path / "outside"
    path.mkdir()
    (path / "precious").write_text("kept")
    return path


@pytest.fixture
def planted(tmp_path, outside):
    """Wide, deep, and with every kind of entry."""
    top = tmp_path / "top"
    top.mkdir()
    for number in range(300):
        (top / f"folder{number}").mkdir()
        (top / f"folder{number}" / "file").write_text("x")
    deep = top
    for _ in range(60):
        deep /= "d"
        deep.mkdir()
        (deep / "out").symlink_to(outside)
    (deep / "file").symlink_to(outside / "precious")
    (top / "out").symlink_to(outside)
    (top / "dangling").symlink_to("nowhere")
    os.mkfifo(top / "pipe")
    return top


@pytest.mark.case("X-12")
def test_a_tree_goes_and_what_links_lead_to_stays(planted, outside, monkeypatch):
    most, open_directory = 0, files.open_directory

    def counting(name, *, at=None):
        nonlocal most
        fd = open_directory(name, at=at)
        most = max(most, open_now())  # 70 times, and a look for garbage takes long
        return fd

    monkeypatch.setattr(files, "open_directory", counting)
    before = descriptors()
    assert sweep(planted)
    assert tree(planted) == []
    assert (outside / "precious").read_text() == "kept"
    assert descriptors() == before
    assert 60 < most - before < 70  # as many as it is deep, not as it is wide


@pytest.mark.case("X-12", "REG-12")
def test_what_stays_is_named_once_and_its_folders_are_not(tmp_path, monkeypatch):
    for name in ("a/b/bad1", "a/b/good", "a/bad2", "c/good"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    unlink = files.unlink

    def refusing(name, *, at=None):
        if name.startswith("bad"):
            raise PermissionError(errno.EPERM, "Operation not permitted")
        unlink(name, at=at)

    monkeypatch.setattr(files, "unlink", refusing)
    with pytest.warns(ResourceWarning) as caught:
        assert not sweep(tmp_path)
    assert sorted(str(each.message) for each in caught) == [
        f"{tmp_path}/a/b/bad1 can't be removed: Operation not permitted",
        f"{tmp_path}/a/bad2 can't be removed: Operation not permitted",
    ]
    assert tree(tmp_path) == ["a", "a/b", "a/b/bad1", "a/bad2"]


@pytest.mark.case("X-12")
@pytest.mark.parametrize("operation", ["open_directory", "listed", "remove_directory"])
def test_a_folder_that_can_t_be_entered_listed_or_removed_is_named(tmp_path, monkeypatch, operation):
    (tmp_path / "a" / "bad").mkdir(parents=True)
    (tmp_path / "good").mkdir()
    bad = (tmp_path / "a" / "bad").stat().st_ino
    real = getattr(files, operation)

    def failing(what, *rest, **at):
        is_bad = os.fstat(what).st_ino == bad if isinstance(what, int) else what == "bad"
        if is_bad:
            raise OSError(errno.EIO, "Input/output error")
        return real(what, *rest, **at)

    before = descriptors()
    monkeypatch.setattr(files, operation, failing)
    with pytest.warns(ResourceWarning) as caught:
        assert not sweep(tmp_path)
    assert [str(each.message) for each in caught] == [f"{tmp_path}/a/bad can't be removed: Input/output error"]
    assert tree(tmp_path) == ["a", "a/bad"]
    assert descriptors() == before


@pytest.mark.case("X-12")
def test_descriptors_are_closed_when_warnings_are_errors(tmp_path, monkeypatch):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").touch()

    def refusing(name, *, at=None):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(files, "unlink", refusing)
    before = descriptors()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ResourceWarning):
            sweep(tmp_path)
    assert descriptors() == before


def test_what_vanishes_meanwhile_is_no_matter(tmp_path, monkeypatch):
    for name in ("file", "folder"):
        (tmp_path / name).mkdir() if name == "folder" else (tmp_path / name).touch()
    real = files.is_directory

    def vanishing(name, *, at=None):
        found = real(name, at=at)
        os.rmdir(name, dir_fd=at) if found else os.unlink(name, dir_fd=at)
        return found

    monkeypatch.setattr(files, "is_directory", vanishing)
    assert sweep(tmp_path)


def test_a_file_that_a_dying_process_still_makes_goes_too(tmp_path, monkeypatch):
    (tmp_path / "folder").mkdir()
    late = [tmp_path / "folder" / name for name in "ab"]
    remove = files.remove_directory

    def with_late_files(name, *, at=None):
        if late:
            late.pop().touch()
        remove(name, at=at)

    monkeypatch.setattr(files, "remove_directory", with_late_files)
    assert sweep(tmp_path)
    assert tree(tmp_path) == []
    assert not late


def test_a_folder_that_is_filled_for_ever_is_given_up(tmp_path, monkeypatch):
    (tmp_path / "folder").mkdir()
    remove, made = files.remove_directory, []

    def filling(name, *, at=None):
        made.append(tmp_path / "folder" / f"late{len(made)}")
        made[-1].touch()
        remove(name, at=at)

    monkeypatch.setattr(files, "remove_directory", filling)
    with pytest.warns(ResourceWarning, match="folder can't be removed"):
        assert not sweep(tmp_path)
    assert len(made) == 5
