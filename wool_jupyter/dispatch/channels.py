"""Streams to workers, each shared by all who speak to that worker: the one file of the client that knows gRPC."""

import asyncio
import functools
import itertools
import sys
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple
from weakref import WeakKeyDictionary, WeakSet

from wool_jupyter.aio.owned_tasks import OwnedTasks
from wool_jupyter.aio.resource_pool import ResourcePool, ResourcePoolStats
from wool_jupyter.dispatch.call import Call
from wool_jupyter.dispatch.permits import Permits
from wool_jupyter.errors import MessageTooLarge, NotReached, WoolError, WorkerDied, WorkerRefused
from wool_jupyter.records import ChannelOptions, WorkerMetadata
from wool_jupyter.settings import CHANNEL_TTL_S
from wool_jupyter.wire import frames
from wool_jupyter.wire.credentials import TOKEN_KEY
from wool_jupyter.wire.outbox import Outbox
from wool_jupyter.wire.transport import (
    METHOD,
    PROTOCOL,
    PROTOCOL_KEY,
    SERVICE,
    VERSION_KEY,
    client_options,
    compression,
    grpc,
    package_version,
)


class _End(NamedTuple):
    """Of a stream: what a call is told that may have begun, and what one that has not."""

    begun: type[WoolError]
    not_begun: type[WoolError]
    words: str


_BROKE = _End(WorkerDied, NotReached, "the connection to the worker broke")
_FAILED = _End(WorkerDied, WorkerRefused, "the connection to the worker broke")
_UNREADABLE = _End(WorkerDied, WorkerRefused, "the worker sent a message that can't be read")
_OTHER_PROTOCOL = (
    f"the worker does not speak protocol {PROTOCOL}, as this process does: start both with the same version"
)
_TOO_LARGE = "a message was larger than its receiver takes, which ended the connection"

# No words: the worker's own. gRPC's library gives none of these codes itself (its doc/statuscodes.md) before the last four.
_ENDS = {
    grpc.StatusCode.UNAUTHENTICATED: _End(
        WorkerRefused, WorkerRefused, "the worker does not accept this process's token"
    ),
    grpc.StatusCode.FAILED_PRECONDITION: _End(WorkerRefused, WorkerRefused, ""),
    grpc.StatusCode.UNIMPLEMENTED: _End(WorkerRefused, WorkerRefused, _OTHER_PROTOCOL),
    grpc.StatusCode.INVALID_ARGUMENT: _End(WorkerRefused, WorkerRefused, ""),
    grpc.StatusCode.RESOURCE_EXHAUSTED: _End(MessageTooLarge, NotReached, _TOO_LARGE),
    grpc.StatusCode.UNAVAILABLE: _BROKE,
    grpc.StatusCode.INTERNAL: _BROKE,  # what gRPC makes of any end that overtakes a write (1.85)
    grpc.StatusCode.DEADLINE_EXCEEDED: _BROKE,
    grpc.StatusCode.CANCELLED: _BROKE,
}


# What gRPC knows of an address is this channel's alone: after another one's failure it would not try for a while.
_APART = ("grpc.use_local_subchannel_pool", 1)


_numbers = itertools.count(1)  # of the calls of this process: a worker's ledger knows no streams


class ChannelKey(NamedTuple):
    """Who has the same one may share a channel."""

    target: str  # gRPC's name of an address
    token: str
    options: ChannelOptions

    def __repr__(self) -> str:
        """Names of tasks and messages of errors show it: nothing secret."""
        return f"the channel to {self.target}"


class Channel:
    """One stream to one worker, and many calls on it. Lives on the loop that opened it; `close` is idempotent."""

    def __init__(
        self,
        key: ChannelKey,
        *,
        bounded: bool = True,
        broke: Callable[[], object] = lambda: None,
        rests: Callable[[int], object] = lambda _: None,
    ) -> None:
        """`bounded`: the worker's own word holds for the number of calls. `broke` is called once, when the stream has ended.
        `rests` hears of one more call, or one less, that waits for its client."""
        self.permits = Permits(key.options.max_concurrent_streams if bounded else sys.maxsize)
        self._key = key
        self._broke = broke
        self._rests = rests
        self._resting: set[int] = set()
        self._calls: dict[int, tuple[Call, Callable[[], object]]] = {}
        self._tasks = OwnedTasks(f"channel to {key.target}")
        self._channel: grpc.aio.Channel | None = None
        self._stream: grpc.aio.StreamStreamCall[bytes, bytes] | None = None
        self._out = Outbox(message_max_bytes=key.options.max_receive_bytes)
        self._end: _End | None = None

    @property
    def broken(self) -> bool:
        return self._end is not None

    def failure(self) -> WoolError:
        end = self._end or _BROKE
        return end.begun(end.words)

    def unreached(self) -> WoolError:
        end = self._end or _BROKE
        return end.not_begun(end.words)

    async def open(self) -> None:
        """Returns when the worker has let this client in. `NotReached` or `WorkerRefused` if it does not: then it is closed."""
        options = self._key.options
        self._channel = grpc.aio.insecure_channel(
            self._key.target, options=[*client_options(options), _APART], compression=compression(options)
        )
        method = self._channel.stream_stream(f"/{SERVICE}/{METHOD}")
        self._stream = method(
            metadata=((TOKEN_KEY, self._key.token), (PROTOCOL_KEY, PROTOCOL), (VERSION_KEY, package_version()))
        )
        let_in = asyncio.get_running_loop().create_future()
        reader = self._tasks.start(self._read(), "reader")
        self._tasks.start(self._write(let_in), "writer")
        try:
            await asyncio.wait({reader, let_in}, return_when=asyncio.FIRST_COMPLETED)
            if self.broken:
                raise self.unreached()
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
        self.send(frames.Task(number, routine, body))
        call = Call(number, self, worker=worker, begun=begun)
        self._calls[number] = call, ended
        if begun:
            self.send(frames.Next(number))
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

    def goes_on(self, number: int) -> None:
        if number in self._resting:
            self._resting.discard(number)
            self.permits.take_at_once()
            self._rests(-1)

    def end(self, number: int) -> None:
        self.goes_on(number)
        _, ended = self._calls.pop(number, (None, lambda: None))
        ended()

    async def _read(self) -> None:
        stream, end = self._stream, _BROKE
        try:
            while stream is not None and (message := await stream.read()) is not grpc.aio.EOF:
                for response in frames.decode_responses(message):
                    if response.call in self._calls:
                        self._calls[response.call][0].responses.put_nowait(response)
        except grpc.aio.AioRpcError as error:
            end = _end_of(error)
        except frames.DecodeError:
            end = _UNREADABLE
        finally:
            self._break(end)

    async def _write(self, let_in: asyncio.Future[None]) -> None:
        stream = self._stream
        try:
            if stream is not None:
                # A write that a refusal overtakes would hide the reason (gRPC 1.85). A refusal has none of the worker's metadata.
                if not await stream.initial_metadata():
                    return
                let_in.set_result(None)
            while stream is not None and (message := await self._out.take()) is not None:
                await stream.write(message)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            pass  # the reader hears why
        except BaseException:
            self._break(_BROKE)
            raise

    def _break(self, end: _End) -> None:
        if self._end is not None:
            return
        self._end = end
        if self._stream is not None:
            self._stream.cancel()
        self._out.close()
        for number, (call, _) in list(self._calls.items()):
            call.responses.put_nowait(None)
            self.end(number)  # whoever has the call may not ask for a long time, and others wait for its permit
        self._broke()

    async def close(self) -> None:
        """Calls under way end with `WorkerDied`."""
        self._break(_BROKE)
        try:
            await self._tasks.close()
        finally:
            if self._channel is not None:
                await self._channel.close()


def _end_of(error: grpc.aio.AioRpcError) -> _End:
    end = _ENDS.get(error.code(), _FAILED)
    return end if end.words else end._replace(words=error.details() or "")


class Channels:
    """The open ones of a loop. A channel stays for a while after its last call, and is replaced when it has broken."""

    def __init__(self) -> None:
        self.bounded = True
        self._loads: Counter[str] = Counter()
        self._resting: Counter[str] = Counter()
        self._told: WeakSet[asyncio.Event] = WeakSet()
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
        """Users of channels to that worker, those included that wait for one to open: by whatever key, replaced ones too."""
        return self._loads[target]

    def running(self, target: str) -> int:
        """As `load`, without the calls that wait for their client."""
        return self._loads[target] - self._resting[target]

    def tell(self, event: asyncio.Event) -> None:
        """It is set each time that less runs, for as long as it lives."""
        self._told.add(event)

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

    def _rests(self, target: str, more: int) -> None:
        self._resting[target] += more
        if not self._resting[target]:
            del self._resting[target]
        if more > 0:
            self._tell()

    def _tell(self) -> None:
        for event in self._told:
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
            rests=functools.partial(self._rests, key.target),
        )
        await channel.open()
        return channel

    def _lose(self, key: ChannelKey, number: int) -> None:
        if self._current.get(key) == number:
            del self._current[key]
            self._tasks.start(self._pool.expire((key, number)), f"end of the channel to {key.target}")


_of_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, Channels] = WeakKeyDictionary()


def of_this_loop() -> Channels:
    """The running loop's, made if it has none. Whoever owns the loop clears them before the loop stops, unless all who used them
    have been stopped."""
    loop = asyncio.get_running_loop()
    found = _of_loops.get(loop)
    if found is None:
        found = _of_loops[loop] = Channels()
    return found
