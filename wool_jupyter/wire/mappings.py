"""Files of large data as a reader's memory, which nobody else sees.

A mapping holds a shared lock on its file: a lock of `flock` belongs to the open file description, which the mapping keeps alive
until its last view has gone, in a forked child, too. (So it is on Linux; elsewhere the mapping's own descriptor does it.)

Most of what a mapping of very large data costs is that each page is looked up when it is first read, and again in the next mapping.
So its memory has no lock, stays mapped when its reader has gone, and serves the next reader of that file; the lock is held by a
mapping of the file's first page, which goes with the reader. Then others may write the file again: what they write is what the
memory shows, but where a reader has written into it. Memory with such a page is not kept.

            ┌ memory, of the whole file ────▶ looked at ─▶ kept for the next reader of the file
array ─▶ loan
            └ lease, its first page, locked ─▶ unmapped: others may write the file again
"""

import _thread
import errno
import fcntl
import mmap
import os
import pickle
import queue
import resource
import sys
import threading
import weakref
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from wool_jupyter.wire import own_memory

COPIED_BYTES = 256 << 10  # below, reading costs less than a mapping
# From here on what is mapped stays mapped: of 256 MB, mapping, reading and unmapping each page takes 25 ms.
KEPT_BYTES = 8 << 20
KEPT_MAX = 4  # files, to be read; and as many to be written
_HAS_DESCRIPTOR = sys.version_info < (3, 13) or sys.platform != "linux"  # each of Python's mappings
_MAPPINGS_MAX = 30_000  # of the 65,530 that Linux grants a process
_OPTIONS: Any = {} if _HAS_DESCRIPTOR else {"trackfd": False}


@dataclass(eq=False)
class Mapping:
    """What a reader's memory is of. Lives as long as that."""

    file: str
    offset: int  # in the file
    address: int
    nbytes: int
    memory: "weakref.ref[Any]"  # what its views hold


class _Locked(mmap.mmap):
    """Of one reader, and its own lease."""

    mapping: Mapping


class _Memory(mmap.mmap):
    """Of a whole file, without a lock."""

    key: tuple[int, int]  # the file's, as long as this lives
    address: int


_mappings: "weakref.WeakSet[Mapping]" = weakref.WeakSet()
_open: "weakref.WeakSet[mmap.mmap]" = weakref.WeakSet()


def mapped(file: str, offset: int, length: int, *, idle: str = "") -> memoryview:
    """Writable, and seen by nobody else. `idle` is the folder where the file will lie to be written again (`segments`), if it will.
    FileNotFoundError if the file has other data meanwhile."""
    fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH)
        if not is_named(file, fd):
            raise FileNotFoundError(errno.ENOENT, "it has been written again", file)
        if length < COPIED_BYTES or len(_open) >= _most_mappings():
            return _read(fd, offset, length)
        if length >= KEPT_BYTES and idle and os.path.isdir(idle):
            return _lent(file, fd)[offset : offset + length]
        begin = offset - offset % mmap.ALLOCATIONGRANULARITY
        mapping = _Locked(fd, offset - begin + length, access=mmap.ACCESS_COPY, offset=begin, **_OPTIONS)
    finally:
        os.close(fd)
    _open.add(mapping)
    _note(mapping, file, begin, own_memory.address(mapping))
    return memoryview(mapping)[offset - begin :]


def _lent(file: str, fd: int) -> memoryview:
    """`fd` has the shared lock."""
    memory = _keeper.taken(key_of(fd)) or _memory(file, fd)
    lease = mmap.mmap(fd, own_memory.PAGE_BYTES, access=mmap.ACCESS_COPY, **_OPTIONS)
    _open.add(lease)
    import ctypes

    loan: Any = (ctypes.c_char * len(memory)).from_buffer(memory)
    loan.lease = lease
    weakref.finalize(loan, _keeper.give_back, memory).atexit = False
    _keeper.attend()
    _note(loan, file, 0, memory.address)
    return pickle.PickleBuffer(loan).raw()  # of bytes


def _memory(file: str, fd: int) -> _Memory:
    unlocked = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        key = key_of(unlocked)
        if key != key_of(fd):
            raise FileNotFoundError(errno.ENOENT, "it has been written again", file)
        memory = _Memory(unlocked, 0, access=mmap.ACCESS_COPY, **_OPTIONS)
    finally:
        os.close(unlocked)
    memory.key, memory.address = key, own_memory.address(memory)
    _open.add(memory)
    return memory


class _Keeper:
    """Memory that no reader has. A thread looks at what was given back, unless the next reader is there before: that takes some
    milliseconds, and who gives back is a finalizer, in which an interrupt would be lost."""

    def __init__(self) -> None:
        self._given: deque[_Memory] = deque()  # until it has been looked at
        self._kept: deque[_Memory] = deque(maxlen=KEPT_MAX)
        self.begin_anew()

    def begin_anew(self) -> None:
        """Also in a forked child: there the thread is not, and may have had the lock. What no reader has would stay mapped there as
        long as it lives, with the pages of files that are gone."""
        self._given.clear()
        self._kept.clear()
        self._lock = threading.Lock()
        self._calls: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._is_attended = False

    def attend(self) -> None:
        if not self._is_attended:
            with suppress(RuntimeError):  # there are too many threads: who comes next tries again
                _thread.start_new_thread(self._look, (self._calls,))  # one of `threading` would be taken for the user's
                self._is_attended = True

    def _look(self, calls: "queue.SimpleQueue[None]") -> None:
        while True:
            calls.get()
            with self._lock:
                if self._given:
                    if _is_unwritten(self._given[0]):
                        self._kept.append(self._given[0])
                    self._given.popleft()

    def give_back(self, memory: _Memory) -> None:
        """Anywhere: takes no lock. Where no thread looks, as in a forked child, it goes with its reader."""
        if self._is_attended:
            self._given.append(memory)
            self._calls.put(None)

    def taken(self, key: tuple[int, int]) -> _Memory | None:
        """Waits for the thread only if there is such memory."""
        if not any(memory.key == key for memory in [*self._kept, *self._given]):
            return None
        with self._lock:
            for memory in list(self._kept):
                if memory.key == key:
                    self._kept.remove(memory)
                    return memory
            for memory in list(self._given):  # a finalizer may add to it meanwhile
                if memory.key == key:
                    self._given.remove(memory)
                    if _is_unwritten(memory):
                        return memory
        return None

    def forget(self) -> None:
        with self._lock:
            self._kept.clear()
            self._given.clear()


def _is_unwritten(memory: _Memory) -> bool:
    """False also where the system does not tell."""
    return own_memory.has_own_pages(memory.address, len(memory)) is False


def key_of(fd: int) -> tuple[int, int]:
    """Of the file: its number, and that of its file system."""
    status = os.fstat(fd)
    return status.st_dev, status.st_ino


_keeper = _Keeper()
os.register_at_fork(after_in_child=_keeper.begin_anew)


def forget() -> None:
    """What no reader has: of files that are gone, for their memory would last as long as this process."""
    _keeper.forget()


def _note(memory: Any, file: str, offset: int, address: int) -> None:
    memory.mapping = mapping = Mapping(file, offset, address, len(memory), weakref.ref(memory))
    _mappings.add(mapping)


def _read(fd: int, offset: int, length: int) -> memoryview:
    data, done = memoryview(bytearray(length)), 0
    while done < length:
        count = os.preadv(fd, [data[done:]], offset + done)
        if not count:
            raise EOFError(f"a file of large data has {offset + done} bytes instead of {offset + length}")
        done += count
    return data


def _most_mappings() -> int:
    if not _HAS_DESCRIPTOR:
        return _MAPPINGS_MAX
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _MAPPINGS_MAX if soft == resource.RLIM_INFINITY else min(_MAPPINGS_MAX, soft // 2)


def is_named(file: str, fd: int) -> bool:
    try:
        named = os.stat(file)
    except FileNotFoundError:
        return False
    return os.path.samestat(named, os.fstat(fd))


def of(view: memoryview) -> Mapping | None:
    """What it is a view of, if that is a mapping."""
    found = getattr(view.obj, "mapping", None)
    return found if isinstance(found, Mapping) else None


class Place(NamedTuple):
    """Where some memory comes from."""

    file: str
    offset: int
    memory: object  # as long as it is held, the file keeps its content


def place_of(view: memoryview) -> Place | None:
    """Of memory that is, to the last byte, what a file has that is mapped here. None also where the system does not tell."""
    if not len(_mappings):
        return None
    begin = own_memory.address(view)
    for mapping in list(_mappings):
        inside = begin - mapping.address
        if inside >= 0 and inside + view.nbytes <= mapping.nbytes:
            memory = mapping.memory()
            if memory is not None and own_memory.has_own_pages(begin, view.nbytes) is False:
                return Place(mapping.file, mapping.offset + inside, memory)
            return None
    return None
