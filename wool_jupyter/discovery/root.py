"""Where pools keep their sockets and files: one directory per user, made and checked before anything trusts it."""

import errno
import fcntl
import hashlib
import os
import secrets
import socket
import stat
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from wool_jupyter import host
from wool_jupyter.errors import NoUsableRoot
from wool_jupyter.wire import layout

OVERRIDE = "WOOL_JUPYTER_RUNTIME_DIR"
LAYOUT = "1"  # so that an older version never sweeps a newer one
FREE_MIN_BYTES = 8 << 20

# The temporary directory of macOS is too long for a socket's path.
_FAST = Path("/private/tmp" if sys.platform == "darwin" else "/dev/shm")
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Verdict:
    """Either `root` is usable, or `reason` says why the candidate is not."""

    candidate: Path
    root: Path | None
    reason: str


def choose_root(
    environment: Mapping[str, str] = os.environ,
    candidates: Sequence[Path] | None = None,
    *,
    mount_type: Callable[[Path], str | None] = host.mount_type,
    free_bytes: Callable[[Path], int] = host.free_bytes,
) -> Path:
    """The user's own directory (0700) under the first candidate that holds locks and sockets.

    Raises NoUsableRoot with each candidate's reason. Only the environment's override may lie on a network file system;
    that warns.
    """
    listed = ""
    for candidate in default_candidates(environment) if candidates is None else candidates:
        verdict = examine(candidate, environment, mount_type=mount_type, free_bytes=free_bytes)
        if verdict.root is not None:
            return verdict.root
        listed += f"\n  {candidate}: {verdict.reason}"
    raise NoUsableRoot(f"No directory can hold the pool's sockets and files. Set ${OVERRIDE} to one that can.{listed}")


def examine(
    candidate: Path,
    environment: Mapping[str, str] = os.environ,
    *,
    mount_type: Callable[[Path], str | None] = host.mount_type,
    free_bytes: Callable[[Path], int] = host.free_bytes,
) -> Verdict:
    """Makes the user's directory there, if it can be made, and tries it out."""
    override = environment.get(OVERRIDE)
    forced = override is not None and candidate == Path(override)
    try:
        base = candidate.resolve(strict=True)
        if refusal := _refusal(base, mount_type(base), free_bytes(base), forced=forced):
            return Verdict(candidate, None, refusal)
        root = _made_and_checked(base)
        _try_out(root)
    except OSError as error:
        return Verdict(candidate, None, _in_words(error, candidate))
    return Verdict(candidate, root, "")


def _in_words(error: OSError, candidate: Path) -> str:
    """With the file's name, if the candidate itself is not at fault."""
    reason = error.strerror or str(error)
    if isinstance(error.filename, str) and error.filename != str(candidate):
        return f"{error.filename}: {reason}"
    return reason


def default_candidates(environment: Mapping[str, str] = os.environ) -> list[Path]:
    named = [environment.get(OVERRIDE), str(_FAST), environment.get("XDG_RUNTIME_DIR")]
    return list(dict.fromkeys([*(Path(name) for name in named if name), *temporary_directories()]))


def temporary_directories() -> list[Path]:
    """One, or none where nothing can be written: `tempfile` raises then."""
    with suppress(FileNotFoundError):
        return [Path(tempfile.gettempdir())]
    return []


def existing_roots(environment: Mapping[str, str] = os.environ) -> Iterator[Path]:
    """This user's directories that are there and can be trusted, in the order of `choose_root`. Makes nothing."""
    for candidate in default_candidates(environment):
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            yield _made_and_checked(candidate.resolve(strict=True), make=False)


def root_under(base: Path, uid: int) -> Path:
    return base / f"wool-{uid}" / LAYOUT


def kernel_namespace(connection_file: str) -> str:
    """The same for each start of a kernel: its connection file keeps its path over restarts."""
    return "k" + hashlib.blake2b(os.fsencode(connection_file), digest_size=5).hexdigest()


def _refusal(base: Path, mounted: str | None, free: int, *, forced: bool) -> str | None:
    longest = layout.behind_door(layout.socket(root_under(base, os.geteuid()) / ("k" + "0" * 10) / ("0" * 10), "0" * 8))
    if len(os.fsencode(longest)) > host.SOCKET_PATH_MAX_BYTES:
        return "its path is too long for a Unix socket"
    mode = base.stat().st_mode
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        return "every user can rename what lies in it (writable, no sticky bit)"
    if free < FREE_MIN_BYTES:
        return f"only {free >> 20} MiB free, {FREE_MIN_BYTES >> 20} needed"
    if mounted is not None and any(fnmatchcase(mounted, pattern) for pattern in host.NETWORK_FILE_SYSTEMS):
        if not forced:
            return f"on a network file system ({mounted}), where locks can't be relied on"
        warnings.warn(f"${OVERRIDE} is on a network file system ({mounted}): locks may not hold", stacklevel=4)
    return None


def _made_and_checked(base: Path, *, make: bool = True) -> Path:
    """By descriptor at each step: what is checked is what was opened, and no link is followed below `base`."""
    root = root_under(base, os.geteuid())
    with (
        _opened(str(base), _DIRECTORY) as above,
        _own(root.parent.name, above, make=make) as user,
        _own(root.name, user, make=make),
    ):
        return root


@contextmanager
def _own(name: str, above: int, *, make: bool) -> Iterator[int]:
    if make:
        with suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=above)
    with _opened(name, _DIRECTORY | os.O_NOFOLLOW, above=above) as fd:
        status = os.fstat(fd)
        if status.st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, f"{name} belongs to user {status.st_uid}")
        if stat.S_IMODE(status.st_mode) & 0o777 != 0o700:
            raise PermissionError(errno.EPERM, f"{name} has mode {stat.S_IMODE(status.st_mode):o}, not 700")
        yield fd


@contextmanager
def _opened(name: str, flags: int, *, above: int | None = None) -> Iterator[int]:
    fd = os.open(name, flags, dir_fd=above)
    try:
        yield fd
    finally:
        os.close(fd)


def _try_out(root: Path) -> None:
    """OSError unless files, locks and sockets work there."""
    trial = root / f".try-{secrets.token_hex(4)}"
    try:
        with _opened(str(trial), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC) as fd:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.write(fd, b"\0")
        trial.unlink()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(str(trial))
    finally:
        trial.unlink(missing_ok=True)
