"""The released `wool`. It is awaited, so a loop on a thread of its own holds the pool, and calls come to it from outside.

Its messages may have 100 MB; here as much as gRPC bears, so that large arrays get through."""

import asyncio
import contextvars
import threading
from collections.abc import Iterable
from concurrent.futures import Future
from functools import partial
from typing import Any

import wool

from tests.benchmarks.peers.peer import Body, Peer

_MESSAGE_BYTES = 2**31 - 1


@wool.routine
async def _run(body: Body, *args: Any) -> Any:
    return body(*args)


class Workers(Peer):
    died = (wool.RpcError, wool.NoWorkersAvailable)
    replaces_the_dead = False

    def __init__(self, workers: int) -> None:
        self._loop = asyncio.new_event_loop()
        self._entered: Future[contextvars.Context] = Future()
        self._left = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._hold(workers),), daemon=True)
        self._thread.start()
        self._context = self._entered.result()

    async def _hold(self, workers: int) -> None:
        channel = wool.ChannelOptions(max_receive_message_length=_MESSAGE_BYTES, max_send_message_length=_MESSAGE_BYTES)
        worker = partial(wool.LocalWorker, options=wool.WorkerOptions(channel=channel))
        async with wool.WorkerPool(spawn=workers, worker=worker):
            self._entered.set_result(contextvars.copy_context())
            await self._left.wait()

    def _begin(self, body: Body, *args: Any) -> "Future[Any]":
        # Its own copy: the pool is found by a variable of the context that entered it.
        return self._context.copy().run(asyncio.run_coroutine_threadsafe, _run(body, *args), self._loop)

    def call(self, body: Body, *args: Any) -> Any:
        return self._begin(body, *args).result()

    def submit(self, body: Body, items: Iterable[Any]) -> list[Any]:
        return [future.result() for future in [self._begin(body, item) for item in items]]

    map = submit

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._left.set)
        self._thread.join()
