"""A part that a pool may be given in several forms: itself, what makes it, or a context manager that gives it."""

import inspect
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any


@asynccontextmanager
async def resolved(given: object, *expected: type) -> AsyncIterator[Any]:
    """`given` is called if it is callable, awaited if it can be, and entered if it is a context manager; the end leaves what was
    entered, once, also when the part turns out to be none of what is expected: TypeError names what that is."""
    made: Any = given
    if callable(made):
        made = made()
    if inspect.isawaitable(made):
        made = await made
    if hasattr(made, "__aenter__"):
        async with made as part:
            yield _checked(part, expected)
    elif hasattr(made, "__enter__"):
        with made as part:
            yield _checked(part, expected)
    else:
        yield _checked(made, expected)


def _checked(part: object, expected: tuple[type, ...]) -> object:
    if not isinstance(part, expected):
        names = " or ".join(each.__name__ for each in expected)
        raise TypeError(f"discovery has to be a {names}, and a {type(part).__name__} is none")
    return part
