"""Asks the balancer whom to ask, and resolves each uid against the live pool at the moment of sending."""

from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing, suppress
from uuid import UUID

from wool_jupyter.balance.context import LoadBalancerContext
from wool_jupyter.balance.protocol import LoadBalancerLike, Task
from wool_jupyter.dispatch.connection import Call, WorkerConnection
from wool_jupyter.errors import NotReached, NoWorkersAvailable
from wool_jupyter.records import WorkerMetadata


class WorkerProxy:
    """Lives on one loop. Whoever admits a worker evicts it when it is gone; `close` evicts the rest."""

    def __init__(self, balancer: LoadBalancerLike, *, token: str) -> None:
        self._balancer = balancer
        self._token = token
        self._context = LoadBalancerContext()
        self._connections: dict[UUID, WorkerConnection] = {}

    async def admit(self, metadata: WorkerMetadata) -> None:
        connection = WorkerConnection(metadata, token=self._token)
        await connection.open()
        self._connections[metadata.uid] = connection
        self._context.add_worker(metadata, connection)

    async def evict(self, uid: UUID) -> None:
        """Calls under way end with `WorkerDied`."""
        self._context.remove_worker(uid)
        connection = self._connections.pop(uid, None)
        if connection is not None:
            await connection.close()

    def broken(self) -> list[UUID]:
        """Workers that can't be asked any more, and have not been evicted."""
        return [uid for uid, connection in self._connections.items() if connection.broken]

    async def dispatch(self, routine: str, body: bytes, *, only: UUID | None = None) -> Call:
        """Returns once it is sent. `only` asks that worker or nobody. `NoWorkersAvailable` when nobody could be asked; if one has
        refused for good (another version), what it said."""
        refusal = None
        candidates = self._balancer.delegate(Task(routine), context=self._context.view) if only is None else _just(only)
        async with aclosing(candidates):
            uid = await _candidate(candidates.asend(None))
            while uid is not None:
                connection = self._connections.get(uid)
                if connection is None:
                    uid = await _candidate(candidates.asend(None))
                    continue
                try:
                    call = connection.call(routine, body)
                except NotReached as error:
                    refusal = connection.refusal or refusal
                    uid = await _candidate(candidates.athrow(error))
                    continue
                try:
                    further = await _candidate(candidates.asend(uid))
                    if further is not None:
                        raise RuntimeError(f"{type(self._balancer).__name__} goes on after {uid} has taken the call")
                except BaseException:
                    call.close()
                    raise
                return call
        if refusal is not None:
            raise refusal
        raise NoWorkersAvailable("no worker of the pool could be asked")

    async def close(self) -> None:
        for uid in list(self._connections):
            await self.evict(uid)


async def _candidate(step: Awaitable[UUID]) -> UUID | None:
    try:
        return await step
    except StopAsyncIteration:
        return None


async def _just(uid: UUID) -> AsyncGenerator[UUID, UUID | None]:
    with suppress(NotReached):
        yield uid
