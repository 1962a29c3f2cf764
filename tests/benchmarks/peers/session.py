"""One peer in a fresh kernel, alone on the machine but for what else runs there."""

import ast
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import DEVNULL
from typing import Any

import psutil

from tests.support.kernel import CellFailed, Kernel

ANSWER_S = 120

_HERE = Path(__file__).parent
_PREPARE = f"""
import sys
sys.path.insert(0, {str(_HERE.parents[2])!r})
bodies = sys.modules["__main__"]
from tests.benchmarks.peers import timed
"""


class Cannot(Exception):
    """The peer, and in a word or two why."""


class Session:
    def __init__(self, name: str, kernel: Kernel) -> None:
        self.kernel = kernel
        kernel.ok((_HERE / "bodies.py").read_text(encoding="utf-8"))
        kernel.ok(_PREPARE)
        kernel.ok(f"peer, started_s = timed.started({name!r}, bodies)", timeout=ANSWER_S)

    def value(self, expression: str) -> Any:
        """Of a plain cell: a number or a text, or a tuple of them. What libraries print meanwhile is no part of it."""
        return ast.literal_eval(self.kernel.ok(expression, timeout=ANSWER_S).value or "None")

    def cell(self, code: str) -> str:
        """What a user runs to have one worker run this code."""
        return self._written("cell").format(code=code)

    def variable(self, name: str) -> Any:
        """As such a cell has left it."""
        return self.value(self._written("variable").format(name=name))

    def expect(self, name: str, value: object) -> None:
        if (found := self.variable(name)) != value:
            raise CellFailed(f"{name} is {found!r} and not {value!r}")

    def _written(self, attribute: str) -> str:
        written: str | None = self.value(f"peer.{attribute}")
        if written is None:
            raise Cannot("no cells")
        return written


@contextmanager
def session(name: str) -> Iterator[Session]:
    """Leaves no process behind. The folder is short: ray has its sockets there."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        kernel = Kernel(cwd=folder, env={**os.environ, "IPYTHONDIR": folder}, stdout=DEVNULL, stderr=DEVNULL)
        try:
            yield Session(name, kernel)
        finally:
            left = psutil.Process(kernel.pid).children(recursive=True)
            with suppress(AssertionError):  # it is ended in any case
                kernel.ok("peer.close()")
            kernel.shutdown(now=True)
            for process in psutil.wait_procs(left, timeout=5)[1]:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
