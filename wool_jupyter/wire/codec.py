"""Records as bytes: what discovery keeps in files."""

from types import MappingProxyType
from typing import Any

import msgspec

from wool_jupyter.records import WorkerMetadata


def _plain(value: Any) -> Any:
    if isinstance(value, MappingProxyType):
        return dict(value)
    raise TypeError(f"{type(value).__name__} can't be encoded")


_encoder = msgspec.msgpack.Encoder(enc_hook=_plain, uuid_format="bytes")
_decoder = msgspec.msgpack.Decoder(WorkerMetadata)


def encode_worker(metadata: WorkerMetadata) -> bytes:
    """TypeError or ValueError if a field is not what its type says."""
    try:
        return _encoder.encode(metadata)
    except (OverflowError, msgspec.MsgspecError) as error:
        raise ValueError(f"the record of the worker {metadata.uid} can't be encoded: {error}") from error


def decode_worker(data: bytes) -> WorkerMetadata:
    """Fields that are not known yet are passed over. ValueError if the bytes are no record."""
    try:
        return _decoder.decode(data)
    except msgspec.MsgspecError as error:
        raise ValueError(f"no record of a worker: {error}") from error
