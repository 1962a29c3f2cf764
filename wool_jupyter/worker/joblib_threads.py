"""joblib's backend "wool" on a worker: threads, for what runs here can't wait for other workers of its own pool."""

import sys
import weakref
from typing import TYPE_CHECKING, Any

from joblib.parallel import BACKENDS, ThreadingBackend

if TYPE_CHECKING:
    from types import ModuleType

NAME = "wool"


class ThreadsInstead(ThreadingBackend):  # type: ignore[misc]
    """Takes what the kernel's backend takes, and becomes that where it is shipped to."""

    default_n_jobs = -1
    supports_inner_max_num_threads = True

    def __init__(self, nesting_level: int | None = None, inner_max_num_threads: int | None = None) -> None:
        super().__init__(nesting_level=nesting_level, inner_max_num_threads=inner_max_num_threads)
        _tell()

    def __wool_reduce__(self) -> tuple[Any, ...]:
        return of_this_process, (self.nesting_level,)


def of_this_process(nesting_level: int | None) -> Any:
    """The backend, as it is named where this is called."""
    return BACKENDS[NAME](nesting_level=nesting_level)


_told_in: "weakref.ref[ModuleType] | None" = None  # the `__main__` of a cell


def _tell() -> None:
    """Once in each cell."""
    global _told_in
    cell = sys.modules["__main__"]
    if _told_in is None or _told_in() is not cell:
        _told_in = weakref.ref(cell)
        sys.stderr.write(
            "wool: on a worker joblib's backend \"wool\" uses threads: what runs there can't wait for other workers of its pool\n"
        )
