"""What differs by system: CPUs, process descriptors, mounts, holes in files, the death of a parent."""

import contextlib
import errno
import math
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

# Patterns of `fnmatch`. Directory locks of these are local to a host, or absent.
NETWORK_FILE_SYSTEMS = ("nfs*", "cifs", "smb*", "9p", "fuse.sshfs", "lustre", "gpfs", "ceph", "beegfs", "afs")

# sockaddr_un.sun_path without its terminating zero; gRPC refuses what is longer.
SOCKET_PATH_MAX_BYTES = 103 if sys.platform == "darwin" else 107

_PR_SET_PDEATHSIG = 1
_FALLOC_FL_KEEP_SIZE = 1
_FALLOC_FL_PUNCH_HOLE = 2


def usable_cpus(root: Path = Path("/")) -> int:
    """CPUs that this process may keep busy: its affinity, cut by its cgroups' quotas (rounded up); at least 1.

    `root` stands above `proc` and `sys`.
    """
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([allowed, *(math.ceil(quota) for quota in _cpu_quotas(root))]))


def _cpu_quotas(root: Path) -> Iterator[float]:
    mounts = root / "sys/fs/cgroup"
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, group = line.split(":", 2)
        if not controllers:
            for base in (mounts, mounts / "unified"):
                for directory in _upwards(base, group):
                    yield from _quota(_read(directory / "cpu.max").split())
        elif "cpu" in controllers.split(","):
            for base in (mounts / controllers, mounts / "cpu"):
                for directory in _upwards(base, group):
                    yield from _quota([_read(directory / f"cpu.cfs_{part}_us").strip() for part in ("quota", "period")])


def available_memory_bytes(root: Path = Path("/")) -> int | None:
    """What can be taken without swapping, cut by the room that the cgroups' limits leave; None where the system does not say."""
    found = re.search(r"^MemAvailable:\s+(\d+) kB", _read(root / "proc/meminfo"), re.MULTILINE)
    if found is None:
        return None
    return max(0, min([int(found[1]) << 10, *_cgroup_rooms(root)]))


def _cgroup_rooms(root: Path) -> Iterator[int]:
    mounts = root / "sys/fs/cgroup"
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, group = line.split(":", 2)
        bases = [mounts, mounts / "unified"] if not controllers else [mounts / "memory"]
        limit, used = (
            ("memory.max", "memory.current") if not controllers else ("memory.limit_in_bytes", "memory.usage_in_bytes")
        )
        if controllers and "memory" not in controllers.split(","):
            continue
        for directory in (directory for base in bases for directory in _upwards(base, group)):
            most, now = _read(directory / limit).strip(), _read(directory / used).strip()
            if most.isdecimal() and now.isdecimal():  # no limit reads `max`
                yield int(most) - int(now)


def _quota(words: list[str]) -> Iterator[float]:
    """No limit reads `max` in version 2 and `-1` in version 1."""
    match words:
        case [quota, period] if quota.isdecimal() and period.isdecimal() and int(period) > 0:
            yield int(quota) / int(period)


def _upwards(base: Path, group: str) -> Iterator[Path]:
    """The group's directories up to the mount.

    In a container the group's name may be the host's, or begin with `/..`: what is not there has no limit to read.
    """
    parts = [part for part in PurePosixPath(group).parts if part not in {"/", ".."}]
    for length in range(len(parts), -1, -1):
        yield base.joinpath(*parts[:length])


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""


def die_with_parent(parent_pid: int) -> None:
    """From now on the parent's death is a SIGKILL to this process. Ends it at once if the parent is gone already.

    The kernel ties this to the *thread* that started the process: sound only with a single-threaded parent. Cleared in
    forked children. Does nothing but on Linux.
    """
    if sys.platform != "linux":
        return
    import ctypes
    import signal

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    if os.getppid() != parent_pid:
        os._exit(1)


def process_descriptor(pid: int) -> int | None:
    """A descriptor that turns readable when the process ends; None where there is none to be had. The caller closes it.

    ProcessLookupError if there is no such process.
    """
    if sys.platform != "linux":
        return None
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except OSError:  # before Linux 5.3, or forbidden by a sandbox
        return None


def has_ended(child_pid: int) -> bool:
    """Whether this child, which nobody has reaped, has ended. Leaves it unreaped, so its number stays taken."""
    if sys.platform == "darwin":  # has no os.waitid before Python 3.13
        import select

        exit_of_child = select.kevent(child_pid, select.KQ_FILTER_PROC, select.KQ_EV_ADD, select.KQ_NOTE_EXIT)
        with contextlib.closing(select.kqueue()) as queue:
            try:
                return bool(queue.control([exit_of_child], 1, 0))
            except ProcessLookupError:  # what it says of a zombie
                return True
    return os.waitid(os.P_PID, child_pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def punch_hole(fd: int, offset: int, length: int) -> bool:
    """Give the pages of this range back; they read as zeros, the size stays. False where the system can't."""
    if sys.platform != "linux":
        return False
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    fallocate = getattr(libc, "fallocate64", None) or libc.fallocate
    mode = _FALLOC_FL_PUNCH_HOLE | _FALLOC_FL_KEEP_SIZE
    if fallocate(fd, mode, ctypes.c_int64(offset), ctypes.c_int64(length)) == 0:
        return True
    code = ctypes.get_errno()
    if code in {errno.EOPNOTSUPP, errno.ENOSYS}:
        return False
    raise OSError(code, os.strerror(code))


def mount_type(path: Path, mountinfo: Path = Path("/proc/self/mountinfo")) -> str | None:
    """Name of the file system that holds `path` (its links followed), None where the system does not say."""
    wanted = os.path.realpath(path)
    longest, found = -1, None
    for line in _read(mountinfo).splitlines():
        fields = line.split(" ")
        point = _unescaped(fields[4])
        inside = wanted == point or wanted.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= longest:  # of two on one point the later hides the earlier
            longest, found = len(point), fields[fields.index("-") + 1]
    return found


def _unescaped(field: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)


def free_bytes(path: Path) -> int:
    """Space that is left to this user on the file system of `path`."""
    status = os.statvfs(path)
    return status.f_bavail * status.f_frsize
