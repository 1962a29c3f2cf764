"""Notebook objects in one pickle: what arrives in another `__main__`, and what the pickler gathered on the way."""

import functools
import inspect
import io
import pickle
import threading
import traceback

import pytest
from matplotlib import pyplot

from tests.support.sides import Side
from wool_jupyter.errors import StaysInKernel
from wool_jupyter.wire import classes, pickling, rebuilding, rows
from wool_jupyter.wire.unhindered import unhindered


@pytest.fixture
def kernel():
    return Side()


@pytest.fixture
def worker():
    return Side()


@pytest.fixture
def sent(kernel, worker):
    """An expression of the kernel, as the worker gets it under the name `it`."""

    def send(expression, *, known_classes=()):
        worker.names["it"] = worker.load(kernel.dump(kernel(expression), known_classes=known_classes))
        return worker.names["it"]

    return send


def test_a_figure_is_the_same_in_each_pickle():
    figure, _ = pyplot.subplots()
    pyplot.close(figure)
    assert pickling.dumps(figure) == pickling.dumps(figure)
    number = figure.canvas.mpl_connect("draw_event", print)
    pickling.dumps(figure)
    assert figure.canvas.mpl_connect("draw_event", repr) == number + 1


# Functions.


def test_a_function_reads_and_writes_the_receivers_names(kernel, worker, sent):
    kernel.run("counter = 1\ndef count():\n    global counter\n    counter += 1\n    return counter")
    sent("count")
    worker.names["counter"] = 10
    assert worker("it()") == 11
    assert worker("counter") == 11
    assert kernel("counter") == 1


def test_a_function_keeps_what_describes_it(kernel, sent):
    kernel.run(
        """
        def scale(x: int, /, by=(2,), *, offset: float = 1.5) -> float:
            "Its doc."
            return x * by[0] + offset
        scale.note = ["kept"]
        """
    )
    it = sent("scale")
    assert (it.__name__, it.__qualname__, it.__module__, it.__doc__) == ("scale", "scale", "__main__", "Its doc.")
    assert (it.__defaults__, it.__kwdefaults__) == (((2,),), {"offset": 1.5})
    assert it.__annotations__ == {"x": int, "offset": float, "return": float}
    assert it.note == ["kept"]
    assert it(3) == 7.5


def test_closures_that_share_a_variable_go_on_sharing_it(kernel, worker, sent):
    kernel.run(
        """
        def make():
            n = 0
            def up():
                nonlocal n
                n += 1
            def look():
                return n
            return up, look
        pair = make()
        """
    )
    sent("pair")
    assert worker("it[0](), it[0](), it[1]()")[2] == 2
    assert kernel("pair[1]()") == 0


def test_a_closure_that_calls_itself_calls_its_copy(kernel, worker, sent):
    kernel.run(
        """
        def make():
            def factorial(n):
                return 1 if n < 2 else n * factorial(n - 1)
            return factorial
        f = make()
        """
    )
    it = sent("f")
    assert worker("it(5)") == 120
    assert it.__closure__[0].cell_contents is it


def test_a_cell_that_is_still_empty_arrives_empty(kernel, sent):
    kernel.run(
        """
        def make():
            def early():
                return later
            if False:
                later = 1
            return early
        f = make()
        """
    )
    assert sent("f").__closure__[0] == rebuilding.make_cell()


def test_a_lambda_a_generator_and_a_coroutine_function_work(kernel, worker, sent):
    kernel.run("async def co():\n    return 3\ndef gen():\n    yield 1\nall_of_them = [lambda x: x + 1, gen, co]")
    sent("all_of_them")
    assert worker("it[0](1), list(it[1]())") == (2, [1])
    assert inspect.iscoroutinefunction(worker("it[2]"))


def test_code_keeps_its_file_and_line_numbers(kernel, sent):
    kernel.run("\n\n\ndef fail():\n    x = 1\n    return x / 0\n", filename="<ipython-input-7>")
    it = sent("fail")
    with pytest.raises(ZeroDivisionError) as caught:
        it()
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (last.filename, last.lineno, last.name) == ("<ipython-input-7>", 6, "fail")
    assert inspect.getsource(it).startswith("def fail():\n    x = 1\n")


def test_the_same_code_gives_the_same_bytes_after_a_trip(kernel, worker, sent):
    """Otherwise every function would count as changed."""
    kernel.run("def f(x):\n    return [y for y in x if y]")
    first = kernel.dump(kernel("f"))
    it = worker.load(first)
    assert worker.dump(it) == first


def test_many_codes_do_not_fill_the_memory(worker):
    with worker:
        for k in range(rebuilding._CODE_CACHE + 10):
            rebuilding.load_code(rebuilding.dump_code(compile(str(k), f"<{k}>", "eval")))
        assert len(rebuilding._code_bytes) <= rebuilding._CODE_CACHE


def test_functions_of_modules_go_by_name(sent):
    assert sent("__import__('textwrap').dedent") is __import__("textwrap").dedent


def test_a_method_is_bound_to_the_copy_of_its_object(kernel, worker, sent):
    kernel.run("class A:\n    def __init__(self):\n        self.n = 1\n    def up(self):\n        self.n += 1\na = A()")
    sent("[a, a.up]")
    worker("it[1]()")
    assert worker("it[0].n") == 2
    assert worker("it[1].__self__ is it[0]")


def test_a_plain_method_of_a_class_is_the_classs_own(kernel, worker, sent):
    kernel.run(
        "class A:\n    def f(self):\n        return 3\n    class Inner:\n        def g(self):\n            return 4"
    )
    sent("[A.f, A, A.Inner.g]")
    assert worker("it[0] is it[1].f")
    assert worker("it[2] is it[1].Inner.g")


def test_class_and_static_methods_work(kernel, worker, sent):
    kernel.run(
        """
        class A:
            @classmethod
            def make(cls):
                return cls()
            @staticmethod
            def three():
                return 3
        """
    )
    sent("[A.make, A.three, A]")
    assert worker("type(it[0]()) is it[2]")
    assert worker("it[1]()") == 3


def test_super_and_class_cells_belong_to_the_copy(kernel, worker, sent):
    kernel.run(
        """
        class A:
            def who(self):
                return "A"
        class B(A):
            def who(self):
                return super().who() + __class__.__name__
        """
    )
    sent("B()")
    assert worker("it.who()") == "AB"


def test_an_lru_cache_arrives_empty_with_its_size_and_calls_the_copy(kernel, worker, sent):
    kernel.run(
        """
        import functools
        @functools.lru_cache(maxsize=7, typed=True)
        def fib(n):
            return n if n < 2 else fib(n - 1) + fib(n - 2)
        fib(10)
        """
    )
    it = sent("fib")
    worker.names["fib"] = it
    assert it.cache_parameters() == {"maxsize": 7, "typed": True}
    assert it.cache_info().currsize == 0
    assert worker("it(20)") == 6765
    assert it.__wrapped__.__globals__ is worker.names
    assert it.__name__ == "fib"


def test_a_single_dispatch_function_dispatches(kernel, worker, sent):
    kernel.run(
        """
        import functools
        @functools.singledispatch
        def show(x):
            return "object"
        @show.register
        def _(x: int):
            return "int"
        class Mine: pass
        @show.register(Mine)
        def _(x):
            return "mine"
        """
    )
    sent("[show, Mine]")
    assert worker("it[0](1.5), it[0](1), it[0](it[1]())") == ("object", "int", "mine")
    assert worker("it[0].__name__") == "show"
    worker.run("it[0].register(str, lambda x: 'text')\nfound = it[0]('x')")
    assert worker("found") == "text"


def test_a_cached_property_is_computed_once_per_object(kernel, worker, sent):
    kernel.run(
        """
        import functools
        class A:
            n = 0
            @functools.cached_property
            def value(self):
                A.n += 1
                return A.n
        """
    )
    worker.names["A"] = sent("A")
    worker.run("a = it()")
    assert worker("a.value, a.value, it().value") == (1, 1, 2)


def test_a_new_type_stays_one(kernel, worker, sent):
    kernel.run("import typing\nUserId = typing.NewType('UserId', int)")
    it = sent("UserId")
    assert (it.__name__, it.__supertype__, it.__module__) == ("UserId", int, "__main__")
    assert it(3) == 3


# What must not travel, or not as it is.


def test_a_lock_inside_an_object_arrives_new_and_open(kernel, worker, sent):
    kernel.run("import threading\nclass A: pass\na = A()\na.lock, a.rlock = threading.Lock(), threading.RLock()")
    it = sent("a")
    assert type(it.lock) is type(threading.Lock())
    assert type(it.rlock) is type(threading.RLock())
    assert not it.lock.locked()


@pytest.mark.parametrize(
    "make",
    [
        pytest.param("threading.Lock()", id="lock"),
        pytest.param("threading.RLock()", id="reentrant lock"),
        pytest.param("memoryview(b'abc')", id="memoryview"),
        pytest.param("io.TextIOWrapper(io.BytesIO())", id="text file"),
    ],
)
def test_a_variable_that_would_silently_become_something_else_is_refused(kernel, make):
    kernel.run(f"import io, threading\nit = {make}")
    with pytest.raises(pickle.PicklingError, match="cannot pickle"):
        kernel.dump(kernel("it"))


def test_a_lock_that_is_held_is_refused(kernel):
    kernel.run("import threading\nclass A: pass\na = A()\na.lock = threading.Lock()\na.lock.acquire()")
    with pytest.raises(pickle.PicklingError, match="cannot pickle 'lock' object"):
        kernel.dump(kernel("a"))


def test_whether_something_pickles_is_tried_without_harm(kernel):
    kernel.run("import threading\nlock = threading.Lock()\nbad = [1, memoryview(b'')]")
    pickler, _ = kernel.pickler()
    with kernel:
        assert pickler.pickles([1, 2])
        assert not pickler.pickles(kernel.names["bad"])
        assert dict(pickler.memo.copy()) == {}


def test_an_absent_value_can_be_handed_around_and_not_used(kernel, sent):
    it = sent("[__import__('wool_jupyter.wire.standins', fromlist=['x']).Absent('`db` stays in the kernel')]")[0]
    assert repr(it) == "<`db` stays in the kernel>"
    for use in (
        it,
        lambda: it.x,
        lambda: it[0],
        lambda: it + 1,
        lambda: 1 + it,
        lambda: bool(it),
        lambda: list(it),
        lambda: len(it),
        lambda: setattr(it, "x", 1),
        lambda: it < 1,
    ):
        with pytest.raises(StaysInKernel, match="`db` stays in the kernel"):
            use()
    assert not hasattr(it, "__array__")
    assert it is not None


# What is gathered.


def test_names_attributes_and_text_of_functions_are_gathered(kernel):
    kernel.run(
        """
        import xml
        def outer(df):
            def inner():
                return helper(xml.etree.ElementTree)
            return df.query("a > @limit"), inner
        """,
        filename="<ipython-input-9>",
    )
    pickler, _ = kernel.pickler(kernel("outer"))
    assert {"helper", "xml", "outer"} <= pickler.names
    assert {"query", "etree", "ElementTree"} <= pickler.attributes
    assert "limit" in pickler.text
    assert pickler.files == {"<ipython-input-9>"}
    assert not pickler.whole_namespace


def test_a_function_that_may_read_anything_says_so(kernel):
    kernel.run("def f():\n    return globals()")
    assert kernel.pickler(kernel("f"))[0].whole_namespace


def test_names_read_by_methods_and_inside_frames_are_gathered(kernel):
    kernel.run(
        """
        import pandas as pd
        class A:
            def f(self):
                return helper()
        df = pd.DataFrame({"f": [lambda: other]}, dtype=object)
        """
    )
    assert {"helper", "A"} <= kernel.pickler(kernel("A()"))[0].names
    assert "other" in kernel.pickler(kernel("df"))[0].names


def test_a_class_also_arrives_under_its_name_only_if_that_is_its_name(kernel):
    kernel.run("class A: pass\nB = A\nclass A: pass")
    assert "A" in kernel.pickler(kernel("A"))[0].names
    assert "A" not in kernel.pickler(kernel("B"))[0].names


def test_submodules_that_a_package_was_asked_for_are_found():
    import xml.etree.ElementTree

    assert rows.submodules_used(xml, {"etree", "ElementTree"}) == ["xml.etree", "xml.etree.ElementTree"]
    assert rows.submodules_used(xml, {"ElementTree"}) == []


def test_objects_keep_their_numbers_over_dumps_and_loads(kernel, worker):
    """The ways there and back speak of objects by number."""
    kernel.run("class A: pass\na = A()\nshared = [a, 'text', (1, 2)]\nboth = {'a': a, 'list': shared}")
    file = io.BytesIO()
    with kernel:
        pickler = pickling.NotebookPickler(file)
        for name in ("a", "shared", "both"):
            pickler.dump((kernel(name),))
        numbers = {n: type(o) for n, o in pickler.memo.copy().values()}
    with worker:
        unpickler = pickle.Unpickler(io.BytesIO(file.getvalue()))
        for _ in range(3):
            unpickler.load()
        loaded = unpickler.memo.copy()
    same = {n: (numbers[n].__name__, type(loaded[n]).__name__) for n in numbers}
    assert {pair for pair in same.values() if pair[0] != pair[1]} == set()
    assert len(loaded) == len(numbers)


def test_the_collector_rests_only_inside():
    import gc

    assert gc.isenabled()
    with unhindered():
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.disable()
    try:
        with unhindered():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


# Classes.


POINT = """
class Point:
    kind = "point"
    def __init__(self, x):
        self.x = x
    def twice(self):
        return scale * self.x
p = Point(3)
"""


def test_a_class_arrives_with_its_state_and_reads_the_receivers_names(kernel, worker, sent):
    kernel.run("scale = 2\n" + POINT)
    it = sent("p")
    worker.names["scale"] = 5
    assert worker("it.twice()") == 15
    assert (type(it).__module__, type(it).__name__, type(it).kind) == ("__main__", "Point", "point")


def test_two_loads_of_a_class_are_one_class(kernel, worker):
    kernel.run(POINT)
    data = kernel.dump(kernel("p"))
    first, second = worker.load(data), worker.load(data)
    assert type(first) is type(second)
    assert type(first) is not kernel("Point")


def test_an_object_that_comes_home_has_the_class_that_it_left_with(kernel, worker, sent):
    kernel.run(POINT)
    sent("p")
    assert type(kernel.load(worker.dump(worker("it")))) is kernel("Point")


def test_an_object_that_comes_home_does_not_roll_its_class_back(kernel, worker, sent):
    kernel.run(POINT)
    sent("p")
    back = worker.dump(worker("it"))
    kernel.run("Point.kind = 'changed meanwhile'")
    kernel.load(back)
    assert kernel("Point.kind") == "changed meanwhile"


def test_a_known_class_is_referred_to_and_not_described(kernel, worker, sent):
    kernel.run(POINT)
    sent("p")
    with kernel:
        ident = classes.class_id(kernel("Point"))
    pickler, short = kernel.pickler(kernel("p"), known_classes={ident})
    assert pickler.described == {}
    assert len(short) < len(kernel.dump(kernel("p")))
    assert type(worker.load(short)) is type(worker("it"))


def test_after_forgetting_a_description_makes_a_new_class(kernel, worker):
    """A worker forgets before each cell, so that methods belong to that cell's names."""
    kernel.run(POINT)
    data = kernel.dump(kernel("p"))
    first = worker.load(data)
    with worker:
        classes.forget()
    second = worker.load(data)
    assert type(first) is not type(second)
    assert second.twice.__func__ is not first.twice.__func__


def test_an_object_of_a_forgotten_class_keeps_its_id(kernel, worker):
    kernel.run(POINT)
    first = worker.load(kernel.dump(kernel("p")))
    with worker:
        classes.forget()
    back = worker.dump(first)
    assert type(kernel.load(back)) is kernel("Point")


def test_enum_members_stay_identical(kernel, worker, sent):
    kernel.run(
        "import enum\nclass Color(enum.Enum):\n    RED = 1\n    BLUE = 2\nclass F(enum.Flag):\n    A = 1\n    B = 2"
    )
    sent("[Color.RED, {Color.BLUE: Color.RED}, F.A | F.B, Color]")
    assert worker("it[0] is it[3].RED and it[1][it[3].BLUE] is it[0]")
    back = kernel.load(worker.dump(worker("it")))
    assert back[0] is kernel("Color.RED")
    assert back[2] is kernel("F.A | F.B")


def test_a_subclass_hook_does_not_run_again(kernel, worker, sent):
    kernel.run(
        """
        seen = []
        class Base:
            def __init_subclass__(cls, **options):
                super().__init_subclass__(**options)
                seen.append(cls.__name__)
        class Child(Base): pass
        """
    )
    worker.names["seen"] = []
    it = sent("Child")
    assert worker("seen") == []
    worker.run("class Another(it.__base__): pass")
    assert worker("seen") == ["Another"], "the hook itself is there"
    assert it.__name__ == "Child"


def test_a_metaclass_does_not_run_again(kernel, worker, sent):
    kernel.run(
        """
        made = []
        class Meta(type):
            def __new__(meta, name, bases, namespace):
                made.append(name)
                return super().__new__(meta, name, bases, namespace)
            def __call__(cls):
                return "called"
        class A(metaclass=Meta): pass
        """
    )
    worker.names["made"] = []
    it = sent("A")
    assert worker("made") == []
    assert worker("it()") == "called"
    assert type(it).__name__ == "Meta"


def test_abstract_classes_stay_abstract_and_keep_their_registrations(kernel, worker, sent):
    kernel.run(
        """
        import abc
        class Shape(abc.ABC):
            @abc.abstractmethod
            def area(self): ...
        class Square(Shape):
            def area(self): return 1
        class Duck: pass
        Shape.register(Duck)
        """
    )
    sent("[Shape, Square, Duck]")
    with pytest.raises(TypeError, match="abstract"):
        worker("it[0]()")
    assert worker("it[1]().area(), issubclass(it[2], it[0])") == (1, True)


def test_dataclasses_slots_and_generics_work(kernel, worker, sent):
    kernel.run(
        """
        import dataclasses, typing
        @dataclasses.dataclass(frozen=True, slots=True)
        class D:
            x: int
            y: list = dataclasses.field(default_factory=list)
        T = typing.TypeVar("T")
        class G(typing.Generic[T]):
            pass
        class S:
            __slots__ = ("v",)
        s = S()
        s.v = 3
        """
    )
    sent("[D(1), G[int], G(), s]")
    assert worker("it[0].x, it[0].y, it[3].v") == (1, [], 3)
    assert worker("it[1].__origin__ is type(it[2])")
    assert kernel.load(worker.dump(worker("it")))[0] == kernel("D(1)")


def test_the_standard_pickle_works_with_what_arrived(kernel, worker, sent):
    kernel.run(POINT)
    it = sent("p")
    worker.names["Point"] = type(it)
    assert worker("__import__('pickle').loads(__import__('pickle').dumps(it)).x") == 3


def test_differences_of_a_class_are_told_and_applied(kernel):
    kernel.run(POINT)
    with kernel:
        before = classes.parts_of(kernel("Point"))
        kernel.run("Point.kind = 'new'\nPoint.added = 1\ndel Point.twice\nPoint.__annotations__")
        [(_, _, rebound, deleted)] = classes.changes(kernel("Point"), before)
        assert rebound == {"kind": "new", "added": 1}
        assert deleted == ["twice"]
        kernel.run(POINT)
        again = classes.class_id(kernel("Point"))
        classes.apply_change((again, "", rebound, [*deleted, "never there"]))
    assert kernel("Point.kind, Point.added, hasattr(Point, 'twice')") == ("new", 1, False)


def test_a_pydantic_like_class_that_holds_its_own_method_pickles(kernel, worker, sent):
    kernel.run(
        """
        class A:
            @classmethod
            def make(cls):
                return cls()
        A.maker = A.make
        """
    )
    sent("A")
    assert worker("type(it.maker()) is it")


def test_functools_partial_and_wraps_survive(kernel, worker, sent):
    kernel.run(
        """
        import functools
        def deco(f):
            @functools.wraps(f)
            def inner(*a):
                return f(*a) + 1
            return inner
        @deco
        def g(x): return x
        p = functools.partial(g, 3)
        """
    )
    sent("p")
    assert worker("it()") == 4
    assert isinstance(worker("it"), functools.partial)
    assert worker("it.func.__wrapped__(1)") == 1


@pytest.mark.parametrize(
    "definition",
    [
        "class N(typing.NamedTuple):\n    a: int\n    b: str = 'b'",
        "N = collections.namedtuple('N', 'a b', defaults=['b'])",
        "class N(collections.namedtuple('N', 'a b', defaults=['b'])):\n    pass",
    ],
    ids=["typing", "collections", "subclass"],
)
def test_named_tuples_work(kernel, worker, sent, definition):
    kernel.run(f"import collections, typing\n{definition}")
    sent("N(2)")
    assert worker("it.a, it.b, it._replace(a=3)[0]") == (2, "b", 3)
    back = kernel.load(worker.dump(worker("it")))
    assert type(back) is kernel("N")
