"""What a cell says of names that background jobs are to bind: which it reads, which it will change."""

import ast
import functools
import itertools
import re
import types
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any

from wool_jupyter.notebook.capture import Capture
from wool_jupyter.wire import code_names, patching, type_facts

_RUN_MAGIC = frozenset({"run_line_magic", "run_cell_magic"})
_RUNS_CODE = frozenset({"time", "capture", "timeit", "prun"})  # their code has been analyzed as code
_SHELL_MAGICS = frozenset({"bash", "sh", "script", "sx", "system", "cd", "writefile"})
_COMMANDS = frozenset({"system", "getoutput"})
_QUERIES = frozenset("query eval evaluate sql execute read_sql ols logit glm".split())
_EVALUATE = _RUN_MAGIC | _COMMANDS | _QUERIES | {"exec"}
_ONLY_WRAP = frozenset(
    "property setter getter deleter cached_property classmethod staticmethod abstractmethod overload override "
    "cache lru_cache wraps contextmanager asynccontextmanager dataclass total_ordering".split()
)
_IN_COMMANDS = re.compile(r"\{([^{}]*)\}|\$(\w+)")
_ITEMS = 100  # of a container that is searched for functions
_OBJECTS = 10_000  # that are looked at
_LOGGER = "logging"


def names_read(
    tree: ast.AST, capture: Capture, namespace: Mapping[str, Any], wanted: Container[str]
) -> set[str] | None:
    """Those that the cell reads, also by the functions and classes that it uses; None: perhaps any. A name that it only deletes is
    not read, nor is one that stands in the body of a function that it only defines, or merely in a text: unless a magic or a query
    reads that text."""
    if capture.whole_namespace:
        return None
    found = (capture.hard | capture.soft) - only_deleted(tree, capture) - only_defined(tree)
    return names_reached({*found, *_spoken(tree)}, namespace, wanted)


def names_reached(names: Iterable[str], namespace: Mapping[str, Any], wanted: Container[str]) -> set[str] | None:
    """These, and those that their functions and classes read; None: perhaps any."""
    waiting = set(names)
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        seen.add(name)
        if name in wanted or name not in namespace:
            continue
        for function in _functions(namespace[name], namespace):
            reads = code_names.function_reads(function.__code__)
            if reads.whole_namespace:
                return None
            waiting |= reads.names - seen
    return seen


def only_deleted(tree: ast.AST, capture: Capture) -> frozenset[str]:
    loaded = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    return capture.deletes - loaded


def only_defined(tree: ast.AST) -> set[str]:
    """Names that stand in no code but that of functions which the cell makes and does not use."""
    bodies: dict[str, list[ast.AST]] = {}
    runs = _mentioned(_outside_definitions([tree], bodies))
    waiting = runs & bodies.keys()
    while waiting:
        found = _mentioned(itertools.chain.from_iterable(map(ast.walk, bodies.pop(waiting.pop()))))
        runs |= found
        waiting |= found & bodies.keys()
    return _mentioned(node for body in bodies.values() for each in body for node in ast.walk(each)) - runs


def _outside_definitions(
    nodes: Iterable[ast.AST], bodies: dict[str, list[ast.AST]], owner: str = ""
) -> Iterator[ast.AST]:
    """What runs with the cell. `bodies` gets the rest by the name that it is used by: its own, or that of its class."""
    for node in nodes:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() if _is_only_made(node):
                bodies.setdefault(owner or node.name, []).extend(node.body)
                yield from itertools.chain.from_iterable(map(ast.walk, [*node.decorator_list, node.args]))
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Lambda() as made):
                bodies.setdefault(owner or name, []).append(made.body)
                yield from ast.walk(made.args)
            case ast.ClassDef() if _is_only_made(node):
                yield from _outside_definitions([*node.decorator_list, *node.bases, *node.keywords], bodies)
                yield from _outside_definitions(node.body, bodies, owner or node.name)
            case _:
                yield node
                yield from _outside_definitions(ast.iter_child_nodes(node), bodies, owner)


def _is_only_made(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    """Whether its decorators are known to call nothing of it."""
    for decorator in node.decorator_list:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        if getattr(called, "attr", getattr(called, "id", "")) not in _ONLY_WRAP:
            return False
    return True


def _mentioned(nodes: Iterable[ast.AST]) -> set[str]:
    """Names that are read or deleted by these, also by code in texts."""
    names: set[str] = set()
    for node in nodes:
        match node:
            case ast.Name(id=name, ctx=ast.Load() | ast.Del()) | ast.AugAssign(target=ast.Name(id=name)):
                names.add(name)
            case ast.Call(func=ast.Attribute(attr=called) | ast.Name(id=called)) if called in _EVALUATE:
                texts = (part.value for part in ast.walk(node) if isinstance(part, ast.Constant))
                names.update(*(code_names.identifiers(text) for text in texts if isinstance(text, str)))
    return names


def names_bound(capture: Capture) -> set[str]:
    """Names that a cell will bind or delete."""
    return {*capture.binds, *capture.deletes} - {"_"}


def names_imported(tree: ast.AST) -> set[str]:
    return {
        alias.asname or alias.name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }


def names_changed(tree: ast.Module, namespace: Mapping[str, Any]) -> set[str]:
    """Names whose objects the cell plainly changes in place: it stores into them, or calls a method for its effect."""
    return {
        name
        for name, method in _touched(tree)
        if name in namespace and (method is None or _may_change_by(namespace[name], method))
    }


def _may_change_by(value: Any, call: ast.Call) -> bool:
    if isinstance(value, type | types.FunctionType | types.ModuleType) or type(value).__module__ == _LOGGER:
        return False
    if type_facts.is_frame(type(value)):
        return any(keyword.arg == "inplace" for keyword in call.keywords)
    return patching.kind_of(type(value)) is not None


def _touched(tree: ast.Module) -> Iterator[tuple[str, ast.Call | None]]:
    for node in _outside_functions(tree.body):
        match node:
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner)) as call) if name := _root(owner):
                yield name, call
            case ast.Subscript(ctx=ast.Store() | ast.Del()) | ast.Attribute(ctx=ast.Store() | ast.Del()):
                if name := _root(node):
                    yield name, None


def _outside_functions(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    for node in nodes:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            yield node
            yield from _outside_functions(ast.iter_child_nodes(node))


def _root(node: ast.expr) -> str | None:
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def _spoken(tree: ast.AST) -> Iterator[str]:
    """Names in texts that somebody will read as code."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr=attr), args=[ast.Constant(value=str(magic)), *parts]) if (
                attr in _RUN_MAGIC
            ):
                if magic != "wool" and magic not in _RUNS_CODE:
                    yield from _in_texts(parts, commands=magic in _SHELL_MAGICS)
            case ast.Call(func=ast.Attribute(attr=attr), args=parts) if attr in _COMMANDS:
                yield from _in_texts(parts, commands=True)
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=parts) if name in _QUERIES:
                yield from _in_texts(parts, commands=False)


def _in_texts(parts: Iterable[ast.expr], *, commands: bool) -> Iterator[str]:
    for part in parts:
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            texts = map("".join, _IN_COMMANDS.findall(part.value)) if commands else [part.value]
            for text in texts:
                yield from code_names.identifiers(text)


def _functions(value: Any, namespace: Mapping[str, Any]) -> Iterator[types.FunctionType]:
    """Of the notebook, that `value` is, is made of, or holds: among the first objects in it, for data may be large."""
    waiting, seen = [value], set[int]()
    while waiting and len(seen) < _OBJECTS:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if type(each) is types.FunctionType:
            if each.__globals__ is namespace:
                yield each
            waiting += _cells_of(each)
            waiting.append(each.__dict__.get("__wrapped__"))
        else:
            waiting += _parts(each)


def _cells_of(function: types.FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not filled yet
            continue


def _parts(value: Any) -> list[Any]:
    """No method of the user's is called on the way."""
    kind = type(value)
    if kind in (list, tuple, set, frozenset):
        return list(itertools.islice(value, _ITEMS))
    if kind is dict:
        return list(itertools.islice(value.values(), _ITEMS))
    if kind is types.MethodType:
        return [value.__func__, value.__self__]
    if kind is functools.partial:
        return [value.func, *value.args]
    if kind in (staticmethod, classmethod):
        return [value.__func__]
    if kind is property:
        return [value.fget, value.fset, value.fdel]
    if kind is functools._lru_cache_wrapper:
        return [value.__wrapped__]
    if issubclass(kind, type):
        return [*vars(value).values(), *value.__bases__] if value.__module__ == "__main__" else []
    if kind.__module__ != "__main__":
        return []
    try:
        own = object.__getattribute__(value, "__dict__")
    except AttributeError:  # slots
        own = {}
    return [kind, *itertools.islice(own.values(), _ITEMS)]
