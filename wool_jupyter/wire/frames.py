"""Frames of a session between one client and one worker, as bytes. They know nothing of the transport that carries them.

A call goes `Task → Ack | Nack`, then one `Next` or `Send` for each `Yielded`, until `Yielded(last)`, `Returned` or `Failed`.
The body starts at the first `Next` after the `Ack`: an attempt without an `Ack` may be repeated elsewhere. A call that will not
be repeated sends `Task` and `Next` together.

A message is an array of frames: all that its sender had to say at that moment, in order.
"""

from collections.abc import Sequence

import msgspec

# Large data leaves a message as files (`wire.buffers`): what stays is far below. A message above is somebody's mistake.
MESSAGE_MAX_BYTES = 16 << 20
FRAME_MAX_BYTES = MESSAGE_MAX_BYTES - 5  # beside an array's longest head

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
    """Accepted while a step is pending, which then answers with what the body made of it; ends the call otherwise."""


class Ack(_Frame, frozen=True, tag=11):
    pass


class Nack(_Frame, frozen=True, tag=12):
    reason: str


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


Request = Task | Next | Send | Cancel
Response = Ack | Nack | Yielded | Returned | Failed | TooLarge

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
