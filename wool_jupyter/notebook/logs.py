"""What the nursery and the workers wrote outside of cells, and what crashes left, as text to show."""

import os
from pathlib import Path
from typing import BinaryIO

from wool_jupyter.wire import layout

LINES = 40
_READ_MAX_BYTES = 256 << 10
_CRASHES_MAX = 3


def opened(directory: Path) -> BinaryIO:
    """The log of the pool that is about to start there, made if missing: readable also when it is swept. The caller closes it."""
    return os.fdopen(
        os.open(layout.log(directory), os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "rb"
    )


def text_of(file: BinaryIO) -> str:
    """Its last part."""
    file.seek(max(0, file.seek(0, os.SEEK_END) - _READ_MAX_BYTES))
    return file.read().decode(errors="replace")


def show(directory: Path, *, lines: int = LINES) -> str:
    """Of the pool whose directory this is."""
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
        [said, *_last(log, lines), *(line for crash in _crashes(directory) for line in _crash(crash, lines))]
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


def _crash(path: Path, lines: int) -> list[str]:
    """What crashed and where it was come first, other threads after that."""
    try:
        with path.open("rb") as file:
            blocks = file.read(_READ_MAX_BYTES).decode(errors="replace").strip().split("\n\n")
    except OSError:
        return []
    blocks[1:] = sorted(blocks[1:], key=lambda block: not block.startswith("Current thread"))
    report = "\n\n".join(blocks).split("\n")
    left_out = max(0, len(report) - lines)
    return [f"wool: {path}", *report[:lines], *([f"... {left_out} lines more"] if left_out else [])]
