"""Why a call or its result can't be shipped, in the words of the function: looked for only after a failure."""

import functools
import inspect
import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from wool_jupyter.errors import CannotShip
from wool_jupyter.wire import culprits, pickling

INSIDE = "the function"  # where a user is to make what can't be shipped

_Call = tuple[Callable[..., Any], tuple[Any, ...], Mapping[str, Any]]


def name_of(function: Any) -> str:
    """For people."""
    while isinstance(function, functools.partial):
        function = function.func
    name = str(getattr(function, "__qualname__", type(function).__qualname__))
    return name.rpartition("<locals>.")[2]


def dumped(dump: Callable[[], object], refusal: Callable[[Exception], CannotShip]) -> None:
    """What it raises is told in the refusal's words, and is not its context, which would travel along."""
    try:
        dump()
    except Exception as error:  # noqa: BLE001 (of a user's objects)
        refused = refusal(error)
    else:
        return
    raise refused


def of_arguments(invocations: Iterable[_Call], cause: Exception) -> CannotShip:
    why = culprits.reason_in(cause)
    for function, args, kwargs in invocations:
        for path, words, value in (*_arguments(function, args, kwargs), (name_of(function), "{}", function)):
            if not pickling.NotebookPickler(io.BytesIO()).pickles(value):
                found = culprits.find(value, path)
                return CannotShip(f"{words.format(found)} can't be shipped to a worker{why}: {found.advice(INSIDE)}")
    return CannotShip(f"the arguments can't be shipped to a worker together{why}")


def of_result(value: Any, cause: Exception, *, what: str) -> CannotShip:
    found = culprits.find(value, "result")
    who = f"{what} ({found.kind})" if found.obj is value else f"{found} in {what}"
    return CannotShip(f"{who} can't be shipped{culprits.reason_in(cause)}: {found.advice_of_result}")


def _arguments(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Iterator[tuple[str, str, Any]]:
    """By the names of the parameters, or by position where a function does not tell them. With the words around it."""
    try:
        known = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        known = []
    names = [parameter.name for parameter in known if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]
    if names != [parameter.name for parameter in known[: len(names)]]:  # some before them are known by position alone
        names = []
    of = f"of `{name_of(function)}`"
    for name, value in (*zip(names, args, strict=False), *kwargs.items()):
        yield name, f"argument {{}} {of}", value
    for number, value in enumerate(args[len(names) :], len(names) + 1):
        yield f"argument {number}", f"{{}} {of}", value
