"""Generators of random numbers that are no values of the notebook's, but each process's own: `from random import random` holds one.

Whoever receives such a one has his own. What state that is in, is told of beside it (`aspects`).
"""

import random
from collections.abc import Callable
from typing import Any


def of_process() -> Any:
    """That of the module `random`."""
    method: Any = random.random
    return method.__self__


def numpys() -> Any:
    import numpy as np

    return np.random.mtrand._rand  # scikit-learn and scipy find it there, too


def systems() -> random.SystemRandom:
    """Any: it has no state, and refuses to be pickled for that."""
    return random.SystemRandom()


def may_be(t: type) -> bool:
    return (t.__module__, t.__qualname__) in _KINDS


def reduced(generator: Any) -> tuple[Any, ...] | None:
    """None for one that somebody has made for himself."""
    find = _KINDS[type(generator).__module__, type(generator).__qualname__]
    return (find, ()) if find is systems or find() is generator else None


_KINDS: dict[tuple[str, str], Callable[[], Any]] = {
    ("random", "Random"): of_process,
    ("random", "SystemRandom"): systems,
    ("numpy.random.mtrand", "RandomState"): numpys,
}
