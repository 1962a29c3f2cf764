"""Who owns a namespace: the claim on its directory, the generation that is staged under it, and the end of both.

Imports little: the process that sweeps after a killed owner has neither a loop nor a codec.
"""

import atexit
import contextlib
import enum
import functools
import os
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path

from wool_jupyter.discovery import files, generation, locks, shortcut
from wool_jupyter.discovery.locks import Lock
from wool_jupyter.discovery.sweep import sweep_below
from wool_jupyter.errors import DiscoveryNamespaceContended, DiscoveryNamespaceInUse
from wool_jupyter.settings import CLAIM_ATTEMPTS, CLAIM_PATIENCE_S, QUIET_S


class _Refusal(enum.Enum):
    HELD = enum.auto()  # somebody has the lock
    GONE = enum.auto()  # the path names another directory than the one that was locked, or none


class Claim:
    """Made by `claim`. `release` gives it back, at the latest when the process exits; it is idempotent and blocks its thread.

    In a forked child it is not the child's: `release` touches nothing there.
    """

    def __init__(self, namespace: Path, lock: Lock) -> None:
        self._namespace = namespace
        self._lock: Lock | None = lock  # None: spent
        self._generation: Lock | None = None
        self._directory: Path | None = None
        self._pid = os.getpid()
        atexit.register(self.release)

    def sweep(self) -> None:
        """Removes what predecessors left. What can't be removed is a ResourceWarning."""
        if self._lock is not None:
            sweep_below(self._lock.fd, str(self._namespace))

    def stage(self, furnish: Callable[[int], None]) -> Path:
        """Makes a generation and lets it be found once `furnish` has filled it, by its descriptor. If this raises, only `release`
        makes sense."""
        assert self._lock is not None
        above, name = self._lock.fd, generation.new_name()
        files.make_directory(name, at=above)
        # Locked before anybody can find it: who does takes an unlocked one for a dead owner's.
        self._generation = locks.try_lock(files.open_directory(name, at=above))
        if self._generation is None:
            raise DiscoveryNamespaceInUse(self._namespace.name)
        furnish(self._generation.fd)
        files.link(name, f"{generation.CURRENT}.{name}", at=above)
        files.rename(f"{generation.CURRENT}.{name}", generation.CURRENT, at=above)
        self._directory = self._namespace / name
        return self._directory

    def release(self) -> None:
        """Ends the generation, then removes its files and the namespace's directory. What can't be removed is a ResourceWarning."""
        atexit.unregister(self.release)
        lock, self._lock = self._lock, None
        if lock is None or os.getpid() != self._pid:
            return
        try:
            self._end_generation()
            is_ours = files.names(self._namespace, lock.fd)  # else a successor's
            if is_ours and sweep_below(lock.fd, str(self._namespace)):
                files.remove_directory(self._namespace)
            if self._directory is not None:
                shortcut.remove(self._directory)
        except OSError as error:
            warnings.warn(
                f"{self._namespace} can't be removed: {error.strerror or error}", ResourceWarning, stacklevel=2
            )
        finally:
            lock.release()

    def _end_generation(self) -> None:
        """Before its files go: a live lock over removed files would let borrowers believe in them. A publish that is under way may
        finish, for it reports that the owner lives."""
        owner, self._generation = self._generation, None
        if owner is None:
            return
        quiet = None
        try:
            try:
                opened = functools.partial(files.open_file, generation.REGISTRY, files.READ, at=owner.fd)
                quiet = locks.wait_for(opened, QUIET_S)
            finally:
                owner.release()
        except OSError:  # it was removed, so nobody can publish, or there is no descriptor left
            pass
        finally:
            if quiet is not None:
                quiet.release()


def claim(namespace: Path, *, give_up: threading.Event, patience_s: float = CLAIM_PATIENCE_S) -> Claim | None:
    """Blocks its thread while somebody sweeps or stages the namespace, up to `patience_s`. None: `give_up` was set.

    DiscoveryNamespaceInUse: it has a live owner, or was held all the time. DiscoveryNamespaceContended: its directory was replaced
    at each attempt. Any other OSError as it is, and nothing stays open.
    """
    deadline = time.monotonic() + patience_s
    gone, waits = 0, locks.pauses()
    while gone < CLAIM_ATTEMPTS:
        with contextlib.suppress(FileExistsError):
            files.make_directory(namespace)
        match _attempt(namespace):
            case Claim() as claimed:
                return claimed
            case _Refusal.GONE:
                gone += 1
            case _Refusal.HELD:
                if is_served(namespace) or time.monotonic() >= deadline:
                    raise DiscoveryNamespaceInUse(namespace.name)
        if give_up.wait(next(waits)):
            return None
    raise DiscoveryNamespaceContended(namespace.name)


def is_served(namespace: Path) -> bool:
    """Whether the namespace has a live owner, and what it serves can be found."""
    try:
        fd, _ = generation.open_current(namespace)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        return generation.is_owned(fd)
    finally:
        files.close(fd)


def sweep_if_dead(namespace: Path) -> bool:
    """Removes the namespace if nobody owns it. False: somebody holds it, who will."""
    claimed = _attempt(namespace)
    if isinstance(claimed, Claim):
        claimed.release()
    return claimed is not _Refusal.HELD


def sweep_dead(root: Path, *, sparing: str = "") -> None:
    """Removes every namespace under the root that nobody owns, but for that name, and links to what is gone. What can't be removed
    is a ResourceWarning."""
    fd = files.open_directory(root)
    try:
        for name in files.listed(fd):
            try:
                if name != sparing and files.is_directory(name, at=fd):
                    sweep_if_dead(root / name)
            except FileNotFoundError:
                continue
            except OSError as error:
                warnings.warn(
                    f"{root / name} can't be removed: {error.strerror or error}", ResourceWarning, stacklevel=2
                )
    finally:
        files.close(fd)
    shortcut.remove_dangling(root)


def _attempt(namespace: Path) -> Claim | _Refusal:
    try:
        lock = locks.try_lock(files.open_directory(namespace))
    except FileNotFoundError:
        return _Refusal.GONE
    if lock is None:
        return _Refusal.HELD
    try:
        if not files.names(namespace, lock.fd):  # swept, or replaced, before it was locked
            lock.release()
            return _Refusal.GONE
    except BaseException:
        lock.release()
        raise
    return Claim(namespace, lock)
