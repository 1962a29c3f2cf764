"""The pool's side (grpc, threads) is imported by the first cell that needs it."""

import sys
from typing import TYPE_CHECKING, cast

from wool_jupyter.notebook import threads

if TYPE_CHECKING:
    from wool_jupyter.notebook.runtime import Runtime

_MODULE = "wool_jupyter.notebook.runtime"


def runtime() -> "Runtime":
    """`StartFailed` where the system leaves no room for its threads."""
    if _MODULE not in sys.modules:
        threads.try_out()
    from wool_jupyter.notebook.runtime import runtime

    return runtime()


def loaded_runtime() -> "Runtime | None":
    """For what only looks: it has to work, too, where grpc can't be imported."""
    # None, too, while another thread imports it.
    found = getattr(sys.modules.get(_MODULE), "runtime", None)
    return None if found is None else cast("Runtime", found())
