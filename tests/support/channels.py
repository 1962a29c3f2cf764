"""Channels and proxies to workers of which a test has the record and the token."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from wool_jupyter.balance.sticky import Sticky
from wool_jupyter.dispatch import channels
from wool_jupyter.dispatch.link import ChannelKey
from wool_jupyter.dispatch.proxy import WorkerProxy
from wool_jupyter.records import WorkerMetadata


@asynccontextmanager
async def opened(metadata: WorkerMetadata, token: str) -> AsyncIterator[channels.Channel]:
    channel = channels.Channel(ChannelKey(metadata.address, token, metadata.options))
    await channel.open()
    try:
        yield channel
    finally:
        await channel.close()


def in_the_pool() -> list[channels.Channel]:
    """Of this loop, used or not."""
    return [entry.value for entry in channels.of_this_loop()._pool._entries.values()]


def under_way(channel: channels.Channel) -> int:
    return len(channel._calls)


@asynccontextmanager
async def proxied(*workers: WorkerMetadata, token: str, **options: Any) -> AsyncIterator[WorkerProxy]:
    """Channels of the loop are closed at the end, whoever opened them."""
    given = {"loadbalancer": Sticky(), "quorum": None, **options}
    try:
        async with WorkerProxy(workers=workers, token=token, **given) as proxy:
            await proxy.start()
            yield proxy
    finally:
        await channels.of_this_loop().clear()
