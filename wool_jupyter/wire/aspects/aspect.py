"""What all aspects have in common."""

import marshal
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_WITHOUT_REFERENCES = 2  # this version of marshal's: with them, equal values give other bytes


@dataclass(frozen=True, slots=True)
class Aspect:
    """How one thing of a process's state is read here, and made so there.

    It seldom changes, and is asked for all the time. So two signs stand for it, each of which says "as before" as long as it is
    equal. `key` misses nothing, for the side that tells the other. `glance` costs a fraction, and may miss what changes in place,
    for the side that puts right what a short call may have set.
    """

    read: Callable[[], Any]
    write: Callable[[Any, Any], object]  # (as it is here, as it shall be)
    module: str = ""  # must be loaded to be read
    imports: bool = False  # worth an import where it is to be written
    of_context: bool = False  # kept in a context variable: each cell begins with the defaults
    of_cells: bool = False  # does not concern calls
    slow: bool = False  # takes longer than all else
    late: bool = False  # of the process, but made of classes, or used by the import of libraries
    # Sooner had than what is read, which pickles alike as long as this is equal; it gives None where it can't tell. Without one,
    # what is read is its own key if it consists of builtins.
    key: Callable[[], object] | None = None
    # Had in a microsecond or two: as long as it is equal, nothing was set anew. None for what takes longer, and for what does not
    # outlast a call: it is of cells, or of the context, which each call has for itself.
    glance: Callable[[], object] | None = None

    @property
    def is_here(self) -> bool:
        return not self.module or self.module in sys.modules


@dataclass(frozen=True, slots=True)
class Generator(Aspect):
    """Of random numbers: no concern of calls, of which those side by side would draw the same ones."""

    seed: Callable[[], object] = random.seed  # makes it draw others than any other process
    of_cells: bool = True


def flat(value: Any) -> bytes | None:
    """Equal for what pickles alike, and a change of what it was made of does not change it. None unless all of it are
    builtins; what has a buffer counts as its bytes."""
    try:
        return marshal.dumps(value, _WITHOUT_REFERENCES)
    except ValueError:
        return None
