"""Process state that follows the kernel into a cell, and comes back as differences.

Libraries are asked only when they are loaded. Large sets of options are told as what differs from the library's defaults, so that
an untouched library is not imported on the other side.
"""

import contextlib
import os
import random
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from wool_jupyter.wire import pickling

State = dict[str, bytes]  # aspect -> its pickled value, b"" where it can't be; one that could not be read is missing


@dataclass(frozen=True, slots=True)
class _Aspect:
    read: Callable[[], Any]
    write: Callable[[Any, Any], object]  # (as it is here, as it shall be)
    module: str = ""  # must be loaded to be read
    imports: bool = False  # worth an import where it is to be written


def here() -> State:
    """Values may hold functions and classes of the notebook (a formatter, a category of warnings)."""
    state = {}
    for name, aspect in _ASPECTS.items():
        if not aspect.module or aspect.module in sys.modules:
            with contextlib.suppress(FileNotFoundError):  # the working directory is gone
                state[name] = _pickled(aspect.read())
    return state


def _pickled(value: Any) -> bytes:
    try:
        return pickling.dumps(value)
    except Exception:  # noqa: BLE001 (whatever a user's object raises)
        return b""


def left_out(state: State) -> list[str]:
    return [name for name, value in state.items() if not value]


def follow(wanted: State, before: State, *, process: bool = True, libraries: bool = True) -> None:
    """What differs between the two becomes so here. What neither changed stays as it is here.

    The process's own state is wanted before objects are loaded, which may need `sys.path`; that of libraries after, which may be
    loaded by it, and may need the notebook's classes.
    """
    for name, value in wanted.items():
        aspect = _ASPECTS[name]
        if not value or value == before.get(name) or not (libraries if aspect.module or name in _LATE else process):
            continue
        new = pickling.loads(value)
        if aspect.module and aspect.module not in sys.modules and not (aspect.imports and new):
            continue
        aspect.write(pickling.loads(before[name]) if before.get(name) else None, new)


_LATE = frozenset({"warnings"})  # of the process, but made of classes


def _write_cwd(_before: str | None, after: str) -> None:
    os.chdir(after)


def _write_environment(before: Mapping[str, str] | None, after: Mapping[str, str]) -> None:
    before = before or {}
    for name in before.keys() - after.keys():
        os.environ.pop(name, None)
    for name, value in after.items():
        if before.get(name) != value:
            os.environ[name] = value


def _write_path(_before: list[str], after: list[str]) -> None:
    sys.path[:] = after


def _write_argv(_before: list[str], after: list[str]) -> None:
    sys.argv[:] = after


def _write_filters(_before: Any, after: list[Any]) -> None:
    warnings.resetwarnings()  # also tells the interpreter that its caches are out of date
    warnings.filters.extend(after)  # type: ignore[attr-defined]


def _read_numpy_random() -> tuple[Any, ...]:
    import numpy as np

    state: Any = np.random.get_state()
    return state[0], state[1].tobytes(), *state[2:]


def _write_numpy_random(_before: Any, after: tuple[Any, ...]) -> None:
    import numpy as np

    name, keys, *rest = after
    np.random.set_state((name, np.frombuffer(keys, "uint32"), *rest))


def _read_numpy_print() -> dict[str, Any]:
    import numpy as np

    return {k: v for k, v in np.get_printoptions().items() if k not in ("override_repr", "formatter") or v is not None}


def _write_numpy_print(_before: Any, after: dict[str, Any]) -> None:
    import numpy as np

    np.set_printoptions(**{k: v for k, v in after.items() if k != "override_repr"})


def _read_pandas() -> dict[str, Any]:
    import pandas as pd

    config: Any = pd._config.config  # the public part has no list of options and defaults (3.1)
    values = {key: pd.get_option(key) for key in config._registered_options if key not in config._deprecated_options}
    return {key: value for key, value in values.items() if value != config._registered_options[key].defval}


def _write_pandas(before: Any, after: dict[str, Any]) -> None:
    import pandas as pd

    for key in (before or {}).keys() - after.keys():
        pd.reset_option(key)
    for key, value in after.items():
        pd.set_option(key, value)


def _read_matplotlib() -> dict[str, Any]:
    import matplotlib as mpl

    current, default = (
        dict.items(mpl.rcParams),
        mpl.rcParamsDefault,
    )  # not `rcParams.items()`: it would choose a backend
    return {key: value for key, value in current if not key.startswith("backend") and value != dict.get(default, key)}


def _write_matplotlib(before: Any, after: dict[str, Any]) -> None:
    import matplotlib as mpl

    mpl.rcParams.update({key: mpl.rcParamsDefault[key] for key in (before or {}).keys() - after.keys()} | after)


_ASPECTS = {
    "cwd": _Aspect(os.getcwd, _write_cwd),
    "environment": _Aspect(lambda: dict(os.environ), _write_environment),
    "path": _Aspect(lambda: list(sys.path), _write_path),
    "argv": _Aspect(lambda: list(sys.argv), _write_argv),
    "warnings": _Aspect(lambda: list(warnings.filters), _write_filters),
    "random": _Aspect(random.getstate, lambda _, after: random.setstate(after)),
    "numpy.random": _Aspect(_read_numpy_random, _write_numpy_random, "numpy.random", imports=True),
    "numpy print options": _Aspect(_read_numpy_print, _write_numpy_print, "numpy"),
    "pandas options": _Aspect(_read_pandas, _write_pandas, "pandas", imports=True),
    "matplotlib rcParams": _Aspect(_read_matplotlib, _write_matplotlib, "matplotlib", imports=True),
}
