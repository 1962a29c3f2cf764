"""`%wool EXPRESSION`: a line that a worker runs, and its value."""

import builtins
import difflib
import keyword
import linecache
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from IPython.core.displayhook import DisplayHook
from IPython.core.error import UsageError

from wool_jupyter.notebook import jobs, source

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from wool_jupyter.notebook.runtime import Runtime
    from wool_jupyter.settings import PoolSettings


def run(
    shell: "InteractiveShell", runtime: "Runtime", line: str, *, settings: "PoolSettings", namespace: dict[str, Any]
) -> Any:
    """`namespace` is that of the function that the line is in, or the notebook's."""
    __tracebackhide__ = True
    value = jobs.run_cell(
        shell,
        runtime,
        body=_without_semicolon(line),
        settings=settings,
        prepare=source.prepare_line,
        namespace=None if namespace is shell.user_ns else {**shell.user_ns, **namespace},
    )
    return None if _is_silenced(shell, line) else value


def must_be_meant(line: str, names: Mapping[str, Any], *, commands: Collection[str]) -> None:
    """A command with a slip in it is no expression, nor is an option."""
    first = line.split(maxsplit=1)[0]
    word = first.lstrip("-")
    if not word.isidentifier() or keyword.iskeyword(word) or word in names or hasattr(builtins, word):
        return
    if first != word:
        raise UsageError(f"%wool: `{first}` is no option of a line; `%wool help` tells of all that there are")
    similar = difflib.get_close_matches(word, commands, n=1, cutoff=0.7)
    if similar or line.strip() == word:
        hint = f": did you mean `%wool {similar[0]}`?" if similar else f" ({', '.join(commands)})"
        raise UsageError(f"%wool: `{word}` is neither a variable nor a command{hint}")


def _without_semicolon(line: str) -> str:
    """It silences the cell that the line is in, and is nothing to the value."""
    while DisplayHook.semicolon_at_end_of_expression(line):
        line = line.rpartition(";")[0]
    return line


def _is_silenced(shell: "InteractiveShell", line: str) -> bool:
    """As a statement. In `x = %wool f();` the semicolon ends the assignment."""
    frame = source.cell_frame(shell)
    text = "" if frame is None else linecache.getline(frame.f_code.co_filename, frame.f_lineno).lstrip()
    return text.startswith(("%wool", "get_ipython()")) and DisplayHook.semicolon_at_end_of_expression(line)
