from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wool_jupyter.wire import frames

REQUESTS = frames.Request.__args__
RESPONSES = frames.Response.__args__


def any_of(kinds):
    return st.one_of([st.from_type(kind) for kind in kinds])


# msgpack holds integers of 64 bits.
st.register_type_strategy(int, st.integers(0, 2**63 - 1))
st.register_type_strategy(float, st.floats(allow_nan=False))


@given(any_of(REQUESTS))
def test_every_request_comes_back(frame):
    assert frames.decode_request(frames.encode(frame)) == frame


@given(any_of(RESPONSES))
def test_every_response_comes_back(frame):
    assert frames.decode_response(frames.encode(frame)) == frame


def test_no_two_frames_have_one_tag():
    """Both ends decode by it alone."""
    tags = [kind.__struct_config__.tag for kind in (*REQUESTS, *RESPONSES)]
    assert len(set(tags)) == len(tags)


@given(st.binary(max_size=40))
def test_other_bytes_are_a_decode_error_or_a_frame(data):
    """Whatever a stranger sends, only the one error is to be caught."""
    for decode, kinds in ((frames.decode_request, REQUESTS), (frames.decode_response, RESPONSES)):
        with suppress(msgspec.DecodeError):
            assert isinstance(decode(data), kinds)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"GET / HTTP/1.1", id="another protocol"),
        pytest.param(msgspec.msgpack.encode([99, 1]), id="unknown tag"),
        pytest.param(msgspec.msgpack.encode([1, "x", "cell", b""]), id="wrong type"),
        pytest.param(msgspec.msgpack.encode([1, 5]), id="too short"),
        pytest.param(frames.encode(frames.Next(1)) + b"\0", id="too long"),
        pytest.param(frames.encode(frames.Ack(1)), id="a response"),
    ],
)
def test_what_is_no_request_is_a_decode_error(data):
    with pytest.raises(msgspec.DecodeError):
        frames.decode_request(data)


def test_what_is_no_response_is_a_decode_error():
    with pytest.raises(msgspec.DecodeError):
        frames.decode_response(frames.encode(frames.Next(1)))


def test_a_frame_of_another_call_differs():
    assert frames.Ack(1) != frames.Ack(2)
    assert frames.encode(frames.Ack(1)) != frames.encode(frames.Returned(1))


def test_a_value_costs_few_bytes_beyond_itself():
    value = b"x" * 100_000
    assert len(frames.encode(frames.Yielded(1, value, False))) < len(value) + 20
