"""What one statement says: strings, magics and attributes in it, and which of its names it surely evaluates."""

from __future__ import annotations

import ast
import copy
import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_LEADING_OPTIONS = re.compile(r"(?:\s*-[a-zA-Z]+\s*\d*\s)*")
_RUN_MAGIC = frozenset({"run_line_magic", "run_cell_magic"})
_RUNS_IN_NAMESPACE = frozenset({"time", "capture"})
_RUNS_APART = frozenset({"timeit", "prun", "memit", "mprun", "lprun"})
_LISTS_NAMESPACE = frozenset({"who", "whos", "who_ls", "psearch"})
_EVALUATORS = frozenset({"exec", "eval"})
_WHOLE_WITHOUT_ARGUMENTS = frozenset({"locals", "vars", "dir"})


class Embedded(NamedTuple):
    code: str
    binds: bool


class Scan(ast.NodeVisitor):
    """What a statement says beside its global names. `settled` tells the builtin `exec` from the cell's own."""

    def __init__(self, statement: ast.stmt, settled: frozenset[str]) -> None:
        self.attributes: set[str] = set()
        self.walrus: set[str] = set()
        self.texts: list[str] = []
        self.embedded: list[Embedded] = []
        self.whole_namespace = False
        self._statement_value = statement.value if isinstance(statement, ast.Expr) else None
        self._prints = {"print"} - settled
        self._evaluators = _EVALUATORS - settled
        self._whole_by_mention = self._evaluators | {"globals"} - settled
        self._whole_without_arguments = _WHOLE_WITHOUT_ARGUMENTS - settled
        self._function_depth = 0
        self.visit(statement)

    def visit_Expr(self, node: ast.Expr) -> None:
        """A text that stands alone is a comment, or what the cell shows."""
        self._visit_spoken(node.value)

    def visit_Raise(self, node: ast.Raise) -> None:
        match node.exc:
            case ast.Call(func=function, args=args, keywords=keywords):
                self.visit(function)
                self._visit_spoken(*args, *(keyword.value for keyword in keywords))
            case ast.expr() as error:
                self.visit(error)
        if node.cause:
            self.visit(node.cause)

    def visit_Assert(self, node: ast.Assert) -> None:
        self.visit(node.test)
        if node.msg:
            self._visit_spoken(node.msg)

    def _visit_spoken(self, *nodes: ast.AST) -> None:
        """Texts among these are for people: no word in them is a variable that somebody reads."""
        for node in nodes:
            match node:
                case ast.Constant(value=str()):
                    pass
                case ast.JoinedStr(values=parts):
                    self._visit_spoken(*parts)
                case ast.FormattedValue(value=value, format_spec=spec):
                    self.visit(value)
                    self._visit_spoken(*([spec] if spec else []))
                case ast.BinOp():
                    self._visit_spoken(*_terms(node))
                case ast.Call(func=ast.Attribute(value=ast.Constant(value=str()), attr="format"), args=args):
                    for each in [*args, *node.keywords]:
                        self.visit(each)
                case _:
                    self.visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self.texts.append(node.value)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.attributes.add(node.attr)
        self.visit(node.value)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        for term in _terms(node):
            self.visit(term)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.walrus.add(node.target.id)
        self.visit(node.value)

    def visit_Name(self, node: ast.Name) -> None:
        self.whole_namespace |= node.id in self._whole_by_mention and isinstance(node.ctx, ast.Load)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        head = copy.copy(node)
        head.body = []
        self.generic_visit(head)
        self._visit_body(without_docstring(node.body))

    visit_AsyncFunctionDef = visit_ClassDef = visit_FunctionDef  # noqa: N815

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.visit(node.args)
        self._visit_body([node.body])

    def visit_Call(self, node: ast.Call) -> None:
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in self._evaluators:
                self._evaluator(node, name)
            case ast.Call(func=ast.Name(id=name), args=[], keywords=[]) if name in self._whole_without_arguments:
                self.whole_namespace |= self._function_depth == 0
            case ast.Call(func=ast.Attribute(attr=attr), args=[*parts]) if attr in _RUN_MAGIC and _is_magic(parts):
                self.visit(node.func)
                self._magic(node, *[ast.literal_eval(part) for part in parts])
            case ast.Call(func=ast.Name(id=name), args=parts, keywords=keywords) if name in self._prints:
                self._visit_spoken(*parts, *(keyword.value for keyword in keywords))
            case _:
                self.generic_visit(node)

    def _evaluator(self, node: ast.Call, name: str) -> None:
        match node.args:
            case [ast.Constant(value=str(code))] if not node.keywords:
                self.embedded.append(Embedded(code, binds=name == "exec" and node is self._statement_value))
                return
            case [_] | [_, ast.Constant(value=None), *_] | [ast.Starred(), *_]:
                self.whole_namespace = True  # otherwise it is given a namespace of its own
        for argument in [*node.args, *node.keywords]:
            self.visit(argument)

    def _magic(self, node: ast.Call, name: str, line: str = "", body: str | None = None) -> None:
        options, arguments = _split_options(line)
        self.whole_namespace |= name in _LISTS_NAMESPACE or (name == "run" and "i" in options)
        if name not in _RUNS_IN_NAMESPACE | _RUNS_APART:
            self.texts += [line, body or ""]
            return
        head = "" if name == "capture" else arguments
        binds = name in _RUNS_IN_NAMESPACE and node is self._statement_value
        self.embedded.append(Embedded(head if body is None else f"{head}\n{body}", binds))

    def _visit_body(self, body: Iterable[ast.AST]) -> None:
        self._function_depth += 1
        for node in body:
            self.visit(node)
        self._function_depth -= 1


class Sure(NamedTuple):
    """Names that a statement surely reads, or binds by walrus, whatever its conditions turn out to be."""

    reads: frozenset[str]
    walrus: frozenset[str]

    @classmethod
    def of(cls, statement: ast.stmt) -> Sure:
        nodes = list(_evaluated(statement))
        return cls(
            frozenset(node.id for node in nodes if isinstance(node, ast.Name)),
            frozenset(node.target.id for node in nodes if isinstance(node, ast.NamedExpr)),
        )


def _evaluated(node: ast.AST) -> Iterator[ast.AST]:
    pending = [node]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(_evaluated_children(node))


def _evaluated_children(node: ast.AST) -> Iterable[ast.AST]:
    match node:
        case ast.IfExp() | ast.Assert():
            return [node.test]
        case ast.BoolOp():
            return node.values[:1]
        case ast.Compare():
            return [node.left, node.comparators[0]]
        case ast.NamedExpr():
            return [node.value]
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            return [node.generators[0].iter]
        case ast.Lambda():
            return [node.args]
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return [*node.decorator_list, node.args, *([node.returns] if node.returns else [])]
        case ast.ClassDef():
            return [*node.decorator_list, *node.bases, *node.keywords]
    return ast.iter_child_nodes(node)


def _terms(node: ast.expr) -> Iterator[ast.expr]:
    """Without recursion on the left: a sum may have a thousand."""
    while isinstance(node, ast.BinOp):
        yield node.right
        node = node.left
    yield node


def without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    match body:
        case [ast.Expr(value=ast.Constant(value=str())), *rest]:
            return rest
    return body


def _is_magic(parts: list[ast.expr]) -> bool:
    """Name, line and body as IPython writes them."""
    return 0 < len(parts) <= 3 and all(isinstance(part, ast.Constant) and isinstance(part.value, str) for part in parts)


def _split_options(line: str) -> tuple[str, str]:
    end = len(match[0]) if (match := _LEADING_OPTIONS.match(line)) else 0
    return line[:end], line[end:]
