"""IPython in a terminal, where a notebook has a kernel and a front end."""

import shutil
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def is_terminal(shell: "InteractiveShell") -> bool:
    return not hasattr(shell, "kernel")


def request(shell: "InteractiveShell | None") -> dict[str, Any]:
    """The front end's, that the caller's thread runs; empty in a terminal."""
    get_parent = getattr(shell, "get_parent", None)
    found = get_parent() if get_parent is not None else None
    return found if isinstance(found, dict) else {}


def message(shell: "InteractiveShell | None") -> str:
    """The id of that request; "" in a terminal."""
    return str(request(shell).get("header", {}).get("msg_id", ""))


def size(shell: "InteractiveShell") -> tuple[int, int] | None:
    """Columns and lines; None for a notebook, and where what is printed goes elsewhere."""
    if not is_terminal(shell) or not sys.stdout.isatty():
        return None
    columns, lines = shutil.get_terminal_size()
    return columns, lines


def obey(shell: "InteractiveShell", payload: dict[str, Any]) -> None:
    """What a front end would do with it."""
    match payload:
        case {"source": "page", "data": data, "start": start}:
            from IPython.core import page

            page.page(data, start)
        case {"source": "set_next_input", "text": text, "replace": replace}:
            shell.set_next_input(text, replace)
