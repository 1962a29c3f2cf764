"""matplotlib's options."""

import enum
from typing import Any

from wool_jupyter.wire.aspects.aspect import Aspect, flat
from wool_jupyter.wire.aspects.unchanged import Unchanged
from wool_jupyter.wire.identical import Identical

_STEADY = frozenset({str, int, float, bool, type(None), object})


def _read() -> dict[str, Any]:
    import matplotlib as mpl

    default = mpl.rcParamsDefault
    return {
        key: value
        for key, value in dict.items(mpl.rcParams)  # not `rcParams.items()`: it would choose a backend
        if not key.startswith("backend") and value is not (usual := dict.get(default, key)) and _differs(value, usual)
    }


def _differs(value: Any, usual: Any) -> bool:
    try:
        return bool(value != usual)
    except ValueError:  # of arrays: colours of a cycle
        return True


def _values() -> list[Any]:
    import matplotlib as mpl

    return list(dict.values(mpl.rcParams))


def _key() -> tuple[Identical, bytes] | None:
    """Lists and cycles may be changed in place."""
    values = _values()
    others = [each for each in values if type(each) not in _STEADY]
    content = flat([each if type(each) is list else _content(each) for each in others])
    return None if content is None else (Identical(values), content)


def _content(value: Any) -> Any:
    """Of builtins, if nothing else in it can change."""
    if isinstance(value, enum.Enum):
        return None
    return value.by_key() if type(value).__name__ == "Cycler" else value


def _write(before: Any, after: dict[str, Any]) -> None:
    import matplotlib as mpl

    mpl.rcParams.update({key: mpl.rcParamsDefault[key] for key in (before or {}).keys() - after.keys()} | after)


ASPECTS = {
    "matplotlib rcParams": Aspect(_read, _write, "matplotlib", imports=True, key=_key, glance=Unchanged(_values)),
}
