"""What the shell does with a cell, and how its figures look."""

import sys
from typing import Any

from wool_jupyter.wire.aspects.aspect import Aspect

# `figure_format` first: it sets the formats when it changes, and asked for again it does nothing.
_OF_FIGURES = ("figure_format", "figure_formats", "print_figure_kwargs", "close_figures")


def _shell() -> Any:
    return sys.modules["IPython"].get_ipython()


def _read() -> dict[str, Any]:
    shell = _shell()
    if shell is None:
        return {}
    options = {name: getattr(shell, name) for name in ("ast_node_interactivity", "autoawait", "colors")}
    waiting = shell.config.InlineBackend  # `%config` keeps it there until pyplot is imported
    been = [str(each) for each in _been(shell)]
    return {**options, "InlineBackend": dict(waiting), "been": been, "dir_stack": list(shell.dir_stack)}


def _been(shell: Any) -> list[Any]:
    """Where `%cd -` goes back to."""
    found: list[Any] = shell.user_ns.get("_dh", shell.history_manager.dir_hist)
    return found


def _write(_before: Any, after: dict[str, Any]) -> None:
    options = dict(after)
    waiting = _shell().config.InlineBackend
    waiting.clear()
    waiting.update(options.pop("InlineBackend", {}))
    been, now = _been(_shell()), options.pop("been", [])
    if [str(each) for each in been] != now:
        been[:] = now
    for name, value in options.items():
        setattr(_shell(), name, value)


def _read_figures() -> dict[str, Any]:
    backend = sys.modules["matplotlib_inline.config"].InlineBackend.instance(parent=_shell())
    return {name: getattr(backend, name) for name in _OF_FIGURES}


def _write_figures(_before: Any, after: dict[str, Any]) -> None:
    from matplotlib_inline.config import InlineBackend

    backend = InlineBackend.instance(parent=_shell())
    backend.shell = _shell()
    for name, value in after.items():
        setattr(backend, name, value)


ASPECTS = {
    "shell": Aspect(_read, _write, "IPython", of_cells=True),
    "figures": Aspect(_read_figures, _write_figures, "matplotlib_inline.config", imports=True, of_cells=True),
}
