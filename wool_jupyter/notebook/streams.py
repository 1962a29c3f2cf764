"""Text of two streams, printed by this process so that a front end shows it in the order in which it was written."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

_SWITCHES = 100  # of a batch that keep their order: each costs a message of its own


class Streams:
    """Remembers which stream was written last: ipykernel gathers each for 0.2 s, and would swap them."""

    def __init__(self, named: Callable[[str], Any] = lambda name: getattr(sys, name)) -> None:
        """`named` finds a stream: else it is whichever the process has when it is written to."""
        self._named = named
        self._last = ""

    def write(self, parts: Iterable[tuple[str, str]]) -> None:
        """(stream's name, text)."""
        for name, text in _in_few_switches(parts, self._last):
            if self._last and name != self._last:
                with suppress(ValueError):  # it was closed meanwhile
                    self._named(self._last).flush()
            self._last = name
            with suppress(ValueError):
                self._named(name).write(text)


def _in_few_switches(parts: Iterable[tuple[str, str]], last: str) -> Iterator[tuple[str, str]]:
    rest: dict[str, list[str]] = {}
    switches = 0
    for name, text in parts:
        switches += name != last
        last = name
        if switches <= _SWITCHES:
            yield name, text
        else:
            rest.setdefault(name, []).append(text)
    for name, texts in rest.items():
        yield name, "".join(texts)
