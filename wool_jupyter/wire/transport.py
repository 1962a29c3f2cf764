"""gRPC as both ends import it, and the options that they give it."""

import functools
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from wool_jupyter.records import ChannelOptions

_FORK_SUPPORT = "GRPC_ENABLE_FORK_SUPPORT"


@contextmanager
def _without_fork_support() -> Iterator[None]:
    """gRPC reads this when it is imported and when its core comes up. Its handlers for forks log noise when a notebook forks
    (`!cmd`, multiprocessing) and end children that leave by `sys.exit` with a SIGSEGV (1.85). Set for that moment only: the
    environment is the user's."""
    before = os.environ.get(_FORK_SUPPORT)
    os.environ[_FORK_SUPPORT] = "0"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_FORK_SUPPORT]
        else:
            os.environ[_FORK_SUPPORT] = before


with _without_fork_support():
    import grpc
    import grpc.aio

__all__ = ["client_options", "compression", "grpc", "server_options"]

# Whoever sends checks the size itself (wire.outbox): gRPC's answer would end the stream, and with it its other calls.
_BOTH = [("grpc.max_send_message_length", -1), ("grpc.so_reuseport", 0)]

_COMPRESSION = {
    "none": grpc.Compression.NoCompression,
    "deflate": grpc.Compression.Deflate,
    "gzip": grpc.Compression.Gzip,
}


def compression(options: ChannelOptions) -> grpc.Compression:
    return _COMPRESSION[options.compression]


@functools.cache
def _core() -> object:
    """It comes up with the first channel, and stays as long as there is one. Not at the import: its threads forbid a fork."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # its threads inherit it: ■ is the main thread's
    try:
        with _without_fork_support():
            return grpc.insecure_channel("unix:/")
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def client_options(options: ChannelOptions) -> list[tuple[str, int]]:
    """Of a channel to a worker that advertises these. Brings gRPC's core up."""
    _core()
    given = [*_BOTH, ("grpc.max_receive_message_length", options.max_send_bytes)]
    if options.keepalive_time_s is not None:
        given += [
            ("grpc.keepalive_time_ms", _ms(options.keepalive_time_s)),
            # The time that counts (1.85); the one that is named for it is that of a ping which finds no way out.
            ("grpc.http2.ping_timeout_ms", _ms(options.keepalive_timeout_s)),
            ("grpc.keepalive_timeout_ms", _ms(options.keepalive_timeout_s)),
            ("grpc.http2.max_pings_without_data", 0),  # no end to them
        ]
    return given


def server_options(options: ChannelOptions) -> list[tuple[str, int]]:
    """Of the worker itself. Its clients ping as often as it has asked for: it must not take that for an attack. Brings gRPC's
    core up."""
    _core()
    given = [*_BOTH, ("grpc.max_receive_message_length", options.max_receive_bytes)]
    if options.keepalive_time_s is not None:
        given += [
            ("grpc.http2.min_recv_ping_interval_without_data_ms", _ms(options.keepalive_time_s) // 2),
            ("grpc.http2.max_ping_strikes", 0),
        ]
    return given


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))
