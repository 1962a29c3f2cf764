"""The proxies of callers, on a worker: rebuilt when a routine asks for the first time, and kept a while for the next."""

from contextlib import AbstractAsyncContextManager

from wool_jupyter.aio.resource_pool import ResourcePool
from wool_jupyter.dispatch import channels
from wool_jupyter.dispatch.protocol import ProxyLike
from wool_jupyter.errors import NoWorkersAvailable
from wool_jupyter.wire import pickling

_KEPT_S = 60.0


class CarriedProxies:
    """Lives on the loop of the routines. One proxy for each pickle, whoever sent it; idle ones are stopped after a minute."""

    def __init__(self, *, kept_s: float = _KEPT_S) -> None:
        self._pool: ResourcePool[bytes, ProxyLike] = ResourcePool(_rebuilt, _stopped, ttl=kept_s)

    def carried(self, data: bytes) -> "CarriedProxy":
        """`data` as the caller pickled it; empty: it had none to give."""
        return CarriedProxy(self._pool, data)

    async def clear(self) -> None:
        await self._pool.clear()


class CarriedProxy:
    """The caller's proxy, to a routine. Travels on as it came."""

    def __init__(self, pool: ResourcePool[bytes, ProxyLike], data: bytes) -> None:
        self._pool = pool
        self.data = data

    def reached(self) -> AbstractAsyncContextManager[ProxyLike]:
        """Not stopped before the block ends."""
        if not self.data:
            raise NoWorkersAvailable("this routine's caller had no pool to hand on")
        return self._pool.get(self.data)


async def _rebuilt(data: bytes) -> ProxyLike:
    # A routine's call that waits for a permit would wait for calls that wait for routines like it.
    channels.of_this_loop().bounded = False
    proxy: ProxyLike = pickling.loads(data)
    return proxy


async def _stopped(proxy: ProxyLike) -> None:
    await proxy.stop()
