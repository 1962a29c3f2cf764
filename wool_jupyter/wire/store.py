"""Large data that cells and calls read: known by content, written once, and mapped by every worker that needs it.

thread ─ lease ─▶ Store ─▶ data/<name> ◀─ mapped ─ workers
                    └ superseded, or too much ─▶ idle/<name> ─▶ written again, or removed

A file is told of as long as a lease refers to it. When its last source has gone or has other content, nobody will be told of it
any more; who still maps it keeps it as it is (`segments`).
"""

import os
import secrets
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from wool_jupyter import host
from wool_jupyter.aio.threads import begun
from wool_jupyter.settings import DATA_IDLE_S, DATA_UNUSED_S
from wool_jupyter.wire import buffers, contents, layout, mappings, segments
from wool_jupyter.wire.buffers import Parcel, Ref

Digest = Callable[[memoryview], bytes]

_Content = tuple[int, bytes]  # size and digest
_Source = tuple[int, int]  # address and size of an array's memory


class Use(NamedTuple):
    """Of the files that are kept, in bytes."""

    kept: int
    needed: int  # of these: mapped by somebody, or on the way
    most: int


class Store:
    """Used from any thread; its files end with their directories. `lease` hashes and writes on the calling thread."""

    def __init__(
        self,
        directories: Sequence[Path],
        *,
        budget_bytes: int | None = None,
        is_free: segments.IsFree = segments.nobody_maps,
    ) -> None:
        """`directories` are pools' (`layout`), in order of preference. A budget of None is a quarter of the memory that is free; it
        may be set at any time."""
        self._places = [(str(layout.data(pool)), str(layout.idle(pool))) for pool in directories]
        self.budget_bytes = budget_bytes
        self._is_free = is_free
        self._lock = threading.Lock()
        self._known: dict[_Content, _Segment] = {}
        self._sources: dict[_Source, _Segment] = {}
        self._gone: deque[_Source] = deque()  # filled by finalizers, which may run anywhere
        self._released: deque[_Segment] = deque()  # filled where nobody may wait for a write
        self._closed = False
        self._look_anew()

    def _look_anew(self) -> None:
        """At what there is of files, once for the arrays of a message: a look at thousands takes as long as to write one."""
        self._idles = {idle: segments.Idles(idle) for _, idle in self._places}
        self._kept_then: int | None = None

    def pack(
        self,
        stream: bytes | memoryview,
        views: Sequence[memoryview],
        *,
        places: Sequence[str],
        name: str,
        digest: Digest = contents.watched,
    ) -> "tuple[Parcel, Lease]":
        """As `buffers.pack`, without writing again what is there. The lease is to be released when no receiver needs the parcel."""
        lease = self.lease(views, digest=digest)
        try:
            rest = buffers.without(views, lease.refs)
            return buffers.pack(stream, rest, places=places, name=name, refs=tuple(lease.refs)), lease
        except BaseException:
            lease.release()
            raise

    def lease(self, views: Sequence[memoryview], *, digest: Digest = contents.watched) -> "Lease":
        """Of those that are large. One that finds no room is left out."""
        lease = Lease(self._released)
        large = [(number, view) for number, view in enumerate(views) if view.nbytes >= segments.SEGMENT_BYTES]
        if large:
            with self._lock:
                self._look_anew()
        for number, view in large:
            if not self._passed_on(number, view, lease):
                self._referred(number, view, digest, lease)
        return lease

    def _passed_on(self, number: int, view: memoryview, lease: "Lease") -> bool:
        """What came from a worker, and was not written into, is a file already."""
        place = mappings.place_of(view)
        if place is None or not self._has(place.file):
            return False
        lease.refs.append(Ref(number, place.file, place.offset, view.nbytes))
        lease.held.append(place.memory)
        return True

    def _has(self, file: str) -> bool:
        return any(file.startswith(folder + "/") for place in self._places for folder in place) and os.path.exists(file)

    def _referred(self, number: int, view: memoryview, digest: Digest, lease: "Lease") -> None:
        sample = contents.sample(view) if view.nbytes >= contents.SAMPLED_BYTES else b""
        is_new = bool(sample) and not self._has_like(view, sample)
        # What is new for sure is hashed while it is written: making pages for it takes longer.
        digested = begun(partial(digest, view)) if is_new else _made(digest(view))
        with self._lock:
            self._settle()
            segment = None if is_new else self._known.get((view.nbytes, digested()))
            if segment is not None and not os.path.exists(segment.file):
                self._forget(segment)
                segment = None
            if segment is None:
                segment = self._new(view, sample, digested)
            if segment is None:
                return
            segment.leases += 1
            segment.used_at = time.monotonic()
            self._note_source(view, segment)
            lease.segments.append(segment)
        lease.refs.append(Ref(number, segment.file, 0, *segment.content))

    def _has_like(self, view: memoryview, sample: bytes) -> bool:
        with self._lock:
            self._settle()
            return any(each.content[0] == view.nbytes and each.sample == sample for each in self._known.values())

    def _new(self, view: memoryview, sample: bytes, digested: Callable[[], bytes]) -> "_Segment | None":
        self._note_change(view)
        if self._closed or (file := self._written(view)) is None:
            return None
        content = view.nbytes, digested()
        # Where somebody writes into it meanwhile, the file is like nothing else.
        if sample and contents.sample(view) != sample:
            content = view.nbytes, secrets.token_bytes(len(content[1]))
        if (same := self._known.get(content)) is not None:  # another thread had it, too, and was faster
            self._let_go(file)
            return same
        segment = self._known[content] = _Segment(file, content, sample)
        return segment

    def _note_change(self, view: memoryview) -> None:
        """Nobody may need what was there before: then its file is written again at once, and not another one beside it."""
        if (found := contents.owner_of(view)) is not None:
            source = found[1], view.nbytes
            if (before := self._sources.get(source)) is not None:
                self._lost(source, before)

    # Where the data comes from.

    def _note_source(self, view: memoryview, segment: "_Segment") -> None:
        found = contents.owner_of(view)
        if found is None:
            return
        owner, address = found
        source = address, view.nbytes
        before = self._sources.get(source)
        if before is segment:
            return
        self._sources[source] = segment
        segment.sources.add(source)
        segment.is_superseded = False
        if before is None:
            weakref.finalize(owner, self._gone.append, source).atexit = False
        else:
            self._lost(source, before)

    def _settle(self) -> None:
        while self._released:
            segment = self._released.popleft()
            segment.leases -= 1
            if segment.is_superseded:
                self._retire(segment)
        while self._gone:
            source = self._gone.popleft()
            if source in self._sources:
                self._lost(source, self._sources.pop(source))

    def _lost(self, source: _Source, segment: "_Segment") -> None:
        segment.sources.discard(source)
        segment.is_superseded = not segment.sources
        if segment.is_superseded:
            self._retire(segment)

    def _retire(self, segment: "_Segment") -> None:
        if not segment.leases and self._known.get(segment.content) is segment:
            self._forget(segment)
            self._let_go(segment.file)

    def _let_go(self, file: str) -> None:
        idle = self._idle_of(file)
        if name := segments.let_go(file, idle=idle):
            self._idles[idle].add(name)

    def _forget(self, segment: "_Segment") -> None:
        del self._known[segment.content]
        for source in segment.sources:
            self._sources.pop(source, None)
        segment.sources.clear()

    def _idle_of(self, file: str) -> str:
        return next(idle for data, idle in self._places if file.startswith(data + "/"))

    # Room.

    def _written(self, view: memoryview) -> str | None:
        if self._kept_then is None:
            self._kept_then = self._kept()
        if view.nbytes > self._most(self._kept_then):
            return None
        file = self._rewritten(view)
        while file is None and self._is_too_much(view.nbytes):
            if not self._evict():
                return None
            file = self._rewritten(view)
        if file is None and (file := self._fresh(view)):
            self._kept_then += view.nbytes
        return file

    def _is_too_much(self, more: int) -> bool:
        if self._kept_then is not None and self._kept_then + more <= self._most(self._kept_then):
            return False
        self._kept_then = kept = self._kept()
        return kept + more > self._most(kept)

    def _rewritten(self, view: memoryview) -> str | None:
        for data, idle in self._places:
            if file := segments.write_again(view, data, idle=self._idles[idle], is_free=self._is_free):
                return file
        return None

    def _fresh(self, view: memoryview) -> str | None:
        folders = [data for data, _ in self._places if _free_bytes(data) >= 2 * view.nbytes]
        for folder in segments.in_order(folders, view.nbytes):
            file = segments.new_name(folder)
            if segments.create(file, view.nbytes, [(view, 0)]):
                return file
        return None

    def _evict(self) -> bool:
        """What nobody needs: an idle file, else the one that was used least recently, which is idle then. False: all is needed."""
        for _, idle in self._places:
            for entry in segments.idle_files(idle):
                if segments.remove(entry.file, is_free=self._is_free):
                    return True
        for segment in sorted(self._known.values(), key=lambda each: each.used_at):
            if not (segment.leases or segments.is_mapped(segment.file)):
                self._retire(segment)
                return True
        return False

    def _most(self, kept: int) -> int:
        if self.budget_bytes is not None:
            return self.budget_bytes
        available = host.available_memory_bytes()
        return 1 << 30 if available is None else (available + kept) // 4

    def _kept(self) -> int:
        return sum(size for _, size in self._files())

    def _files(self) -> Iterator[tuple[str, int]]:
        """With those that are idle. What somebody maps of these is a variable of the notebook, or one of its cells'."""
        for data, idle in self._places:
            yield from ((entry.file, entry.size) for entry in segments.idle_files(data))
            yield from (
                (each.file, each.size) for each in segments.idle_files(idle) if not segments.is_mapped(each.file)
            )

    # Upkeep.

    def trim(self) -> None:
        """Gives back what has not been needed for a while, and what is above the budget."""
        with self._lock:
            self._settle()
            for segment in list(self._known.values()):
                if not segment.leases and time.monotonic() - segment.used_at > DATA_UNUSED_S:
                    self._retire(segment)
            for _, idle in self._places:
                for entry in segments.idle_files(idle):
                    if time.time() - entry.since > DATA_IDLE_S:
                        segments.remove(entry.file, is_free=self._is_free)
            while (kept := self._kept()) > self._most(kept) and self._evict():
                pass

    @property
    def is_used(self) -> bool:
        """There may be something to trim."""
        return any(True for _ in self._files())

    def use(self) -> Use:
        with self._lock:
            self._settle()
            on_the_way = {segment.file for segment in self._known.values() if segment.leases}
            files = list(self._files())
            needed = sum(size for file, size in files if file in on_the_way or segments.is_mapped(file))
            kept = sum(size for _, size in files)
            return Use(kept, needed, self._most(kept))

    def close(self) -> None:
        """Nothing is written any more, and what is removed now takes no memory. Idempotent."""
        with self._lock:
            self._closed = True
            self._known.clear()
            self._sources.clear()
        segments.forget()
        mappings.forget()


def _free_bytes(folder: str) -> int:
    try:
        return host.free_bytes(Path(folder))
    except FileNotFoundError:  # somebody has swept it away
        return 0


class _Segment:
    def __init__(self, file: str, content: _Content, sample: bytes) -> None:
        self.file = file
        self.content = content
        self.sample = sample  # b"" of what is small
        self.leases = 0  # a receiver may be on its way to it
        self.used_at = 0.0  # by the monotonic clock
        self.sources: set[_Source] = set()  # arrays that hold this content; none are known of what is no array
        self.is_superseded = False  # there were some


def _made(digest: bytes) -> Callable[[], bytes]:
    return lambda: digest


class Lease:
    """Files that a message refers to, until `release`, which is idempotent and never waits."""

    def __init__(self, released: "deque[_Segment]") -> None:
        self._released = released
        self.refs: list[Ref] = []
        self.segments: list[_Segment] = []
        self.held: list[object] = []  # by which they keep their content

    def release(self) -> None:
        given, self.segments = self.segments, []
        self.held = []
        self._released.extend(given)
