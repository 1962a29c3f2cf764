"""Frames of a session between one client and one worker, as bytes. They know nothing of the transport that carries them.

A call goes `Task → Ack | Nack`, then one `Next` or `Send` for each `Yielded`, until `Yielded(last)`, `Returned` or `Failed`.
The body starts at the first `Next` after the `Ack`: an attempt without an `Ack` may be repeated elsewhere. A call that will not
be repeated sends `Task` and `Next` together.
"""

import msgspec


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


Request = Task | Next | Send | Cancel
Response = Ack | Nack | Yielded | Returned | Failed

encode = msgspec.msgpack.Encoder().encode
decode_request = msgspec.msgpack.Decoder(Request).decode
decode_response = msgspec.msgpack.Decoder(Response).decode
