"""The name "wool" among joblib's backends, without an import of joblib: `parallel_config(backend="wool")`."""

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from wool_jupyter.import_hook import when_imported

_NAME = "wool"
_call_off: Callable[[], None] | None = None


def offer() -> None:
    """Idempotent."""
    global _call_off
    if _call_off is None:
        _call_off = when_imported("joblib.parallel", _register)


def withdraw() -> None:
    """Idempotent. Backends that somebody has go on."""
    global _call_off
    if _call_off is None:
        return
    _call_off()
    _call_off = None
    parallel = sys.modules.get("joblib.parallel")
    if parallel is not None and parallel.BACKENDS.get(_NAME) is _backend:
        del parallel.BACKENDS[_NAME]


def _register(parallel: ModuleType) -> None:
    parallel.register_parallel_backend(_NAME, _backend)


def _backend(**options: Any) -> Any:
    from wool_jupyter.notebook.pool import not_started

    return not_started().joblib_backend(**options)
