"""What the nursery and the workers wrote outside of cells, and what crashes left, as text to show."""

import os
import re
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path
from typing import BinaryIO

from wool_jupyter.wire import layout
from wool_jupyter.wire.tracebacks import is_our_file

LINES = 40
_READ_MAX_BYTES = 256 << 10
_CRASHES_MAX = 3
_FILE = re.compile(r'File "([^"]*)"')


def opened(directory: Path) -> BinaryIO:
    """The log of the pool that is about to start there, made if missing: readable also when it is swept. The caller closes it."""
    return os.fdopen(
        os.open(layout.log(directory), os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "rb"
    )


def text_of(file: BinaryIO) -> str:
    """Its last part."""
    file.seek(max(0, file.seek(0, os.SEEK_END) - _READ_MAX_BYTES))
    return file.read().decode(errors="replace")


def show(directory: Path, *, lines: int = LINES, cells: Mapping[str, int] | None = None) -> str:
    """Of the pool whose directory this is. `cells`: their numbers, by the file name of their code."""
    try:
        with layout.log(directory).open("rb") as file:
            log = text_of(file)
    except OSError as error:
        log = ""
        said = f"wool: {layout.log(directory)} can't be read: {error.strerror}"
    else:
        said = f"wool: {layout.log(directory)}"
        if not log.strip():
            said = f"wool: nothing was written outside of cells so far (it would stand in {layout.log(directory)})"
    return "\n".join(
        [
            said,
            *_last(log, lines),
            *(line for crash in _crashes(directory) for line in _crash(crash, lines, cells or {})),
        ]
    )


def show_failed(text: str, *, lines: int = LINES) -> str:
    if not text.strip():
        return "wool: the last start failed, and wrote nothing"
    return "\n".join(["wool: what was written by the last start, which failed", *_last(text, lines)])


def _last(text: str, lines: int) -> list[str]:
    """What a progress bar wrote over is left out."""
    shown = [line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n")]
    while shown and not shown[-1].strip():
        shown.pop()
    left_out = max(0, len(shown) - lines)
    return ([f"... {left_out} lines before"] if left_out else []) + shown[left_out:]


def _crashes(directory: Path) -> list[Path]:
    """Newest last. Each worker has a file for its crash, which is empty unless it comes to that."""
    crashes = []
    for path in layout.crash_reports(directory):
        try:
            status = path.stat()
        except OSError:
            continue
        if status.st_size:
            crashes.append((status.st_mtime, path))
    return [path for _, path in sorted(crashes)[-_CRASHES_MAX:]]


def _crash(path: Path, lines: int, cells: Mapping[str, int]) -> list[str]:
    """What crashed, and the user's lines that did; the file has all threads, and how we came there."""
    try:
        with path.open("rb") as file:
            what, *threads = file.read(_READ_MAX_BYTES).decode(errors="replace").strip().split("\n\n")
    except OSError:
        return []
    crashed = [_lines_of_the_user(each, cells) for each in threads if each.startswith("Current thread")]
    report = "\n\n".join([what, *(crashed or threads)]).split("\n")
    left_out = max(0, len(report) - lines)
    worker = path.name.rpartition("-")[2]
    return [
        f"wool: worker {worker} crashed; the whole report is in {path}",
        *report[:lines],
        *([f"... {left_out} lines more"] if left_out else []),
    ]


def _lines_of_the_user(thread: str, cells: Mapping[str, int]) -> str:
    """Of a stack whose innermost frame comes first. One that is ours to its top is shown as it is."""
    title, *frames = thread.split("\n")
    shown = list(takewhile(lambda frame: not is_our_file(_file_of(frame)), frames)) or frames
    return "\n".join([title, *(_FILE.sub(lambda found: _place(found, cells), frame) for frame in shown)])


def _file_of(frame: str) -> str:
    found = _FILE.search(frame)
    return "" if found is None else found[1]


def _place(found: re.Match[str], cells: Mapping[str, int]) -> str:
    """As tracebacks name it."""
    number = cells.get(found[1])
    return found[0] if number is None else f"Cell In[{number}]"
