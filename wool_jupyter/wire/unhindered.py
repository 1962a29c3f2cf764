"""Pickling and loading of what a notebook holds: much of it, and deep."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_LEVELS = 10_000


@contextmanager
def unhindered() -> Iterator[None]:
    """For a main thread with its stack of 8 MB.

    Loading 900,000 containers takes 0.5 s with the collector on and 0.09 s without. The pickler of Python 3.11 spends 3 levels of
    recursion on each node of a linked list, at 0.2 kB a level; later ones count for themselves.
    """
    was_on, limit = gc.isenabled(), sys.getrecursionlimit()
    gc.disable()
    sys.setrecursionlimit(max(limit, _LEVELS))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)
        if was_on:
            gc.enable()
