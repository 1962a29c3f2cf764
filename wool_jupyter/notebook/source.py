"""The text of a cell body as Python, on the lines where the user sees it."""

import linecache
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO
from types import FrameType
from typing import TYPE_CHECKING, Any

from IPython.core.compilerop import code_name

from wool_jupyter.notebook import comment_form, terminal, tracebacks

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_UNKNOWN_ABOVE = ["%%wool"]
_IMPORT = re.compile(r"^[ \t]*(?:import|from)\s(?:\\\n|[^\n(]|\([^)]*\))*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class CellSource:
    source: str
    filename: str
    number: int


def prepare_source(shell: "InteractiveShell", cell: str) -> CellSource:
    """`cell` is the body that the magic got. Raises what IPython's transformers raise (SyntaxError, mostly)."""
    number = _running_number(shell, cell)
    above = next(filter(None, (_lines_above(raw, cell) for raw in _raw_cells(shell))), _UNKNOWN_ABOVE)
    padding = [*(_commented(line) for line in above), *_leading_blank_lines(cell)]
    with comment_form.as_comment(shell):
        source = "".join(line + "\n" for line in padding) + shell.transform_cell(cell)
    return _registered(shell, source, number)


def prepare_line(shell: "InteractiveShell", line: str) -> CellSource:
    """What a line magic got: on the line of the cell where it stands."""
    frame = cell_frame(shell)
    if frame is None:
        return _registered(shell, shell.transform_cell(line), shell.execution_count)
    number = shell.compile._filename_map[frame.f_code.co_filename]
    return _registered(shell, "\n" * (frame.f_lineno - 1) + shell.transform_cell(line), number)


def telling_line(cell: str) -> str:
    """By which a user knows the cell: no comment, magic or import, if there is another line."""
    without_imports = _IMPORT.sub("", cell)
    for text, skipped in ((without_imports, "#%"), (without_imports, "#"), (cell, "#"), (cell, "")):
        for line in filter(None, map(str.strip, text.splitlines())):
            if line[0] not in skipped:
                return line
    return ""


def cell_frame(shell: "InteractiveShell") -> FrameType | None:
    """The innermost frame of the notebook's code that runs."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename not in shell.compile._filename_map:
        frame = frame.f_back
    return frame


def _registered(shell: "InteractiveShell", source: str, number: int) -> CellSource:
    # Not the name that ipykernel would give: it ends in .py and no such file exists, which makes IPython 9 show
    # the wrong lines of causes and comprehensions.
    filename = code_name(source, number)
    linecache.cache[filename] = (len(source), None, StringIO(source).readlines(), filename)
    tracebacks.name_cell(shell, filename, number=number)
    return CellSource(source, filename, number)


def _raw_cells(shell: "InteractiveShell") -> Iterator[str]:
    """Outermost first: what the user sees, then what a magic above ours (%%capture) runs as a cell of its own."""
    yield _requested(shell)
    yield _last_stored(shell)
    running = _running(shell)
    if running is not None:
        yield running.info.raw_cell


def _requested(shell: "InteractiveShell") -> str:
    content = terminal.request(shell).get("content")
    code = content.get("code") if isinstance(content, dict) else None
    return code if isinstance(code, str) else ""


def _last_stored(shell: "InteractiveShell") -> str:
    stored: list[str] = shell.history_manager.input_hist_raw if shell.history_manager else []
    return stored[-1] if stored else ""


def _running(shell: "InteractiveShell") -> Any:
    """The ExecutionResult of the innermost running cell."""
    return getattr(shell.displayhook, "exec_result", None)


def running_number(shell: "InteractiveShell") -> int:
    """Of the cell that runs, whatever its source: the outer one, where `%%capture` runs another."""
    running = _running(shell)
    if running is None:
        return int(shell.execution_count)
    return int(running.execution_count) if running.info.store_history else len(shell.history_manager.input_hist_raw) - 1


def _running_number(shell: "InteractiveShell", cell: str) -> int:
    """IPython 9.18 counts up before it runs a cell and 8 afterwards, so the running cell is asked first. A cell that
    %%capture runs is not stored and has no number of its own: its outer cell is the last stored one.
    """
    running = _running(shell)
    if running is not None and running.info.store_history:
        return int(running.execution_count)
    if running is not None and _lines_above(_last_stored(shell), cell):
        return len(shell.history_manager.input_hist_raw) - 1
    return int(shell.execution_count)


def _lines_above(raw: str, cell: str) -> list[str]:
    """Empty if `cell` is not the end of `raw`. Magics above may have dedented it or cut its prompts off."""
    raw_lines, lines = raw.rstrip().split("\n"), cell.rstrip().split("\n")
    count = len(raw_lines) - len(lines)
    same = (
        all(a.strip().endswith(b.strip()) for a, b in zip(raw_lines[count:], lines, strict=True))
        if count > 0
        else False
    )
    is_magic = any("%%" in line or comment_form.is_form(line) for line in raw_lines[: max(0, count)])
    return raw_lines[:count] if same and is_magic else []


def _commented(line: str) -> str:
    line = line.strip()
    return line if not line or line.startswith("#") else f"# {line}"


def _leading_blank_lines(cell: str) -> Iterator[str]:
    """IPython's transformers drop them."""
    if not cell.strip():
        return
    for line in cell.split("\n"):
        if line.strip():
            return
        yield ""
