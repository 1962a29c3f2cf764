"""`%wool doctor`: one screen of facts for a bug report. Looks and starts nothing; no fact that is missing is an error."""

import os
import platform
import re
import resource
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from wool_jupyter import host
from wool_jupyter.discovery import root as roots
from wool_jupyter.discovery import watcher
from wool_jupyter.discovery.claim import is_served
from wool_jupyter.quantities import size
from wool_jupyter.settings import COUNTER_POLL_S

if TYPE_CHECKING:
    from wool_jupyter.notebook.runtime import Runtime

_PACKAGES = ("wool_jupyter", "ipython", "grpcio", "cloudpickle", "msgspec", "watchdog", "xxhash")
_PACKAGES_IF_LOADED = {"ipykernel": "ipykernel", "numpy": "numpy", "pandas": "pandas", "torch": "torch"}
_LEFTOVERS_MAX = 10
_TOOLS = (  # what has them take a `%%wool` cell for Python: tried with black 26, ruff 0.17, nbqa 1.9, jupytext 1.19
    ("black", '[tool.black] python-cell-magics = ["wool"]'),
    ("nbqa", '[tool.nbqa.process_cells] "ruff check" = ["wool"]'),
    ("ruff", 'passes such cells over, and misses their names: [tool.ruff.lint.per-file-ignores] "*.ipynb" = ["F821"]'),
    ("jupytext", "nothing to be set"),
)


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    facts: list[tuple[str, str]]


def gather(runtime: "Runtime | None", *, proc: Path = Path("/proc")) -> list[Section]:
    """`runtime` is None before anything of the pool's side was loaded."""
    verdicts = [roots.examine(candidate) for candidate in roots.default_candidates()]
    parts: dict[str, Callable[[], Iterable[tuple[str, str]]]] = {
        "versions": _versions,
        "places": lambda: _places(verdicts, runtime),
        "limits": lambda: _limits(proc),
        "pool": lambda: _pool(runtime, proc),
        "formatters and linters": lambda: _TOOLS,
        "leftovers of dead pools": lambda: _leftovers([each.root for each in verdicts if each.root]),
    }
    return [Section(title, list(_guarded(facts))) for title, facts in parts.items()]


def render(sections: Iterable[Section]) -> str:
    lines = []
    for section in sections:
        lines.append(section.title)
        width = max((len(label) for label, _ in section.facts), default=0)
        lines += [f"  {label:<{width}}  {value}".rstrip() for label, value in section.facts]
    return "\n".join(lines)


def _guarded(facts: Callable[[], Iterable[tuple[str, str]]]) -> Iterator[tuple[str, str]]:
    """What one part of the report stumbles over must not cost the others."""
    try:
        yield from facts()
    except Exception as error:  # noqa: BLE001 (said in the report)
        yield "not to be had", f"{type(error).__name__}: {error}"


def _versions() -> Iterator[tuple[str, str]]:
    yield "python", f"{platform.python_version()} ({platform.python_implementation()}), {sys.executable}"
    for name in [*_PACKAGES, *(name for module, name in _PACKAGES_IF_LOADED.items() if module in sys.modules)]:
        try:
            yield name, version(name)
        except PackageNotFoundError:
            yield name, "not installed"
    yield "platform", platform.platform()


def _places(verdicts: list[roots.Verdict], runtime: "Runtime | None") -> Iterator[tuple[str, str]]:
    chosen = next((each.root for each in verdicts if each.root), None)
    for each in verdicts:
        if each.root is None:
            yield str(each.candidate), f"not usable: {each.reason}"
        else:
            said = "the root" if each.root == chosen else "usable"
            yield str(each.candidate), f"{said}, {_bytes(host.free_bytes(each.root))} free, {_mount(each.root)}"
    if chosen is None:
        yield "root", f"none is usable: set ${roots.OVERRIDE} to a directory that is"
    temporary = [] if runtime is None or not runtime.places else list(runtime.places[1:])
    for place in temporary or roots.temporary_directories():
        yield "large buffers", f"here and in {place}, {_bytes(host.free_bytes(place))} free, {_mount(place)}"


def _limits(proc: Path) -> Iterator[tuple[str, str]]:
    quota = host.cpu_quota()
    said = "no quota" if quota is None else f"quota {quota:g}"
    yield "CPUs", f"{host.usable_cpus()} usable: {host.affine_cpus()} by affinity of {os.cpu_count()}, {said}"
    available, limit = host.available_memory_bytes(), host.memory_limit_bytes()
    yield "memory", f"{_bytes(available)} available, {'no limit' if limit is None else f'limit {size(limit)}'}"
    yield "address space", _limit(resource.RLIMIT_AS, _bytes)
    yield "open files", _limit(resource.RLIMIT_NOFILE) + _used(proc / "self/fd")
    yield "processes", _limit(resource.RLIMIT_NPROC)
    for what in ("instances", "watches"):
        most = _read(proc / f"sys/fs/inotify/max_user_{what}").strip()
        yield f"inotify {what}", most or "unknown"
    pids = host.process_limit()
    yield "processes by cgroup", "no limit" if pids is None else f"{pids[1]} of {pids[0]}"


def _pool(runtime: "Runtime | None", proc: Path) -> Iterator[tuple[str, str]]:
    pool = None if runtime is None else runtime.started
    if runtime is None or pool is None:
        yield "state", "no pool runs"
        return
    yield "state", "lost: its nursery has ended" if pool.crew.lost else f"runs, {pool.crew.starting} workers on the way"
    for place in runtime.places:
        yield "directory", f"{place}, {'there' if place.is_dir() else 'MISSING'}"
    told = watcher.watches(runtime.places[0]) if runtime.places else False
    yield "membership", "watched" if told else f"looked at every {COUNTER_POLL_S:g} s: files can't be watched here"
    yield "nursery", f"pid {pool.crew.nursery_pid}  {_process(pool.crew.nursery_pid, proc)}"
    if (template := pool.crew.template_pid) is None:
        yield "template", "none: workers are started, not forked"
    else:
        yield "template", f"pid {template}, from which workers are forked  {_process(template, proc)}"
    for worker in runtime.workers():
        yield f"worker {worker.uid.hex[:8]}", f"{worker}  {_process(worker.pid, proc)}"


def _leftovers(places: Iterable[Path]) -> Iterator[tuple[str, str]]:
    """Namespaces that nobody owns. The next pool that starts sweeps them."""
    dead = [path for place in places for path in sorted(place.iterdir()) if path.is_dir() and not is_served(path)]
    for path in dead[:_LEFTOVERS_MAX]:
        yield str(path), size(_taken(path))
    if len(dead) > _LEFTOVERS_MAX:
        yield f"and {len(dead) - _LEFTOVERS_MAX} more", size(sum(map(_taken, dead[_LEFTOVERS_MAX:])))
    if not dead:
        yield "none", ""


def _process(pid: int, proc: Path) -> str:
    """State and memory, as the system sees it."""
    status = _read(proc / str(pid) / "status")
    state = re.search(r"^State:\s+\S+ \((.*)\)", status, re.MULTILINE)
    if state is None or state[1] == "zombie":
        return "has ended" if (proc / "self").exists() else ""
    rss = re.search(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE)
    return state[1] + (f"  RSS {size(int(rss[1]) << 10)}" if rss else "")


def _mount(path: Path) -> str:
    return host.mount_type(path) or "file system unknown"


def _limit(which: int, form: Callable[[int], str] = str) -> str:
    soft, hard = ("no limit" if each == resource.RLIM_INFINITY else form(each) for each in resource.getrlimit(which))
    return soft if soft == hard else f"{soft} (can be raised to {hard})"


def _used(descriptors: Path) -> str:
    try:
        return f", {len(list(descriptors.iterdir()))} used"
    except OSError:
        return ""


def _taken(directory: Path) -> int:
    """What it takes of its file system; links are not followed."""
    total = 0
    for top, folders, files in os.walk(directory):
        for name in [*folders, *files]:
            try:
                total += os.lstat(os.path.join(top, name)).st_blocks * 512  # noqa: PTH118 (names may be no text)
            except OSError:  # it has gone since
                continue
    return total


def _bytes(count: int | None) -> str:
    return "unknown" if count is None else size(count)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
