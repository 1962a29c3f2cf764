import logging
import zlib

import pytest

from tests.support.discovery import shown, worker
from wool_jupyter.discovery.registry import BLOCK
from wool_jupyter.discovery.scan import Scan
from wool_jupyter.wire.codec import encode_worker


def block(metadata, sequence=1, size=1024):
    record = encode_worker(metadata)
    return (BLOCK.pack(len(record), sequence, zlib.crc32(record)) + record).ljust(size, b"\0")


def look(scan, *found):
    """Each is a worker, with its sequence number, or a number and what was found instead of its block."""
    blocks = []
    for each in found:
        match each:
            case int(number), (bytes() | OSError()) as odd:
                blocks.append((worker(number).uid, odd))
            case metadata, int(sequence):
                blocks.append((metadata.uid, block(metadata, sequence)))
    return [shown(event) for event in scan.take(blocks)]


def test_only_changes_are_told():
    scan = Scan()
    assert look(scan, (worker(1), 1), (worker(2), 2)) == [("added", 1), ("added", 2)]
    assert look(scan, (worker(1), 1), (worker(2), 2)) == []
    assert look(scan, (worker(1), 1), (worker(2, tags=frozenset("x")), 3)) == [("updated", 2)]
    assert look(scan, (worker(3), 4), (worker(2, tags=frozenset("x")), 3)) == [("dropped", 1), ("added", 3)]
    assert sorted(look(scan)) == [("dropped", 2), ("dropped", 3)]
    assert look(scan) == []


def test_an_announcement_of_the_same_record_changes_nothing():
    scan = Scan()
    look(scan, (worker(1), 1))
    assert look(scan, (worker(1), 2)) == []


def test_a_dropped_worker_is_told_with_its_last_record():
    scan = Scan()
    last = worker(1, tags=frozenset("x"))
    look(scan, (worker(1), 1))
    look(scan, (last, 2))
    assert scan.take([])[0].metadata == last


def torn(metadata):
    whole = bytearray(block(metadata, 9))
    whole[-(len(whole) - BLOCK.size - 5)] ^= 1
    return bytes(whole)


def mixed(metadata):
    """The header of the next publish over the record of this one."""
    following = block(worker(metadata.uid.int, tags=frozenset("y")), 9)
    return following[: BLOCK.size] + block(worker(metadata.uid.int, tags=frozenset("x")), 8)[BLOCK.size :]


def too_long(metadata):
    return BLOCK.pack(2**32 - 1, 9, 0) + bytes(1000)


def with_the_record_of_another(metadata):
    return block(worker(99), 9)


UNREADABLE = {
    "missing": lambda metadata: FileNotFoundError(2, "No such file or directory"),
    "no descriptors": lambda metadata: OSError(24, "Too many open files"),
    "empty": lambda metadata: b"",
    "short": lambda metadata: block(metadata, 9)[:100],
    "zeros": lambda metadata: bytes(1024),
    "torn": torn,
    "mixed": mixed,
    "implausible length": too_long,
    "another's": with_the_record_of_another,
}
unreadable = pytest.mark.parametrize("odd", UNREADABLE.values(), ids=UNREADABLE)


@unreadable
@pytest.mark.case("X-10")
def test_a_worker_whose_block_can_t_be_read_is_still_reported(odd, caplog):
    scan = Scan()
    look(scan, (worker(1), 1), (worker(2), 2))
    for count in range(1, 6):
        assert look(scan, (1, odd(worker(1))), (worker(2), 2)) == []
        assert not scan.complete
        assert len(caplog.records) == max(0, count - 3)
    assert all(record.levelno == logging.WARNING for record in caplog.records)
    assert f"{worker(1).uid} could not be read 5 times in a row, and it is reported as it was: " in caplog.text
    assert look(scan, (worker(1), 1), (worker(2), 2)) == []
    assert scan.complete
    caplog.clear()
    assert look(scan, (1, odd(worker(1))), (worker(2), 2)) == []
    assert not caplog.records


@unreadable
@pytest.mark.case("REG-18")
def test_a_worker_that_was_never_read_is_not_reported_and_hides_no_other(odd, caplog):
    scan = Scan()
    assert look(scan, (1, odd(worker(1))), (worker(2), 2)) == [("added", 2)]
    assert look(scan, (worker(1), 1), (worker(2), 2)) == [("added", 1)]
    assert not caplog.records


def test_a_worker_that_was_never_read_and_has_gone_is_forgotten():
    scan = Scan()
    look(scan, (1, b""))
    assert not scan.complete
    assert look(scan) == []
    assert scan.complete


def test_a_memory_error_is_a_block_that_can_t_be_read(monkeypatch):
    from wool_jupyter.discovery import scan as module

    def exhausted(record):
        raise MemoryError

    scan = Scan()
    look(scan, (worker(1), 1))
    monkeypatch.setattr(module, "decode_worker", exhausted)
    assert look(scan, (worker(1), 2)) == []
    assert not scan.complete


def test_an_unchanged_block_is_not_decoded_again(monkeypatch):
    from wool_jupyter.discovery import scan as module

    scan = Scan()
    look(scan, (worker(1), 1))
    monkeypatch.setattr(module, "decode_worker", None)
    assert look(scan, (worker(1), 1)) == []
    assert scan.complete
