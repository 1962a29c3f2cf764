"""This process's own memory: where it is, and which of its pages were written."""

import ctypes
import mmap
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

PAGE_BYTES = mmap.PAGESIZE


def address(memory: "ReadableBuffer") -> int:
    """Where it begins."""
    view = (ctypes.c_void_p * 12)()  # a `Py_buffer` (80 bytes in Python 3.11 to 3.14): its first field is the address
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(memory), ctypes.byref(view), 0)
    try:
        return int(view[0] or 0)
    finally:
        ctypes.pythonapi.PyBuffer_Release(ctypes.byref(view))


def copy(target: int, source: int, nbytes: int) -> None:
    """Between addresses, which the caller keeps valid; other threads run meanwhile."""
    ctypes.memmove(target, source, nbytes)


_PAGEMAP = Path("/proc/self/pagemap")


def has_own_pages(begin: int, length: int, pagemap: Path = _PAGEMAP) -> bool | None:
    """Whether something was written into this part of a private mapping of a file, so that it has pages of its own; None where the
    system does not tell (Linux does since 4.2)."""
    kinds = _page_kinds(begin, length, pagemap)
    return None if kinds is None else bool(kinds.translate(None, delete=_NOT_WRITTEN))


def own_pages(begin: int, length: int, pagemap: Path = _PAGEMAP) -> list[tuple[int, int]] | None:
    """As spans in bytes, from `begin` on; None as of `has_own_pages`."""
    kinds = _page_kinds(begin, length, pagemap)
    if kinds is None:
        return None
    before = begin % PAGE_BYTES
    edges = (
        (each.start() * PAGE_BYTES - before, each.end() * PAGE_BYTES - before) for each in _WRITTEN.finditer(kinds)
    )
    return [(max(start, 0), min(end, length)) for start, end in edges]


# The highest byte of what `pagemap` has of a page. Bits: 7 it is present, 6 it is swapped out, 5 it is the file's.
_NOT_WRITTEN = bytes(kind for kind in range(256) if not kind & 0xC0 or kind & 0x20)
_WRITTEN = re.compile(b"[^" + re.escape(_NOT_WRITTEN) + b"]+")


def _page_kinds(begin: int, length: int, pagemap: Path) -> bytes | None:
    """A byte a page."""
    if sys.platform != "linux":
        return None
    first, last = begin // PAGE_BYTES, (begin + length - 1) // PAGE_BYTES
    count = last - first + 1
    try:
        fd = os.open(pagemap, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        raw = os.pread(fd, 8 * count, 8 * first)
    except OSError:
        return None
    finally:
        os.close(fd)
    return raw[7::8] if len(raw) == 8 * count else None
