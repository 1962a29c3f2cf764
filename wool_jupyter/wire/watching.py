"""Whether something was written into this process's own memory, by the system's word.

The system protects pages against writing. The first write into one lifts that and leaves a mark; whoever writes waits for nobody
(`userfaultfd` with asynchronous write protection, and `PAGEMAP_SCAN`: Linux 6.7; containers may forbid it). It sees the writes of
all threads, of C code, and of system calls. It does not see those of a device into pages that were pinned for it before.
"""

import fcntl
import os
import platform
import struct
import sys
from contextlib import suppress
from functools import cache

from wool_jupyter.wire import own_memory

_NUMBERS = {"x86_64": 323, "aarch64": 282}  # of the system call
_USER_MODE_ONLY = 1  # what an ordinary user may have
_API, _API_VERSION = 0xC018AA3F, 0xAA
_WRITE_PROTECTION, _ASYNCHRONOUS = 1 << 0, 1 << 15
_REGISTER, _FOR_WRITES, _UNREGISTER = 0xC020AA00, 2, 0x8010AA01

_SCAN = 0xC0606610
_PROTECT, _ONLY_IF_WATCHED = 1, 2
_WRITTEN, _PRESENT, _SWAPPED = 1 << 1, 1 << 3, 1 << 4


class Span:
    """Of memory, in whole pages."""

    def __init__(self, address: int, nbytes: int) -> None:
        page = own_memory.PAGE_BYTES
        self.begin = address // page * page
        self.end = -(-(address + nbytes) // page) * page

    def meets(self, other: "Span") -> bool:
        return self.begin < other.end and other.begin < self.end

    def watch(self) -> bool:
        """From now on; what was written before is forgotten. False where that can't be had: of memory that others share, or where
        the system has no such thing."""
        watcher = _watcher(os.getpid())
        if watcher is None or not self._is_private():
            return False
        try:
            fcntl.ioctl(
                watcher, _REGISTER, bytearray(struct.pack("4Q", self.begin, self.end - self.begin, _FOR_WRITES, 0))
            )
            self._scan(_PROTECT | _ONLY_IF_WATCHED, mask=_WRITTEN)
        except OSError:
            return False
        return True

    def release(self) -> None:
        """Writing into it costs as before."""
        if (watcher := _watcher(os.getpid())) is not None:
            with suppress(OSError):  # it is no memory any more
                fcntl.ioctl(watcher, _UNREGISTER, struct.pack("2Q", self.begin, self.end - self.begin))

    def is_untouched(self) -> bool:
        """Since `watch`, and it is the same memory. False if the system does not know."""
        there = _PRESENT | _SWAPPED
        try:
            if self._scan(_ONLY_IF_WATCHED, inverted=there, mask=there):
                return False  # some was given back; Linux 6.18 counts that as written, too
            return not self._scan(_ONLY_IF_WATCHED, mask=_WRITTEN)
        except OSError:
            return False

    def _scan(self, flags: int, *, mask: int, inverted: int = 0) -> int:
        """How many of its pages are so, at most one unless they are protected."""
        found = bytearray(24)
        vector = (0, 0, 0) if flags & _PROTECT else (own_memory.address(found), 1, 1)
        asked = struct.pack("12Q", 96, flags, self.begin, self.end, 0, *vector, inverted, mask, 0, mask)
        pagemap = os.open("/proc/self/pagemap", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return int(fcntl.ioctl(pagemap, _SCAN, bytearray(asked)))
        finally:
            os.close(pagemap)

    def _is_private(self) -> bool:
        """No file, no device, and no memory of several processes: those can be written where nobody watches."""
        at = self.begin
        with suppress(OSError), open("/proc/self/maps", encoding="ascii", errors="replace") as maps:
            for line in maps:
                place, access, _, _, inode = line.split(maxsplit=5)[:5]
                begin, end = (int(each, 16) for each in place.split("-"))
                if begin <= at < end:
                    if access != "rw-p" or inode != "0":  # of System V shared memory the first one's number is 0, too
                        return False
                    at = end
                if at >= self.end:
                    return True
        return False


@cache
def _watcher(_pid: int) -> int | None:
    """A descriptor, as long as this process lives: one that came with a fork is of the parent's memory. None where there is none
    to be had."""
    number = _NUMBERS.get(platform.machine())
    if sys.platform != "linux" or number is None or sys.maxsize < 1 << 32:
        return None
    import ctypes

    watcher: int = ctypes.CDLL(None).syscall(number, os.O_CLOEXEC | os.O_NONBLOCK | _USER_MODE_ONLY)
    if watcher < 0:
        return None
    try:
        fcntl.ioctl(watcher, _API, bytearray(struct.pack("3Q", _API_VERSION, _WRITE_PROTECTION | _ASYNCHRONOUS, 0)))
    except OSError:
        os.close(watcher)
        return None
    return watcher
