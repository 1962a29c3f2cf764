"""Functions and classes of the notebook, there and back."""

# ruff: noqa: E501 (a case is a line)

import pytest

FUNCTIONS = """
import functools, contextlib, asyncio, typing
counter = 0; log = []
def bump(by=1):
    global counter
    counter += by
    return counter
def fact(n): return 1 if n < 2 else n * fact(n - 1)
def even(n): return n == 0 or odd(n - 1)
def odd(n): return n != 0 and even(n - 1)
def traced(f):
    @functools.wraps(f)
    def inner(*a, **k):
        log.append(f.__name__)
        return f(*a, **k)
    return inner
@traced
def add(a, b=2, *c, d=4, **e): return a + b + sum(c) + d + sum(e.values())
def gen(n):
    for i in range(n): yield i
async def coro(x):
    await asyncio.sleep(0)
    return x + 1
async def agen():
    for i in range(3): yield i
@functools.lru_cache(maxsize=2)
def cached(n): log.append(n); return n
@contextlib.contextmanager
def ctx(v):
    log.append('in'); yield v; log.append('out')
@functools.singledispatch
def kind(x): return 'object'
@kind.register
def _(x: int): return 'int'
partial = functools.partial(add, 1, d=0)
def shared():
    state = {'n': 0}
    def inc(): state['n'] += 1
    def get(): return state['n']
    return inc, get
inc, get = shared()
def annotated(a: int, b: typing.List[int] = None) -> str: 'doc'; return 'x'
mul = lambda a, b=3: a * b
def deep(): return add(fact(3)) + mul(2)
"""

FUNCTION_CELLS = [
    pytest.param("bump(); bump(5); counter", "counter, bump()", id="global statement"),
    pytest.param("r = bump()\ncounter = 100\nbump()", "counter, r", id="global statement and assignment"),
    pytest.param("fact(10)", "fact(3)", id="recursion"),
    pytest.param("even(10), odd(7)", "odd(3)", id="mutual recursion"),
    pytest.param("add(1), add(1, 2, 3, d=5, e=6), add.__name__", "log", id="decorator"),
    pytest.param("list(gen(3)), sum(x for x in gen(4))", "1", id="generator"),
    pytest.param("await coro(1)", "1", id="coroutine"),
    pytest.param("[x async for x in agen()]", "1", id="async generator"),
    pytest.param("cached(1), cached(1), cached(2)", "log", id="lru_cache"),
    pytest.param("with ctx(3) as v: log.append(v)", "log", id="context manager"),
    pytest.param("kind(1), kind('a'), kind(True)", "kind(2)", id="singledispatch"),
    pytest.param("partial(), partial(5)", "partial()", id="partial"),
    pytest.param("inc(); inc(); get()", "get(), inc(), get()", id="closures share"),
    pytest.param(
        "import inspect\ninspect.signature(add), inspect.signature(annotated), annotated.__doc__", "1", id="signature"
    ),
    pytest.param("import typing\ntyping.get_type_hints(annotated)", "1", id="hints"),
    pytest.param("deep()", "log", id="transitive"),
    pytest.param(
        "import inspect\nprint(inspect.getsource(fact), inspect.getsource(add), inspect.getsource(mul))",
        "1",
        id="source",
    ),
    pytest.param("def new(a): return fact(a) + bump()\nnew(3)", "new(3), counter", id="defined in the cell"),
    pytest.param("def fact(n): return -1", "fact(3), deep()", id="redefined in the cell"),
    pytest.param("def fact(n): return -1\nprint(deep())", "fact(3), deep()", id="redefined and used by another"),
    pytest.param("old = fact\ndef fact(n): return old(n) if n < 3 else 0", "fact(2), fact(5)", id="wrapped"),
    pytest.param("import pickle\npickle.loads(pickle.dumps(fact)) is fact", "1", id="pickle by name"),
    pytest.param("fact.__module__, fact.__globals__ is globals(), __name__", "1", id="globals of a function"),
    pytest.param("list(map(mul, [1, 2])), sorted([3, 1], key=lambda a: -mul(a))", "1", id="as arguments"),
    pytest.param(
        "def outer():\n    def inner(): return counter\n    return inner\nf = outer()",
        "f(), f.__qualname__",
        id="closure comes back",
    ),
    pytest.param(
        "fs = [lambda i=i: i + counter for i in range(3)]", "[f() for f in fs]", id="list of lambdas comes back"
    ),
    pytest.param("it = gen", "it is gen", id="alias of a function"),
    pytest.param(
        "def f(): return g()\ndef g(): return counter",
        "f(), f.__globals__ is globals()",
        id="come back with the globals of here",
    ),
    pytest.param("setattr(bump, 'tag', [1])", "bump.tag", id="attribute"),
    pytest.param("cached(1); cached.cache_info().misses", "1", id="cache_info"),
]


@pytest.mark.parametrize(("cell", "check"), FUNCTION_CELLS)
def test_functions_work_as_in_the_kernel(same, cell, check):
    same(cell, before=[FUNCTIONS], after=[check, "counter, log"])


CLASSES = """
import abc, enum, dataclasses, collections, typing, functools
class Point:
    made = 0
    def __init__(self, x, y=0): self.x, self.y = x, y; type(self).made += 1
    def __repr__(self): return f'Point({self.x}, {self.y})'
    def __eq__(self, o): return isinstance(o, Point) and (self.x, self.y) == (o.x, o.y)
    def __hash__(self): return hash((self.x, self.y))
    @property
    def norm(self): return abs(self.x) + abs(self.y)
    @norm.setter
    def norm(self, v): self.x, self.y = v, 0
    @classmethod
    def zero(cls): return cls(0)
    @staticmethod
    def helper(a): return a * 2
class Point3(Point):
    def __init__(self, x, y, z): super().__init__(x, y); self.z = z
    @functools.cached_property
    def slow(self): return self.x + self.y + self.z
class Color(enum.Enum):
    RED = 1
    BLUE = 2
    def hot(self): return self is Color.RED
class Flag(enum.Flag):
    A = enum.auto(); B = enum.auto()
class Base(abc.ABC):
    @abc.abstractmethod
    def m(self): ...
class Impl(Base):
    def m(self): return 'm'
@dataclasses.dataclass(order=True)
class D:
    a: int
    b: list = dataclasses.field(default_factory=list)
@dataclasses.dataclass(frozen=True, slots=True)
class F:
    a: int
NT = collections.namedtuple('NT', 'a b')
class TNT(typing.NamedTuple):
    a: int
    b: str = 'x'
class Meta(type):
    def __new__(m, n, b, d): d['by_meta'] = n; return super().__new__(m, n, b, d)
class WithMeta(metaclass=Meta): pass
class Reg:
    subs = []
    def __init_subclass__(cls, **k): Reg.subs.append(cls.__name__)
class Sub(Reg): pass
T = typing.TypeVar('T')
class Box(typing.Generic[T]):
    def __init__(self, v: T): self.v = v
class Desc:
    def __set_name__(self, o, n): self.n = n
    def __get__(self, i, o=None): return self if i is None else i.__dict__.get(self.n, 'unset')
    def __set__(self, i, v): i.__dict__[self.n] = v
class Managed: d = Desc()
class MyError(Exception): pass
class Outer:
    class Inner: v = 1
class Call:
    def __call__(self, a): return a + 1
p = Point(1, 2); c = Color.RED; pts = {p: 'p'}; impl = Impl(); red = {'c': Color.RED}
"""

CLASS_CELLS = [
    pytest.param(
        "q = Point(3); type(q) is Point, type(p) is Point", "type(q) is Point, isinstance(q, Point), q", id="instances"
    ),
    pytest.param("Point.made", "Point.made", id="class attribute"),
    pytest.param("Point(1); Point(2); Point.made", "Point.made", id="counted instances"),
    pytest.param("p.norm, p.zero(), Point.helper(2), p.helper(3)", "1", id="property and methods"),
    pytest.param("p.norm = 9", "p", id="property setter"),
    pytest.param(
        "z = Point3(1, 2, 3); z.slow, isinstance(z, Point), z",
        "z.slow, z.__dict__, type(z).__mro__",
        id="inheritance and super",
    ),
    pytest.param(
        "c is Color.RED, red['c'] is Color.RED, c.hot()", "c is Color.RED, red['c'] is Color.RED", id="enum identity"
    ),
    pytest.param(
        "m = Color.BLUE; ms = list(Color); Color(2) is m",
        "m is Color.BLUE, ms[0] is Color.RED, Color['RED'] is ms[0]",
        id="enum member back",
    ),
    pytest.param("fl = Flag.A | Flag.B; fl", "fl == Flag.A | Flag.B, Flag.A in fl, type(fl) is Flag", id="flag"),
    pytest.param(
        "impl.m(), isinstance(impl, Base)\ntry: Base()\nexcept TypeError as e: print(e)",
        "isinstance(impl, Base)",
        id="ABC",
    ),
    pytest.param(
        "d = D(1); d.b.append(2); e = D(0)\nd > e, dataclasses.asdict(d), D.__annotations__",
        "d, type(d) is D, d > e, dataclasses.fields(d)[0].name",
        id="dataclass",
    ),
    pytest.param(
        "f = F(1); hash(f) == hash(F(1)), f\ntry: f.a = 2\nexcept Exception as e: print(type(e).__name__)",
        "f == F(1), type(f) is F",
        id="frozen dataclass with slots",
    ),
    pytest.param("n = NT(1, 2); n, n._replace(a=3), NT._fields", "n, type(n) is NT, n._asdict()", id="namedtuple"),
    pytest.param("n = TNT(1); n", "n, type(n) is TNT", id="NamedTuple"),
    pytest.param(
        "WithMeta.by_meta, type(WithMeta) is Meta\nclass Other(metaclass=Meta): pass\nw = WithMeta()",
        "Other.by_meta, type(w) is WithMeta, type(Other) is Meta",
        id="metaclass",
    ),
    pytest.param(
        "Reg.subs\nclass More(Reg): pass\nReg.subs", "Reg.subs, More.__mro__[1] is Reg", id="__init_subclass__"
    ),
    pytest.param(
        "class New(Point):\n    def extra(self): return self.x + 1\nn = New(4); n.extra()",
        "n.extra(), isinstance(n, Point), type(n) is New, New.__bases__",
        id="subclass made in the cell",
    ),
    pytest.param("b = Box[int](3); b.v, Box.__orig_bases__", "b.v, type(b) is Box", id="Generic"),
    pytest.param("m = Managed(); m.d, setattr(m, 'd', 3), m.d", "m.d, Managed.d.n", id="descriptor"),
    pytest.param(
        "try: raise MyError(1)\nexcept MyError as e: err = e", "err.args, type(err) is MyError", id="exception instance"
    ),
    pytest.param("i = Outer.Inner(); i.v, Outer.Inner.__qualname__", "type(i) is Outer.Inner", id="nested class"),
    pytest.param("Call()(1), callable(Call())", "1", id="callable"),
    pytest.param("pts[p], pts[Point(1, 2)], {Point(1, 2): 1} == {p: 1}", "pts[Point(1, 2)]", id="hash and eq"),
    pytest.param(
        "import pickle\nb = pickle.dumps(p); pickle.loads(b) == p, pickle.loads(pickle.dumps(c)) is c",
        "pickle.loads(b)",
        id="pickle in the cell",
    ),
    pytest.param("import copy\ncopy.deepcopy(p) == p, copy.copy(p) is p", "1", id="copy"),
    pytest.param("import inspect\nprint(inspect.getsource(Point.zero))", "1", id="source of a method"),
    pytest.param("import inspect\nprint(inspect.getsource(Color))", "1", id="source of a class"),
    pytest.param("p.__module__, Point.__module__, Point.__qualname__, Point", "1", id="module"),
    pytest.param("bound = p.zero; meth = p.__repr__", "bound(), meth(), meth.__self__ is p", id="bound methods back"),
    pytest.param(
        "Point.__init__.__globals__ is globals(), Point.zero.__func__.__globals__ is globals()",
        "1",
        id="globals of methods",
    ),
    pytest.param(
        "class Point:\n    new = True\nq = Point()",
        "type(q) is Point, Point.new, type(p) is Point, p.x",
        id="redefined in the cell",
    ),
    pytest.param("class S:\n    __slots__ = ('a',)\ns = S(); s.a = 1", "s.a, type(s) is S", id="slots"),
    pytest.param("class N:\n    def __init__(self): self.next = self\nn = N()", "n.next is n", id="cycle"),
    pytest.param("class Lazy:\n    def __getattr__(self, n): return n\nl = Lazy()", "l.anything", id="__getattr__"),
    pytest.param(
        "class Sing:\n    _i = None\n    def __new__(cls):\n        cls._i = cls._i or super().__new__(cls)\n        return cls._i\ns = Sing()",
        "s is Sing(), Sing._i is s",
        id="singleton",
    ),
    pytest.param(
        "q = [Point(i) for i in range(3)]", "[type(x) is Point for x in q], q, Point.made", id="list of instances"
    ),
    pytest.param("Point.extra = lambda self: self.x * 10\np.extra()", "p.extra()", id="method added"),
    pytest.param("Point.__repr__ = lambda self: 'P'\np", "p", id="method replaced"),
]


@pytest.mark.parametrize(("cell", "check"), CLASS_CELLS)
def test_classes_work_as_in_the_kernel(same, cell, check):
    same(cell, before=[CLASSES], after=[check, "Point.made, Reg.subs"])


def test_a_function_that_is_redefined_in_the_kernel_is_fresh_in_the_next_cell(kernel):
    kernel.ok("def f(): return 1\ndef g(): return f()")
    assert kernel.wool("g()").value == "1"
    kernel.ok("def f(): return 2")
    assert kernel.wool("g()").value == "2"


def test_a_class_that_is_redefined_in_the_kernel_is_fresh_in_the_next_cell(kernel):
    kernel.ok("class A:\n    v = 1\nold = A()")
    assert kernel.wool("A.v, type(old) is A").value == "(1, True)"
    kernel.ok("class A:\n    v = 2")
    assert kernel.wool("A.v, type(old) is A, old.v").value == "(2, False, 1)"


def test_a_returning_instance_never_rolls_its_class_back(kernel):
    kernel.ok("class A:\n    n = 1\na = A()")
    kernel.wool("b = A(); a.x = 1")
    kernel.ok("A.n = 2; A.later = 'kept'")
    kernel.wool("c = type(a)() if False else a; a.x = 2")
    assert kernel.value("(A.n, A.later, a.n, b.n, a.x)") == (2, "kept", 2, 2, 2)


def test_class_attributes_changed_in_two_cells_add_up(kernel):
    kernel.ok("class A:\n    n = 0")
    for _ in range(3):
        kernel.wool("A.n += 1")
    assert kernel.value("A.n") == 3


def test_a_function_of_a_cell_shows_its_source_in_the_kernel(kernel):
    kernel.wool("def back(a):\n    # a comment\n    return a + 1")
    assert kernel.ok("import inspect\nprint(inspect.getsource(back))").stdout == (
        "def back(a):\n    # a comment\n    return a + 1\n\n"
    )


def test_a_class_of_a_cell_works_in_later_cells_of_both_kinds(kernel):
    kernel.wool("class A:\n    def __init__(self, v): self.v = v\na = A(1)")
    kernel.wool("b = A(2); ok = type(a) is A")
    assert kernel.value("(ok, type(a) is A, type(b) is A, b.v)") == (True, True, True, 2)
    assert kernel.value("__import__('pickle').loads(__import__('pickle').dumps(b)).v") == 2


def test_a_pickle_of_a_notebook_class_can_be_loaded_in_a_cell(kernel):
    kernel.ok("import pickle\nclass A:\n    v = 3\nblob = pickle.dumps(A())")
    assert kernel.wool("pickle.loads(blob).v").value == "3"


def test_a_function_sees_a_global_that_was_bound_after_it(kernel):
    kernel.wool("def f(): return later")
    kernel.ok("later = 5")
    assert kernel.wool("f()").value == "5"
    assert kernel.value("f()") == 5


def test_a_module_that_imports_main_finds_that_of_the_running_cell(kernel, tmp_path):
    (tmp_path / "asks_main.py").write_text("import __main__\ndef answer(): return __main__.answer_is\n")
    kernel.ok(f"import sys; sys.path.insert(0, {str(tmp_path)!r})")
    for answer in (1, 2, 3):
        assert kernel.wool(f"import asks_main\nanswer_is = {answer}\nasks_main.answer()").value == str(answer)
