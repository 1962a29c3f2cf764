"""`wool_jupyter.dashboard()` and `%wool dashboard`: the live widget, or the picture of the moment where it can't be had."""

import importlib.util
from typing import Any, cast

from IPython import get_ipython

from wool_jupyter.notebook.feed import door
from wool_jupyter.notebook.magics import Wool
from wool_jupyter.notebook.snapshot import Snapshot
from wool_jupyter.notebook.table import as_text, mimebundle

MISSING = "the live dashboard needs anywidget, which is not installed (`pip install anywidget`): this is the pool at this moment"


class Still:
    """A snapshot to be shown."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def __repr__(self) -> str:
        return as_text(self._snapshot)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return mimebundle(self._snapshot)


def dashboard() -> Any:
    """This notebook's pool: its workers, what each runs and uses, and buttons. An anywidget, live also while a cell runs, and the
    same each time. Where anywidget is missing, a line says so, and the pool of this moment is shown. Starts no pool."""
    if importlib.util.find_spec("anywidget") is None:
        print(f"wool: {MISSING}")
        return Still(door().take())
    from wool_jupyter.notebook import widget

    return widget.of_this_kernel(_options())


def _options() -> Wool:
    """Those of the notebook's magic, or the defaults."""
    shell = get_ipython()
    registered = None if shell is None else shell.magics_manager.registry.get(Wool.__name__)
    return Wool(shell) if registered is None else cast("Wool", registered)
