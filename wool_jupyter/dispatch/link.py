"""What a channel needs of the transport below it, and the ways in which that ends."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from wool_jupyter.errors import MessageTooLarge, NotReached, WoolError, WorkerDied, WorkerRefused
from wool_jupyter.records import ChannelOptions


class ChannelKey(NamedTuple):
    """Who has the same one may share a channel."""

    target: str  # gRPC's name of an address
    token: str
    options: ChannelOptions

    def __repr__(self) -> str:
        """Names of tasks and messages of errors show it: nothing secret."""
        return f"the channel to {self.target}"


class End(NamedTuple):
    """Of a link: what a call is told that may have begun, and what one that has not."""

    begun: type[WoolError]
    not_begun: type[WoolError]
    words: str


BROKE = End(WorkerDied, NotReached, "the connection to the worker broke")
FAILED = End(WorkerDied, WorkerRefused, "the connection to the worker broke")
UNREADABLE = End(WorkerDied, WorkerRefused, "the worker sent a message that can't be read")
NO_TOKEN = End(WorkerRefused, WorkerRefused, "the worker does not accept this process's token")
TOO_LARGE = End(MessageTooLarge, NotReached, "a message was larger than its receiver takes, which ended the connection")


def refused(words: str) -> End:
    """In the worker's own words."""
    return End(WorkerRefused, WorkerRefused, words)


class Link(Protocol):
    """Messages to and from one worker, in order. Lives on the loop that opened it."""

    async def open(self) -> None:
        """Returns when the worker has let this client in, or the link has ended."""
        ...

    async def write(self, message: bytes) -> bool:
        """Returns when there is room for another one; False if the link has ended."""
        ...

    def write_at_once(self, message: bytes) -> bool:
        """False if it was not written: there may be no room for it now, or such a link can't."""
        ...

    def cut(self) -> None:
        """Ends it now. Idempotent."""
        ...

    async def close(self) -> None:
        """Returns when nothing is left of it. Idempotent."""
        ...


Received = Callable[[bytes], object]  # hears each message
Ended = Callable[[End], object]  # hears the end, once or more often
