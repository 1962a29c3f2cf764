"""What a routine asks of whoever takes its calls."""

from typing import Protocol

from wool_jupyter.dispatch.call import Call


class ProxyLike(Protocol):
    """Lives on one loop. Pickles with `wire.pickling`, for the routines that it places ask it in their turn."""

    async def dispatch(self, routine: str, body: bytes) -> Call:
        """Has a worker take the call, and returns before its body begins. The same bytes may be offered to several workers, one
        after the other. `NoWorkersAvailable` when none takes it, `CallRejected` when the call itself is at fault."""
        ...

    async def stop(self) -> None:
        """Its calls end. Idempotent."""
        ...
