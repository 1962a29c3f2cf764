"""Small programs as sequences of cells: bindings, aliases, mutations, scopes, functions, classes.

Most statements are valid; those that are not have to fail in the same way on both sides. Nothing in here loops, recurses or grows
without end, and nothing shows an order that Python leaves open: members of sets are numbers below 8. No variable holds what
can't be pickled, nor an iterator, which pickle gives another type.
"""

from hypothesis import strategies as st

from tests.support.cases import Cell

DATA = ("a", "b", "c", "d")
FUNCTIONS = ("f", "g")
CLASSES = ("K", "L")
ATTRIBUTES = ("p", "q")

PRELUDE = """
import contextlib
class Base:
    shared = []
    def __init__(self, p=0): self.p = p
    def __repr__(self): return f"{type(self).__name__}({sorted(vars(self))})"
def f(x=0): return x
def g(x=0): return [x]
class K(Base): pass
class L(Base):
    __slots__ = ("q",)
a, b, c, d = [1, 2], {"k": [3]}, K([4]), (5, [6])
"""

_constants = st.one_of(
    st.integers(-3, 7).map(repr),
    st.sampled_from(["None", "True", "1.5", "'k'", "'text'", "(1, 2)", "b'x'", "frozenset({1})"]),
)
_names = st.sampled_from(DATA)
_members = st.integers(0, 7).map(str)


def _containers(inner):
    return st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
        st.lists(inner, min_size=1, max_size=2).map(lambda items: f"({', '.join(items)},)"),
        st.lists(_members, min_size=1, max_size=3).map(lambda items: f"{{{', '.join(items)}}}"),
        st.lists(st.tuples(st.sampled_from(["'k'", "'l'", "1", "(1, 2)"]), inner), max_size=2).map(
            lambda pairs: "{" + ", ".join(f"{key}: {value}" for key, value in pairs) + "}"
        ),
    )


def _computed(inner):
    return st.one_of(
        st.builds("{}[{}]".format, _names, st.sampled_from(["0", "-1", "'k'", "1:", "::-1"])),
        st.builds("{}.{}".format, _names, st.sampled_from(ATTRIBUTES)),
        st.builds("{}({})".format, st.sampled_from((*FUNCTIONS, *CLASSES)), inner),
        st.builds("[({}, v) for v in {} if v]".format, inner, _names),
        st.builds("{{str(i): v for i, v in enumerate({})}}".format, _names),
        st.builds("(lambda x={}: [x, {}])".format, inner, _names),
        st.builds("({} if {} else {})".format, inner, _names, inner),
        st.builds("({} and {})".format, inner, _names),
        st.builds("len({})".format, _names),
        st.builds("(w := {})".format, inner),
        st.builds("f'{{{}!r:.20}}'".format, _names),
        st.builds("dict({}=1, **{{'k': {}}})".format, st.sampled_from(DATA), inner),
        st.builds("[*{}, {}]".format, _names, inner),
        st.builds("next(iter({}), {})".format, _names, inner),
    )


_expressions = st.recursive(
    st.one_of(_constants, _names), lambda inner: st.one_of(_containers(inner), _computed(inner)), max_leaves=4
)

_assignments = st.one_of(
    st.builds("{} = {}".format, _names, _expressions),
    st.builds("{} = {}".format, _names, _names),
    st.builds("{} = {} = {}".format, _names, _names, _expressions),
    st.builds("{}, {} = {}, {}".format, _names, _names, _names, _expressions),
    st.builds("{}, *{} = {}".format, _names, _names, _names),
    st.builds("{}[{}] = {}".format, _names, st.sampled_from(["0", "'k'", "1:", "'new'"]), _expressions),
    st.builds("{}.{} = {}".format, _names, st.sampled_from(ATTRIBUTES), _expressions),
    st.builds("{} {} {}".format, _names, st.sampled_from(["+=", "|=", "-="]), _containers(_constants)),
    st.builds("{}.{} = {}".format, st.sampled_from(CLASSES), st.sampled_from(["shared", "p", "new"]), _expressions),
    st.builds("{}.p.append({})".format, _names, _expressions),
    st.builds("{}: int = {}".format, _names, _expressions),
)

_mutations = st.one_of(
    st.builds("{}.append({})".format, _names, _expressions),
    st.builds("{}.extend({})".format, _names, _containers(_names)),
    st.builds("{}.insert(0, {})".format, _names, _names),
    st.builds("{}.pop()".format, _names),
    st.builds("{}.update({{'k': {}}})".format, _names, _names),
    st.builds("{}.setdefault('l', []).append({})".format, _names, _expressions),
    st.builds("{}.add({})".format, _names, _members),
    st.builds("{}.clear()".format, _names),
    st.builds("{}.reverse()".format, _names),
    st.builds("{}[0].append({})".format, _names, _expressions),
    st.builds("Base.shared.append({})".format, _expressions),
    st.builds("{}.__class__ = {}".format, _names, st.sampled_from(CLASSES)),
    st.builds("{}.calls = {}".format, st.sampled_from(FUNCTIONS), _expressions),
    st.builds("{} = {}({})".format, _names, st.sampled_from(FUNCTIONS), _expressions),
    st.builds("{} = {}[0](), {}[1]()".format, _names, *[st.shared(_names, key="closures")] * 2),
    st.builds("{} = {}.m()".format, _names, _names),
    st.builds("{} = {}({})".format, _names, st.sampled_from(CLASSES), _expressions),
)

_deletions = st.one_of(
    st.builds("del {}".format, _names),
    st.builds("del {}[{}]".format, _names, st.sampled_from(["0", "'k'", "1:"])),
    st.builds("del {}.{}".format, _names, st.sampled_from(ATTRIBUTES)),
)

_shown = st.builds("print({})".format, _expressions)

_simple = st.one_of(_assignments, _assignments, _mutations, _mutations, _deletions, _shown)


def _indented(lines: str) -> str:
    return "".join(f"    {line}\n" for line in lines.splitlines()).rstrip()


def _block(head: str, *bodies: str) -> str:
    parts = head.split("…")
    return "\n".join(f"{part.strip()}\n{_indented(body)}" for part, body in zip(parts, bodies, strict=False))


_functions = st.one_of(
    st.builds(
        "def {}(x=0, *, y={}):\n    global {}\n    {} = [x, y]\n    return {}".format,
        st.sampled_from(FUNCTIONS), _expressions, *[st.shared(_names, key="global")] * 2, _expressions,
    ),
    st.builds(
        "def {}(x={}):\n    n = [x]\n    def up():\n        nonlocal n\n        n = [*n, {}]\n        return n\n"
        "    def get(): return n\n    return up, get".format,
        st.sampled_from(FUNCTIONS), _expressions, _names,
    ),
    st.builds("def {}(x=0):\n    def all():\n        yield x\n        yield from {}\n    return [*all()]".format,
              st.sampled_from(FUNCTIONS), _names),
    st.builds("def {}(x=[]):\n    x.append({})\n    return x".format, st.sampled_from(FUNCTIONS), _expressions),
    st.builds("{} = lambda x=0: ({}, x)".format, st.sampled_from(FUNCTIONS), _names),
)  # fmt: skip

_classes = st.one_of(
    st.builds(
        "class {}(Base):\n    shared = {}\n    seen = [v for v in ({}, {})]\n    def m(self): return {}".format,
        st.sampled_from(CLASSES), _expressions, _names, _constants, _names,
    ),
    st.builds(
        "class {}({}):\n    @property\n    def q(self): return self.p\n    @classmethod\n    def make(cls): return cls({})".format,
        st.sampled_from(CLASSES), st.sampled_from(["Base", "list", "dict", "K"]), _constants,
    ),
    st.builds("{}.m = lambda self: {}".format, st.sampled_from(CLASSES), _names),
)  # fmt: skip

_compound = st.one_of(
    st.builds(lambda test, one, other: _block(f"if {test}:…else:", one, other), _expressions, _simple, _simple),
    st.builds(lambda name, over, body: _block(f"for {name} in list({over})[:3]:", body), _names, _names, _simple),
    st.builds(lambda body, last: _block("try:…except Exception as error:…finally:", body, "e = type(error).__name__", last),
              _simple, _simple),
    st.builds(lambda body: _block("with contextlib.suppress(Exception):", body), _simple),
    st.builds(lambda subject, body: f"match {subject}:\n    case [first, *rest]:\n{_indented(_indented(body))}\n"
              "    case {'k': kept}: pass\n    case Base(p=kept): pass", _names, _simple),
)  # fmt: skip

_statements = st.one_of(_simple, _simple, _simple, _functions, _classes, _compound)


@st.composite
def _sources(draw) -> str:
    lines = [
        _block("try:…except Exception:", statement, "pass") if draw(st.integers(0, 9)) else statement
        for statement in draw(st.lists(_statements, min_size=1, max_size=6))
    ]
    if draw(st.booleans()):
        lines.append(draw(_expressions))
    return "\n".join(lines)


@st.composite
def programs(draw) -> list[Cell]:
    """The prelude, then cells of which at least one is a `%%wool` cell on one side."""
    kinds = draw(st.lists(st.booleans(), min_size=1, max_size=4).filter(any))
    return [Cell(PRELUDE, False), *(Cell(draw(_sources()), is_wool) for is_wool in kinds)]
