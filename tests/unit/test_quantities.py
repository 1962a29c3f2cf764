"""Sizes and spans of time in words."""

import pytest

from wool_jupyter.quantities import size, span


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-0.3, "0 s"), (0.4, "0 s"), (59.4, "59 s"), (60, "1 min"), (3599, "60 min"), (7200, "2 h"), (200_000, "2 d")],
)
def test_spans_of_time(seconds, words):
    assert span(seconds) == words


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, "0 B"), (999, "999 B"), (999_999, "1 MB"), (2050, "2.05 kB"), (175 << 20, "184 MB"), (5e12, "5 TB")],
)
def test_sizes(count, words):
    assert size(count) == words
