"""Which kernel variables does a cell need, and which names does it bind?

Scoping is the compiler's: every simple statement is compiled alone, and its code says which global names it uses. Only
control flow is walked here, to know which names the cell has surely overwritten before it reads them.

    source ─▶ tree ─▶ _Flow, one statement after the other ─┬─▶ own_names(its code)  reads, stores, deletes
                                                            ├─▶ Sure(its tree)      hard or soft
                                                            └─▶ Scan(its tree)      strings, magics, attributes
"""

from __future__ import annotations
import __future__

import ast
import copy
import re
import warnings
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import takewhile
from types import CodeType
from typing import TYPE_CHECKING, TypeVar

from wool_jupyter.notebook.statements import Embedded, Scan, Sure, without_docstring
from wool_jupyter.wire.code_names import identifiers, nested_codes, own_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_Settled = frozenset[str]  # names whose old value can't be seen any more: the cell assigned or deleted them
_State = _Settled | None  # None: unreachable
_N = TypeVar("_N", bound=ast.AST)

_FUTURE_FLAGS = __future__.annotations.compiler_flag  # of the optional features, the one that matters after parsing
_MODULE_NAMES = frozenset(  # the module's own, and those that the compiler adds
    {"__name__", "__doc__", "__package__", "__loader__", "__spec__", "__file__", "__builtins__", "__annotations__"}
    | {"__conditional_annotations__", "__module__", "__qualname__"}
)
_SWALLOWS_ERRORS = re.compile(r"suppress|raises|ignor", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Capture:
    """Builtins are not filtered out: the notebook may have shadowed them.

    `hard`: read by the cell itself on every path that ends normally, before the cell can have assigned it. `soft`: read
    perhaps (a branch, a function body), or perhaps assigned before.
    `text`: identifiers in strings, magic and shell lines. The three are disjoint. `binds` and `deletes` are what can be
    seen without running: not star imports, nor `exec`. `settles`: what every path that ends normally has bound or deleted.
    """

    hard: frozenset[str]
    soft: frozenset[str]
    text: frozenset[str]
    binds: frozenset[str]
    deletes: frozenset[str]
    attributes: frozenset[str]
    whole_namespace: bool
    settles: frozenset[str] = frozenset()
    submodules: frozenset[str] = frozenset()  # `import a.b` binds `a`, and `a.b` is loaded, too


def analyze(source: str, flags: int = 0, *, filename: str = "<cell>") -> Capture:
    """`source` is Python: `shell.transform_cell` has been applied. `flags` may hold the shell's `__future__` flags.

    A cell is compiled statement by statement: those before one that parses and does not compile (`return`) are run, and it is of no
    matter what follows. SyntaxError, as `compile` raises it, where nothing is run.
    """
    flags = flags & _FUTURE_FLAGS | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the worker compiles the cell too, and warns
        tree = compile(source, filename, "exec", flags=flags | ast.PyCF_ONLY_AST, dont_inherit=True)
        assert isinstance(tree, ast.Module)
        tree, flags = _what_runs(tree, filename, flags)
        flow = _Flow(flags)
        settled = flow.block(tree.body, frozenset(), where=_Where())
    return replace(flow.found.frozen(), settles=settled or frozenset(), submodules=_dotted_imports(tree))


def _what_runs(tree: ast.Module, filename: str, flags: int) -> tuple[ast.Module, int]:
    """With the `__future__` flags that hold in all of it: a late one holds from there on."""
    try:
        return tree, flags | compile(tree, filename, "exec", flags=flags, dont_inherit=True).co_flags & _FUTURE_FLAGS
    except SyntaxError:
        runs = ast.Module(list(takewhile(partial(_compiles, filename=filename, flags=flags), tree.body)), [])
        if not runs.body:
            raise
        is_all = len(runs.body) == len(tree.body)
        return (runs, flags) if is_all else _what_runs(runs, filename, flags)


def _compiles(statement: ast.stmt, filename: str, flags: int) -> bool:
    try:
        compile(ast.Module([statement], []), filename, "exec", flags=flags, dont_inherit=True)
    except SyntaxError:
        return False
    return True


def _dotted_imports(tree: ast.AST) -> frozenset[str]:
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.Import))
    return frozenset(alias.name for node in imports for alias in node.names if "." in alias.name)


@dataclass(slots=True)
class _Findings:
    hard: set[str] = field(default_factory=set)
    soft: set[str] = field(default_factory=set)
    text: set[str] = field(default_factory=set)
    binds: set[str] = field(default_factory=set)
    deletes: set[str] = field(default_factory=set)
    attributes: set[str] = field(default_factory=set)
    whole_namespace: bool = False

    def frozen(self) -> Capture:
        hard, soft = self.hard - _MODULE_NAMES, self.soft - _MODULE_NAMES
        return Capture(
            hard=frozenset(hard),
            soft=frozenset(soft - hard),
            text=frozenset(self.text - _MODULE_NAMES - hard - soft),
            binds=frozenset(self.binds - _MODULE_NAMES),
            deletes=frozenset(self.deletes - _MODULE_NAMES),
            attributes=frozenset(self.attributes),
            whole_namespace=self.whole_namespace,
        )

    def add_embedded(self, other: _Findings, *, binds: bool) -> None:
        self.soft |= other.hard | other.soft
        self.text |= other.text
        self.attributes |= other.attributes
        self.whole_namespace |= other.whole_namespace
        if binds:
            self.binds |= other.binds
            self.deletes |= other.deletes


@dataclass(frozen=True, slots=True)
class _ClassBody:
    """`outside`: settled names as the functions of the class see them; class variables are none of these."""

    name: str
    outside: _Settled
    declared_global: frozenset[str]

    def seen_by_functions(self, settled: _Settled) -> _Settled:
        return self.outside | settled & self.declared_global


@dataclass(frozen=True, slots=True)
class _Where:
    sure: bool = True
    class_body: _ClassBody | None = None

    def maybe(self) -> _Where:
        return replace(self, sure=False)


class _Flow:
    def __init__(self, flags: int) -> None:
        self.found = _Findings()
        self._flags = flags
        self._breaks: list[list[_State]] = []
        self._perhaps_bound: set[str] = set()
        self._star_imported = False

    def block(self, body: Sequence[ast.stmt], settled: _State, *, where: _Where) -> _State:
        for node in body:
            if settled is None:
                return None
            settled = self._statement(node, settled, where=where)
        return settled

    def _statement(self, node: ast.stmt, settled: _Settled, *, where: _Where) -> _State:
        match node:
            case ast.Pass() | ast.Global() | ast.Nonlocal():
                return settled
            case ast.Break():
                self._breaks[-1].append(settled)
                return None
            case ast.Continue():
                return None
            case ast.If():
                return self._if(node, settled, where=where)
            case ast.While():
                return self._while(node, settled, where=where)
            case ast.For() | ast.AsyncFor():
                return self._for(node, settled, where=where)
            case ast.With() | ast.AsyncWith():
                return self._with(node, settled, where=where)
            case ast.Try() | ast.TryStar():
                return self._try(node, settled, where=where)
            case ast.Match():
                return self._match(node, settled, where=where)
            case ast.ClassDef() if where.class_body is None:
                return self._class(node, settled, where=where)
            case ast.Raise():
                self._leaf(node, settled, where=where)
                return None
        return self._leaf(node, settled, where=where)

    def _if(self, node: ast.If, settled: _Settled, *, where: _Where) -> _State:
        settled = self._expression(node.test, settled, where=where)
        return _join(self.block(branch, settled, where=where.maybe()) for branch in (node.body, node.orelse))

    def _while(self, node: ast.While, settled: _Settled, *, where: _Where) -> _State:
        settled = self._expression(node.test, settled, where=where)
        breaks = self._loop_body(node.body, settled, where=where)
        if isinstance(node.test, ast.Constant) and node.test.value:
            return _join(breaks)
        return _join([*breaks, self.block(node.orelse, settled, where=where.maybe())])

    def _for(self, node: ast.For | ast.AsyncFor, settled: _Settled, *, where: _Where) -> _State:
        settled = self._expression(node.iter, settled, where=where)
        inside = self._target(node.target, settled, where=where.maybe())
        breaks = self._loop_body(node.body, inside, where=where)
        return _join([*breaks, self.block(node.orelse, settled, where=where.maybe())])

    def _loop_body(self, body: Sequence[ast.stmt], settled: _Settled, *, where: _Where) -> list[_State]:
        self._breaks.append([])
        self.block(body, settled, where=where.maybe())
        return self._breaks.pop()

    def _with(self, node: ast.With | ast.AsyncWith, settled: _Settled, *, where: _Where) -> _State:
        for item in node.items:
            settled = self._expression(item.context_expr, settled, where=where)
            if item.optional_vars:
                settled = self._target(item.optional_vars, settled, where=where)
        if any(_may_swallow(item.context_expr) for item in node.items):
            self.block(node.body, settled, where=where.maybe())
            return settled
        after = self.block(node.body, settled, where=where)
        return settled if after is None else after

    def _try(self, node: ast.Try | ast.TryStar, settled: _Settled, *, where: _Where) -> _State:
        end = self.block(node.body, settled, where=where.maybe() if node.handlers else where)
        end = self.block(node.orelse, end, where=where.maybe())
        handled = [self._handler(handler, settled, where=where.maybe()) for handler in node.handlers]
        after = _join([end, *handled])
        final = self.block(node.finalbody, settled, where=where)
        return None if after is None or final is None else after | final

    def _handler(self, node: ast.ExceptHandler, settled: _Settled, *, where: _Where) -> _State:
        if node.type:
            settled = self._expression(node.type, settled, where=where)
        if node.name:
            if where.class_body is None:
                self.found.binds.add(node.name)
                self.found.deletes.add(node.name)  # by Python, at the end of the handler
            self._perhaps_bound.add(node.name)
            settled |= {node.name}
        return self.block(node.body, settled, where=where)

    def _match(self, node: ast.Match, settled: _Settled, *, where: _Where) -> _State:
        settled = self._expression(node.subject, settled, where=where)
        ends = [self._case(case, settled, where=where.maybe()) for case in node.cases]
        if not any(_is_irrefutable(case) for case in node.cases):
            ends.append(settled)
        return _join(ends)

    def _case(self, case: ast.match_case, settled: _Settled, *, where: _Where) -> _State:
        alone = ast.match_case(pattern=case.pattern, body=[ast.Pass()])
        settled = self._leaf(_located(ast.Match(ast.Constant(None), [alone])), settled, where=where)
        if case.guard:
            settled = self._expression(case.guard, settled, where=where)
        return self.block(case.body, settled, where=where)

    def _class(self, node: ast.ClassDef, settled: _Settled, *, where: _Where) -> _State:
        """Of the head the bases are evaluated before the body, decorators too; the name is bound last."""
        head = copy.copy(node)
        head.body = [_located(ast.Pass())]
        after = self._leaf(head, settled, where=where)
        inside = settled | {parameter.name for parameter in getattr(node, "type_params", ())}
        declared = frozenset(name for each in node.body if isinstance(each, ast.Global) for name in each.names)
        body = _ClassBody(node.name, inside | {node.name}, declared)
        self.block(without_docstring(node.body), inside | _MODULE_NAMES, where=replace(where, class_body=body))
        return after

    def _expression(self, node: ast.expr, settled: _Settled, *, where: _Where) -> _Settled:
        return self._leaf(ast.copy_location(ast.Expr(node), node), settled, where=where)

    def _target(self, node: ast.expr, settled: _Settled, *, where: _Where) -> _Settled:
        return self._leaf(_located(ast.Assign([node], ast.Constant(None))), settled, where=where)

    def _leaf(self, node: ast.stmt, settled: _Settled, *, where: _Where) -> _Settled:
        """Record one statement without control flow; its nested functions count as soft."""
        outside = where.class_body.seen_by_functions(settled) if where.class_body else settled
        scan = Scan(node, outside)
        code = self._compile(node, where.class_body)
        own = own_names(code)
        sure = Sure.of(node)
        reads = (own.module.reads | own.module.deletes) - outside | own.class_body.reads - settled
        certain = reads & sure.reads - self._perhaps_bound - scan.walrus
        if not where.sure or self._star_imported:
            certain = frozenset()
        self.found.hard |= certain
        self.found.soft |= reads - certain
        self.found.binds |= own.module.stores
        self.found.deletes |= own.module.deletes
        self._nested(code, outside | _names_bound_before_call(node, where))
        settled = self._scanned(scan, settled, outside=outside)
        self._star_imported |= isinstance(node, ast.ImportFrom) and node.names[0].name == "*"
        stored = own.module.stores | own.module.deletes | own.class_body.stores
        self._perhaps_bound |= stored
        # A class variable that is deleted uncovers the global of that name.
        return (settled | stored - (scan.walrus - sure.walrus)) - (own.class_body.deletes - outside)

    def _nested(self, code: CodeType, settled: _Settled) -> None:
        _, *inner = nested_codes(code)
        for each in inner:
            own = own_names(each)
            self.found.soft |= (own.reads | own.module.deletes) - settled
            self.found.binds |= own.module.stores
            self.found.deletes |= own.module.deletes
            self._perhaps_bound |= own.module.stores

    def _compile(self, node: ast.stmt, class_body: _ClassBody | None) -> CodeType:
        """In a class body as the only statement of a class of that name, for mangling and `super()`."""
        if class_body is not None:
            node = _class_around(node, class_body)
        code = self._compile_module([node])
        if class_body is None:
            return code
        return next(constant for constant in code.co_consts if isinstance(constant, CodeType))

    def _compile_module(self, body: list[ast.stmt]) -> CodeType:
        code = compile(ast.Module(body, []), "<statement>", "exec", flags=self._flags, dont_inherit=True)
        assert isinstance(code, CodeType)
        return code

    def _scanned(self, scan: Scan, settled: _Settled, *, outside: _Settled) -> _Settled:
        self.found.attributes |= scan.attributes
        self.found.whole_namespace |= scan.whole_namespace
        for text in scan.texts:
            self.found.text |= identifiers(text) - outside
        for each in scan.embedded:
            settled |= self._embedded(each, outside)
        return settled

    def _embedded(self, part: Embedded, settled: _Settled) -> _Settled:
        """Code in a string. What can't be parsed is text. Returns the names that it settles for what follows."""
        inner = _Flow(self._flags)
        try:
            body = ast.parse(part.code).body
            self._compile_module(body)
        except (SyntaxError, ValueError):
            self.found.text |= identifiers(part.code) - settled
            return frozenset()
        end = inner.block(body, settled, where=_Where())
        self.found.add_embedded(inner.found, binds=part.binds)
        self._perhaps_bound |= inner.found.binds if part.binds else frozenset()
        return end if part.binds and end is not None else frozenset()


def _names_bound_before_call(node: ast.stmt, where: _Where) -> frozenset[str]:
    """A function that calls itself finds the new one."""
    match node:
        case _ if where.class_body is not None:
            return frozenset()
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return frozenset({node.name})
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Lambda()):
            return frozenset({name})
    return frozenset()


def _join(states: Iterable[_State]) -> _State:
    reachable = [state for state in states if state is not None]
    return frozenset.intersection(*reachable) if reachable else None


def _may_swallow(manager: ast.expr) -> bool:
    """By its name: what else would a manager that swallows exceptions be called?"""
    called = manager.func if isinstance(manager, ast.Call) else manager
    return bool(_SWALLOWS_ERRORS.search(ast.unparse(called)))


def _is_irrefutable(case: ast.match_case) -> bool:
    return case.guard is None and isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None


def _class_around(node: ast.stmt, body: _ClassBody) -> ast.ClassDef:
    around = ast.parse("class _: pass").body[0]  # parsed, so that it has all fields of this Python's ClassDef
    assert isinstance(around, ast.ClassDef)
    around.name = body.name
    declaration: list[ast.stmt] = [_located(ast.Global([*body.declared_global]))] if body.declared_global else []
    around.body = [*declaration, node]
    return around


def _located(node: _N) -> _N:
    return ast.fix_missing_locations(node)
