"""How many threads libraries below Python (BLAS, OpenMP) use for a call: it shares the CPUs with calls of other workers."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_BRING_LIBRARIES = ("numpy", "torch")  # as long as none of them is here, there is nothing to be looked for


class NativeThreads:
    """Main thread only: a limit of OpenMP holds for the thread that sets it."""

    def __init__(self) -> None:
        self._libraries: dict[str, Any] = {}  # by file
        self._modules = 0  # that were loaded when libraries were looked for
        self._most = 0
        self._before: list[tuple[Any, int]] = []

    @contextmanager
    def at_most(self, number: int) -> Iterator[None]:
        """Afterwards they are as they were. One that is first loaded meanwhile is found by `look_again`."""
        self._most = number
        self._limit(self._libraries.values())
        try:
            yield
        finally:
            for library, before in self._before:
                if library.num_threads != before:
                    library.set_num_threads(before)
            self._before.clear()

    def look_again(self) -> None:
        """20 ms where a module was imported since, else nothing."""
        if len(sys.modules) == self._modules or not any(name in sys.modules for name in _BRING_LIBRARIES):
            return
        from threadpoolctl import ThreadpoolController

        found = {library.filepath: library for library in ThreadpoolController().lib_controllers}
        self._modules = len(sys.modules)
        new = [library for file, library in found.items() if file not in self._libraries]
        self._libraries.update(found)
        self._limit(new)

    def _limit(self, libraries: Any) -> None:
        for library in libraries:
            before = library.num_threads
            if before is not None:
                self._before.append((library, before))
                if before > self._most:  # never more than the environment says
                    library.set_num_threads(self._most)
