"""gRPC as both ends import it, and what they must agree on."""

import functools
import os
import signal

from wool_jupyter.wire import frames

_FORK_SUPPORT = "GRPC_ENABLE_FORK_SUPPORT"

# gRPC reads this when it is imported and when it starts. Its handlers for forks log noise when a notebook forks (`!cmd`,
# multiprocessing) and end children that leave by `sys.exit` with a SIGSEGV (1.85). Set for that moment only: the environment is
# the user's.
_before = os.environ.get(_FORK_SUPPORT)
_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # its threads inherit it: ■ is the main thread's
os.environ[_FORK_SUPPORT] = "0"
import grpc  # noqa: E402
import grpc.aio  # noqa: E402

_FIRST = grpc.insecure_channel(
    "unix:/"
)  # its core reads the variable when the first channel is made; kept, so that it stays up
if _before is None:
    del os.environ[_FORK_SUPPORT]
else:
    os.environ[_FORK_SUPPORT] = _before

signal.pthread_sigmask(signal.SIG_SETMASK, _mask)

__all__ = ["METHOD", "OPTIONS", "PROTOCOL", "PROTOCOL_KEY", "SERVICE", "VERSION_KEY", "grpc", "package_version"]

SERVICE = "wool.Worker"
METHOD = "session"

PROTOCOL = "3"  # changes with what frames, cells and their pickles mean: two ends of different ones do not talk
PROTOCOL_KEY, VERSION_KEY = "wool-protocol", "wool-version"  # of a call's metadata

# Whoever sends checks the size itself (wire.outbox): gRPC's answer would end the stream, and with it its other calls.
OPTIONS = [
    ("grpc.max_receive_message_length", frames.MESSAGE_MAX_BYTES),
    ("grpc.max_send_message_length", -1),
    ("grpc.so_reuseport", 0),
]


@functools.cache
def package_version() -> str:
    """For people: what must agree is `PROTOCOL`."""
    from importlib.metadata import version  # 10 ms that a worker saves

    return version("wool_jupyter")
