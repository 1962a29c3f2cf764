"""Run a heavy notebook cell in a worker process: `%load_ext wool_jupyter`, then `%%wool` on top of the cell."""

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

logging.getLogger(__name__).addHandler(
    logging.NullHandler()
)  # who wants to read it says so: a notebook shows what is logged


def load_ipython_extension(shell: "InteractiveShell") -> None:
    """Registers the magics; nothing starts."""
    from wool_jupyter.notebook import extension

    extension.load(shell)


def unload_ipython_extension(shell: "InteractiveShell") -> None:
    """Takes the magics away and stops the pool."""
    from wool_jupyter.notebook import extension

    extension.unload(shell)
