"""The pool's side is imported by the first cell that needs it."""

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, cast

from wool_jupyter.worker import identity

if TYPE_CHECKING:
    from wool_jupyter.notebook.runtime import Runtime

_MODULE = "wool_jupyter.notebook.runtime"


def runtime() -> "Runtime":
    from wool_jupyter.notebook.runtime import runtime

    return runtime()


def beginning() -> AbstractContextManager[None]:
    """As `Runtime.beginning`; nothing on a worker."""
    return nullcontext() if identity.own() is not None else runtime().beginning()


def loaded_runtime() -> "Runtime | None":
    """For what only looks: it has to work, too, where something of that can't be imported."""
    # None, too, while another thread imports it.
    found = getattr(sys.modules.get(_MODULE), "runtime", None)
    return None if found is None else cast("Runtime", found())
