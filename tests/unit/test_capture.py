import ast
import asyncio
import builtins
import inspect
import sys
import types
import warnings
from dataclasses import dataclass

import pytest
from IPython.core.inputtransformer2 import TransformerManager

from wool_jupyter.notebook.capture import analyze

ALWAYS_THERE = frozenset(dir(builtins)) | {"get_ipython"}
NEEDS_312 = pytest.mark.skipif(sys.version_info < (3, 12), reason="syntax of Python 3.12")


@dataclass(frozen=True)
class Expected:
    hard: str = ""
    soft: str = ""
    text: str = ""
    whole: bool = False

    def reads(self):
        return tuple(set(names.split()) for names in (self.hard, self.soft, self.text)), self.whole


def cell(source, hard="", soft="", text="", *, id, whole=False, marks=()):
    return pytest.param(source, Expected(hard, soft, text, whole), id=id, marks=marks)


ASSIGNMENTS = [
    cell("y = x + 1", "x", id="plain"),
    cell("x = x + 1", "x", id="from-its-old-value"),
    cell("x += 1", "x", id="augmented"),
    cell("total = 0\nfor v in values: total += v", "values", id="augmented-after-assignment"),
    cell("df = load()\ndf.head()", "load", id="rerun-does-not-ship-the-old-value"),
    cell("df = load(); df.query('a > 1'); duckdb.sql('from df')", "load duckdb", text="a", id="nor-for-a-string"),
    cell("a, (b, *c) = t\nprint(a, b, c)", "t", id="unpacking"),
    cell("a = b = c\na, b", "c", id="chained"),
    cell("a.b.c = v; d[k] = w; e[f:g] += h", "a v d k w e f g h", id="attribute-and-item-targets"),
    cell("x: Ann = 3", "Ann", id="annotated"),
    cell("x: Ann", "Ann", id="only-annotated"),
    cell("from __future__ import annotations\nx: Ann = 3\ndef f(a: Ann) -> Ret: pass", id="future-annotations"),
    cell("del x", "x", id="del-needs-the-name"),
    cell("del x[0], y.z", "x y", id="del-item"),
    cell("del x\nprint(x)", "x", id="read-after-del"),
    cell("x = 1\ndel x\nprint(x)", id="deleted-own-name-never-comes-from-the-kernel"),
    cell("print = log\nprint(1)", "log", id="shadowed-builtin-assigned"),
    cell("if (n := len(items)) > 3: out = n", "items", id="walrus"),
    cell("found = (m := match(s)) and m.group(1)", "match s", id="walrus-then-read-in-one-statement"),
    cell("a and (b := c)\nb", "a", "b c", id="walrus-behind-and-is-not-sure"),
    cell("print(n, n := 10)", soft="n", id="walrus-after-read"),
    cell("v = [last := q for q in data]\nlast", "data", "last", id="walrus-in-comprehension-is-not-sure"),
]

EXPRESSIONS = [
    cell("a if c else b", "c", "a b", id="conditional-expression"),
    cell("a and b or c", "a", "b c", id="boolean-operators"),
    cell("a < b < c", "a b", "c", id="chained-comparison"),
    cell("f'{name!r:>{width}} {obj.attr}'", "name width obj", id="f-string"),
    cell("t = f'{a} of total'", "a", text="of total", id="f-string-literal-part"),
    cell("f(*args, **kwargs)", "f args kwargs", id="star-arguments"),
    cell("x[a:b, ..., c]", "x a b c", id="slices"),
    cell("{**base, key: value}, {*s}", "base key value s", id="displays"),
    cell("v = [i * k for i in seq if i > lo]", "seq", "k lo", id="list-comprehension"),
    cell("v = {a: b for a, b in pairs}; w = (i for i in v)", "pairs", id="dict-comprehension-and-generator"),
    cell("v = [[j + k for j in row] for row in rows]", "rows", "k", id="nested-comprehension"),
    cell("v = [x for x in x]", "x", id="comprehension-variable-of-the-same-name"),
    cell("k = 1\nv = [i * k for i in seq]", "seq", id="comprehension-sees-settled-name"),
    cell("sorted(rows, key=lambda r: r[col])", "rows", "col", id="lambda"),
    cell("f = lambda a, *b, c=d, **e: a + z", "d", "z", id="lambda-defaults"),
    cell("fact = lambda n: 1 if n < 2 else n * fact(n - 1)", id="recursive-lambda"),
    cell("df = df.apply(lambda r: r / df.sum())", "df", id="lambda-that-runs-before-the-assignment"),
    cell("assert ok, why", "ok", "why", id="assert"),
    cell("raise Err(msg) from cause", "Err msg cause", id="raise"),
    cell("r = await job(4)\nr.done", "job", id="top-level-await"),
    cell("v = [q async for q in agen() if await ok(q)]", "agen", "ok", id="async-comprehension"),
]

FLOW = [
    cell("if flag:\n  a = 1\nelse:\n  a = 2\nprint(a)", "flag", id="if-else-assigns"),
    cell("if flag:\n  a = 1\nprint(a)", "flag", "a", id="if-alone-may-not-assign"),
    cell("if flag:\n  a = b\nelif other:\n  a = c\nelse:\n  raise Err\na", "flag", "b other c Err", id="raise-branch"),
    cell("while cond:\n  z = 1\nprint(z)", "cond", "z", id="while"),
    cell("while True:\n  z = step()\n  if z: break\nprint(z)", soft="step", id="while-true-ends-by-break"),
    cell("while chunk := read():\n  use(chunk)\nchunk", "read", "use", id="while-walrus"),
    cell("for i in rng: s = i\nprint(i, s)", "rng", "i s", id="for-may-be-empty"),
    cell("for k in ks:\n  if k:\n    hit = k\n    break\nelse:\n  hit = None\nhit", "ks", id="for-else-assigns"),
    cell("for i in a:\n  if i: continue\n  b(i)", "a", "b", id="continue"),
    cell("for obj.x in xs: use(obj)", "xs", "obj use", id="for-attribute-target"),
    cell("with open(path) as fh:\n  data = fh.read()\nprint(data)", "path", id="with-surely-assigns"),
    cell("with a as x, b(x) as y: z = y\nz", "a b", id="two-managers"),
    cell("from contextlib import suppress\nwith suppress(KeyError):\n  v = d[k]\nv", soft="v d k", id="suppress"),
    cell("with pytest.raises(E):\n  v = d\nv", "pytest E", "d v", id="raises"),
    cell(
        "with np.errstate(divide='ignore'):\n  v = d\nv", "np d", text="ignore", id="ignore-as-argument-is-no-suppress"
    ),
    cell("with swallow():\n  raise KeyError\nafter", "swallow after", id="with-body-that-raises"),
    cell("try:\n  import fast as impl\nexcept ImportError:\n  impl = None\nimpl", id="optional-import"),
    cell("try:\n  v = f()\nexcept E as err:\n  log(err)\nv", soft="v f E log", id="except-that-does-not-assign"),
    cell("try:\n  v = f()\nexcept E:\n  raise\nv", soft="f E", id="except-that-raises"),
    cell("try:\n  f()\nexcept E:\n  r = 1\nelse:\n  r = g\nr", soft="f E g", id="try-else"),
    cell("try:\n  use(x)\nfinally:\n  done = close()\ndone", "use x close", id="try-finally"),
    cell("try:\n  pass\nexcept E as err:\n  pass\nerr", soft="err E", id="handler-name"),
    cell("try:\n  f()\nexcept* E as group:\n  g(group)", soft="f E g", id="except-star"),
    cell(
        "match cmd:\n  case {'k': got, **rest}: r = got, rest\n  case _: r = 0\nr",
        "cmd",
        text="k",
        id="match-all-cases",
    ),
    cell("match cmd:\n  case [1, *xs] if xs == lim: r = xs\nr", "cmd", "r lim", id="match-guard"),
    cell("match cmd:\n  case Point(x=0) | ns.K: pass\n  case other: other", "cmd", "Point ns", id="match-values"),
    cell("async for q in agen(): use(q)\nasync with ctx() as c: c.x", "agen ctx", "use", id="async-for-and-with"),
    cell("if __name__ == '__main__':\n  main()", soft="main", text="__main__", id="main-guard"),
    cell("raise Stop\nafter()", "Stop", id="unreachable"),
]

FUNCTIONS = [
    cell("def f(a, b=d): return a + g", "d", "g", id="default-and-body"),
    cell("@deco(arg)\ndef f(): pass", "deco arg", id="decorator"),
    cell("def f(a: Ann, *b: Args) -> Ret: pass", "Ann Args Ret", id="annotations"),
    cell("def f(): return f", id="recursion"),
    cell("def f():\n  def h(): return deep\n  return h", soft="deep", id="nested-function"),
    cell("x = 1\ndef f(): return x\nf()", id="global-settled-before"),
    cell("def f(): return x\nx = 1\nf()", soft="x", id="global-assigned-later"),
    cell("def f():\n  global counter\n  counter += 1\nf()", soft="counter", id="global-statement"),
    cell("def f():\n  global fresh\n  fresh = 1\nf()", id="global-only-stored"),
    cell("def f():\n  n = 0\n  def g():\n    nonlocal n\n    n += step\n  return g", soft="step", id="nonlocal"),
    cell("def f():\n  'load data here'\n  return run('sql')", soft="run", text="sql", id="docstring-is-not-text"),
    cell("async def f():\n  async with s as t: return await t.get(url)", soft="s url", id="async-function"),
    cell("def f():\n  x = 1\n  return [x for _ in seq]", soft="seq", id="locals-are-not-needed"),
    cell("def f():\n  import math\n  return math.pi", id="import-inside"),
    cell("def gen():\n  yield from source", soft="source", id="generator"),
]

CLASSES = [
    cell(
        "class A(Base, metaclass=M):\n  x = 1\n  y = x + z\n  def m(self): return self.q, helper",
        "Base M z",
        "helper",
        id="class",
    ),
    cell("class A:\n  def m(self): return A", id="own-name-in-method"),
    cell("class A(A): pass", "A", id="own-name-as-base"),
    cell("class A:\n  x = 1\n  def m(self): return x", soft="x", id="methods-do-not-see-class-variables"),
    cell("class A:\n  def load(self): return load(self.p)", soft="load", id="method-named-like-a-global"),
    cell("class A:\n  def m(self): return super().m() + __class__.k", id="super"),
    cell("class A:\n  __k = 1\n  def m(self): return self.__k + __k", soft="_A__k", id="mangling"),
    cell("class A:\n  if cond:\n    x = 1\n  else:\n    x = 2\n  y = x", "cond", id="flow-in-class-body"),
    cell("class A:\n  if cond: x = 1\n  y = x", "cond", "x", id="class-variable-maybe-global"),
    cell("class A:\n  x = 1\n  del x\n  y = x", soft="x", id="deleted-class-variable-uncovers-the-global"),
    cell("class A:\n  k = 1\n  v = [i * k for i in src]", "src", "k", id="comprehension-in-class-body"),
    cell("class A:\n  class B:\n    z = outer\n  def m(self): return B", soft="outer B", id="nested-class"),
    cell("class A:\n  global g\n  g = seed\n  h = g", "seed", id="global-in-class-body"),
    cell("class A:\n  'prose about data'\n  q = 'table'", text="table", id="class-docstring-is-not-text"),
    cell("@dataclass\nclass P:\n  x: int = field(default=d)\n  y: Ann = None", "dataclass field d Ann", id="dataclass"),
    cell("class A:\n  here = __qualname__, __module__", id="names-of-the-class-namespace"),
    cell("class A:\n  try:\n    x = f()\n  except E as err: x = err\n  y = x", soft="f E", id="try-in-class-body"),
]

IMPORTS = [
    cell("import json as js, os.path\njs.dumps(arr); os.sep", "arr", id="import"),
    cell("from os.path import join\njoin(a, b)", "a b", id="from-import"),
    cell(
        "from os.path import *\nprint(join('a'), base)", soft="join base", text="a", id="after-star-import-all-is-soft"
    ),
]

NAMESPACE = [
    cell("globals()['q'] = v", "v", text="q", whole=True, id="globals"),
    cell("print(locals())", whole=True, id="locals"),
    cell("sorted(dir())", whole=True, id="dir"),
    cell("vars(obj); dir(obj)", "obj", id="vars-of-an-object"),
    cell("def f(): return locals(), vars(), dir()", id="locals-of-a-function"),
    cell("def f(): return globals()[key]", soft="key", whole=True, id="globals-in-function"),
    cell("exec(code)", "code", whole=True, id="exec"),
    cell("eval(f'{a} + 1')", "a", text="", whole=True, id="eval-of-f-string"),
    cell("eval(expr, {'x': 1})", "expr", text="x", id="eval-with-its-own-namespace"),
    cell("exec('y = x + 1')\ny", soft="x", id="exec-of-a-constant"),
    cell("z = eval('x + y')", soft="x y", id="eval-of-a-constant"),
    cell("exec('bad python')", text="bad python", id="exec-of-bad-code"),
    cell("list(map(eval, exprs))", "exprs", whole=True, id="eval-passed-on"),
    cell("model.eval(); df.eval(e)", "model df e", id="methods-named-eval"),
    cell("from ast import literal_eval as eval\neval(x)", "x", id="own-eval"),
    cell("%who", whole=True, id="who"),
    cell("%whos DataFrame", text="DataFrame", whole=True, id="whos"),
    cell("%run -i script.py", text="i script py", whole=True, id="run-in-namespace"),
    cell("%run script.py {arg}", text="script py arg", id="run"),
]

STRINGS = [
    cell("df.query('a > @limit and b < 1e5')", "df", text="a limit b", id="pandas-query"),
    cell("duckdb.sql('select * from frame')", "duckdb", text="select frame", id="duckdb"),
    cell("smf.ols('y ~ x1', data=df)", "smf df", text="y x1", id="formula"),
    cell("import timeit\ntimeit.timeit('f(x)', globals=globals())", text="f x", whole=True, id="timeit-function"),
    cell("s = '''\nlong {template}\n'''.format(template=t)", "t", text="long template", id="format"),
    cell("x = 'x'\ny = 'x'", text="x", id="string-before-its-name-is-settled"),
    cell("b'bytes are no text'", id="bytes"),
    cell("!echo {msg} $other", text="echo msg other", id="shell"),
    cell("files = !ls {folder}\nfiles", text="ls folder", id="shell-assigned"),
    cell("%cd $folder", text="folder", id="line-magic"),
    cell("obj?", text="obj", id="help"),
    cell("%timeit -n1 -r 3 f(x)", soft="f x", text="", id="timeit"),
    cell("%timeit y = f(x)\ny", "y", "f x", id="timeit-binds-nothing"),
    cell("%time df = load(p)\ndf.head()", soft="load p", id="time-binds"),
    cell("t = %timeit -o f(x)", soft="f x", id="timeit-assigned"),
    cell("%%time\ny = x + 1\ny", soft="x", id="cell-time"),
    cell("%%timeit k = start\nk + x", soft="start x", id="cell-timeit-with-setup"),
    cell("%%capture out\nshow(df)", soft="show df", id="cell-capture"),
    cell("%%time\n%%capture\nshow(df)", text="capture show df", id="stacked-magics-are-text"),
    cell("%%time\n!ls {folder}", text="ls folder", id="cell-time-with-ipython-syntax"),
    cell("%%time\nexec(code)", soft="code", whole=True, id="exec-inside-a-magic"),
    cell("%%bash\necho $HOME {x}", text="echo HOME x", id="other-cell-magic"),
    cell("%lprun -f func func(x)", text="func x", id="options-with-values-are-text"),
    cell("get_ipython().run_line_magic(name, line)", "name line", id="computed-magic"),
]

FOR_PEOPLE = [
    cell("print('the frame', f'of {a:>{b}} rows', sep=' and ')", "a b", id="printed"),
    cell("print('sum: ' + str(a) + ' of frame')", "a", id="printed-sum"),
    cell("print('%s of frame' % a, 'frame {}'.format(b))", "a b", id="printed-by-format"),
    cell("print(con.sql('from frame'), q['select x'])", "con q", text="frame select x", id="what-a-printed-call-gets"),
    cell("print(f'{con.sql(\"from frame\")} rows')", "con", text="frame", id="what-a-call-in-a-printed-text-gets"),
    cell("print = con.sql\nprint('from frame')", "con", text="frame", id="print-of-the-cells-own"),
    cell("con.print('from frame')", "con", text="frame", id="a-method-named-print"),
    cell("raise ValueError(f'no frame {a}') from b", "a b", id="raised"),
    cell("raise make(con.sql('frame'), q)", "make con q", text="frame", id="what-a-raised-call-gets"),
    cell("assert a, f'no frame {b}'", "a", "b", id="asserted"),
    cell("assert con.sql('from frame'), 'text'", "con", text="frame", id="what-is-asserted"),
    cell("'''\nold = frame.groupby(city)\n'''\na", "a", id="text-that-stands-alone"),
    cell("def f():\n  print('frame')\n  'frame'\n  raise ValueError('frame')", id="in-a-function"),
]

PEP_695 = [
    cell("def f[T: Bound](a: T) -> T: return a", soft="Bound", marks=NEEDS_312, id="generic-function"),
    cell(
        "class C[K](Base[K]):\n  v: K\n  def m(self) -> K: return K", soft="Base", marks=NEEDS_312, id="generic-class"
    ),
    cell("type Al[T] = list[T] | Other", soft="Other", marks=NEEDS_312, id="type-alias"),
    cell("class C[K]:\n  x = [K for _ in src]", "src", marks=NEEDS_312, id="comprehension-in-generic-class"),
]

CELLS = ASSIGNMENTS + EXPRESSIONS + FLOW + FUNCTIONS + CLASSES + IMPORTS + NAMESPACE + STRINGS + FOR_PEOPLE + PEP_695
HARD_READS = [
    pytest.param(case.values[0], name, id=f"{case.id}-{name}", marks=case.marks)
    for case in CELLS
    for name in case.values[1].hard.split()
]


def capture(source):
    return analyze(TransformerManager().transform_cell(source))


@pytest.mark.parametrize(("source", "expected"), CELLS)
def test_names_that_a_cell_reads(source, expected):
    found = capture(source)
    reads = tuple(set(names - ALWAYS_THERE) for names in (found.hard, found.soft, found.text))
    assert (reads, found.whole_namespace) == expected.reads()


@pytest.mark.parametrize(
    ("source", "binds", "deletes"),
    [
        pytest.param("a, (b, *c) = t; d.e = 1; f[0] = 2; g: int; h: int = 1", "a b c h", "", id="assignments"),
        pytest.param("import os.path, json as j\nfrom re import sub as s", "os j s", "", id="imports"),
        pytest.param("def f(x): y = 1\nclass A:\n  z = 1\n  def m(self): pass", "f A", "", id="definitions"),
        pytest.param("for i in r:\n  with w as x: pass\nwhile n := q: pass", "i x n", "", id="flow"),
        pytest.param("match m:\n  case [a, *b] | {'k': a, **b}: c = 1", "a b c", "", id="match"),
        pytest.param("try: x = 1\nexcept E as err: y = 2\nfinally: z = 3", "x y z err", "err", id="try"),
        pytest.param("v = [i for i in r]; w = [(u := j) for j in r]", "v w u", "", id="comprehensions"),
        pytest.param("def f():\n  global g, h\n  g = 1\n  del h", "f g", "h", id="global-statement"),
        pytest.param("x = 1\ndel x, y, z[0]", "x", "x y", id="del"),
        pytest.param("exec('a = 1'); lambda: exec('b = 1'); c = eval('(d := 1)')", "a c", "", id="exec"),
        pytest.param("%time a = 1\n%timeit b = 1\nc = !ls", "a c", "", id="magics"),
        pytest.param("%%time\na = 1\ndel b", "a", "b", id="cell-magic"),
        pytest.param("from os.path import *", "", "", id="star-import"),
        pytest.param("class A:\n  global g\n  g = 1", "A g", "", id="global-in-class-body"),
    ],
)
def test_names_that_a_cell_binds_and_deletes(source, binds, deletes):
    found = capture(source)
    assert (found.binds, found.deletes) == (set(binds.split()), set(deletes.split()))


def test_name_that_the_cell_may_have_bound_is_not_hard():
    """An old value that can't be shipped must not refuse a cell that makes a new one."""
    assert capture("def connect():\n  global conn\n  conn = 1\nconnect()\nconn").soft == {"conn"}


def test_attributes_of_all_depths_are_known():
    found = capture("xml.etree.ElementTree.parse(p)\ndef f(): return scipy.optimize\n%time os.path.join(a)")
    assert {"etree", "ElementTree", "parse", "optimize", "path", "join"} <= found.attributes


def test_builtins_are_reported_because_the_notebook_may_shadow_them():
    assert capture("list(x)").hard == {"list", "x"}


def test_future_annotations_of_an_earlier_cell_are_respected():
    import __future__

    assert analyze("x: Ann = 1", __future__.annotations.compiler_flag).hard == frozenset()


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("x = = 1", id="parser"),
        pytest.param("return 1", id="return-outside-function"),
        pytest.param("break", id="break-outside-loop"),
        pytest.param("def f():\n  x = 1\n  global x", id="scope"),
        pytest.param("yield 1", id="yield-outside-function"),
        pytest.param("from __future__ import nothing", id="future"),
        pytest.param("f() = 1", id="target"),
    ],
)
def test_what_does_not_compile_is_refused(source):
    with pytest.raises(SyntaxError):
        analyze(source)


@pytest.mark.parametrize("wrong", ["return a", "f = lambda a, a: 1", "from __future__ import nothing", "nonlocal x"])
@pytest.mark.parametrize("end", ["\n", "; "])
def test_what_stands_before_a_statement_that_does_not_compile_is_run(wrong, end):
    found = analyze(f"x = y{end}{wrong}\nz = w")
    assert (found.hard, found.binds, found.settles) == ({"y"}, {"x"}, {"x"})


def test_a_future_import_further_down_holds_from_there_on():
    """Statements are compiled one by one."""
    assert "A" in analyze("x: A = 1\nfrom __future__ import annotations\nz: B = 3\nreturn").hard
    assert "A" not in analyze("from __future__ import annotations\nx: A = 1\nreturn").hard


def test_warnings_of_the_compiler_are_left_to_the_worker():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        analyze("x is 1; assert (x, 'text')")
    assert seen == []


def test_long_sum_is_no_deep_recursion():
    assert capture("total = " + " + ".join(["a.b"] * 900)).hard == {"a"}


def test_empty_cell_needs_nothing():
    found = analyze("# a comment\n")
    assert not any([found.hard, found.soft, found.text, found.binds, found.deletes, found.attributes])


class StandIn:
    """Takes part in everything; true and false by turns, so that loops end."""

    _turns = 0

    def __bool__(self):
        StandIn._turns += 1
        return StandIn._turns % 2 == 1

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __iter__(self):
        return iter([self, self])

    async def __aiter__(self):
        for each in self:
            yield each

    def __await__(self):
        yield from ()
        return self

    def __mro_entries__(self, bases):
        return ()

    def _itself(self, *args, **kwargs):
        return self

    async def _itself_later(self, *args):
        return self

    async def __aexit__(self, *error):
        return None

    def __exit__(self, kind, *error):
        return kind is not None and not issubclass(kind, NameError)

    def __str__(self):
        return "1"

    def __setitem__(self, key, value):
        pass

    def __delitem__(self, key):
        pass

    def __delattr__(self, name):
        pass

    __call__ = __getitem__ = __enter__ = __add__ = __radd__ = __mul__ = __rmul__ = __truediv__ = _itself
    __lt__ = __gt__ = __or__ = _itself
    __aenter__ = _itself_later


def run(source, names):
    namespace = {"__name__": "__main__", "open": StandIn(), "get_ipython": StandIn()}
    namespace |= {name: StandIn() for name in names - ALWAYS_THERE}
    python = TransformerManager().transform_cell(source)
    outcome = eval(compile(python, "<cell>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), namespace)
    if inspect.iscoroutine(outcome):
        asyncio.run(outcome)
    for value in list(namespace.values()):
        if isinstance(value, types.FunctionType) and not inspect.iscoroutinefunction(value):
            value(*[StandIn()] * (value.__code__.co_argcount - len(value.__defaults__ or ())))


@pytest.mark.parametrize(("source", "expected"), CELLS)
def test_captured_names_are_enough_to_run_the_cell(source, expected):
    found = capture(source)
    try:
        run(source, found.hard | found.soft | found.text)
    except NameError as error:
        if error.name not in found.binds | found.deletes:
            raise
    except Exception:
        pass  # a stand-in has its limits: it is no exception class, no text


@pytest.mark.parametrize(("source", "name"), HARD_READS)
def test_cell_fails_without_a_name_that_it_reads_for_sure(source, name):
    found = capture(source)
    with pytest.raises(NameError) as raised:
        run(source, (found.hard | found.soft | found.text) - {name})
    assert raised.value.name == name
