"""Removes a directory tree by descriptors: what lies behind a link stays."""

import errno
import os
from contextlib import suppress
from pathlib import Path

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ATTEMPTS = 5  # a dying process may still make a file between the listing and the removal


def sweep(directory: Path) -> None:
    """The tree, then the directory above it if that is empty. Missing is fine; OSError for what can't be removed."""
    try:
        above = os.open(directory.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        _remove(directory.name, above)
    finally:
        os.close(above)
    with suppress(OSError):
        directory.parent.rmdir()


def _remove(name: str, above: int) -> None:
    for attempt in range(_ATTEMPTS):
        try:
            fd = os.open(name, _DIRECTORY, dir_fd=above)
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno not in {errno.ENOTDIR, errno.ELOOP, errno.ENXIO}:  # a file, a link, a socket
                raise
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=above)
            return
        try:
            with os.scandir(fd) as entries:
                names = [entry.name for entry in entries]
            for inner in names:
                _remove(inner, fd)
        finally:
            os.close(fd)
        try:
            os.rmdir(name, dir_fd=above)
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno != errno.ENOTEMPTY or attempt == _ATTEMPTS - 1:
                raise
        else:
            return
