"""Frames of a session between one client and one worker, as bytes. They know nothing of the transport that carries them.

A call goes `Task → Ack | Nack | Refused`, then one command (`Next`, `Send`, `Throw`, `Close`) for each answer, until
`Yielded(last)`, `Returned`, `Failed` or `TooLarge`. The body starts at the first command after the `Ack`: an attempt without an
`Ack` may be repeated elsewhere. A call that will not be repeated sends `Task` and `Next` together, and hears no `Ack`.

`Interrupt`, `Recall` and `Cancel` are taken at any time, also while a command is pending, and touch that call alone. They have no
answer of their own: the pending command answers with what the body made of them.

A message is an array of frames: all that its sender had to say at that moment, in order.
"""

from collections.abc import Sequence

import msgspec

# Large data leaves a message as files (`wire.buffers`): what stays is far below. A message above is somebody's mistake.
MESSAGE_MAX_BYTES = 16 << 20
HEAD_MAX_BYTES = 5  # of an array
FRAME_MAX_BYTES = MESSAGE_MAX_BYTES - HEAD_MAX_BYTES

DecodeError = msgspec.DecodeError


class _Frame(msgspec.Struct, frozen=True, array_like=True):
    call: int  # unique within the session; chosen by the client


class Task(_Frame, frozen=True, tag=1):
    routine: str
    body: bytes


class Next(_Frame, frozen=True, tag=2):
    pass


class Send(_Frame, frozen=True, tag=3):
    value: bytes


class Cancel(_Frame, frozen=True, tag=4):
    """A `CancelledError` in the body. Ends a call whose body does not run: with `Failed`, it is not complete."""


class Throw(_Frame, frozen=True, tag=5):
    """An exception where the body waits for its next command."""

    error: bytes


class Close(_Frame, frozen=True, tag=6):
    """A `GeneratorExit` where the body waits; answered when it has cleaned up. The call's last command."""


class Interrupt(_Frame, frozen=True, tag=7):
    """A `KeyboardInterrupt` in the body; without effect on one that does not run."""


class Recall(_Frame, frozen=True, tag=10):
    """What the body has been given and has not begun, it shall give back; taken at any time, as `Interrupt`."""


class Stop(_Frame, frozen=True, tag=8):
    """The worker takes no more calls, lets those that run end, cancels them after a while, and leaves. Answered by `Stopped`."""

    timeout_s: float  # until they are cancelled; 0: at once, below: never


class Idle(_Frame, frozen=True, tag=9):
    """Answered by `IdleFor`."""


class Ack(_Frame, frozen=True, tag=11):
    pass


class Nack(_Frame, frozen=True, tag=12):
    """The call itself is at fault: it can't be read, or names nothing that can be called. Only before the `Ack`."""

    reason: str
    error: bytes = b""  # what was raised, if a user's object raised it


class Yielded(_Frame, frozen=True, tag=13):
    value: bytes
    last: bool  # nothing follows: saves the round trip that would only say so


class Returned(_Frame, frozen=True, tag=14):
    pass


class Failed(_Frame, frozen=True, tag=15):
    """The routine itself failed, or was cancelled; a body's own exception is data and comes as `Yielded`."""

    reason: str


class TooLarge(_Frame, frozen=True, tag=16):
    """The response would not have fit into a message; it was not sent, and the call is over."""

    reason: str


class Refused(_Frame, frozen=True, tag=17):
    """The worker does not take the call, whatever it says. Only before the `Ack`."""

    reason: str
    transient: bool  # later it may; else it would refuse the next one, too


class Stopped(_Frame, frozen=True, tag=18):
    """No call runs any more, and none will."""


class IdleFor(_Frame, frozen=True, tag=19):
    seconds: float  # since the last call ended; 0 while one runs


Command = Next | Send | Throw | Close
Request = Task | Command | Cancel | Interrupt | Recall | Stop | Idle
Response = Ack | Nack | Refused | Yielded | Returned | Failed | TooLarge | Stopped | IdleFor

encode = msgspec.msgpack.Encoder().encode
_decode_array = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode
decode_request = msgspec.msgpack.Decoder(Request).decode
decode_response = msgspec.msgpack.Decoder(Response).decode


def join(batch: Sequence[bytes]) -> bytes:
    """A message, of encoded frames."""
    return encode([msgspec.Raw(frame) for frame in batch])


def decode_requests(message: bytes) -> list[Request]:
    """`DecodeError` for everything but a whole message."""
    return [decode_request(frame) for frame in _split(message)]


def decode_responses(message: bytes) -> list[Response]:
    """As `decode_requests`."""
    return [decode_response(frame) for frame in _split(message)]


def _split(message: bytes) -> list[msgspec.Raw]:
    try:
        return _decode_array(message)
    except RecursionError:  # arrays in arrays in arrays (msgspec 0.23)
        raise DecodeError("nested too deeply") from None
