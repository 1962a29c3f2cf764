"""The processes of workers: started, or forked from one that has imported what they will need."""

import os
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import NamedTuple
from uuid import UUID, uuid4

from wool_jupyter import host
from wool_jupyter.nursery.client import Nursery, Order
from wool_jupyter.pool.home import Home
from wool_jupyter.wire import layout
from wool_jupyter.wire.start_ledger import StartLedger

# Large, and a fork of a process that has only imported them works. polars is not among them: it starts threads.
_WORTH_IT = frozenset(
    {"PIL", "joblib", "matplotlib", "numpy", "pandas", "pyarrow", "scipy", "sklearn", "threadpoolctl", "torch"}
)
_OF_A_FRONT_END = ("matplotlib.backends", "matplotlib.pyplot")  # they choose where figures go


class Ordered(NamedTuple):
    """A worker on its way."""

    uid: UUID
    ledger: StartLedger
    order: Order


class Processes:
    def __init__(self, home: Home, nursery: Nursery, *, environment: Mapping[str, str]) -> None:
        self.nursery = nursery
        self._home = home
        self._environment = dict(environment)
        self._imported: frozenset[str] | None = None
        self._first: Ordered | None = None

    @classmethod
    async def begun(cls, home: Home, *, environment: Mapping[str, str]) -> "Processes":
        """With a first worker on its way, before there is a pool to take it: it starts while this process imports what a pool
        needs. To be closed. `StartFailed`."""
        processes = cls(home, await home.nursery(environment), environment=environment)
        processes._first = processes._order(uuid4())
        return processes

    def take_first(self) -> Ordered | None:
        """That one, once."""
        first, self._first = self._first, None
        return first

    async def ordered(self, uid: UUID, *, at_once: bool) -> Ordered:
        """`StartFailed`. Not `at_once`: a start waits for a fork to be possible, if it will be soon."""
        if not at_once:
            await self.nursery.prepared()
        return self._order(uid)

    def _order(self, uid: UUID) -> Ordered:
        ledger = StartLedger.create(layout.ledger(self._home.directory, str(uid)))
        # The nursery's pid, so that the worker can tell that its parent has died before it asked to die with it.
        arguments = [str(uid), str(self._home.short_directory), str(self.nursery.pid)]
        command = _python("wool_jupyter.worker")
        order = self.nursery.order(str(uid), command, arguments, environment=self._environment, log=self._home.log)
        return Ordered(uid, ledger, order)

    def prepare(self) -> None:
        """Has that process import what this one has imported since, for starts that are still to come. Takes no time."""
        modules = large_modules(sys.modules)
        if self._imported is None or not modules <= self._imported:
            self._imported = modules
            command = [*_python("wool_jupyter.worker.template"), str(self.nursery.pid), *sorted(modules)]
            self.nursery.prepare(command, environment=self._environment, log=self._home.log)

    def close(self) -> None:
        """Nothing is forked any more, and that process ends, as does a first worker that nobody took. Idempotent."""
        self.nursery.unprepare()
        if (first := self.take_first()) is not None:
            self.nursery.kill(str(first.uid))


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
