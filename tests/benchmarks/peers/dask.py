"""dask's distributed, on this machine alone. Calls are not pure: else their results are kept and none is made twice."""

from collections.abc import Iterable
from typing import Any

from distributed import Client, KilledWorker

from tests.benchmarks.peers.peer import Body, Peer


class Workers(Peer):
    died = (KilledWorker,)

    def __init__(self, workers: int) -> None:
        self._client = Client(
            n_workers=workers, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, silence_logs="ERROR"
        )

    def call(self, body: Body, *args: Any) -> Any:
        return self._client.submit(body, *args, pure=False).result()

    def submit(self, body: Body, items: Iterable[Any]) -> list[Any]:
        return self._client.gather([self._client.submit(body, item, pure=False) for item in items])

    def map(self, body: Body, items: Iterable[Any]) -> list[Any]:
        return self._client.gather(self._client.map(body, items, pure=False))

    def placed(self, array: Any) -> Any:
        return self._client.scatter(array, broadcast=True)

    def close(self) -> None:
        self._client.shutdown()
