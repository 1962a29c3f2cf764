"""gRPC as both ends import it, and what they must agree on."""

import os
import signal

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

__all__ = ["METHOD", "OPTIONS", "SERVICE", "grpc"]

SERVICE = "wool.Worker"
METHOD = "session"

# Large data leaves the message (wire.buffers); what stays is bounded by the sum of a cell's small objects, and gRPC's default
# limit of 4 MB would answer with RESOURCE_EXHAUSTED, which looks like a busy worker.
OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.so_reuseport", 0),
]
