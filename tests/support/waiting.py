"""Waiting for what other processes do."""

import threading
import time
from collections.abc import Callable

_SLICE_S = 0.02


def wait_until(condition: Callable[[], object], timeout_s: float = 20) -> None:
    """Blocks its thread; AssertionError if the condition does not come true in time."""
    deadline = time.monotonic() + timeout_s
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_s:g} s"
        pause.wait(_SLICE_S)
