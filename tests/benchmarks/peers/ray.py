"""ray, on this machine alone, with its own small part of the memory. It has no `map` of functions: calls, and one `get`."""

import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

os.environ |= {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # ray 2.60 takes the loopback address only without a cluster
    "RAY_USAGE_STATS_ENABLED": "0",
}

import ray
from ray.exceptions import WorkerCrashedError

from tests.benchmarks.peers.peer import Body, Peer

_STORE_BYTES = 2**30


class Workers(Peer):
    died = (WorkerCrashedError,)

    def __init__(self, workers: int) -> None:
        ray.init(
            num_cpus=workers,
            include_dashboard=False,
            object_store_memory=_STORE_BYTES,
            logging_level="error",
            log_to_driver=False,
            _temp_dir=str(Path.cwd()),
        )
        self._remote = cache(ray.remote)

    def call(self, body: Body, *args: Any) -> Any:
        return ray.get(self._remote(body).remote(*args))

    def submit(self, body: Body, items: Iterable[Any]) -> list[Any]:
        remote = self._remote(body)
        return ray.get([remote.remote(item) for item in items])

    map = submit

    def placed(self, array: Any) -> Any:
        return ray.put(array)

    def close(self) -> None:
        ray.shutdown()
