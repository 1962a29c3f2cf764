"""What differs by system: CPUs, process descriptors, mounts, holes in files, the death of a parent."""

import contextlib
import errno
import functools
import math
import os
import re
import site
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

# Patterns of `fnmatch`. Directory locks of these are local to a host, or absent.
NETWORK_FILE_SYSTEMS = ("nfs*", "cifs", "smb*", "9p", "fuse.sshfs", "lustre", "gpfs", "ceph", "beegfs", "afs")

# sockaddr_un.sun_path without its terminating zero; gRPC refuses what is longer.
SOCKET_PATH_MAX_BYTES = 103 if sys.platform == "darwin" else 107

_FILE_SYSTEMS_IN_MEMORY = ("tmpfs", "ramfs")

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
_FALLOC_FL_KEEP_SIZE = 1
_FALLOC_FL_PUNCH_HOLE = 2

_NO_LIMIT_BYTES = 1 << 62  # version 1 says "no limit" with the largest number of pages


def usable_cpus(root: Path = Path("/")) -> int:
    """CPUs that this process may keep busy: its affinity, cut by its cgroups' quotas (rounded up); at least 1.

    `root` stands above `proc` and `sys`.
    """
    quota = cpu_quota(root)
    return max(1, affine_cpus() if quota is None else min(affine_cpus(), math.ceil(quota)))


def affine_cpus() -> int:
    """CPUs that this process may run on, however little of their time."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cpu_quota(root: Path = Path("/")) -> float | None:
    """How many CPUs' time its cgroups leave this process; None: no limit."""
    return min(_cpu_quotas(root), default=None)


def _cpu_quotas(root: Path) -> Iterator[float]:
    for path in _groups(root, "cpu", v1="cpu.cfs_quota_us", v2="cpu.max"):
        words = _read(path).split()
        if path.name != "cpu.max":
            words += _read(path.with_name("cpu.cfs_period_us")).split()
        yield from _quota(words)


def available_memory_bytes(root: Path = Path("/")) -> int | None:
    """What can be taken without swapping, cut by the room that the cgroups' limits leave; None where the system does not say."""
    found = re.search(r"^MemAvailable:\s+(\d+) kB", _read(root / "proc/meminfo"), re.MULTILINE)
    if found is None:
        return None
    return max(0, min([int(found[1]) << 10, *_cgroup_rooms(root)]))


def memory_limit_bytes(root: Path = Path("/")) -> int | None:
    """The tightest limit of this process's cgroups; None: there is none."""
    groups = _groups(root, "memory", v1="memory.limit_in_bytes", v2="memory.max")
    limits = (int(text) for path in groups if (text := _read(path).strip()).isdecimal())
    return min((limit for limit in limits if limit < _NO_LIMIT_BYTES), default=None)


def umask() -> int | None:
    """Of this process; None where the system does not say (Linux does since 4.7)."""
    try:
        with open("/proc/self/status", "rb", buffering=0) as file:  # noqa: PTH123 (before and after each cell)
            head = file.read(256)  # it stands in the second line
    except OSError:
        return None
    found = re.search(rb"^Umask:\s+(\d+)", head, re.MULTILINE)
    return None if found is None else int(found[1], 8)


def process_limit(root: Path = Path("/")) -> tuple[int, int] | None:
    """The tightest limit of processes and threads of this process's cgroups, and how many there are; None: no limit."""
    limits = []
    for path in _groups(root, "pids", v1="pids.max", v2="pids.max"):
        most, now = _read(path).strip(), _read(path.with_name("pids.current")).strip()
        if most.isdecimal() and now.isdecimal():
            limits.append((int(most), int(now)))
    return min(limits, key=lambda limit: limit[0] - limit[1], default=None)


def oom_kills(root: Path = Path("/")) -> int:
    """Grows when the out-of-memory killer strikes, anywhere on the system or in this process's cgroup; else meaningless.

    Counted by /proc/vmstat since Linux 4.13, by a cgroup's file since then or 4.19 (version 2). In a container the first may be
    another's.
    """
    files = [root / "proc/vmstat", *_groups(root, "memory", v1="memory.oom_control", v2="memory.events")]
    counts = [int(count) for file in files for count in re.findall(r"^oom_kill (\d+)$", _read(file), re.MULTILINE)]
    return sum(counts)


def _cgroup_rooms(root: Path) -> Iterator[int]:
    for path in _groups(root, "memory", v1="memory.limit_in_bytes", v2="memory.max"):
        used = "memory.current" if path.name == "memory.max" else "memory.usage_in_bytes"
        most, now = _read(path).strip(), _read(path.with_name(used)).strip()
        if most.isdecimal() and now.isdecimal():  # no limit reads `max`
            yield int(most) - int(now)


def _groups(root: Path, controller: str, *, v1: str, v2: str) -> Iterator[Path]:
    """That file of each of this process's groups, from its own upwards; what it names may be missing."""
    mounts = root / "sys/fs/cgroup"
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, group = line.split(":", 2)
        if not controllers:
            yield from (each / v2 for base in (mounts, mounts / "unified") for each in _upwards(base, group))
        elif controller in controllers.split(","):
            for base in dict.fromkeys((mounts / controllers, mounts / controller)):
                yield from (each / v1 for each in _upwards(base, group))


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


def adopt_orphans() -> bool:
    """From now on a descendant whose parent has ended is this process's child, and to be reaped by it. False where that can't be
    had: only Linux has it."""
    if sys.platform != "linux":
        return False
    import ctypes

    adopts: int = ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1), 0, 0, 0)
    return adopts == 0


def name_process(name: str) -> None:
    """For `top` and `ps -o comm`; of at most 15 bytes. Threads that are started later have it, too. Does nothing but on Linux."""
    if sys.platform != "linux":
        return
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_NAME, ctypes.c_char_p(name.encode()), 0, 0, 0)


def rename_arguments(before: bytes, after: bytes) -> bool:
    """In this process's command line as others see it, where each argument ends with a zero; both have the same length. False where
    they are not found once, or can't be written."""
    if len(before) != len(after):
        raise ValueError(f"{before!r} and {after!r} have different lengths")
    stat = _read(Path("/proc/self/stat")).rpartition(")")[2].split()
    if len(stat) < 47:
        return False
    import ctypes

    start, end = int(stat[45]), int(stat[46])  # 0 where the system does not say
    line = ctypes.string_at(start, end - start) if start else b""
    if line.count(before) != 1:
        return False
    ctypes.memmove(start + line.index(before), after, len(after))
    return True


def ended_child() -> int | None:
    """A child that has ended and that nobody has reaped, the one that came first. Leaves it unreaped."""
    try:
        found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    return None if found is None else found.si_pid


@functools.cache
def installed() -> tuple[str, ...]:
    """What the paths of modules begin with that nobody edits: of Python itself, and where packages are installed."""
    places = {*sysconfig.get_paths().values(), *site.getsitepackages(), site.getusersitepackages()}
    places |= {sys.prefix, sys.base_prefix}
    return tuple({os.path.realpath(place) + os.sep for place in places})


def threads() -> int:
    """Of this process, also those that Python does not know. Linux only."""
    return sum(1 for _ in Path("/proc/self/task").iterdir())


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


def ignores(pid: int, number: int) -> bool:
    """Whether the process has said that it will not have this signal. False where the system does not tell."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    mask = re.search(r"^SigIgn:\s+([0-9a-f]+)", status, re.MULTILINE)
    return mask is not None and bool(int(mask[1], 16) >> (number - 1) & 1)


def is_stopped(pid: int, root: Path = Path("/")) -> bool:
    """Whether a signal or a debugger holds the process still. False where the system does not tell. 10 µs, before each call."""
    try:
        fd = os.open(f"{root}/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.read(fd, 512).rpartition(b") ")[2][:1] in (b"T", b"t")
    except OSError:  # it has ended
        return False
    finally:
        os.close(fd)


_SIZES = re.compile(r"^(VmHWM|VmRSS|RssShmem):\s+(\d+) kB", re.MULTILINE)


class Usage(NamedTuple):
    cpu_s: float  # since it began, in user and system mode; of its ended children nothing
    rss_bytes: (
        int  # without what it maps of memory's own files: data for several processes, which would be counted in each
    )
    peak_rss_bytes: int  # with that: the system keeps no other


def process_usage(pid: int, root: Path = Path("/")) -> Usage | None:
    """As the system sees it, which also works while the process is in a C call. None where it does not say, or the process has
    ended. Two small reads: about 0.1 ms."""
    stat = _read(root / f"proc/{pid}/stat").rpartition(")")[2].split()  # a name may have blanks and brackets
    sizes = {name: int(kib) << 10 for name, kib in _SIZES.findall(_read(root / f"proc/{pid}/status"))}
    if len(stat) < 13 or not sizes.keys() >= {"VmHWM", "VmRSS"}:  # a zombie has no memory
        return None
    ticks = int(stat[11]) + int(stat[12])
    own = max(0, sizes["VmRSS"] - sizes.get("RssShmem", 0))
    return Usage(ticks / os.sysconf("SC_CLK_TCK"), own, sizes["VmHWM"])


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


def has_children() -> bool:
    """Of this process, also those that nobody waits for. False where the system does not say."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:  # a hundred times faster
        return False
    try:
        return any(_read(task / "children").strip() for task in Path("/proc/self/task").iterdir())
    except OSError:  # no /proc, or no descriptor left
        return False


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


def reserve(fd: int, size_bytes: int) -> None:
    """Pages for a file, where the system can promise them: a full disk is an ENOSPC then, before a byte is written."""
    if hasattr(os, "posix_fallocate"):  # not on macOS, where writing finds out
        os.posix_fallocate(fd, 0, size_bytes)


def watches_files() -> bool:
    """Whether a change in a directory can be waited for. macOS tells it late, and by directory."""
    return sys.platform == "linux"


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


def is_in_memory(path: Path) -> bool:
    """Files there take memory, and no disk."""
    return mount_type(path) in _FILE_SYSTEMS_IN_MEMORY


def _unescaped(field: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)


def free_bytes(path: Path) -> int:
    """Space that is left to this user on the file system of `path`."""
    return free_and_most_bytes(path)[0]


def free_and_most_bytes(path: Path) -> tuple[int, int]:
    """And how much an empty one would have."""
    status = os.statvfs(path)
    return status.f_bavail * status.f_frsize, status.f_blocks * status.f_frsize
