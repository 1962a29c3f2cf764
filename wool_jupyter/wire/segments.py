"""Files of large data, written by one process and mapped by others; and who may write one again.

A reader holds a shared lock on its file (`mappings`). Nobody has to say that one is free: who gets the exclusive lock may write. A
reader on its way to a file is looked after by its sender.

A file's name is its content's. Before it is written again it gets another one, so that who comes late finds nothing, and never
other data. Files that nobody refers to by name any more lie in a folder `idle` (`layout`); without it none is written again.
"""

import errno
import fcntl
import mmap
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from wool_jupyter import host
from wool_jupyter.wire import mappings, own_memory

SEGMENT_BYTES = 1 << 20  # of a buffer that has a file of its own: below, the file costs more than writing it again
_LOOKED_AT_BYTES = 32 << 20  # from here on the free memory is asked for: 0.2 ms
_WRITE_BYTES = 1 << 30  # Linux writes at most 2 GiB - 4 KiB per call
_COPY_BYTES = 256 << 20  # at a time, for an interrupt waits as long; of less, glibc 2.36 reads what it writes over
_WASTE = 2  # times the data, that a file may have

IsFree = Callable[[int], bool]


def nobody_maps(fd: int) -> bool:
    """Then the descriptor has the exclusive lock, until `_unlock`."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _unlock(fd: int) -> None:
    """Closing would not do: a child that was forked meanwhile, or a mapping, has the same lock."""
    fcntl.flock(fd, fcntl.LOCK_UN)


# ---- writing


def create(file: str, size: int, parts: Iterable[tuple[memoryview, int]]) -> bool:
    """Each part at its offset. False when the place is full: allocation fails before a byte is copied, where a store into a mapping
    would be SIGBUS."""
    fd = -1
    try:
        Path(file).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(file, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        if size < _LOOKED_AT_BYTES or not host.is_in_memory(Path(file).parent):  # there writing takes a tenth more
            host.reserve(fd, size)
        for part, offset in parts:
            _write(fd, part, offset)
    except BaseException as error:
        if fd >= 0:
            Path(file).unlink()
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            return False
        raise
    finally:
        if fd >= 0:
            os.close(fd)
    return True


def _write(fd: int, part: memoryview, offset: int) -> None:
    done = 0
    while done < part.nbytes:
        done += os.pwrite(fd, part[done : done + _WRITE_BYTES], offset + done)


def write(view: memoryview, directory: str, *, idle: "Idles") -> str | None:
    """A file in `directory` with this content, one that was idle if possible; None when there is no room."""
    if file := write_again(view, directory, idle=idle):
        return file
    file = new_name(directory)
    if create(file, view.nbytes, [(view, 0)]):
        return file
    for entry in idle_files(idle.folder):
        if remove(entry.file) and create(file, view.nbytes, [(view, 0)]):
            return file
    return None


def in_order(places: Sequence[str], size: int) -> Sequence[str]:
    """`places` are directories in order of preference. Those in memory come last where more than half of the memory that is left
    would be taken: a container that has no more is killed, where a full disk is an error. So do those that would be more than
    half full: what cells print lies there, too, and the containers' usual 64 MB are soon full."""
    if len(places) < 2:
        return places
    available = host.available_memory_bytes() if size >= _LOOKED_AT_BYTES else None
    is_much = available is not None and size > available // 2
    return sorted(places, key=lambda place: (is_much or _fills(place, size)) and host.is_in_memory(Path(place)))


def _fills(place: str, size: int) -> bool:
    try:
        free, most = host.free_and_most_bytes(Path(place))
    except FileNotFoundError:  # somebody has swept it away
        return False
    return free - size < most // 2


def write_again(view: memoryview, directory: str, *, idle: "Idles", is_free: IsFree = nobody_maps) -> str | None:
    """A file in `directory` that was idle, with this content; None if no idle one fits."""
    for entry in idle.fitting(view.nbytes):
        file = new_name(directory)
        with _owned(entry.file, is_free) as fd:
            if fd is None:
                continue
            os.makedirs(directory, mode=0o700, exist_ok=True)
            os.rename(entry.file, file)
            try:
                _store(fd, view, entry.size)
            except BaseException:
                Path(file).unlink()
                raise
        return file
    return None


def new_name(directory: str) -> str:
    return os.path.join(directory, uuid4().hex)


@contextmanager
def _owned(file: str, is_free: IsFree) -> Iterator[int | None]:
    """A descriptor with the exclusive lock; None if somebody maps it, or has been faster."""
    try:
        fd = os.open(file, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        yield None
        return
    try:
        if not is_free(fd):
            yield None
            return
        try:
            yield fd if mappings.is_named(file, fd) else None
        finally:
            _unlock(fd)
    finally:
        os.close(fd)


_kept: OrderedDict[tuple[int, int], mmap.mmap] = OrderedDict()
_kept_lock = threading.Lock()


def _store(fd: int, view: memoryview, size: int) -> None:
    if size < mappings.KEPT_BYTES:
        _write(fd, view, 0)
        return
    with _kept_lock:
        mapping = _kept_mapping(fd, size)
        target, source = own_memory.address(mapping), own_memory.address(view)
        for begin in range(0, view.nbytes, _COPY_BYTES):
            own_memory.copy(target + begin, source + begin, min(_COPY_BYTES, view.nbytes - begin))


def _kept_mapping(fd: int, size: int) -> mmap.mmap:
    """Its number stays the file's as long as the mapping lives. Writing 256 MB through it takes 25 ms, where `pwrite` takes 70."""
    key = mappings.key_of(fd)
    found = _kept.pop(key, None)
    _kept[key] = mapping = mmap.mmap(fd, size) if found is None else found
    while len(_kept) > mappings.KEPT_MAX:
        _kept.popitem(last=False)
    return mapping


def forget() -> None:
    """What is mapped here to be written again: of files that are gone, for their memory would last as long as this process."""
    with _kept_lock:
        _kept.clear()


def _begin_anew() -> None:
    """In a forked child: another thread may have had the lock, and what it would not write again would stay mapped."""
    global _kept_lock
    _kept_lock = threading.Lock()
    _kept.clear()


os.register_at_fork(after_in_child=_begin_anew)


# ---- letting go


class Idle(NamedTuple):
    file: str
    size: int
    since: float  # by the clock of the file system


def idle_files(idle: str) -> list[Idle]:
    """The oldest first; none without the folder."""
    found = []
    with suppress(FileNotFoundError), os.scandir(idle) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):
                status = entry.stat(follow_symlinks=False)
                found.append(Idle(entry.path, status.st_size, status.st_ctime))
    return sorted(found, key=lambda each: each.since)


class Idles:
    """Those of a folder, for many buffers: it is listed when the first one comes, and a file that somebody maps is tried once. Of a
    thousand arrays that are held, each of a thousand others would try all."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._left: list[Idle] | None = None

    def add(self, file: str) -> None:
        """It has become idle since."""
        if self._left is not None:
            with suppress(FileNotFoundError):
                self._left.append(Idle(file, os.stat(file).st_size, time.time()))

    def fitting(self, nbytes: int) -> Iterator[Idle]:
        if self._left is None:
            self._left = idle_files(self.folder)
        for entry in [each for each in self._left if nbytes <= each.size <= _WASTE * nbytes]:
            self._left.remove(entry)
            yield entry


def let_go(file: str, *, idle: str) -> str:
    """Nobody will be told its name any more; who maps it keeps it. Its new name; "" where none is written again."""
    if idle:
        name = new_name(idle)
        with suppress(FileNotFoundError):
            os.rename(file, name)
            return name
    Path(file).unlink(missing_ok=True)
    return ""


def remove(file: str, *, is_free: IsFree = nobody_maps) -> bool:
    """Unless somebody maps it. The memory goes at once, even if another process keeps it mapped to write it again."""
    with _owned(file, is_free) as fd:
        if fd is None:
            return False
        os.unlink(file)
        host.punch_hole(fd, 0, os.fstat(fd).st_size)
    return True


def is_mapped(file: str) -> bool:
    with _owned(file, nobody_maps) as fd:
        return fd is None and os.path.exists(file)


def locks_hold(directory: Path) -> bool:
    """Whether a mapping of a file there keeps its lock, and no longer than it lives."""
    file = directory / uuid4().hex
    file.write_bytes(bytes(mappings.COPIED_BYTES))
    try:
        view = mappings.mapped(str(file), 0, mappings.COPIED_BYTES)
        held = is_mapped(str(file))
        view.release()
        return held and not is_mapped(str(file))
    except OSError:
        return False
    finally:
        file.unlink(missing_ok=True)
