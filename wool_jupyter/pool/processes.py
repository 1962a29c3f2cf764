"""The processes of workers: started, or forked from one that has imported what they will need."""

import os
import sys
from collections.abc import Mapping
from types import ModuleType
from uuid import UUID

from wool_jupyter import host
from wool_jupyter.nursery.client import Child, Nursery
from wool_jupyter.pool.home import Home

# Large, and a fork of a process that has only imported them works. polars is not among them: it starts threads.
_WORTH_IT = frozenset(
    {"PIL", "joblib", "matplotlib", "numpy", "pandas", "pyarrow", "scipy", "sklearn", "threadpoolctl", "torch"}
)
_OF_A_FRONT_END = ("matplotlib.backends", "matplotlib.pyplot")  # they choose where figures go


class Processes:
    def __init__(self, home: Home, nursery: Nursery, *, environment: Mapping[str, str], timeout_s: float) -> None:
        self._home = home
        self._nursery = nursery
        self._environment = dict(environment)
        self._timeout_s = timeout_s
        self._imported: frozenset[str] | None = None

    async def child(self, uid: UUID, *, at_once: bool) -> Child:
        """Returns when it serves; `StartFailed`. Not `at_once`: a start waits for a fork to be possible, if it will be soon."""
        if not at_once:
            await self._nursery.prepared()
        # The nursery's pid, so that the worker can tell that its parent has died before it asked to die with it.
        arguments = [str(uid), str(self._home.short_directory), str(self._nursery.pid)]
        return await self._nursery.spawn(
            str(uid),
            _python("wool_jupyter.worker"),
            arguments,
            environment=self._environment,
            log=self._home.log,
            timeout_s=self._timeout_s,
        )

    def prepare(self) -> None:
        """Has that process import what this one has imported since, for starts that are still to come. Takes no time."""
        modules = large_modules(sys.modules)
        if self._imported is None or not modules <= self._imported:
            self._imported = modules
            command = [*_python("wool_jupyter.worker.template"), str(self._nursery.pid), *sorted(modules)]
            self._nursery.prepare(command, environment=self._environment, log=self._home.log)

    def close(self) -> None:
        """Nothing is forked any more, and that process ends."""
        self._nursery.unprepare()


def _python(module: str) -> list[str]:
    # With faulthandler, a library that crashes when it is imported is named in the log.
    return [sys.executable, "-P", "-X", "faulthandler", "-m", module]


def large_modules(loaded: Mapping[str, ModuleType]) -> frozenset[str]:
    """Those of large libraries and of their public parts that are loaded, from where nobody edits them."""
    packages = {name for name in _WORTH_IT & loaded.keys() if _is_installed(loaded[name])}
    parts = {name for name in list(loaded) if name.count(".") == 1 and "._" not in name and name not in _OF_A_FRONT_END}
    return frozenset(packages | {name for name in parts if name.partition(".")[0] in packages})


def _is_installed(module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and os.path.realpath(file).startswith(host.installed())
