"""The pool of the notebook, and its cells."""

from typing import Any

from IPython.core.getipython import get_ipython

import wool_jupyter
from tests.benchmarks.peers.peer import ExecutorPeer


class Workers(ExecutorPeer):
    died = (wool_jupyter.WorkerDied,)
    cell = "%%wool\n{code}"
    variable = "{name}"

    def __init__(self, workers: int) -> None:
        shell: Any = get_ipython()
        shell.run_line_magic("load_ext", "wool_jupyter")
        shell.run_line_magic("config", f"Wool.workers = {workers}")
        self.executor = wool_jupyter.pool()

    def close(self) -> None:
        shell: Any = get_ipython()
        shell.run_line_magic("wool", "stop")
