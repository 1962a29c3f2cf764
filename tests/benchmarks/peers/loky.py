"""loky's reusable executor, which joblib has in it, too."""

from loky import BrokenProcessPool, get_reusable_executor

from tests.benchmarks.peers.peer import ExecutorPeer


class Workers(ExecutorPeer):
    died = (BrokenProcessPool,)

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self.recover()

    def recover(self) -> None:
        self.executor = get_reusable_executor(max_workers=self._workers, timeout=None)

    def close(self) -> None:
        self.executor.shutdown()
