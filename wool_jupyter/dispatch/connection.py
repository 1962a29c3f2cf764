"""One worker as a client sees it: nothing is opened before the first call."""

import asyncio
import functools
from collections.abc import Callable

from wool_jupyter.dispatch import channels
from wool_jupyter.dispatch.call import Call
from wool_jupyter.dispatch.link import ChannelKey
from wool_jupyter.dispatch.permits import Permits
from wool_jupyter.errors import NotReached
from wool_jupyter.records import WorkerMetadata
from wool_jupyter.settings import ACCEPT_TIMEOUT_S, PROBE_TIMEOUT_S
from wool_jupyter.wire import credentials, frames


class WorkerConnection:
    """Lives on the loop that made it. Connections to the same worker share a channel, and so its load."""

    def __init__(self, metadata: WorkerMetadata, *, token: str | None = None) -> None:
        """`token`: None reads it from the directory of the worker's socket, when it is needed."""
        self.metadata = metadata
        self._token = token
        self._channels = channels.of_this_loop()
        self._key: ChannelKey | None = None

    @property
    def load(self) -> int:
        """Calls under way or asked for, of all connections of this loop to that worker."""
        return self._channels.load(self.metadata.address)

    @property
    def is_full(self) -> bool:
        """It has as many calls as it takes at a time: a further one would wait. A stream does not count while nobody asks for its
        next value: whoever has it may wait for that further call."""
        running = self._channels.running(self.metadata.address)
        return self._channels.bounded and running >= self.metadata.options.max_concurrent_streams

    async def dispatch(
        self, routine: str, body: bytes, *, begun: bool = False, timeout_s: float = ACCEPT_TIMEOUT_S
    ) -> Call:
        """Returns when the worker has taken the call, which begins with its first `step`. With `begun` it returns at once: the call
        may run by then, and must not be repeated elsewhere.

        `NotReached` when it could not be asked, or did not answer in time; `WorkerRefused` when asking it again is of no use.
        Nothing has run then. If cancelled, it leaves no call.
        """
        try:
            async with asyncio.timeout(timeout_s):
                call = await self._sent(routine, body, begun=begun)
                if not begun:
                    try:
                        await call.accepted()
                    except BaseException:
                        call.close()
                        raise
        except TimeoutError:
            raise self._no_answer(timeout_s) from None
        return call

    async def stop(self, timeout_s: float) -> None:
        """The worker takes no more calls, cancels those that run after `timeout_s` (0: at once, negative: never) and leaves.
        Returns when none runs any more, or when the worker is gone."""
        await self._asked(lambda number: frames.Stop(number, timeout_s))

    async def idle_s(self) -> float:
        """Since the worker's last call ended, whoever made it; 0 while one is under way. `NotReached` if it does not say."""
        response = await self._asked(frames.Idle)
        if not isinstance(response, frames.IdleFor):
            raise NotReached(f"worker {self.metadata.uid} did not say how long it has been idle")
        return response.seconds

    async def _asked(self, question: Callable[[int], frames.Request]) -> frames.Response | None:
        channel, give_back = await self._channels.acquire(self._known())
        try:
            return await channel.ask(self.metadata, question)
        finally:
            give_back()

    async def probe(self, *, timeout_s: float = PROBE_TIMEOUT_S) -> None:
        """Returns if the worker answers this client. `NotReached` or `WorkerRefused` otherwise."""
        try:
            async with asyncio.timeout(timeout_s):
                await self.idle_s()
        except TimeoutError:
            raise self._no_answer(timeout_s) from None

    def _no_answer(self, timeout_s: float) -> NotReached:
        return NotReached(f"worker {self.metadata.uid} did not answer in {timeout_s:g} s")

    async def _sent(self, routine: str, body: bytes, *, begun: bool) -> Call:
        channel, give_back = await self._channels.acquire(self._known())
        try:
            await channel.permits.take()
        except BaseException:
            give_back()
            raise
        ended = functools.partial(_release, channel.permits, give_back)
        try:
            return channel.call(self.metadata, routine, body, begun=begun, ended=ended)
        except BaseException:
            ended()
            raise

    def _known(self) -> ChannelKey:
        if self._key is None:
            try:
                token = self._token if self._token is not None else credentials.token_for(self.metadata.address)
            except (OSError, ValueError) as error:  # no such file, or what an address says is no path
                raise NotReached(f"the pool of worker {self.metadata.uid} is gone") from error
            self._key = ChannelKey(self.metadata.address, token, self.metadata.options)
        return self._key

    def give_way_to(self, successor: "WorkerConnection") -> None:
        """As `close`, unless the channel is the successor's as well."""
        mine, its = self.metadata, successor.metadata
        if (mine.address, mine.options) != (its.address, its.options):
            self.close()

    def close(self) -> None:
        """Lets go of what it shares; calls under way go on."""
        if self._key is not None:
            self._channels.expire(self._key)


def _release(permits: Permits, give_back: Callable[[], None]) -> None:
    permits.give_back()
    give_back()
