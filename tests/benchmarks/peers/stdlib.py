"""The standard library's pool of processes, as it starts them by itself."""

from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

from tests.benchmarks.peers.peer import ExecutorPeer


class Workers(ExecutorPeer):
    died = (BrokenProcessPool,)

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self.executor = ProcessPoolExecutor(workers)

    def recover(self) -> None:
        self.executor.shutdown(wait=False)
        self.executor = ProcessPoolExecutor(self._workers)

    def close(self) -> None:
        self.executor.shutdown()
