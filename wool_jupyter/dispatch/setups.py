"""What a pool tells its workers beside calls: a file in its directory, written before the first one starts, read as each does."""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from wool_jupyter.balance.protocol import Task
from wool_jupyter.dispatch import checks
from wool_jupyter.records import ChannelOptions
from wool_jupyter.wire import calls, homes, layout

# Gets the number of calls under way and the next one; True turns that one away, for now. Runs on the loop of the routines.
Backpressure = Callable[[int, Task], bool | Awaitable[bool]]

_MESSAGE_MIN_BYTES = 64 << 10  # a call without data takes a few KiB
_MOST = (1 << 31) - 1  # of an option of gRPC


class Setup(msgspec.Struct, frozen=True):
    options: ChannelOptions = ChannelOptions()
    backpressure: bytes = b""  # a call of the hook (`wire.calls`); empty: there is none


def pack(options: ChannelOptions, backpressure: Backpressure | None) -> Setup:
    """`CannotShip` for a hook that can't travel."""
    if backpressure is None:
        return Setup(options)
    return Setup(options, calls.pack_call(calls.Invocation(backpressure, (), {}), places=(), proxy=b"").body)


def unpack_hook(setup: Setup) -> Backpressure:
    """In a context of its own. Raises what the user's objects raise."""
    homes.enter_new_home()
    return calls.unpack_call(calls.decode_request(setup.backpressure)).function


def write(directory: Path, setup: Setup) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(layout.setup(directory), flags, 0o600), "wb") as file:
        file.write(msgspec.msgpack.encode(setup))


def read(directory: Path) -> Setup:
    """That of a pool which has written none has the defaults."""
    try:
        data = layout.setup(directory).read_bytes()
    except FileNotFoundError:
        return Setup()
    return msgspec.msgpack.decode(data, type=Setup)


def checked_options(options: ChannelOptions | None) -> ChannelOptions:
    """TypeError, or ValueError, that names what can't be."""
    if options is None:
        return ChannelOptions()
    if not isinstance(options, ChannelOptions):
        raise TypeError(f"options is a ChannelOptions, not {options!r}")
    least = {"max_receive_bytes": _MESSAGE_MIN_BYTES, "max_send_bytes": _MESSAGE_MIN_BYTES, "max_concurrent_streams": 1}
    for name, least_value in least.items():
        if not least_value <= (value := checks.whole(name, getattr(options, name))) <= _MOST:
            raise ValueError(f"{name} is at least {least_value}, and below 2 GiB, not {value}")
    if options.keepalive_time_s is not None:
        checks.seconds("keepalive_time_s", options.keepalive_time_s)
    checks.seconds("keepalive_timeout_s", options.keepalive_timeout_s)
    if options.compression not in {"none", "deflate", "gzip"}:
        raise ValueError(f"compression is 'none', 'deflate' or 'gzip', not {options.compression!r}")
    return options
