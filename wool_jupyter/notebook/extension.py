"""What `%load_ext` does, and how it is undone. Nothing heavy is imported: loading stays instant."""

import sys
from typing import TYPE_CHECKING

from wool_jupyter.notebook import comment_form
from wool_jupyter.notebook.magics import Wool

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def load(shell: "InteractiveShell") -> None:
    shell.register_magics(Wool)
    comment_form.load(shell)


def unload(shell: "InteractiveShell") -> None:
    """Stops the pool, too. Idempotent."""
    comment_form.unload(shell)
    manager = shell.magics_manager
    for kind in ("cell", "line"):
        manager.magics[kind].pop("wool", None)
    registered = manager.registry.pop(Wool.__name__, None)
    if registered in shell.configurables:
        shell.configurables.remove(registered)
    started = sys.modules.get("wool_jupyter.notebook.runtime")
    if started is not None and started.runtime().end():
        print("wool: stopped the pool")
