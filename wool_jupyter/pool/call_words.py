"""A call as people are told of it: which one it is, at a glance."""

from pathlib import PurePath
from typing import Any

from wool_jupyter.wire import calls, refusals

_ARGUMENTS = 3
_CHARS = 40  # of one argument


def in_short(invocation: calls.Invocation) -> str:
    """`load('a.csv', <ndarray>)`. Runs nothing of a user's."""
    function, args, kwargs = invocation
    parts = [_short(value) for value in args[:_ARGUMENTS]]
    parts += [f"{name}={_short(kwargs[name])}" for name in list(kwargs)[: _ARGUMENTS - len(parts)]]
    if len(args) + len(kwargs) > len(parts):
        parts.append("…")
    return f"`{refusals.name_of(function)}({', '.join(parts)})`"


def _short(value: Any) -> str:
    kind = type(value)
    if kind in (str, bytes):
        return repr(value) if len(value) <= _CHARS else f"{value[:_CHARS]!r}…"
    if kind in (bool, float, complex, type(None)) or (kind is int and value.bit_length() <= 64):
        return repr(value)
    if issubclass(kind, PurePath):
        return _short(str(value))
    return f"<{kind.__name__}>"
