"""What of a process's state follows into a cell, aspect by aspect: how it is read here, and made so there.

Libraries are asked only when they are loaded. Large sets of options are told as what differs from the library's defaults, so that
an untouched library is not imported on the other side.
"""

import enum
import locale
import marshal
import os
import random
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from wool_jupyter import host
from wool_jupyter.wire import glances, loggers
from wool_jupyter.wire.identical import Identical

_WITHOUT_REFERENCES = 2  # this version of marshal's: with them, equal values give other bytes


@dataclass(frozen=True, slots=True)
class Aspect:
    read: Callable[[], Any]
    write: Callable[[Any, Any], object]  # (as it is here, as it shall be)
    module: str = ""  # must be loaded to be read
    imports: bool = False  # worth an import where it is to be written
    of_context: bool = False  # kept in a context variable: each cell begins with the defaults
    of_cells: bool = False  # does not concern calls
    slow: bool = False  # takes longer than all else
    late: bool = False  # of the process, but made of classes, or used by the import of libraries
    # Sooner had than what is read, which pickles alike as long as this is equal; it gives None where it can't tell. Without one,
    # what is read is its own key if it consists of builtins.
    key: Callable[[], object] | None = None
    # Had in a microsecond or two: as long as it is equal, nothing was set anew. None for what takes longer, and for what does not
    # outlast a call: it is of cells, or of the context, which each call has for itself.
    glance: Callable[[], object] | None = None

    @property
    def is_here(self) -> bool:
        return not self.module or self.module in sys.modules


@dataclass(frozen=True, slots=True)
class Generator(Aspect):
    """Of random numbers: no concern of calls, of which those side by side would draw the same ones."""

    seed: Callable[[], object] = random.seed  # makes it draw others than any other process
    of_cells: bool = True


def flat(value: Any) -> bytes | None:
    """Equal for what pickles alike, and a change of what it was made of does not change it. None unless all of it are
    builtins; what has a buffer counts as its bytes."""
    try:
        return marshal.dumps(value, _WITHOUT_REFERENCES)
    except ValueError:
        return None


def _read_cwd() -> tuple[str, int, int]:
    """Which directory it is, beside its name: one that was made anew is another. One that is gone is still to be had on Linux."""
    found = os.stat(".")
    try:
        path = os.getcwd()
    except FileNotFoundError:
        if not os.path.lexists("/proc/self/cwd"):
            raise
        path = f"/proc/{os.getpid()}/cwd"
    return path, found.st_dev, found.st_ino


def _write_cwd(_before: Any, after: tuple[str, int, int]) -> None:
    os.chdir(after[0])


def raw_environment() -> Any:
    """A copy. Not `dict(os.environ)`, which decodes each (3.11)."""
    return getattr(os.environ, "_data", os.environ).copy()


def _write_environment(before: Mapping[str, str] | None, after: Mapping[str, str]) -> None:
    before = before or {}
    for name in before.keys() - after.keys():
        os.environ.pop(name, None)
    for name, value in after.items():
        if before.get(name) != value:
            os.environ[name] = value
    if before.get("TZ") != after.get("TZ"):
        time.tzset()


def _write_path(_before: list[str], after: list[str]) -> None:
    sys.path = _refilled(sys.path, after)


def _refilled(current: Any, after: list[str]) -> list[str]:
    """The list that others may hold, unless a cell has put something else in its place."""
    if not isinstance(current, list):
        return after
    current[:] = after
    return current


def _write_argv(_before: list[str] | None, after: list[str]) -> None:
    sys.argv = _refilled(sys.argv, after)


_steady_filters: list[Any] = []  # as they were seen last


def _key_of_filters() -> list[Any] | None:
    """A category of the notebook travels as it is now."""
    global _steady_filters
    found = list(warnings.filters)
    if found != _steady_filters:
        if any(getattr(part, "__module__", "") == "__main__" for each in found for part in each):
            return None
        _steady_filters = found
    return found


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


def _seed_numpy() -> None:
    sys.modules["numpy.random"].seed()


def _read_torch_random() -> bytes:
    state: bytes = sys.modules["torch"].get_rng_state().numpy().tobytes()
    return state


def _write_torch_random(_before: Any, after: bytes) -> None:
    import torch

    torch.set_rng_state(torch.frombuffer(bytearray(after), dtype=torch.uint8))


def _seed_torch() -> None:
    sys.modules["torch"].seed()


def _read_torch() -> dict[str, Any]:
    torch = sys.modules["torch"]
    return {
        "dtype": torch.get_default_dtype(),
        "device": torch.get_default_device(),
        "gradients": torch.is_grad_enabled(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
    }


def _key_of_torch() -> tuple[Any, ...]:
    return tuple(_read_torch().values())


def _write_torch(_before: Any, after: dict[str, Any]) -> None:
    import torch

    torch.set_default_dtype(after["dtype"])
    if torch.get_default_device() != after["device"]:
        torch.set_default_device(after["device"])
    torch.set_grad_enabled(after["gradients"])
    torch.use_deterministic_algorithms(after["deterministic"])


def _read_socket_timeout() -> float | None:
    import socket

    return socket.getdefaulttimeout()


def _write_socket_timeout(_before: Any, after: float | None) -> None:
    import socket

    socket.setdefaulttimeout(after)


def _read_decimal() -> dict[str, Any]:
    context = sys.modules["decimal"].getcontext()
    names = ("prec", "rounding", "Emin", "Emax", "capitals", "clamp")
    traps = {signal.__name__: traps for signal, traps in context.traps.items()}
    return {name: getattr(context, name) for name in names} | {"traps": traps}


def _key_of_decimal() -> str:
    """With flags that calculations set."""
    return repr(sys.modules["decimal"].getcontext())


def _write_decimal(_before: Any, after: dict[str, Any]) -> None:
    import decimal

    context = decimal.getcontext()
    for name, value in after.items():
        if name == "traps":
            context.traps.update({signal: value[signal.__name__] for signal in context.traps})
        else:
            setattr(context, name, value)


def _read_numpy_errors() -> dict[str, Any]:
    import numpy as np

    return dict(np.geterr())


def _write_numpy_errors(_before: Any, after: dict[str, Any]) -> None:
    import numpy as np

    np.seterr(**after)


def _read_umask() -> int:
    """By asking the system: to ask the process means to change it, for its other threads, too."""
    found = host.umask()
    if found is None:
        raise FileNotFoundError
    return found


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


def _key_of_pandas() -> bytes | None:
    import pandas as pd

    config: Any = pd._config.config
    return flat(config._global_config)


def _write_pandas(before: Any, after: dict[str, Any]) -> None:
    import pandas as pd

    for key in (before or {}).keys() - after.keys():
        pd.reset_option(key)
    for key, value in after.items():
        pd.set_option(key, value)


def _read_matplotlib() -> dict[str, Any]:
    import matplotlib as mpl

    default = mpl.rcParamsDefault
    return {
        key: value
        for key, value in dict.items(mpl.rcParams)  # not `rcParams.items()`: it would choose a backend
        if not key.startswith("backend") and value is not (usual := dict.get(default, key)) and _differs(value, usual)
    }


_STEADY = frozenset({str, int, float, bool, type(None), object})


def _key_of_matplotlib() -> tuple[Identical, bytes] | None:
    """Lists and cycles may be changed in place."""
    import matplotlib as mpl

    values = list(dict.values(mpl.rcParams))
    others = [each for each in values if type(each) not in _STEADY]
    content = flat([each if type(each) is list else _content(each) for each in others])
    return None if content is None else (Identical(values), content)


def _content(value: Any) -> Any:
    """Of builtins, if nothing else in it can change."""
    if isinstance(value, enum.Enum):
        return None
    return value.by_key() if type(value).__name__ == "Cycler" else value


def _differs(value: Any, usual: Any) -> bool:
    try:
        return bool(value != usual)
    except ValueError:  # of arrays: colours of a cycle
        return True


def _write_matplotlib(before: Any, after: dict[str, Any]) -> None:
    import matplotlib as mpl

    mpl.rcParams.update({key: mpl.rcParamsDefault[key] for key in (before or {}).keys() - after.keys()} | after)


def _shell() -> Any:
    return sys.modules["IPython"].get_ipython()


def _read_shell() -> dict[str, Any]:
    shell = _shell()
    if shell is None:
        return {}
    options = {name: getattr(shell, name) for name in ("ast_node_interactivity", "autoawait", "colors")}
    waiting = shell.config.InlineBackend  # `%config` keeps it there until pyplot is imported
    been = [str(each) for each in _been(shell)]
    return {**options, "InlineBackend": dict(waiting), "been": been, "dir_stack": list(shell.dir_stack)}


def _been(shell: Any) -> list[Any]:
    """Where `%cd -` goes back to."""
    found: list[Any] = shell.user_ns.get("_dh", shell.history_manager.dir_hist)
    return found


def _write_shell(_before: Any, after: dict[str, Any]) -> None:
    options = dict(after)
    waiting = _shell().config.InlineBackend
    waiting.clear()
    waiting.update(options.pop("InlineBackend", {}))
    been, now = _been(_shell()), options.pop("been", [])
    if [str(each) for each in been] != now:
        been[:] = now
    for name, value in options.items():
        setattr(_shell(), name, value)


# `figure_format` first: it sets the formats when it changes, and asked for again it does nothing.
_INLINE = ("figure_format", "figure_formats", "print_figure_kwargs", "close_figures")


def _read_inline() -> dict[str, Any]:
    backend = sys.modules["matplotlib_inline.config"].InlineBackend.instance(parent=_shell())
    return {name: getattr(backend, name) for name in _INLINE}


def _write_inline(_before: Any, after: dict[str, Any]) -> None:
    from matplotlib_inline.config import InlineBackend

    backend = InlineBackend.instance(parent=_shell())
    backend.shell = _shell()
    for name, value in after.items():
        setattr(backend, name, value)


ASPECTS = {
    "cwd": Aspect(_read_cwd, _write_cwd, key=_read_cwd, glance=glances.place),
    "environment": Aspect(lambda: dict(os.environ), _write_environment, key=raw_environment, glance=raw_environment),
    "path": Aspect(lambda: list(sys.path), _write_path, glance=glances.path),
    "argv": Aspect(lambda: list(sys.argv), _write_argv, glance=glances.argv),
    "recursion limit": Aspect(
        sys.getrecursionlimit, lambda _, after: sys.setrecursionlimit(after), glance=sys.getrecursionlimit
    ),
    "digits of an int": Aspect(
        sys.get_int_max_str_digits,
        lambda _, after: sys.set_int_max_str_digits(after),
        glance=sys.get_int_max_str_digits,
    ),
    "umask": Aspect(_read_umask, lambda _, after: os.umask(after), slow=True),
    "locale": Aspect(
        glances.locales, lambda _, after: locale.setlocale(locale.LC_ALL, after), late=True, glance=glances.locales
    ),
    "socket timeout": Aspect(_read_socket_timeout, _write_socket_timeout, "socket", glance=_read_socket_timeout),
    "decimal": Aspect(_read_decimal, _write_decimal, "decimal", imports=True, of_context=True, key=_key_of_decimal),
    "warnings": Aspect(
        lambda: list(warnings.filters),
        _write_filters,
        late=True,
        key=_key_of_filters,
        glance=glances.filters,
    ),
    "logging": Aspect(loggers.read, loggers.write, slow=True, late=True, glance=loggers.glance),
    "shell": Aspect(_read_shell, _write_shell, "IPython", of_cells=True),
    "figures": Aspect(_read_inline, _write_inline, "matplotlib_inline.config", imports=True, of_cells=True),
    "random": Generator(random.getstate, lambda _, after: random.setstate(after), late=True, key=random.getstate),
    "numpy.random": Generator(
        _read_numpy_random,
        _write_numpy_random,
        "numpy.random",
        imports=True,
        seed=_seed_numpy,
    ),
    "torch.random": Generator(_read_torch_random, _write_torch_random, "torch", seed=_seed_torch),
    "numpy errors": Aspect(_read_numpy_errors, _write_numpy_errors, "numpy", imports=True, of_context=True),
    "numpy print options": Aspect(_read_numpy_print, _write_numpy_print, "numpy", of_context=True),
    "pandas options": Aspect(
        _read_pandas, _write_pandas, "pandas", imports=True, key=_key_of_pandas, glance=glances.pandas
    ),
    "torch": Aspect(_read_torch, _write_torch, "torch", key=_key_of_torch, glance=_key_of_torch),
    "matplotlib rcParams": Aspect(
        _read_matplotlib,
        _write_matplotlib,
        "matplotlib",
        imports=True,
        key=_key_of_matplotlib,
        glance=glances.matplotlib,
    ),
}
