"""A pool that can't start says why in one error, leaves nothing, and starts once the cause is gone."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.support.kernel import Kernel
from tests.support.pools import lives, nursery_of, pool_processes
from tests.support.waiting import wait_until
from wool_jupyter.discovery import root

GONE_S = 10
USER = f"wool-{os.geteuid()}"

# The kernel gets mounts of its own, where the test may do what it wants to /dev/shm.
OWN_MOUNTS = """\
import ctypes, os, subprocess
def mount(*arguments): subprocess.run(["mount", *arguments], check=True)
if ctypes.CDLL(None, use_errno=True).unshare(0x00020000):
    raise OSError(ctypes.get_errno(), "unshare")
mount("--make-rprivate", "/")
mount("-t", "tmpfs", "tmpfs", "/dev/shm")
"""


def _can_mount() -> bool:
    unshare = shutil.which("unshare")
    tried = unshare and subprocess.run(
        [unshare, "-m", "mount", "-t", "tmpfs", "tmpfs", "/dev/shm"], check=False, capture_output=True
    )
    return bool(tried) and tried.returncode == 0


needs_mounts = pytest.mark.skipif(not _can_mount(), reason="needs the right to mount")


@pytest.fixture
def top():
    """Short enough for sockets."""
    path = Path(tempfile.mkdtemp(prefix="w", dir="/tmp"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def kernel(tmp_path):
    kernel = Kernel(cwd=str(tmp_path))
    try:
        kernel.ok("%load_ext wool_jupyter")
        yield kernel
    finally:
        kernel.shutdown(now=True)


def fails(kernel: Kernel, name: str = "StartFailed") -> str:
    """The one error of a start that fails; nothing is left of it, for all that the kernel can see."""
    error = kernel.wool_error("x = 1")
    assert error.ename == name
    assert error.traceback.count(name) == 1
    assert error.traceback == f"{name}: {error.evalue}"
    wait_until(lambda: not pool_processes(kernel.pid), GONE_S)
    assert directories(kernel) == []
    assert "no pool runs" in kernel.ok("%wool status").stdout
    return error.evalue


def directories(kernel: Kernel) -> list[str]:
    """Of its pools, as the kernel sees them: its mounts may be its own."""
    kernel.ok(
        "from wool_jupyter.discovery import root as _root\nfrom wool_jupyter.notebook.runtime import runtime as _runtime"
    )
    listed = "_root.root_under(base, __import__('os').geteuid()).glob(_runtime()._namespace + '/*')"
    return kernel.value(f"[str(path) for base in _root.default_candidates() for path in {listed}]")


def works(kernel: Kernel) -> None:
    assert kernel.ok("%%wool\nx = 1\nx + 1").value == "2"


# No place.


@needs_mounts
def test_no_usable_root(kernel, top):
    named = {"WOOL_JUPYTER_RUNTIME_DIR": "a", "XDG_RUNTIME_DIR": "b", "TMPDIR": "c"}
    for name in named.values():
        (top / name).mkdir()
        (top / name / USER).touch()
    kernel.ok(OWN_MOUNTS + f"open('/dev/shm/{USER}', 'w').close()")
    settings = {name: str(top / folder) for name, folder in named.items()}
    kernel.ok(f"import tempfile; os.environ.update({settings!r}); tempfile.tempdir = None")

    first, *candidates = fails(kernel, "NoUsableRoot").splitlines()
    assert "WOOL_JUPYTER_RUNTIME_DIR" in first
    places = [str(top / "a"), "/dev/shm", str(top / "b"), str(top / "c")]
    assert candidates == [f"  {place}: {USER}: Not a directory" for place in places]
    report = kernel.ok("%wool doctor").stdout
    assert all(f"{place} " in report for place in places)
    assert report.count("not usable: ") == 4
    assert "none is usable" in report

    kernel.ok(f"os.unlink('/dev/shm/{USER}')")
    works(kernel)


def test_without_a_temporary_directory_the_other_candidates_count(monkeypatch):
    """`tempfile` raises where it can write nowhere."""
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", list)
    assert root.temporary_directories() == []
    assert root.default_candidates({root.OVERRIDE: "/a"})[0] == Path("/a")


# No room. What is there for the start to find passes the look before it, and is used up then.


@needs_mounts
@pytest.mark.parametrize("left", [0, 1, 3, 5, 6, 7, 9])
def test_file_system_without_room_for_more_names(kernel, left):
    """After 2 for the user's directory, each number ends at another step. Some leave enough."""
    kernel.ok(OWN_MOUNTS + "os.environ['WOOL_JUPYTER_RUNTIME_DIR'] = '/dev/shm'")
    kernel.ok(f"mount('-o', 'remount,nr_inodes={left + 4}', '/dev/shm')")
    kernel.ok("from wool_jupyter.discovery import root; root.choose_root(candidates=[root.Path('/dev/shm')])")
    result = kernel.run("%%wool\nx = 1\nx + 1")
    if result.status == "error":
        assert result.error.ename in ("StartFailed", "WorkerDied", "OSError"), result.error
        assert re.search("No space left|Failed to bind", result.error.evalue)  # gRPC does not say why it can't
    kernel.ok("%wool stop")
    assert directories(kernel) == []
    kernel.ok("mount('-o', 'remount,nr_inodes=1000', '/dev/shm')")
    works(kernel)


@needs_mounts
def test_full_file_system_is_not_chosen(kernel):
    kernel.ok(OWN_MOUNTS + "mount('-o', 'remount,size=1m', '/dev/shm')")
    works(kernel)
    report = kernel.ok("%wool doctor").stdout
    assert "only 1 MiB free" in report or "only 0 MiB free" in report


@needs_mounts
def test_file_system_that_fills_up_while_the_pool_runs(kernel):
    kernel.ok(
        OWN_MOUNTS + "mount('-o', 'remount,size=9m', '/dev/shm')\nos.environ['WOOL_JUPYTER_RUNTIME_DIR'] = '/dev/shm'"
    )
    works(kernel)
    kernel.ok(
        "with open('/dev/shm/full', 'wb', 0) as full:\n"
        "    try:\n        while full.write(b'x' * 4096): pass\n    except OSError: pass"
    )
    result = kernel.run("%%wool\nprint('shown')\ny = bytearray(1 << 20)\nlen(y)")
    assert "No space left on device" in result.error.evalue
    kernel.ok("os.unlink('/dev/shm/full')")
    works(kernel)


@needs_mounts
def test_large_data_lies_on_the_disk_where_files_in_memory_have_little_room(kernel):
    """A container's /dev/shm has 64 MB, say."""
    kernel.ok(OWN_MOUNTS + "mount('-o', 'remount,size=16m', '/dev/shm')\nimport numpy as np")
    kernel.ok("big = np.arange(4_000_000.0); small = np.ones(300_000)")
    for _ in range(2):
        kernel.ok("%%wool\nback = big * 2; total = float(big.sum() + small.sum())")
        assert kernel.value("(total, float(back[-1]))") == (7999998300000.0, 7999998.0)
    kernel.ok("from wool_jupyter.notebook.runtime import runtime")
    sizes = "[sorted({f.stat().st_size for d in ('data', 'idle') for f in (place / d).iterdir()}) for place in runtime().places]"
    assert kernel.value(sizes) == [[2_400_000], [32_000_000]]


# No memory, no process.

LIMITED = """\
import sys
if {module!r} in sys.orig_argv:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, ({limit}, {limit}))
"""


@pytest.mark.parametrize(
    ("module", "limit_mb", "cause"),
    [
        pytest.param(
            "wool_jupyter.nursery",
            12,
            "looks after the workers.*(\n.*)*(MemoryError|failed to map|[Cc]annot allocate)",
            id="nursery",
        ),
        pytest.param("wool_jupyter.worker", 20, "failed to map|MemoryError", id="worker-imports-msgspec"),
        pytest.param("wool_jupyter.worker", 28, "failed to map|MemoryError", id="worker-imports-ipython"),
        pytest.param(
            "wool_jupyter.worker", 40, "failed to map|MemoryError|can't start new thread", id="worker-threads"
        ),
    ],
)
def test_no_memory(kernel, tmp_path, module, limit_mb, cause):
    (tmp_path / "sitecustomize.py").write_text(LIMITED.format(module=module, limit=limit_mb << 20))
    kernel.ok(f"import os; os.environ['PYTHONPATH'] = {str(tmp_path)!r}")
    error = fails(kernel)
    assert re.search(cause, error), error
    assert error.count("Traceback") <= 1
    shown = kernel.ok("%wool logs").stdout
    assert shown.startswith("wool: what was written by the last start, which failed\n")
    assert all(line.strip() in shown for line in error.splitlines()[1:])
    (tmp_path / "sitecustomize.py").unlink()
    works(kernel)
    assert "nothing was written outside of cells so far" in kernel.ok("%wool logs").stdout


WITHOUT_PROCESSES = """\
import os, resource, sys
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "wool_jupyter")
before = resource.getrlimit(resource.RLIMIT_NPROC)
for limit in map(int, sys.argv[1:]):
    resource.setrlimit(resource.RLIMIT_NPROC, (limit, before[1]))
    try:
        shell.run_cell_magic("wool", "", "x = 1")
    except Exception as error:
        print(limit, type(error).__name__, str(error).replace("\\n", " "))
    else:
        print(limit, "worked")
        shell.run_line_magic("wool", "stop")
    resource.setrlimit(resource.RLIMIT_NPROC, before)
    shell.run_cell_magic("wool", "", "x = 1")
    shell.run_line_magic("wool", "stop")
"""


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="only root can become another user")
def test_no_process(top):
    """The limit is per user and does not bind root: a user of its own, who may read what root may."""
    (top / "home").mkdir()
    caps = "-all,+dac_override,+dac_read_search"
    become = ["setpriv", "--reuid=71234", "--regid=71234", "--clear-groups"]
    become += [f"--{each}={caps}" for each in ("inh-caps", "ambient-caps", "bounding-set")]
    done = subprocess.run(
        [*become, sys.executable, "-u", "-c", WITHOUT_PROCESSES, "1", "20", "30", "45"],
        cwd=top,
        check=False,
        env={
            **os.environ,
            "IPYTHONDIR": str(top / "home"),
            "HOME": str(top / "home"),
            "WOOL_JUPYTER_RUNTIME_DIR": str(top),
            "TMPDIR": str(top),
        },
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert done.returncode == 0, done.stderr  # gRPC would abort
    said = [line for line in done.stdout.splitlines() if line[:1].isdigit()]
    assert len(said) == 4, said
    assert re.fullmatch(
        r"1 StartFailed A pool needs \d+ threads and processes, and only 0 more can be started: .*", said[0]
    )
    assert all(" worked" in line or " StartFailed " in line for line in said)
    assert not list(top.glob("wool-*/1/k*"))


# The nursery is killed.


def test_nursery_killed_before_a_cell(kernel):
    works(kernel)
    processes = pool_processes(kernel.pid)
    nursery_of(kernel.pid).kill()
    wait_until(lambda: not any(map(lives, processes)), GONE_S)
    works(kernel)


def test_nursery_killed_while_a_cell_runs_ends_it(kernel):
    running = kernel.begin("%%wool\nimport signal\nprint('begun', flush=True)\nsignal.pause()")
    running.wait_for("begun")
    processes = pool_processes(kernel.pid)
    nursery_of(kernel.pid).kill()
    result = running.result()
    assert result.error.ename == "WorkerDied"
    assert "ended with the process that looks after the workers" in result.error.evalue
    wait_until(lambda: not any(map(lives, processes)), GONE_S)
    works(kernel)


def test_nursery_killed_right_before_a_cell_costs_that_cell_at_most(kernel):
    works(kernel)
    for _ in range(3):
        nursery = nursery_of(kernel.pid)
        nursery.kill()
        wait_until(lambda nursery=nursery: not lives(nursery))  # a busy system takes its time
        result = kernel.run("%%wool\nx = 1\nx + 1")
        assert result.status == "ok" or result.error.ename in ("WorkerDied", "StartFailed")
        works(kernel)


def test_nursery_killed_while_the_pool_starts(kernel, tmp_path):
    """By a worker that is on its way up."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\nif 'wool_jupyter.worker' in sys.orig_argv:\n    os.kill(os.getppid(), 9)\n"
    )
    kernel.ok(f"import os; os.environ['PYTHONPATH'] = {str(tmp_path)!r}")
    assert "looks after the workers" in fails(kernel)
    (tmp_path / "sitecustomize.py").unlink()
    works(kernel)
