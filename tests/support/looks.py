"""What a function finds of its notebook, told so that two processes can compare it."""

import functools
import types
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from wool_jupyter.wire import rebuilding


@functools.singledispatch
def kind_of(value: Any) -> str:
    """Of a library, to which a notebook may register functions of its own."""
    return "anything"


def forget_kinds() -> None:
    """What was registered, but for what stands above."""
    registry = next(cell.cell_contents for cell in kind_of.register.__closure__ if type(cell.cell_contents) is dict)
    for cls in registry.keys() - {object}:
        del registry[cls]
    kind_of._clear_cache()


def look(found: Mapping[str, Any], args: Iterable[Any] = ()) -> Any:
    """Values, and which of them are the same object: no numbers and texts, of which pickle makes new ones, and of arguments only
    functions, for a tuple among them is a copy."""
    if _looking:
        return "itself"
    _looking.append(True)
    try:
        return _seen(found, args)
    finally:
        _looking.pop()


_looking: list[bool] = []


def _seen(found: Mapping[str, Any], args: Iterable[Any]) -> Any:
    functions = [each for each in (*found.values(), *args) if isinstance(each, types.FunctionType)]
    objects = [each for each in found.values() if isinstance(each, types.FunctionType | tuple | list | dict)]
    return (
        {name: _told(value) for name, value in found.items()},
        [_told(each) for each in args],
        [[one is other for other in objects] for one in objects],
        [[one is other for other in functions] for one in functions],
    )


def _told(value: Any) -> Any:
    if isinstance(value, types.FunctionType) and rebuilding.is_dispatcher(value):
        return "a dispatcher", [_outcome(partial(value, each)) for each in (1, "a")]
    if isinstance(value, types.FunctionType) and value.__module__ == "__main__":
        state = (
            value.__name__,
            value.__doc__,
            value.__defaults__,
            value.__kwdefaults__,
            value.__annotations__,
            vars(value),
        )
        return repr(_plain(state)), _outcome(value)
    return repr(_plain(value))


def _plain(value: Any) -> Any:
    """Without addresses."""
    if isinstance(value, types.FunctionType | type | types.ModuleType):
        return value.__name__
    if isinstance(value, tuple | list):
        return type(value), [_plain(each) for each in value]
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return value


def _outcome(function: Any) -> Any:
    try:
        return repr(_plain(function()))
    except Exception as error:
        return type(error).__name__
