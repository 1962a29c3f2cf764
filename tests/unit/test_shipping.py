"""Any exception arrives: as itself, or as the best that can be had, and then says so."""

import pickle
import threading
import warnings

import msgspec
import pytest

from wool_jupyter.errors import CannotLoad
from wool_jupyter.wire import shipping
from wool_jupyter.wire.shipping import FidelityWarning


class TwoArguments(Exception):
    def __init__(self, first, second):
        super().__init__(f"{first} and {second}")
        self.first, self.second = first, second


class KeywordOnly(Exception):
    def __init__(self, *, code):
        super().__init__(code)
        self.code = code


def travelled(error):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = shipping.load(shipping.dump(error))
    return found, [str(each.message) for each in caught if each.category is FidelityWarning]


@pytest.mark.parametrize(
    "error",
    [
        ValueError("plain"),
        TwoArguments(1, "b"),
        KeywordOnly(code=7),
        OSError(2, "No such file", "/x"),
        SystemExit(3),
        KeyboardInterrupt(),
        GeneratorExit(),
        BaseExceptionGroup("many", (SystemExit(1), ValueError("two"))),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "odd"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_exception_arrives_as_what_it_is(error):
    found, said = travelled(error)
    assert (type(found), repr(found), vars(found), said) == (type(error), repr(error), vars(error), [])


def test_causes_come_along_and_a_ring_of_them_ends():
    first, second = ValueError("first"), TwoArguments(1, 2)
    first.__cause__, second.__cause__ = second, first
    found, said = travelled(first)
    assert type(found.__cause__) is TwoArguments
    assert found.__cause__.__cause__ is found
    assert said == []


def test_what_can_not_travel_in_a_cause_leaves_all_else_and_is_said():
    """Every field keeps its type."""
    error = TwoArguments(1, "b")
    error.__cause__ = KeywordOnly(code=memoryview(b"x"))
    found, said = travelled(error)
    assert (type(found), found.first, found.second, found.args) == (TwoArguments, 1, "b", ("1 and b",))
    assert type(found.__cause__) is KeywordOnly
    assert repr(found.__cause__.code).startswith("<memory at")
    assert len(said) == 1
    assert "`code` (memoryview)" in said[0]


def test_a_chain_too_deep_to_follow_is_cut():
    error = ValueError(0)
    for number in range(1, 20_000):
        deeper = ValueError(number)
        deeper.__cause__, error = error, deeper
    found, said = travelled(error)
    length = 0
    at = found
    while at is not None:
        length, at = length + 1, at.__cause__
    assert (found.args, length) == ((19_999,), 21)
    assert "traceback" in said[0]
    while error is not None:  # taken apart from the top: as a whole it is too deep for the interpreter
        error.__cause__, error = None, error.__cause__


class _Unshippable:
    """An argument that answers one pickler and not the next."""

    asked = 0

    def __reduce__(self):
        _Unshippable.asked += 1
        if _Unshippable.asked % 2:
            return str, ()
        raise ZeroDivisionError("changed its mind")


def test_what_no_pickler_takes_arrives_as_its_words():
    found, said = travelled(ValueError("why", _Unshippable()))
    assert isinstance(found, RuntimeError)
    assert str(found).startswith("ValueError: ('why'")
    assert "everything but its words" in said[0]


def test_a_loss_is_no_error_of_its_own_where_warnings_are_errors():
    error = ValueError(threading.current_thread())
    data = shipping.dump(error)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = shipping.load(data)
    assert type(found) is ValueError
    assert any("has crossed without" in note for note in found.__notes__)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        msgspec.msgpack.encode(["x"]),
        msgspec.msgpack.encode([b"no pickle", "LookupError: it", []]),
        msgspec.msgpack.encode([pickle.dumps(5), "LookupError: it", []]),
        msgspec.msgpack.encode([b"cwool_jupyter.nowhere\nX\n.", "LookupError: it", []]),
    ],
    ids=["nothing", "noise", "another record", "no pickle", "no exception", "an unknown class"],
)
def test_what_can_not_be_rebuilt_is_an_error_of_its_own(data):
    with pytest.raises(CannotLoad):
        shipping.load(data)


def test_the_words_of_what_can_not_be_rebuilt_are_kept():
    with pytest.raises(CannotLoad, match="LookupError: it"):
        shipping.load(msgspec.msgpack.encode([b"no pickle", "LookupError: it", []]))
