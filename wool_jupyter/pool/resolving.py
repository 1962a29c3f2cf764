"""A part that a pool may be given in several forms: itself, what makes it, or a context manager that gives it."""

import inspect
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any


@asynccontextmanager
async def resolved(given: object, *expected: type) -> AsyncIterator[tuple[type, Any]]:
    """The first of `expected` that the part is, and the part.

    `given` is called if it is a class or function, awaited if it can be, and entered if it is a context manager. The end leaves
    what was entered, once, also when the part turns out to be none of what is expected: TypeError names what that is.
    """
    made: Any = given
    if _makes(made):
        made = made()
    if inspect.isawaitable(made):
        made = await made
    failure: BaseException | None = None
    async with AsyncExitStack() as entered:
        try:
            if hasattr(made, "__aenter__"):
                made = await entered.enter_async_context(made)
            elif hasattr(made, "__enter__"):
                made = entered.enter_context(made)
            yield _classified(made, expected)
        except BaseException as error:
            failure = error
            raise
    if failure is not None:  # it has no say in what becomes of an error
        raise failure


def _makes(given: object) -> bool:
    """What `contextlib` makes of a generator is callable, to decorate functions."""
    entered = hasattr(given, "__aenter__") or hasattr(given, "__enter__")
    return callable(given) and (isinstance(given, type) or not entered)


def _classified(part: object, expected: tuple[type, ...]) -> tuple[type, object]:
    for kind in expected:  # each is tried once: a protocol asks for the values of properties (3.11)
        if isinstance(part, kind):
            return kind, part
    names = " or ".join(kind.__name__ for kind in expected)
    raise TypeError(f"discovery has to be a {names}, and a {type(part).__name__} is none")
