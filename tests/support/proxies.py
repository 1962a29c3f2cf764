"""A proxy for routines over a fixed list of workers. It pickles as that list; whoever unpickles it is its next owner."""

import asyncio

from wool_jupyter.dispatch.connection import WorkerConnection
from wool_jupyter.errors import NotReached, NoWorkersAvailable, RpcError


class FixedProxy:
    """Asks its workers in turn, with the same bytes, until one takes the call."""

    made = 0  # in this process

    def __init__(self, workers, token):
        self.workers, self.token = list(workers), token
        self.offered = []  # (uid, body)
        self._connections = {}
        self._next = 0
        self.stopped = False
        FixedProxy.made += 1

    def __reduce__(self):
        return FixedProxy, (self.workers, self.token)

    async def dispatch(self, routine, body):
        first = self._next % max(1, len(self.workers))
        self._next += 1
        for metadata in self.workers[first:] + self.workers[:first]:
            self.offered.append((metadata.uid, body))
            try:
                connection = await self._connected(metadata)
                call = connection.call(routine, body, begin=False)
                try:
                    await call.accepted()
                except BaseException:
                    call.close()
                    raise
            except NotReached:
                continue
            except RpcError:
                self.workers.remove(metadata)
                continue
            return call
        raise NoWorkersAvailable("no worker took the call")

    async def _connected(self, metadata):
        if metadata.uid not in self._connections:
            connection = self._connections[metadata.uid] = WorkerConnection(metadata, token=self.token)
            await connection.open()
        return self._connections[metadata.uid]

    async def stop(self):
        self.stopped = True
        connections, self._connections = self._connections, {}
        await asyncio.gather(*(connection.close() for connection in connections.values()))
