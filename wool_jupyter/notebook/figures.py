"""Figures that come home are shown as a plain cell would show them: by the inline backend, which drawing would have switched on."""

import importlib
import os
import sys

_BACKEND = "matplotlib_inline.backend_inline"


def ready() -> None:
    """Importing the backend registers its formatters. Nothing happens before a figure has come, nor outside a notebook."""
    figures_are_here = "matplotlib.figure" in sys.modules
    if figures_are_here and _BACKEND not in sys.modules and _BACKEND in os.environ.get("MPLBACKEND", ""):
        importlib.import_module(_BACKEND)
