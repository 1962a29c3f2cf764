"""What a background job has shown, kept to be shown again."""

import pytest

from wool_jupyter.notebook.job_output import Record, Shown, joined


def of(*shown):
    record = Record()
    for kind, content in shown:
        record.add(Shown(kind, content))
    return record


def test_it_gives_back_what_it_was_given_in_order():
    shown = [("stdout", "a"), ("display", {"data": {"text/plain": "b"}}), ("stderr", "c"), ("error", ["d"])]
    record = of(*shown)
    assert list(record) == shown
    assert list(record) == shown  # again


def test_more_than_memory_should_hold():
    record = of(*[("stdout", str(n) * 100_000) for n in range(100)])
    assert [content[:2] for _, content in record] == [(str(n) * 2)[:2] for n in range(100)]


def test_what_is_added_while_it_is_read():
    record = of(("stdout", "a"))
    reading = iter(record)
    assert next(reading).content == "a"
    record.add(Shown("stdout", "b"))
    assert next(reading).content == "b"
    assert next(reading, None) is None


@pytest.mark.parametrize("wait", [False, True])
def test_cleared(wait):
    record = of(("stdout", "old"))
    record.clear(wait=wait)
    assert [content for _, content in record] == (["old"] if wait else [])
    record.add(Shown("stdout", "new"))
    assert [content for _, content in record] == ["new"]


def test_captured():
    display = {"data": {"text/plain": "b"}, "metadata": {}, "transient": {}, "update": False}
    captured = of(
        ("stdout", "a"), ("stderr", "x"), ("display", display), ("stdout", "c"), ("error", ["e", "f"])
    ).captured()
    assert (captured.stdout, captured.stderr) == ("ac", "xe\nf\n")
    assert [each.data for each in captured.outputs] == [{"text/plain": "b"}]


def test_neighbours_of_one_stream_are_one():
    parts = [("stdout", "a"), ("stdout", "b"), ("stderr", "c"), ("stdout", "d")]
    assert list(joined(iter(parts))) == [("stdout", "ab"), ("stderr", "c"), ("stdout", "d")]


def test_streams_that_alternate_all_the_time_are_few_messages_and_lose_nothing():
    parts = [(name, f"{name}{n} ") for n in range(1000) for name in ("stdout", "stderr")]
    messages = list(joined(parts))
    assert len(messages) < 30
    for name in ("stdout", "stderr"):
        assert "".join(text for n, text in messages if n == name) == "".join(text for n, text in parts if n == name)
