"""Every file operation of discovery goes through one seam."""

import ast
from pathlib import Path

import pytest

from wool_jupyter.discovery import files

FOLDER = Path(files.__file__).parent
THEMSELVES = {"files.py", "root.py"}  # root.py is about whether files work at all
PROCESS = {"getpid", "register_at_fork", "fsdecode", "fsencode"}


def used_of_os(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in {"os", "fcntl"}:
            yield node.attr
        if isinstance(node, ast.ImportFrom) and node.module in {"os", "fcntl"}:
            yield from (alias.name for alias in node.names)


@pytest.mark.parametrize("path", sorted(set(FOLDER.glob("*.py"))), ids=lambda path: path.name)
def test_only_the_seam_asks_the_system_about_files(path):
    assert path.name in THEMSELVES or set(used_of_os(path)) <= PROCESS


def test_an_error_of_a_descriptor_names_the_file(tmp_path, monkeypatch):
    def full(fd, data, offset=0):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "write", full)
    with (
        pytest.raises(OSError, match=r"No space left on device: .*new"),
        files.opened(tmp_path / "new", files.CREATE) as fd,
    ):
        files.write(fd, b"x")


def test_everything_is_written_when_the_disk_takes_it_in_parts(tmp_path, monkeypatch):
    import os

    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, offset: pwrite(fd, data[:3], offset))
    with files.opened(tmp_path / "new", files.CREATE) as fd:
        files.write(fd, b"0123456789", 2)
    assert (tmp_path / "new").read_bytes() == b"\0\0" + b"0123456789"


def test_a_link_is_not_followed(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "to_file").symlink_to("file")
    with pytest.raises(NotADirectoryError):
        files.open_directory(tmp_path / "link")
    with pytest.raises(OSError, match="symbolic link"):
        files.open_file(tmp_path / "to_file", files.WRITE)
    with pytest.raises(FileNotFoundError):
        files.target(tmp_path / "file")
