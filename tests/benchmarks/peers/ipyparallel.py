"""ipyparallel: calls go by its balanced view, cells by the view of one engine."""

from collections.abc import Iterable
from typing import Any

from ipyparallel import Cluster, EngineError, Reference

from tests.benchmarks.peers.peer import Body, Peer


class Workers(Peer):
    died = (EngineError,)
    cell = "peer.view.execute({code!r}, block=True)"
    variable = "peer.view[{name!r}]"
    replaces_the_dead = False

    def __init__(self, workers: int) -> None:
        self._cluster = Cluster(n=workers, log_level=40)
        client = self._cluster.start_and_connect_sync()
        self._balanced = client.load_balanced_view()
        self._all = client[:]
        self.view = client[0]

    def call(self, body: Body, *args: Any) -> Any:
        return self._balanced.apply_sync(body, *args)

    def submit(self, body: Body, items: Iterable[Any]) -> list[Any]:
        return [result.get() for result in [self._balanced.apply_async(body, item) for item in items]]

    def map(self, body: Body, items: Iterable[Any]) -> list[Any]:
        return list(self._balanced.map_sync(body, items))

    def placed(self, array: Any) -> Any:
        self._all.push({"placed": array}, block=True)
        return Reference("placed")

    def close(self) -> None:
        self._cluster.stop_cluster_sync()
