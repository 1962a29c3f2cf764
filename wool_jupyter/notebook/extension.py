"""What `%load_ext` does, and how it is undone. Nothing heavy is imported: loading stays instant."""

import sys
from typing import TYPE_CHECKING

from wool_jupyter.notebook.magics import Wool

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def load(shell: "InteractiveShell") -> None:
    shell.register_magics(Wool)


def unload(shell: "InteractiveShell") -> None:
    """Stops the pool, too. Idempotent."""
    manager = shell.magics_manager
    for kind in ("cell", "line"):
        manager.magics[kind].pop("wool", None)
    registered = manager.registry.pop(Wool.__name__, None)
    if registered in shell.configurables:
        shell.configurables.remove(registered)
    started = sys.modules.get("wool_jupyter.notebook.runtime")
    if started is None:
        return
    runtime = started.runtime()
    background, runtime.background = runtime.background, None
    if background is not None:
        background.close()
    if runtime.end():
        print("wool: stopped the pool")
