"""Runs inside a kernel under test, as the module `suite_graph`: objects as flat text, with all that is shared.

`describe` gives `{path: text}`. An object with an identity is described where it is met first; elsewhere its text is
`is <first path>`. Two namespaces are alike if their descriptions are equal: values, types, order and aliases.
"""

import collections
import contextlib
import datetime
import decimal
import enum
import fractions
import functools
import hashlib
import io
import itertools
import json
import linecache
import logging
import pathlib
import re
import sys
import types
import uuid
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

MANY = 50  # items; a longer row of plain values is one text
LONG = 400  # characters; a longer text is cut, and its hash tells the rest

_ATOMS = (str, bytes, int, float, complex, bool, type(None), type(...), type(NotImplemented), range, slice)
_BY_VALUE = (
    datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo, decimal.Decimal, fractions.Fraction, pathlib.PurePath,
    re.Pattern, uuid.UUID, types.GenericAlias, types.UnionType, types.MemberDescriptorType, types.GetSetDescriptorType,
    types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType,
)  # fmt: skip
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE
_OF_INTERPRETER = frozenset(
    "__dict__ __weakref__ __module__ __qualname__ _abc_impl __firstlineno__ __static_attributes__ "
    "__annotate_func__ __annotations_cache__ __slotnames__".split()
)
_OF_SHELL = frozenset("get_ipython exit quit open In Out".split())  # `_`, `__`, `_1`, `_i`, `_ih` … begin with _

Parts = list[tuple[str, Any]]


class Described(NamedTuple):
    text: str
    parts: Parts
    has_identity: bool = True


def namespace(names: Mapping[str, Any]) -> dict[str, str]:
    """Of a notebook: without what the shell or the interpreter has put there."""
    hidden = re.compile(r"__\w+__|_|__|___|_i+|_i?\d+|_[iod]h|_exit_code")
    return describe({k: v for k, v in names.items() if k not in _OF_SHELL and not hidden.fullmatch(k)})


def observe(file: str, *, state: Mapping[str, Any]) -> None:
    """Writes what is to be compared: the names, the state of the process, and the error that the last cell has left."""
    last = getattr(sys, "last_value", None)
    found = {
        "names": namespace(vars(sys.modules["__main__"])),
        "state": describe(state),
        "error": {} if last is None else describe({"error": last}),
    }
    pathlib.Path(file).write_text(json.dumps(found), encoding="utf-8", errors="backslashreplace")


def describe(roots: Mapping[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    first: dict[int, str] = {}
    alive: list[Any] = []  # a path stands for an id only as long as its object lives
    arrays: list[tuple[str, Any]] = []
    waiting = collections.deque((name, roots[name]) for name in sorted(roots))
    while waiting:
        path, obj = waiting.popleft()
        if id(obj) in first:
            found[path] = f"is {first[id(obj)]}"
            continue
        text, parts, has_identity = _described(obj)
        if has_identity:
            first[id(obj)] = path
            alive.append(obj)
        if is_array(obj):
            text += _memory(path, obj, arrays)
        found[path] = _short(text)
        waiting.extend((path + step, part) for step, part in parts)
    return found


_PASSING = re.compile(r"(?<= at )0x[0-9a-f]+|/tmp/ipykernel_\d+/\d+\.py|<ipython-input[^>\s]*>|\b\d{6,}\.py\b")


def _short(text: str) -> str:
    text = _PASSING.sub("…", text)
    if len(text) <= LONG:
        return text
    return f"{text[:LONG]}… {len(text)} {hashlib.sha1(text.encode(errors='backslashreplace')).hexdigest()}"


def _described(obj: Any) -> Described:
    cls = type(obj)
    if cls in weakref.ProxyTypes:  # what it stands for may be gone
        return Described("weak proxy", [])
    if isinstance(obj, enum.Enum):
        attributes = [(f".{k}", v) for k, v in vars(obj).items() if k not in ("_sort_order_", "__objclass__")]
        return Described(f"member {obj.name}", [(".__class__", cls), *attributes])
    if cls in _ATOMS:
        return Described(f"{cls.__name__} {obj!r}", [], has_identity=False)
    if cls.__name__ in ("Kept", "Absent") and cls.__module__.startswith("wool_jupyter"):
        return Described(f"a stand-in: {obj!r}", [])
    if cls in (list, tuple) and len(obj) > MANY and all(type(each) in _ATOMS for each in obj):
        return Described(f"{cls.__name__} {obj!r}", [])
    if cls in (list, tuple, collections.deque):
        text = f"{cls.__name__} of {len(obj)}" + (f", at most {obj.maxlen}" if cls is collections.deque else "")
        return Described(text, [(f"[{i}]", each) for i, each in enumerate(obj)], not _is_constant(obj))
    if cls in (set, frozenset):
        return Described(f"{cls.__name__} of {len(obj)}", _of_set(obj), not _is_constant(obj))
    if cls is dict:
        return Described(f"dict of {len(obj)}", _of_dict(obj))
    if isinstance(obj, _BY_VALUE) and not _of_notebook(cls):
        return Described(f"{cls.__name__} {obj!r}", [], has_identity=False)
    for kind, describe_it in _BY_TYPE:
        if isinstance(obj, kind):
            return describe_it(obj)
    if is_array(obj):
        return _array(obj)
    library = cls.__module__.partition(".")[0]
    if hasattr(cls, "_update_inplace") and hasattr(obj, "_mgr"):
        return _pandas(obj)
    if library == "pandas" and cls.__name__.endswith("Index"):
        return Described(f"{cls.__name__} {obj.dtype} {list(obj.names)} {obj.tolist()!r}", [], has_identity=False)
    if cls.__name__ == "cython_function_or_method":
        return Described(f"function {obj.__module__}.{obj.__qualname__}", [], has_identity=False)
    if library == "matplotlib" and not isinstance(obj, dict):
        return Described(
            f"{cls.__module__}.{cls.__qualname__}", []
        )  # full of addresses and callbacks: its picture tells
    if library == "polars" and cls.__name__ in ("DataFrame", "Series"):
        schema = obj.schema if cls.__name__ == "DataFrame" else (obj.name, obj.dtype)
        rows = obj.rows() if cls.__name__ == "DataFrame" else obj.to_list()
        return Described(f"polars {cls.__name__} {schema} {rows!r}", [])
    return _instance(obj)


def _is_constant(obj: Any) -> bool:
    """Equal ones may be one object or not: it depends on who has compiled them."""
    return type(obj) in _ATOMS or (type(obj) in (tuple, frozenset) and all(map(_is_constant, obj)))


def _of_notebook(cls: type) -> bool:
    return cls.__module__ == "__main__"


def _of_dict(mapping: Mapping[Any, Any]) -> Parts:
    parts: Parts = []
    for i, (key, value) in enumerate(mapping.items()):
        if type(key) is str and key == "__builtins__":
            continue
        if type(key) in _ATOMS:
            parts.append((f"[{key!r}]", value))
        else:
            parts += [(f".key({i})", key), (f".value({i})", value)]
    return [*parts, (".order", _short(" ".join(_key(key) for key in mapping)))]


def _of_set(items: Any) -> Parts:
    return [(f"{{{i}}}", each) for i, each in enumerate(sorted(items, key=_key))]


def _key(obj: Any) -> str:
    """To order by: no identity in it, and no order of a set."""
    if isinstance(obj, tuple | frozenset):
        return f"{type(obj).__name__}({sorted(map(_key, obj)) if isinstance(obj, frozenset) else list(map(_key, obj))})"
    if isinstance(obj, type | types.FunctionType):
        return f"{obj.__module__}.{obj.__qualname__}"
    return f"{type(obj).__name__} {_short(repr(obj))}"


# ---- code


def _is_importable(obj: Any) -> bool:
    module, name = getattr(obj, "__module__", None), getattr(obj, "__qualname__", None)
    if module in (None, "__main__") or name is None:
        return False
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is obj


def _class(cls: type) -> Described:
    if _is_importable(cls):
        return Described(f"class {cls.__module__}.{cls.__qualname__}", [], has_identity=False)
    text = f"class {cls.__qualname__} of {cls.__module__}, slots {'__dict__' not in dir(cls)}"
    text += f", abstract {sorted(getattr(cls, '__abstractmethods__', ()))}"
    parts: Parts = [(".__bases__", cls.__bases__), (".__metaclass__", type(cls))]
    parts += [
        (f".{name}", value)
        for name, value in sorted(vars(cls).items())
        if name not in _OF_INTERPRETER and not (name == "__annotations__" and not value)
    ]
    if "_abc_impl" in vars(cls):
        import _abc

        registered = [ref() for ref in _abc._get_dump(cls)[0]]
        parts += [(".registered", {each for each in registered if each is not None})]
    return Described(text, parts)


def _function(f: types.FunctionType) -> Described:
    if _is_importable(f):
        return Described(f"function {f.__module__}.{f.__qualname__}", [], has_identity=False)
    if hasattr(f, "registry") and f.__globals__ is vars(functools):
        return Described(f"singledispatch {f.__qualname__}", [(".registry", dict(f.registry))])
    where = "the notebook" if f.__globals__ is vars(sys.modules["__main__"]) else f.__globals__.get("__name__")
    parts: Parts = [(".__code__", f.__code__), (".__defaults__", f.__defaults__), (".__kwdefaults__", f.__kwdefaults__)]
    parts += [(".__dict__", vars(f)), *([(".__annotations__", f.__annotations__)] if f.__annotations__ else [])]
    cells = zip(f.__code__.co_freevars, f.__closure__ or (), strict=True)
    parts += [(f".<closure {name}>", cell) for name, cell in cells]
    return Described(f"function {f.__qualname__} of {f.__module__} in {where}: {f.__doc__}", parts)


def _code(code: types.CodeType) -> Described:
    names = code.co_name, code.co_qualname, code.co_firstlineno, code.co_flags, code.co_names, code.co_varnames
    lines = "".join(linecache.getlines(code.co_filename)[code.co_firstlineno - 1 :][:1]).strip()
    consts = [c for c in code.co_consts if not isinstance(c, types.CodeType)]
    inner = [c for c in code.co_consts if isinstance(c, types.CodeType)]
    body = hashlib.sha1(code.co_code).hexdigest()[:12]
    text = f"code {names} {list(code.co_positions())[-1]} {lines!r} {body} {sorted(map(_key, consts))}"
    return Described(text, [(f".inner[{i}]", each) for i, each in enumerate(inner)], has_identity=False)


def _cell(cell: types.CellType) -> Described:
    try:
        return Described("cell", [(".cell_contents", cell.cell_contents)])
    except ValueError:
        return Described("an empty cell", [])


def _method(method: types.MethodType) -> Described:
    return Described("method", [(".__self__", method.__self__), (".__func__", method.__func__)], has_identity=False)


def _builtin(f: types.BuiltinFunctionType) -> Described:
    owner = f.__self__
    parts = [] if owner is None or isinstance(owner, types.ModuleType) else [(".__self__", owner)]
    return Described(f"builtin {f.__qualname__}", parts, has_identity=False)


def _lru(f: Any) -> Described:
    text = f"lru_cache {f.cache_parameters()} {f.cache_info()}"
    return Described(
        text, [(".__wrapped__", f.__wrapped__), (".__dict__", _without(vars(f), "__wrapped__", "cache_parameters"))]
    )


def _without(mapping: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in mapping.items() if name not in names}


def _generator(generator: Any) -> Described:
    frame = generator.gi_frame
    at = "ended" if frame is None else f"at line {frame.f_lineno}"
    return Described(
        f"generator {generator.__qualname__} {at}", [] if frame is None else [(".locals", dict(frame.f_locals))]
    )


# ---- exceptions


def is_of_cell(filename: str) -> bool:
    from IPython import get_ipython

    return filename in get_ipython().compile._filename_map or filename.startswith("<ipython-input")


def traceback_lines(traceback: types.TracebackType | None) -> Iterator[str]:
    """Of cells; not the line of the magic, which a plain cell does not have."""
    while traceback is not None:
        code = traceback.tb_frame.f_code
        line = linecache.getline(code.co_filename, traceback.tb_lineno).strip()
        if is_of_cell(code.co_filename) and "run_cell_magic('wool'" not in line:
            yield f"{traceback.tb_lineno} in {code.co_name}: {line}"
        traceback = traceback.tb_next


def _exception(error: BaseException) -> Described:
    lines = [line for line, _ in itertools.groupby(traceback_lines(error.__traceback__))]  # of a recursion: one
    parts: Parts = [(".__class__", type(error)), (".args", error.args)]
    parts += [(f".{name}", value) for name, value in sorted(_fields(error))]
    # What IPython and this package put there to show it
    parts += [(f".{k}", v) for k, v in vars(error).items() if k not in ("_render_traceback_", "_ipython_error_tb")]
    parts += [(".__cause__", error.__cause__), (".__context__", error.__context__)]
    return Described(f"exception {type(error).__name__}, {error.__suppress_context__}, lines {lines}", parts)


def _fields(error: BaseException) -> Iterator[tuple[str, Any]]:
    for base in type(error).__mro__:
        hidden = (
            {"args", "obj"} if base is AttributeError else {"args"}
        )  # its `obj` may be very large, and does not travel
        for name, member in vars(base).items():
            is_field = isinstance(member, types.MemberDescriptorType | types.GetSetDescriptorType)
            if is_field and name[:2] != "__" and name not in hidden and hasattr(error, name):
                yield name, getattr(error, name)


# ---- data


def is_array(obj: Any) -> bool:
    numpy: Any = sys.modules.get("numpy")
    return numpy is not None and issubclass(type(obj), numpy.ndarray)  # asked itself, a weak proxy may fail


def _array(array: Any) -> Described:
    flags = array.flags
    text = f"{type(array).__name__} {array.dtype!r} {array.shape} C {flags.c_contiguous} F {flags.f_contiguous} W {flags.writeable}"
    parts: Parts = [(".__dict__", vars(array))] if hasattr(array, "__dict__") else []
    if hasattr(array, "fill_value"):  # made when somebody looks
        parts = [(".mask", array.mask), (".fill_value", array.fill_value.item()), (".hardmask", array.hardmask)]
    if array.dtype.hasobject:
        return Described(text, [*parts, (".items", array.tolist())])
    return Described(f"{text} {array.tolist()!r}", parts)


def _memory(path: str, array: Any, met: list[tuple[str, Any]]) -> str:
    """Which of the arrays that were met it shares bytes with."""
    numpy: Any = sys.modules["numpy"]
    address = array.__array_interface__["data"][0]
    shared = [
        f"{other_path} at {address - other.__array_interface__['data'][0]}"
        for other_path, other in met
        if numpy.may_share_memory(array, other) and numpy.shares_memory(array, other, max_work=100_000)
    ]
    met.append((path, array))
    return f", in the memory of {', '.join(shared)}" if shared else ""


def _pandas(frame: Any) -> Described:
    text = f"{type(frame).__name__} {frame.shape} {frame.flags}"
    parts: Parts = [(".__class__", type(frame)), (".attrs", frame.attrs), (".index", frame.index)]
    parts += [(f".{name}", getattr(frame, name, None)) for name in frame._metadata if name != "_name"]
    if frame.ndim == 1:
        return Described(f"{text} {frame.name!r} {frame.dtype!r} {frame.tolist()!r}", parts)
    columns = [(str(frame.dtypes.iloc[i]), frame.iloc[:, i].tolist()) for i in range(frame.shape[1])]
    return Described(f"{text} {columns!r}", [*parts, (".columns", frame.columns)])


def _instance(obj: Any) -> Described:
    """A class of Python by its attributes, others as they pickle."""
    cls = type(obj)
    parts: Parts = [(".__class__", cls)]
    if "__getattr__" not in dir(cls) and cls.__flags__ & _HEAP_TYPE and _attributes(obj) is not None:
        attributes = _attributes(obj)
        assert attributes is not None
        return Described(f"object of {cls.__qualname__}", [*parts, *_contents(obj), *attributes])
    if hasattr(obj, "__dict__") and "__getattr__" in dir(cls):
        return Described(f"object of {cls.__qualname__}", [*parts, *((f".{k}", v) for k, v in vars(obj).items())])
    try:
        reduced = obj.__reduce_ex__(4)
    except Exception:
        return Described(f"{cls.__qualname__} {repr(obj) if type(obj).__repr__ is not object.__repr__ else ''}", parts)
    if isinstance(reduced, str):
        return Described(f"{cls.__qualname__} {reduced}", parts)
    maker, args, *rest = reduced
    rest = [list(each) if isinstance(each, Iterator) else each for each in rest]
    return Described(f"object of {cls.__qualname__}", [(".maker", maker), (".made of", args), (".state", rest)])


def _contents(obj: Any) -> Parts:
    """Of a subclass of a builtin."""
    if isinstance(obj, dict):
        return [*_of_dict(dict(dict.items(obj)))]
    if isinstance(obj, set | frozenset):
        return _of_set(obj)
    if isinstance(obj, list | tuple):
        return [(f"[{i}]", each) for i, each in enumerate(obj)]
    for kind in (int, float, str, bytes, bytearray):
        if isinstance(obj, kind):
            return [(" value", repr(kind(obj)))]
    if isinstance(obj, collections.deque):
        return [(f"[{i}]", each) for i, each in enumerate(obj)]
    return []


def _attributes(obj: Any) -> Parts | None:
    """None: it has no attributes of Python's."""
    found: Parts = [(f".{name}", value) for name, value in vars(obj).items()] if hasattr(obj, "__dict__") else []
    has_any = hasattr(obj, "__dict__") or isinstance(obj, int | float | str | tuple | list | dict | set | frozenset)
    for cls in type(obj).__mro__:
        for name, member in vars(cls).items():
            if isinstance(member, types.MemberDescriptorType) and cls.__flags__ & _HEAP_TYPE and name[:2] != "__":
                has_any = True
                with contextlib.suppress(AttributeError):
                    found.append((f".{name}", member.__get__(obj)))
    return found if has_any else None


def _file(file: Any) -> Described:
    at = None
    with contextlib.suppress(OSError, ValueError):  # closed, or no file that has places
        at = file.tell()
    return Described(
        f"file {getattr(file, 'name', None)!r} {getattr(file, 'mode', None)} closed {file.closed} at {at}", []
    )


_BY_TYPE: list[tuple[Any, Callable[[Any], Described]]] = [
    (type, _class),
    (types.FunctionType, _function),
    (types.CodeType, _code),
    (types.CellType, _cell),
    (types.MethodType, _method),
    (types.BuiltinFunctionType, _builtin),
    (types.ModuleType, lambda module: Described(f"module {module.__name__}", [], has_identity=False)),
    (types.GeneratorType, _generator),
    (logging.Logger, lambda log: Described(f"logger {log.name}", [], has_identity=False)),
    (BaseException, _exception),
    (property, lambda p: Described(f"property {p.__doc__}", [(f".{n}", getattr(p, n)) for n in ("fget", "fset", "fdel")])),
    ((staticmethod, classmethod), lambda m: Described(type(m).__name__, [(".__func__", m.__func__)])),
    (functools._lru_cache_wrapper, _lru),
    (functools.cached_property, lambda p: Described(f"cached_property {p.attrname}", [(".func", p.func)])),
    (weakref.ref, lambda ref: Described("weakref", [("()", ref())])),
    (types.MappingProxyType, lambda proxy: Described("mappingproxy", [(".copy()", dict(proxy))], has_identity=False)),
    (memoryview, lambda view: Described(f"memoryview {bytes(view)!r}", [])),
    (bytearray, lambda data: Described(f"{type(data).__name__} {bytes(data)!r}", [])),
    ((io.TextIOWrapper, io.BufferedIOBase, io.RawIOBase), _file),
]  # fmt: skip
