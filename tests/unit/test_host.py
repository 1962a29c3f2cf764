import mmap
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.support.waiting import wait_until
from wool_jupyter import host

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="a facility of Linux")


def make_cgroup(root: Path, membership: str, files: dict[str, str]) -> None:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(membership)
    for name, text in files.items():
        path = root / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def many_cpus(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)), raising=False)


@pytest.mark.parametrize(
    ("membership", "files", "cpus"),
    [
        pytest.param("0::/\n", {}, 64, id="no-files"),
        pytest.param("0::/a\n", {"a/cpu.max": "max 100000\n"}, 64, id="v2-no-limit"),
        pytest.param("0::/a/b\n", {"a/b/cpu.max": "800000 100000", "a/cpu.max": "300000 100000"}, 3, id="v2-parent"),
        pytest.param("0::/../../a\n", {"cpu.max": "400000 100000"}, 4, id="v2-namespace"),
        pytest.param("0::/a\n", {"unified/a/cpu.max": "200000 100000"}, 2, id="v2-hybrid"),
        pytest.param("0::/a\n", {"a/cpu.max": "150000 100000"}, 2, id="rounded-up"),
        pytest.param("0::/a\n", {"a/cpu.max": "1000 100000"}, 1, id="at-least-one"),
        pytest.param("0::/a\n", {"a/cpu.max": "rubbish"}, 64, id="unreadable"),
        pytest.param(
            "5:cpu,cpuacct:/host/name\n0::/\n",
            {"cpu,cpuacct/cpu.cfs_quota_us": "500000\n", "cpu,cpuacct/cpu.cfs_period_us": "100000\n"},
            5,
            id="v1-container",
        ),
        pytest.param(
            "1:cpu:/a\n",
            {"cpu/a/cpu.cfs_quota_us": "-1\n", "cpu/a/cpu.cfs_period_us": "100000\n"},
            64,
            id="v1-no-limit",
        ),
    ],
)
def test_quota_of_every_group_limits_the_cpus(tmp_path, many_cpus, membership, files, cpus):
    make_cgroup(tmp_path, membership, files)
    assert host.usable_cpus(tmp_path) == cpus


@linux_only
def test_affinity_limits_the_cpus():
    code = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
    code += "from wool_jupyter.host import usable_cpus; print(usable_cpus())"
    assert subprocess.check_output([sys.executable, "-c", code]) == b"1\n"


@linux_only
def test_one_whose_parent_is_gone_already_ends_at_once():
    code = "from wool_jupyter.host import die_with_parent; die_with_parent(1 << 22); print('alive')"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=False)
    assert (done.returncode, done.stdout) == (1, b"")


@linux_only
def test_process_descriptor_turns_readable_when_the_process_ends():
    import select

    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    fd = host.process_descriptor(process.pid)
    assert fd is not None
    assert select.select([fd], [], [], 0)[0] == []
    process.communicate(b"\n")
    assert select.select([fd], [], [], 20)[0] == [fd]
    os.close(fd)


@linux_only
def test_process_descriptor_of_no_process_is_an_error():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    with pytest.raises(ProcessLookupError):
        host.process_descriptor(process.pid)


def test_child_that_has_ended_is_seen_and_left_to_reap():
    process = subprocess.Popen([sys.executable, "-c", "import sys; sys.exit(len(input()))"], stdin=subprocess.PIPE)
    assert not host.has_ended(process.pid)
    assert process.stdin is not None
    process.stdin.write(b"xx\n")
    process.stdin.close()
    wait_until(lambda: host.has_ended(process.pid))
    assert process.wait() == 2


@linux_only
def test_punched_hole_gives_its_pages_back_and_keeps_the_size():
    with Path("/dev/shm", f"wool-test-{os.getpid()}").open("w+b") as file:
        Path(file.name).unlink()
        file.write(b"x" * (1 << 20))
        file.flush()
        before = os.fstat(file.fileno())
        assert host.punch_hole(file.fileno(), 0, 1 << 19)
        after = os.fstat(file.fileno())
        assert (after.st_size, after.st_blocks) == (before.st_size, before.st_blocks // 2)
        assert os.pread(file.fileno(), 1 << 20, 0) == b"\0" * (1 << 19) + b"x" * (1 << 19)


@linux_only
def test_punching_a_closed_descriptor_is_an_error():
    reader, writer = os.pipe()
    os.close(reader)
    os.close(writer)
    with pytest.raises(OSError, match="Bad file descriptor"):
        host.punch_hole(writer, 0, 1)


MOUNTS = r"""22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/root rw
30 22 0:26 / /data rw - nfs4 server:/data rw
31 30 0:27 / /data/with\040space rw master:3 shared:9 - tmpfs tmpfs rw
32 22 0:28 / /over rw - xfs /dev/b rw
33 32 0:29 / /over rw - fuse.sshfs me@there: rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "ext4"),
        ("/data", "nfs4"),
        ("/data/a/b", "nfs4"),
        ("/database", "ext4"),
        ("/data/with space/a", "tmpfs"),
        ("/over/a", "fuse.sshfs"),
    ],
)
def test_mount_type_is_that_of_the_innermost_mount(tmp_path, path, kind):
    table = tmp_path / "mountinfo"
    table.write_text(MOUNTS)
    assert host.mount_type(Path(path), table) == kind


def test_mount_type_is_unknown_without_a_table(tmp_path):
    assert host.mount_type(tmp_path, tmp_path / "missing") is None


@linux_only
def test_mount_type_reads_the_system_table():
    assert host.mount_type(Path("/proc/self/status")) == "proc"


def test_free_bytes_are_counted(tmp_path):
    assert host.free_bytes(tmp_path) > 0


@linux_only
def test_children_of_any_thread_are_seen_until_they_are_reaped():
    code = """
import os, subprocess, threading
from wool_jupyter import host
print(host.has_children())
started = []
thread = threading.Thread(target=lambda: started.append(subprocess.Popen(["cat"], stdin=subprocess.PIPE)))
thread.start()
thread.join()
print(host.has_children())
started[0].communicate()
print(host.has_children())
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found.split() == ["False", "True", "False"]


@pytest.mark.parametrize(("platform", "watched"), [("linux", True), ("darwin", False)])
def test_files_are_watched_where_that_is_prompt(monkeypatch, platform, watched):
    monkeypatch.setattr("sys.platform", platform)
    assert host.watches_files() is watched


STAT = "4711 (a (very) odd name) S 1 4711 4711 0 -1 4194304 1 2 0 0 250 50 900 900 20 0 9 0 1000 200000000 1000 184467"


STATUS = "Name:\tx\nVmHWM:\t   12345 kB\nVmRSS:\t    9000 kB\nRssAnon:\t    5000 kB\nRssShmem:\t    3000 kB\n"


def make_process(root: Path, *, stat: str = STAT, status: str = STATUS) -> None:
    (root / "proc/4711").mkdir(parents=True)
    (root / "proc/4711/stat").write_text(stat)
    (root / "proc/4711/status").write_text(status)


def test_use_of_a_process_is_read_whatever_its_name(tmp_path):
    make_process(tmp_path)
    usage = host.process_usage(4711, tmp_path)
    assert usage is not None
    assert usage.cpu_s == 300 / os.sysconf("SC_CLK_TCK")  # not that of its children
    assert usage.rss_bytes == 6000 << 10  # not what it shares
    assert usage.peak_rss_bytes == 12345 << 10


@pytest.mark.parametrize(("state", "stopped"), [("S", False), ("T", True), ("t", True)])
def test_a_process_that_is_held_still_is_told_whatever_its_name(tmp_path, state, stopped):
    make_process(tmp_path, stat=STAT.replace(") S ", f") {state} "))
    assert host.is_stopped(4711, tmp_path) is stopped


def test_nothing_is_held_still_where_the_system_does_not_say(tmp_path):
    assert not host.is_stopped(4711, tmp_path)


@pytest.mark.parametrize(
    "files",
    [
        pytest.param({"stat": ""}, id="gone meanwhile"),
        pytest.param({"status": "State:\tZ (zombie)\n"}, id="zombie"),
    ],
)
def test_a_process_that_has_ended_uses_nothing(tmp_path, files):
    make_process(tmp_path, **files)
    assert host.process_usage(4711, tmp_path) is None


def test_use_of_a_process_is_unknown_where_the_system_does_not_say(tmp_path):
    assert host.process_usage(os.getpid(), tmp_path) is None


@linux_only
def test_use_of_a_real_process_is_what_psutil_says():
    import psutil

    sum(range(3_000_000))
    usage, process = host.process_usage(os.getpid()), psutil.Process()
    assert usage is not None
    assert usage.cpu_s == pytest.approx(sum(process.cpu_times()[:2]), abs=0.5)
    memory = process.memory_info()
    assert (memory.rss - memory.shared) * 0.9 <= usage.rss_bytes <= memory.rss * 1.1
    assert usage.peak_rss_bytes >= usage.rss_bytes * 0.9


@linux_only
def test_data_that_several_processes_map_counts_in_none_of_them():
    size = 64 << 20
    with tempfile.TemporaryFile(dir="/dev/shm") as file:
        file.truncate(size)
        before = host.process_usage(os.getpid())
        with mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY) as data:
            assert data.find(b"x") == -1  # each page is read
            shared = host.process_usage(os.getpid())
            data[: size // 2] = b"x" * (size // 2)  # a copy is its own
            written = host.process_usage(os.getpid())
    assert shared.rss_bytes - before.rss_bytes < size // 4
    assert written.rss_bytes - before.rss_bytes > size // 4


@linux_only
def test_arguments_are_renamed_as_others_see_them_where_they_are_found():
    import psutil

    source = (
        "import sys\n"
        "from wool_jupyter import host\n"
        "print(host.rename_arguments(b'one\\0two\\0', b'a\\0bcdef\\0'))\n"
        "print(host.rename_arguments(b'three\\0', b'other\\0'), flush=True)\n"
        "input()\n"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", source, "zero", "one", "two", "four"], **pipes) as process:
        assert process.stdout.readline() == "True\n"
        assert process.stdout.readline() == "False\n"
        assert psutil.Process(process.pid).cmdline()[3:] == ["zero", "a", "bcdef", "four"]
        process.communicate("\n")
    with pytest.raises(ValueError, match="different lengths"):
        host.rename_arguments(b"a", b"bc")
