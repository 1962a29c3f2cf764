"""Where discovery asks the system about its files, and nowhere else: the place at which tests make it fail.

Names are relative to the directory descriptor `at`, where one is given. A link at the end of a name is never followed, and a pipe
in the place of a file is not waited for. Descriptors are the caller's to close, and not inherited over `exec`.
"""

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

Name = str | Path

READ = os.O_RDONLY
WRITE = os.O_RDWR
CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL

_ALWAYS = os.O_NOFOLLOW | os.O_CLOEXEC


def open_file(name: Name, flags: int, *, at: int | None = None) -> int:
    return os.open(name, flags | os.O_NONBLOCK | _ALWAYS, 0o600, dir_fd=at)


def open_directory(name: Name, *, at: int | None = None) -> int:
    """NotADirectoryError also for a link."""
    try:
        return os.open(name, os.O_RDONLY | os.O_DIRECTORY | _ALWAYS, dir_fd=at)
    except OSError as error:
        if error.errno == errno.ELOOP:  # what macOS says of a link
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(name)) from None
        raise


def check_room(descriptors: int) -> None:
    """OSError unless there can be so many more."""
    with ExitStack() as taken:
        for _ in range(descriptors):
            taken.callback(os.close, os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))


def close(fd: int) -> None:
    os.close(fd)


@contextmanager
def opened(name: Name, flags: int, *, at: int | None = None) -> Iterator[int]:
    """An error inside carries the file's name."""
    fd = open_file(name, flags, at=at)
    try:
        yield fd
    except OSError as error:
        if error.filename is None:  # reading and writing know a descriptor only
            error.filename = str(name)
        raise
    finally:
        close(fd)


def lock(fd: int) -> None:
    """Exclusive; BlockingIOError if anybody has it, shared or not."""
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


def lock_shared(fd: int) -> None:
    """BlockingIOError if somebody has it exclusively."""
    fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)


def unlock(fd: int) -> None:
    """For every descriptor of this open file, a fork's duplicates included."""
    fcntl.flock(fd, fcntl.LOCK_UN)


def read(fd: int, size_bytes: int, offset: int = 0) -> bytes:
    """In one call, so that it can't mix what one writer wrote with what the next did; less at the end of the file."""
    return os.pread(fd, size_bytes, offset)


def write(fd: int, data: bytes, offset: int = 0) -> None:
    """All of it: a full disk takes a part, and refuses the next."""
    while data:
        written = os.pwrite(fd, data, offset)
        data, offset = data[written:], offset + written


def status(name: Name, *, at: int | None = None) -> os.stat_result:
    return os.stat(name, dir_fd=at, follow_symlinks=False)


def status_of(fd: int) -> os.stat_result:
    return os.fstat(fd)


def names(name: Name, fd: int, *, at: int | None = None) -> bool:
    """Whether the name leads to that open file or directory, now."""
    try:
        return os.path.samestat(status(name, at=at), status_of(fd))
    except (FileNotFoundError, NotADirectoryError):
        return False


def exists(name: Name, *, at: int | None = None) -> bool:
    try:
        status(name, at=at)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def is_directory(name: Name, *, at: int | None = None) -> bool:
    return stat.S_ISDIR(status(name, at=at).st_mode)


def listed(fd: int) -> list[str]:
    return os.listdir(fd)


def make_directory(name: Name, *, at: int | None = None) -> None:
    os.mkdir(name, 0o700, dir_fd=at)


def rename(old: str, new: str, *, at: int) -> None:
    os.rename(old, new, src_dir_fd=at, dst_dir_fd=at)


def link(target: Name, name: Name, *, at: int | None = None) -> None:
    """A symbolic one."""
    os.symlink(target, name, dir_fd=at)


def target(name: Name, *, at: int | None = None) -> str:
    """Of a link; FileNotFoundError also for what is none."""
    try:
        return os.readlink(name, dir_fd=at)
    except OSError as error:
        if error.errno == errno.EINVAL:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(name)) from None
        raise


def unlink(name: Name, *, at: int | None = None) -> None:
    os.unlink(name, dir_fd=at)


def remove_directory(name: Name, *, at: int | None = None) -> None:
    os.rmdir(name, dir_fd=at)
