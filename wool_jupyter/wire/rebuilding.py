"""What a notebook pickle calls on the receiving side. These names stand in pickles: both sides must have them."""

import copyreg
import functools
import inspect
import marshal
import pickle
import sys
import threading
import types
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

NEW_OBJECT = getattr(copyreg, "__newobj__")  # noqa: B009 (mangled otherwise)

FunctionState = tuple[
    str, str, str, str | None, tuple[Any, ...] | None, dict[str, Any] | None, dict[str, Any], dict[str, Any]
]


# Of a context whose notebook functions live apart from the process's `__main__` (`wire.homes`).
namespace: ContextVar[dict[str, Any] | None] = ContextVar("namespace", default=None)


def main_globals() -> dict[str, Any]:
    own = namespace.get()
    return vars(sys.modules["__main__"]) if own is None else own


# marshal writes references by reference count, so equal code gives other bytes: those that arrived are kept for the way back.
_code_bytes: dict[tuple[types.CodeType, str], bytes] = {}
_CODE_CACHE = 4096


def load_code(data: bytes) -> types.CodeType:
    code: types.CodeType = marshal.loads(data)
    if len(_code_bytes) >= _CODE_CACHE:
        _code_bytes.clear()
    _code_bytes[code, code.co_filename] = data
    return code


def dump_code(code: types.CodeType) -> bytes:
    return _code_bytes.get((code, code.co_filename)) or marshal.dumps(code)


def make_function(code: types.CodeType, closure: tuple[types.CellType, ...] | None) -> types.FunctionType:
    return types.FunctionType(code, main_globals(), None, None, closure)


def function_state(f: types.FunctionType) -> FunctionState:
    return (
        f.__name__, f.__qualname__, f.__module__, f.__doc__, f.__defaults__, f.__kwdefaults__, f.__annotations__, dict(vars(f)),
    )  # fmt: skip


def set_function_state(f: types.FunctionType, state: FunctionState) -> None:
    f.__name__, f.__qualname__, f.__module__, f.__doc__, f.__defaults__, f.__kwdefaults__, annotations, attributes = (
        state
    )
    if annotations:
        f.__annotations__ = annotations
    vars(f).clear()
    vars(f).update(attributes)


def global_named(name: str) -> Any:
    return main_globals()[name]


def make_cell() -> types.CellType:
    return types.CellType()


def cell_state(cell: types.CellType) -> tuple[Any, ...]:
    try:
        return (cell.cell_contents,)
    except ValueError:
        return ()


def set_cell(cell: types.CellType, state: tuple[Any, ...]) -> None:
    if state:
        (cell.cell_contents,) = state
    elif cell_state(cell):
        del cell.cell_contents


def make_lru(function: Callable[..., Any], parameters: dict[str, Any], attributes: dict[str, Any]) -> Any:
    made = functools.lru_cache(**parameters)(function)
    vars(made).update(attributes)
    return made


def make_singledispatch(registry: dict[type, Callable[..., Any]], attributes: dict[str, Any]) -> Any:
    made = functools.singledispatch(registry[object])
    for cls, function in registry.items():
        if cls is not object:
            made.register(cls, function)
    vars(made).update(attributes)
    return made


DispatcherState = tuple[dict[type, Callable[..., Any]], dict[str, Any]]
_DISPATCHERS_OWN = ("register", "dispatch", "registry", "_clear_cache")


def is_dispatcher(f: types.FunctionType) -> bool:
    """Made by `functools.singledispatch`."""
    return f.__globals__ is vars(functools) and isinstance(getattr(f, "registry", None), types.MappingProxyType)


def dispatcher_state(f: Any) -> DispatcherState:
    return dict(f.registry), {name: value for name, value in vars(f).items() if name not in _DISPATCHERS_OWN}


def make_cached_property(function: Callable[[Any], Any], name: str | None) -> Any:
    made: Any = functools.cached_property(function)
    made.attrname = name
    return made


def takes(function: Callable[..., Any], args: tuple[Any, ...]) -> bool:
    try:
        inspect.signature(function).bind(*args)
    except TypeError:
        return False
    return True


def new_by_base(cls: Any, *args: Any) -> Any:
    """By the `__new__` of the first base that has none in Python."""
    base: Any = next(c for c in cls.__mro__ if not isinstance(c.__new__, types.FunctionType))
    return base.__new__(cls, *args)


def make_lock(reentrant: bool) -> Any:
    return threading.RLock() if reentrant else threading.Lock()


def set_attributes(obj: Any, state: dict[str, Any]) -> None:
    vars(obj).update(state)


def load_leaf(data: bytes, *buffers: Any) -> Any:
    return pickle.loads(data, buffers=buffers)
