"""Messages about errors that are not ours."""

import msgspec
import pytest

from wool_jupyter.errors import in_words


class Mute(Exception):
    def __str__(self):
        raise ZeroDivisionError


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (KeyError("k"), "KeyError: 'k'"),
        (ValueError("\udcff"), "ValueError: \\udcff"),
        (Mute(), "Mute: <its text can't be had: ZeroDivisionError>"),
    ],
    ids=["plain", "surrogate", "broken str"],
)
def test_any_error_can_be_said_in_a_message(error, words):
    assert in_words(error) == words
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(in_words(error))) == words
