"""Discovery among the processes of one user on one host, in files that one owner keeps.

async with LocalDiscovery(name) ─ claim ─▶ generation ◀─ bind ─ LocalPublisher.publish (any process)
   (the only owner)                        (its files) ◀─ bind ─ LocalSubscriber ─▶ events (any process)
"""

import functools
import threading
from pathlib import Path
from types import TracebackType
from typing import Self
from uuid import uuid4

from wool_jupyter.aio.threads import run_to_end
from wool_jupyter.discovery import checks, claim, generation, registry, root, shortcut, watcher
from wool_jupyter.discovery.filtering import afilter
from wool_jupyter.discovery.protocol import DiscoverySubscriberLike, Predicate
from wool_jupyter.discovery.publisher import LocalPublisher
from wool_jupyter.discovery.subscriber import LocalSubscriber
from wool_jupyter.settings import BLOCK_SIZE_BYTES, CAPACITY, LIVENESS_INTERVAL_S, LOCK_TIMEOUT_S


class BorrowedDiscovery:
    """A namespace that somebody else owns, or will: nothing to enter. Made by `LocalDiscovery.borrow`."""

    def __init__(
        self,
        namespace: str,
        *,
        lock_timeout: float | None = LOCK_TIMEOUT_S,
        poll_interval: float | None = None,
        liveness_interval_s: float = LIVENESS_INTERVAL_S,
        filter: Predicate | None = None,  # noqa: A002
        root: Path | None = None,
    ) -> None:
        self._namespace = generation.checked(namespace)
        self._lock_timeout = checks.timeout(lock_timeout)
        self._poll_interval = checks.interval("poll_interval", poll_interval)
        self._liveness_interval_s = checks.interval("liveness_interval_s", liveness_interval_s)
        self._filter = filter
        self._root = checks.root(root)

    @property
    def namespace(self) -> str:
        return self._namespace

    @property
    def publisher(self) -> LocalPublisher:
        """A new one each time."""
        return LocalPublisher(self._namespace, lock_timeout=self._lock_timeout, root=self._root)

    @property
    def subscriber(self) -> DiscoverySubscriberLike:
        return self.subscribe()

    def subscribe(self, filter: Predicate | None = None) -> DiscoverySubscriberLike:  # noqa: A002
        """Without a filter, that of the constructor."""
        subscriber = LocalSubscriber(
            self._namespace,
            poll_interval=self._poll_interval,
            liveness_interval_s=self._liveness_interval_s,
            root=self._root,
        )
        accepted = self._filter if filter is None else filter
        return subscriber if accepted is None else afilter(accepted, subscriber)


class LocalDiscovery(BorrowedDiscovery):
    """A namespace of this user on this host: owned while it is entered (`async with`), and enterable once.

    Entering claims the namespace, sweeps what a killed owner left there, and removes every namespace under the same root whose
    owner is dead. DiscoveryNamespaceInUse: it has an owner, in this process or another. NoUsableRoot: no directory can hold it.
    Leaving removes all its files, as does the end of the process; after a SIGKILL the next owner does. A forked child owns nothing.

    `publisher`, `subscriber` and `subscribe` borrow, from whoever owns the namespace. Instances of one namespace are equal.
    """

    Publisher = LocalPublisher
    Subscriber = LocalSubscriber
    borrow = BorrowedDiscovery

    def __init__(
        self,
        namespace: str | None = None,
        *,
        capacity: int = CAPACITY,
        block_size: int = BLOCK_SIZE_BYTES,
        lock_timeout: float | None = LOCK_TIMEOUT_S,
        poll_interval: float | None = None,
        liveness_interval_s: float = LIVENESS_INTERVAL_S,
        filter: Predicate | None = None,  # noqa: A002
        root: Path | None = None,
    ) -> None:
        """`namespace`: None makes a new name. `capacity` in workers, `block_size` in bytes for one worker's record and its header.
        `lock_timeout` in seconds, None for no end. `root`: this user's own directory (0700); None finds one."""
        super().__init__(
            f"pool-{uuid4()}" if namespace is None else namespace,
            lock_timeout=lock_timeout,
            poll_interval=poll_interval,
            liveness_interval_s=liveness_interval_s,
            filter=filter,
            root=root,
        )
        self._capacity = checks.within("capacity", capacity, 1, registry.CAPACITY_MAX)
        self._block_size = checks.within("block_size", block_size, registry.BLOCK_SIZE_MIN, registry.BLOCK_SIZE_MAX)
        self._may_enter = True
        self._claim: claim.Claim | None = None
        self._directory: Path | None = None
        self._short_directory: Path | None = None

    @property
    def directory(self) -> Path:
        """The generation's: room for files of the owner's, which go with it. RuntimeError unless it is entered."""
        if self._directory is None:
            raise RuntimeError("this discovery is not entered")
        return self._directory

    @property
    def short_directory(self) -> Path:
        """The same by a path that leaves room for a Unix socket's name."""
        if self._short_directory is None:
            raise RuntimeError("this discovery is not entered")
        return self._short_directory

    async def __aenter__(self) -> Self:
        if not self._may_enter:
            raise RuntimeError("a LocalDiscovery is entered once: make another one")
        self._may_enter = False
        give_up = threading.Event()
        try:
            await run_to_end(functools.partial(self._enter, give_up), cancelled=give_up.set)
        except BaseException:
            await run_to_end(self._leave)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """What can't be removed is a ResourceWarning. Never entered, or left already: nothing."""
        await run_to_end(self._leave)

    def _enter(self, give_up: threading.Event) -> None:
        if self._root is None:
            self._root = root.choose_root()
        self._claim = claim.claim(self._root / self._namespace, give_up=give_up)
        if self._claim is None:
            return
        self._claim.sweep()
        furnish = functools.partial(registry.create, capacity=self._capacity, block_size=self._block_size)
        self._directory = self._claim.stage(furnish)
        self._short_directory = shortcut.shortened(self._directory)
        claim.sweep_dead(self._root, sparing=self._namespace)

    def _leave(self) -> None:
        directory, self._directory, self._short_directory = self._directory, None, None
        if self._claim is not None:
            self._claim.release()
        if directory is not None:
            watcher.ring(directory)

    def __eq__(self, other: object) -> bool:
        return self._namespace == other._namespace if isinstance(other, LocalDiscovery) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._namespace)

    def __repr__(self) -> str:
        return f"<LocalDiscovery {self._namespace!r}{' entered' if self._directory else ''}>"
