import dataclasses
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wool_jupyter.records import ChannelOptions, WorkerMetadata
from wool_jupyter.wire.codec import decode_worker, encode_worker

COUNTS = st.integers(0, 2**63 - 1)
OPTIONS = st.builds(
    ChannelOptions, COUNTS, COUNTS, st.none() | st.floats(0, 1e6), st.floats(0, 1e6), COUNTS,
    st.sampled_from(["none", "deflate", "gzip"]),
)  # fmt: skip
WORKERS = st.builds(
    WorkerMetadata, st.uuids(), st.text(), COUNTS, st.text(), st.frozensets(st.text()),
    st.dictionaries(st.text(), st.text()), st.booleans(), OPTIONS,
)  # fmt: skip
ONE = WorkerMetadata(UUID(int=1), "unix:/w", 1, "1")


@given(WORKERS)
def test_a_record_comes_back_as_it_was(metadata):
    decoded = decode_worker(encode_worker(metadata))
    assert decoded == metadata
    assert type(decoded.extra) is type(metadata.extra)
    assert type(decoded.tags) is frozenset


@given(st.binary(max_size=300) | st.integers(0, 200).map(lambda end: encode_worker(ONE)[:end]))
def test_other_bytes_are_a_value_error(data):
    with pytest.raises(ValueError, match="no record"):
        decode_worker(data)


def test_a_field_of_the_future_is_passed_over():
    fields = msgspec.msgpack.decode(encode_worker(ONE)) | {"gpus": 4}
    assert decode_worker(msgspec.msgpack.encode(fields)) == ONE


@pytest.mark.parametrize(
    "fields", [{"pid": 1 << 80}, {"address": "\ud800"}, {"tags": frozenset({object()})}, {"version": object()}]
)
def test_what_can_t_be_encoded_is_refused(fields):
    with pytest.raises((ValueError, TypeError)):
        encode_worker(dataclasses.replace(ONE, **fields))
