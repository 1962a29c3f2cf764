"""The registry of one generation: which workers there are, in files that any process of this user reads and writes.

registry       header  magic, capacity, block size, 0         then `capacity` slots: a worker's uid each, zeros if it is free
notify         counter of publishes
blocks/<uid>   header  length, sequence, crc32                then the record, and zeros up to the block size

Integers are little-endian, of fixed width. A slot is written last and cleared first, so that it never names a block that was not
there. Files have their full size from the beginning: a full disk refuses a new worker, and nothing else. None is ever mapped.

All of it runs on the loop: these are microseconds in memory. Only the lock is waited for, by whoever publishes.
"""

import contextlib
import errno
import struct
import weakref
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn
from uuid import UUID

from wool_jupyter.discovery import files, generation
from wool_jupyter.discovery import root as roots
from wool_jupyter.discovery.locks import Lock, try_lock
from wool_jupyter.errors import (
    DiscoveryBlockExhausted,
    DiscoveryCapacityExhausted,
    DiscoveryNamespaceNotFound,
    DiscoveryWorkerNotFound,
)
from wool_jupyter.records import DiscoveryEventType, WorkerMetadata
from wool_jupyter.wire.codec import encode_worker

MAGIC = b"WOOL"
HEADER = struct.Struct("<4sIII")
BLOCK = struct.Struct("<IQI")
COUNTER = struct.Struct("<Q")
SLOT_BYTES = 16
FREE = bytes(SLOT_BYTES)

CAPACITY_MAX = 1 << 16
BLOCK_SIZE_MIN = BLOCK.size + len(encode_worker(WorkerMetadata(UUID(int=0), "", 0, "")))
BLOCK_SIZE_MAX = 1 << 20


def create(at: int, *, capacity: int, block_size: int) -> None:
    """Furnishes a generation. The registry is complete when it gets its name."""
    files.make_directory(generation.BLOCKS, at=at)
    staged = f"{generation.REGISTRY}.tmp"
    with files.opened(staged, files.CREATE, at=at) as fd:
        files.write(fd, HEADER.pack(MAGIC, capacity, block_size, 0) + FREE * capacity)
    with files.opened(generation.NOTIFY, files.CREATE, at=at) as fd:
        files.write(fd, COUNTER.pack(0))
    files.rename(staged, generation.REGISTRY, at=at)


@dataclass(frozen=True, slots=True)
class Slots:
    """The registry's content at one moment, as it lies there: most of it is passed over."""

    content: bytes

    def of(self, uid: UUID) -> int | None:
        return self._first(uid.bytes)

    def first_free(self) -> int | None:
        return self._first(FREE)

    def workers(self) -> list[UUID]:
        slots = (self.content[at : at + SLOT_BYTES] for at in range(0, len(self.content), SLOT_BYTES))
        return [UUID(bytes=slot) for slot in slots if slot != FREE]

    def _first(self, wanted: bytes) -> int | None:
        at = self.content.find(wanted)
        while at % SLOT_BYTES and at >= 0:  # the end of one slot and the beginning of the next
            at = self.content.find(wanted, at + 1)
        return None if at < 0 else at // SLOT_BYTES


class Binding:
    """One generation, pinned by descriptors: it never reaches a successor's files. Made by `bind`; `close` is idempotent.

    An owner that is gone, and a registry that was removed or damaged, is DiscoveryNamespaceNotFound from whatever looks for it.
    """

    def __init__(self, namespace: Path, name: str, pinned: tuple[int, int, int]) -> None:
        """Takes the descriptors over: generation, registry, notify."""
        self._namespace = namespace.name
        self.directory = namespace / name
        self._generation, self._registry, self._notify = pinned
        self._closing = weakref.finalize(self, _close_all, pinned)
        self._closing.atexit = False
        try:
            self.capacity, self.block_size = _stamp(files.read(self._registry, HEADER.size)) or self._lost()
            self.slots()
            self.check()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._closing()

    def check(self) -> None:
        """Whether the registry is still what its path names, and its owner lives: one that left has taken the path away, one that
        was killed has left it and lost the lock."""
        if not self._holds(self._registry):
            self._lost()

    def counter(self) -> int:
        """Moves with each publish. Reading it wakes nobody."""
        return _counter(self._notify)

    def slots(self) -> Slots:
        return self._slots_of(self._registry)

    def blocks(self) -> Iterator[tuple[UUID, bytes | OSError]]:
        """Of the registered workers, as they lie there; or why one can't be read."""
        for uid in self.slots().workers():
            try:
                with files.opened(_block(uid), files.READ, at=self._generation) as fd:
                    found: bytes | OSError = files.read(fd, self.block_size)
            except OSError as error:
                found = error
            yield uid, found

    def try_lock(self) -> "Publication | None":
        """The registry to be changed, and released soon; None if another has it."""
        if not self._closing.alive:
            self._lost()
        try:
            lock = try_lock(files.open_file(generation.REGISTRY, files.WRITE, at=self._generation))
        except FileNotFoundError:
            self._lost()
        return None if lock is None else Publication(self, lock, self._generation, self._notify)

    def check_locked(self, lock: Lock) -> Slots:
        """As `check`, for a descriptor of its own: what is locked is what is written."""
        if not self._holds(lock.fd):
            self._lost()
        return self._slots_of(lock.fd)

    def _slots_of(self, registry: int) -> Slots:
        size = HEADER.size + self.capacity * SLOT_BYTES
        data = files.read(registry, size)
        if len(data) < size or _stamp(data) != (self.capacity, self.block_size):
            self._lost()
        return Slots(data[HEADER.size :])

    def _holds(self, registry: int) -> bool:
        if not self._closing.alive:
            return False
        return (
            files.names(generation.REGISTRY, registry, at=self._generation)
            and files.status_of(registry).st_size >= HEADER.size + self.capacity * SLOT_BYTES
            and generation.is_owned(self._generation)
        )

    def _lost(self) -> NoReturn:
        raise DiscoveryNamespaceNotFound(self._namespace)


class Publication:
    """The registry, locked. Nothing in it awaits; `release` is idempotent."""

    def __init__(self, binding: Binding, lock: Lock, directory: int, notify: int) -> None:
        self._binding = binding
        self._lock = lock
        self._directory = directory
        self._notify = notify
        self.release = lock.release

    def apply(self, type: DiscoveryEventType, uid: UUID, record: bytes) -> None:  # noqa: A002
        """Returns if the owner lived when it was done. Whoever watches is told."""
        slots = self._binding.check_locked(self._lock)
        if type != "worker-dropped" and len(record) > self._binding.block_size - BLOCK.size:
            raise DiscoveryBlockExhausted(len(record))
        sequence = _counter(self._notify) + 1
        match type:
            case "worker-added":
                self._add(slots, uid, self._block_of(record, sequence))
            case "worker-updated":
                self._update(slots, uid, self._block_of(record, sequence))
            case "worker-dropped":
                if not self._dropped(slots, uid):
                    return  # nothing to tell
        files.write(self._notify, COUNTER.pack(sequence))
        self._binding.check_locked(self._lock)

    def _add(self, slots: Slots, uid: UUID, block: bytes) -> None:
        index = slots.of(uid)
        if index is not None:
            if self._rewritten(uid, block):
                return
            self._write_slot(index, FREE)
        else:
            index = slots.first_free()
        if index is None:
            raise DiscoveryCapacityExhausted(self._binding.capacity)
        self._register(index, uid, block)

    def _update(self, slots: Slots, uid: UUID, block: bytes) -> None:
        if slots.of(uid) is None or not self._rewritten(uid, block):
            raise DiscoveryWorkerNotFound(uid)

    def _dropped(self, slots: Slots, uid: UUID) -> bool:
        index = slots.of(uid)
        if index is None:
            return False
        self._write_slot(index, FREE)
        self._remove_block(uid)
        return True

    def _register(self, index: int, uid: UUID, block: bytes) -> None:
        self._remove_block(uid)  # of a publisher that was killed before it wrote the slot
        try:
            with files.opened(_block(uid), files.CREATE, at=self._directory) as fd:
                files.write(fd, block)
                if not files.names(_block(uid), fd, at=self._directory):
                    raise FileNotFoundError(errno.ENOENT, "was removed while it was written", _block(uid))
            self._write_slot(index, uid.bytes)
        except BaseException:
            try:
                self._write_slot(index, FREE)
            finally:
                self._remove_block(uid)
            raise

    def _rewritten(self, uid: UUID, block: bytes) -> bool:
        try:
            with files.opened(_block(uid), files.WRITE, at=self._directory) as fd:
                files.write(fd, block)
        except FileNotFoundError:
            return False
        return True

    def _remove_block(self, uid: UUID) -> None:
        with contextlib.suppress(FileNotFoundError):
            files.unlink(_block(uid), at=self._directory)

    def _write_slot(self, index: int, content: bytes) -> None:
        files.write(self._lock.fd, content, HEADER.size + index * SLOT_BYTES)

    def _block_of(self, record: bytes, sequence: int) -> bytes:
        header = BLOCK.pack(len(record), sequence, zlib.crc32(record))
        return (header + record).ljust(self._binding.block_size, b"\0")


def bind(namespace: str, root: Path | None) -> Binding:
    """To the generation that is served now; without a root, under the first where there is one. DiscoveryNamespaceNotFound if there
    is none, or its owner is gone; nothing is made."""
    missing = DiscoveryNamespaceNotFound(namespace)
    for each in roots.existing_roots() if root is None else (root,):
        try:
            return _bind(each / namespace)
        except DiscoveryNamespaceNotFound as error:
            missing = error
    raise missing


def _bind(namespace: Path) -> Binding:
    pinned: list[int] = []
    try:
        fd, name = generation.open_current(namespace)
        pinned.append(fd)
        pinned.append(files.open_file(generation.REGISTRY, files.READ, at=fd))
        pinned.append(files.open_file(generation.NOTIFY, files.WRITE, at=fd))
    except BaseException as error:
        _close_all(pinned)
        if isinstance(error, (FileNotFoundError, NotADirectoryError)):
            raise DiscoveryNamespaceNotFound(namespace.name) from error
        raise
    return Binding(namespace, name, (pinned[0], pinned[1], pinned[2]))


def record_in(block: bytes) -> bytes:
    """ValueError says why there is none: a block is read without the lock, and perhaps while it is written."""
    if len(block) < BLOCK.size:
        raise ValueError(f"{len(block)} bytes are no block")
    length, _, checksum = BLOCK.unpack_from(block)
    record = block[BLOCK.size : BLOCK.size + length]
    if zlib.crc32(record) != checksum:
        raise ValueError("the record and its checksum differ")
    return record


def _block(uid: UUID) -> str:
    return f"{generation.BLOCKS}/{uid}"


def _stamp(data: bytes) -> tuple[int, int] | None:
    """Capacity and block size; None unless this begins a registry."""
    if len(data) < HEADER.size:
        return None
    magic, capacity, block_size, _ = HEADER.unpack_from(data)
    plausible = 1 <= capacity <= CAPACITY_MAX and BLOCK_SIZE_MIN <= block_size <= BLOCK_SIZE_MAX
    return (capacity, block_size) if magic == MAGIC and plausible else None


def _counter(notify: int) -> int:
    """A file that was cut short reads as another number than before."""
    count: int = COUNTER.unpack(files.read(notify, COUNTER.size).ljust(COUNTER.size, b"\0"))[0]
    return count


def _close_all(fds: Iterable[int]) -> None:
    for fd in fds:
        files.close(fd)
