"""Streams to workers, each shared by all who speak to that worker."""

import asyncio
import functools
import itertools
import sys
import weakref
from collections import Counter
from collections.abc import Callable

from wool_jupyter.aio.owned_tasks import OwnedTasks
from wool_jupyter.aio.resource_pool import ResourcePool, ResourcePoolStats
from wool_jupyter.dispatch.call import Call
from wool_jupyter.dispatch.direct_link import DirectLink, socket_of
from wool_jupyter.dispatch.link import BROKE, UNREADABLE, ChannelKey, End, Link
from wool_jupyter.dispatch.permits import Permits
from wool_jupyter.errors import WoolError
from wool_jupyter.records import WorkerMetadata
from wool_jupyter.settings import CHANNEL_TTL_S
from wool_jupyter.wire import frames
from wool_jupyter.wire.outbox import Outbox

_numbers = itertools.count(1)  # of the calls of this process: a worker's ledger knows no streams


class Channel:
    """One stream to one worker, and many calls on it. Lives on the loop that opened it; `close` is idempotent."""

    def __init__(
        self,
        key: ChannelKey,
        *,
        bounded: bool = True,
        broke: Callable[[], object] = lambda: None,
        rests: Callable[[int], object] = lambda _: None,
        aside: Callable[[int], object] = lambda _: None,
    ) -> None:
        """`bounded`: the worker's own word holds for the number of calls. `broke` is called once, when the stream has ended.
        `rests` hears of one more call, or one less, that waits for its client; `aside` of those that are no load meanwhile."""
        self.permits = Permits(key.options.max_concurrent_streams if bounded else sys.maxsize)
        self._key = key
        self._broke = broke
        self._rests = rests
        self._aside = aside
        self._resting: set[int] = set()
        self._set_aside: set[int] = set()  # of those
        self._calls: dict[int, tuple[Call, Callable[[], object]]] = {}
        self._tasks = OwnedTasks(f"channel to {key.target}")
        self._link: Link | None = None
        self._out = Outbox(message_max_bytes=key.options.max_receive_bytes)
        self._end: End | None = None

    @property
    def broken(self) -> bool:
        return self._end is not None

    def failure(self) -> WoolError:
        end = self._end or BROKE
        return end.begun(end.words)

    def unreached(self) -> WoolError:
        end = self._end or BROKE
        return end.not_begun(end.words)

    async def open(self) -> None:
        """Returns when the worker has let this client in. `NotReached` or `WorkerRefused` if it does not: then it is closed."""
        self._link = link = _link(self._key, self._received, self._break)
        try:
            await link.open()
            if self.broken:
                raise self.unreached()
            self._out.sends_at_once = link.write_at_once
            self._tasks.start(self._write(link), "writer")
        except BaseException:
            await self.close()
            raise

    def call(
        self,
        worker: WorkerMetadata,
        routine: str,
        body: bytes,
        *,
        begun: bool = True,
        ended: Callable[[], object] = lambda: None,
    ) -> Call:
        """`begun`: sends the task and its first step together, for a call that will not be repeated elsewhere. `ended` is called
        once, when the call is over here. `NotReached` when the worker can't be asked, `MessageTooLarge` when the body is."""
        if self._end is not None:
            raise self.unreached()
        number = next(_numbers)
        task = frames.Task(number, routine, body)
        self._out.put(*((task, frames.Next(number)) if begun else (task,)))
        call = Call(number, self, worker=worker, begun=begun)
        self._calls[number] = call, ended
        return call

    async def ask(self, worker: WorkerMetadata, question: Callable[[int], frames.Request]) -> frames.Response | None:
        """Of the worker itself, beside its calls. None when the stream ends first."""
        if self._end is not None:
            raise self.unreached()
        number = next(_numbers)
        asked = Call(number, self, worker=worker, begun=True)
        self._calls[number] = asked, lambda: None
        try:
            self.send(question(number))
            return await asked.responses.get()
        finally:
            self.end(number)

    def send(self, frame: frames.Request) -> None:
        self._out.put(frame)

    def rests(self, number: int) -> None:
        if number in self._calls:
            self._resting.add(number)
            self.permits.give_back()
            self._rests(1)

    def set_aside(self, number: int) -> None:
        if number not in self._resting:  # it was taken up, and nothing came of it
            self.rests(number)
        if number in self._resting and number not in self._set_aside:
            self._set_aside.add(number)
            self._aside(1)

    def goes_on(self, number: int) -> None:
        if number in self._set_aside:
            self._set_aside.discard(number)
            self._aside(-1)
        if number in self._resting:
            self._resting.discard(number)
            self.permits.take_at_once()
            self._rests(-1)

    def end(self, number: int) -> None:
        self.goes_on(number)
        _, ended = self._calls.pop(number, (None, lambda: None))
        ended()

    def _received(self, message: bytes) -> None:
        try:
            responses = frames.decode_responses(message)
        except frames.DecodeError:
            self._break(UNREADABLE)
            return
        for response in responses:
            if response.call in self._calls:
                self._calls[response.call][0].responses.put_nowait(response)

    async def _write(self, link: Link) -> None:
        try:
            while (message := await self._out.take()) is not None and await link.write(message):
                pass
        except BaseException:
            self._break(BROKE)
            raise

    def _break(self, end: End) -> None:
        if self._end is not None:
            return
        self._end = end
        if self._link is not None:
            self._link.cut()
        self._out.close()
        for number, (call, _) in list(self._calls.items()):
            call.responses.put_nowait(None)
            self.end(number)  # whoever has the call may not ask for a long time, and others wait for its permit
        self._broke()

    async def close(self) -> None:
        """Calls under way end with `WorkerDied`."""
        self._break(BROKE)
        try:
            await self._tasks.close()
        finally:
            if self._link is not None:
                await self._link.close()


def _link(key: ChannelKey, received: Callable[[bytes], object], ended: Callable[[End], object]) -> Link:
    path = socket_of(key.target)
    if path is not None:
        return DirectLink(path, key, received, ended)
    from wool_jupyter.dispatch.grpc_link import GrpcLink  # 50 ms, and threads

    return GrpcLink(key, received, ended)


class Channels:
    """The open ones of a loop. A channel stays for a while after its last call, and is replaced when it has broken."""

    def __init__(self) -> None:
        self.bounded = True
        self._loads: Counter[str] = Counter()
        self._resting: Counter[str] = Counter()
        self._aside: Counter[str] = Counter()
        self._told: list[weakref.ref[asyncio.Event]] = []
        # A broken channel may still be in use: under a number of its own it stands in nobody's way.
        self._current: dict[ChannelKey, int] = {}
        self._numbers = itertools.count()
        self._tasks = OwnedTasks("channels")
        self._pool: ResourcePool[tuple[ChannelKey, int], Channel] = ResourcePool(
            self._opened, Channel.close, ttl=CHANNEL_TTL_S
        )

    @property
    def stats(self) -> ResourcePoolStats:
        return self._pool.stats

    def load(self, target: str) -> int:
        """Users of channels to that worker, those included that wait for one to open: by whatever key, replaced ones too. Without
        the calls that were set aside."""
        return self._loads[target] - self._aside[target]

    def running(self, target: str) -> int:
        """As `load`, without any call that waits for its client."""
        return self._loads[target] - self._resting[target]

    def tell(self, event: asyncio.Event) -> None:
        """It is set each time that less runs, for as long as it lives."""
        self._told.append(weakref.ref(event, self._told.remove))

    async def acquire(self, key: ChannelKey) -> tuple[Channel, Callable[[], None]]:
        """The channel, and what gives it back. `NotReached` or `WorkerRefused` if it can't be opened."""
        number = self._current.setdefault(key, next(self._numbers))
        self._loads[key.target] += 1
        try:
            channel = await self._pool.acquire((key, number))
        except BaseException:
            self._left(key.target)
            raise
        return channel, functools.partial(self._give_back, key, number)

    def _give_back(self, key: ChannelKey, number: int) -> None:
        self._left(key.target)
        self._pool.let_go((key, number))

    def _left(self, target: str) -> None:
        self._loads[target] -= 1
        if not self._loads[target]:
            del self._loads[target]
        self._tell()

    def _pauses(self, counted: Counter[str], target: str, more: int) -> None:
        """Calls that rest, or were set aside: with each of them less runs."""
        counted[target] += more
        if not counted[target]:
            del counted[target]
        if more > 0:
            self._tell()

    def _tell(self) -> None:
        for told in self._told:
            if (event := told()) is not None:
                event.set()

    def expire(self, key: ChannelKey) -> None:
        """Closes it as soon as nobody uses it: the worker is gone, or is reached otherwise."""
        self._lose(key, self._current.get(key, -1))

    async def settled(self) -> None:
        """Waits for the channels that are being closed now."""
        await self._tasks.wait()
        await self._pool.settled()

    async def clear(self) -> None:
        """Closes all, used or not. Calls under way end with `WorkerDied`."""
        await self._pool.clear()
        await self._tasks.wait()

    async def _opened(self, identity: tuple[ChannelKey, int]) -> Channel:
        key, number = identity
        channel = Channel(
            key,
            bounded=self.bounded,
            broke=functools.partial(self._lose, key, number),
            rests=functools.partial(self._pauses, self._resting, key.target),
            aside=functools.partial(self._pauses, self._aside, key.target),
        )
        await channel.open()
        return channel

    def _lose(self, key: ChannelKey, number: int) -> None:
        if self._current.get(key) == number:
            del self._current[key]
            self._tasks.start(self._pool.expire((key, number)), f"end of the channel to {key.target}")


_of_loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Channels] = weakref.WeakKeyDictionary()


def of_this_loop() -> Channels:
    """The running loop's, made if it has none. Whoever owns the loop clears them before the loop stops, unless all who used them
    have been stopped."""
    loop = asyncio.get_running_loop()
    found = _of_loops.get(loop)
    if found is None:
        found = _of_loops[loop] = Channels()
    return found
