"""What a cell does to the objects that it was given."""

import pytest

SETUP = """
import collections, dataclasses, types, argparse, decimal, datetime
import numpy as np, pandas as pd
xs = [1, [2, 3], {'k': 1}]; d = {'a': [1], 'b': {'c': 2}}; s = {1, 2}; ba = bytearray(b'abc')
arr = np.arange(10.0); big = np.zeros(40_000); grid = np.arange(12).reshape(3, 4); objects = np.array([[1], 'x'], dtype=object)
frame = pd.DataFrame({'a': [1, 2, 3]}); series = frame['a'].copy(); t = ([1], {'k': 2})
class K:
    count = 0
    items = []
    def __init__(self): self.xs = []; self.n = 0
class Slots:
    __slots__ = ('v', '__weakref__')
    def __init__(self): self.v = [1]
class Sub(list): pass
class Tags(dict):
    def __init__(self, *a): super().__init__(*a); self.tag = 'old'
k = K(); slots = Slots(); sub = Sub([1]); sub.tag = [1]; tags = Tags({'a': 1})
@dataclasses.dataclass
class D:
    a: int = 1
    b: list = dataclasses.field(default_factory=list)
data = D(); ns = types.SimpleNamespace(a=1, b=[2]); args = argparse.Namespace(lr=1)
od = collections.OrderedDict(a=1, b=2); dd = collections.defaultdict(list, a=[1]); counter = collections.Counter('aab')
chain = collections.ChainMap({'a': 1}, {'b': 2}); ul = collections.UserList([1])
def f(): f.calls = getattr(f, 'calls', 0) + 1; return f.calls
def make():
    n = 0
    def up():
        nonlocal n
        n += 1
        return n
    def get(): return n
    return up, get
up, get = make()
cycle = [1]; cycle.append(cycle)
everything = {'xs': xs, 'k': k}
"""

CHANGES = [
    pytest.param("xs.append(4)", "xs", "xs", id="list append"),
    pytest.param("xs[1].append(4)", "xs", "xs[1]", id="inner list"),
    pytest.param("xs[2]['new'] = [xs]", "xs[2]['new'][0] is xs", "xs[2]", id="inner dict, cycle"),
    pytest.param("xs.sort(key=str); xs.reverse()", "xs", "xs", id="list sort"),
    pytest.param("xs.clear()", "xs", "xs", id="list clear"),
    pytest.param("xs += [5]", "xs", "xs", id="list +="),
    pytest.param("xs[:] = range(3)", "xs", "xs", id="list slice"),
    pytest.param("del xs[0]", "xs", "xs", id="list del"),
    pytest.param("d['new'] = d['a']; d['a'].append(2)", "d, d['new'] is d['a']", "d", id="dict"),
    pytest.param("d['b']['c'] += 1", "d", "d['b']", id="inner dict"),
    pytest.param("d['z'] = d.pop('a')", "list(d)", "d", id="dict order"),
    pytest.param("d |= {'q': 1}", "d", "d", id="dict |="),
    pytest.param("s.add(3); s.discard(1)", "s", "s", id="set"),
    pytest.param("s |= {9}", "s", "s", id="set |="),
    pytest.param("ba.extend(b'd')", "ba", "ba", id="bytearray"),
    pytest.param("ba[0] = 0", "ba", "ba", id="bytearray item"),
    pytest.param("arr[0] = 7", "arr", "arr", id="array"),
    pytest.param("arr[:3] = 7", "arr", "arr", id="array slice"),
    pytest.param("arr += 1", "arr", "arr", id="array +="),
    pytest.param("big[10:20] = 7", "(big.sum(), big[10])", "big", id="large array slice"),
    pytest.param("big *= 2; big += 1", "big.sum()", "big", id="large array"),
    pytest.param("big.sort(); big[-1] = 5", "big.sum()", "big", id="large array item"),
    pytest.param("grid[:, 1] = 0", "grid", "grid", id="column"),
    pytest.param("grid.T[0] = 9", "grid", "grid", id="through a transpose"),
    pytest.param("v = grid[1]; v[:] = 5", "grid, v", "grid", id="through a view"),
    pytest.param("objects[0].append(2)", "objects", "objects", id="object array"),
    pytest.param("frame['b'] = frame.a * 2", "frame", "frame", id="frame column"),
    pytest.param("frame.loc[0, 'a'] = 10", "frame", "frame", id="frame item"),
    pytest.param("frame.drop(columns='a', inplace=True)", "frame", "frame", id="frame drop"),
    pytest.param("frame.attrs['k'] = 1", "frame.attrs", "frame", id="frame attrs"),
    pytest.param("frame.columns = ['z']", "frame", "frame", id="frame columns"),
    pytest.param("series[0] = 9", "series, frame", "series", id="series"),
    pytest.param("series.name = 'n'", "series", "series", id="series name"),
    pytest.param("t[0].append(2)", "t", "t[0]", id="in a tuple"),
    pytest.param("k.n = 5; k.xs.append(1)", "k.__dict__", "k", id="instance"),
    pytest.param("del k.n", "k.__dict__", "k", id="instance attribute deleted"),
    pytest.param("k.me = k", "k.me is k", "k", id="instance cycle"),
    pytest.param("K.count += 1; K.new = 'n'", "K.count, K.new, k.count", "K", id="class attribute"),
    pytest.param("K.items.append(1)", "K.items, k.items is K.items", "K.items", id="class attribute's list"),
    pytest.param("del K.count", "hasattr(K, 'count')", "K", id="class attribute deleted"),
    pytest.param("K.double = lambda self: self.n * 2", "k.double()", "K", id="method added"),
    pytest.param("type(k).count = 8", "K.count", "K", id="class attribute by type()"),
    pytest.param("k.__class__.count = 8", "K.count", "K", id="class attribute by __class__"),
    pytest.param("slots.v.append(2)", "slots.v", "slots.v", id="slots, inner"),
    pytest.param("slots.v = 3", "slots.v", "slots", id="slots"),
    pytest.param("sub.append(2); sub.tag.append(2)", "sub, sub.tag", "sub", id="list subclass"),
    pytest.param("tags['b'] = 2; tags.tag = 'new'", "tags, tags.tag", "tags", id="dict subclass"),
    pytest.param("data.a = 2; data.b.append(1)", "data", "data", id="dataclass"),
    pytest.param("ns.a = 2; ns.c = 1", "ns", "ns", id="namespace"),
    pytest.param("args.lr = 0.1", "args", "args", id="argparse"),
    pytest.param("od['c'] = 3; od.move_to_end('a')", "od", "od", id="OrderedDict"),
    pytest.param("dd['b'].append(1); dd['a'].append(2)", "dd", "dd", id="defaultdict"),
    pytest.param("dd['looked']", "dict(dd)", "dd", id="defaultdict by a look"),
    pytest.param("counter.update('bbb')", "counter", "counter", id="Counter"),
    pytest.param("chain['a'] = 5; chain['z'] = 1", "chain", "chain", id="ChainMap"),
    pytest.param("ul.append(2)", "ul", "ul", id="UserList"),
    pytest.param("f(); f()", "f.calls, f()", "f", id="function attribute"),
    pytest.param("up(); up()", "get(), up(), get()", "up", id="closure"),
    pytest.param("f.__doc__ = 'new'; f.__defaults__ = ()", "f.__doc__", "f", id="function doc"),
    pytest.param("cycle.append(2)", "cycle[1] is cycle, cycle[2]", "cycle", id="cycle"),
    pytest.param("everything['xs'].append(1); everything['k'].n = 3", "xs, k.n", "k", id="by a dict of globals"),
    pytest.param("ys = xs; ys.append(4)", "xs, ys is xs", "xs", id="under another name"),
    pytest.param("def g(a): a.append(4)\ng(xs)", "xs", "xs", id="by a function"),
    pytest.param("import random; random.seed(1); random.shuffle(xs)", "len(xs)", "xs", id="shuffle"),
    pytest.param("xs[0] = lambda: 3", "xs[0]()", "xs", id="a function put in"),
    pytest.param(
        "class New: v = 4\nxs[0] = New()", "xs[0].v, type(xs[0]) is New", "xs", id="an instance of a new class put in"
    ),
    pytest.param("xs.append(k); k.n = 9", "xs[-1] is k, k.n", "k", id="one input into another"),
    pytest.param("xs[1], d['a'] = d['a'], xs[1]", "xs, d", "xs", id="swap"),
    pytest.param("a, b = xs, d\nb['a'] = a", "d['a'] is xs, a is xs", "d", id="two names"),
    pytest.param("objects[1] = objects[0]", "objects[0] is objects[1]", "objects", id="alias in an object array"),
]


@pytest.mark.parametrize(("cell", "check", "thing"), CHANGES)
def test_a_change_is_seen_through_every_alias(same, cell, check, thing):
    same(cell, before=[SETUP, f"alias = [{thing}]"], after=[f"{check}", f"alias[0] is {thing}, alias[0]"])


@pytest.mark.parametrize(
    ("make", "change", "check"),
    [
        pytest.param("from collections import deque; x = deque([1], maxlen=3)", "x.append(2)", "list(x)", id="deque"),
        pytest.param("from array import array; x = array('i', [1])", "x.append(2)", "list(x)", id="array.array"),
        pytest.param("import random; x = random.Random(1)", "n = x.random()", "n != x.random()", id="random.Random"),
        pytest.param("import numpy as np; x = np.random.default_rng(1)", "n = x.random()", "n != x.random()", id="rng"),
        pytest.param("import itertools; x = itertools.count()", "n = next(x)", "next(x)", id="count"),
        pytest.param("x = iter([1, 2, 3])", "n = next(x)", "list(x)", id="list iterator"),
        pytest.param("import io; x = io.StringIO('a')", "x.read(); x.write('b')", "x.getvalue()", id="StringIO"),
        pytest.param("import io; x = io.BytesIO(b'a')", "x.write(b'bcd')", "x.getvalue()", id="BytesIO"),
        pytest.param("import pandas as pd; x = pd.Index([1])", "x.name = 'n'", "x.name", id="index"),
        pytest.param("import queue; x = queue.SimpleQueue; y = []", "y.append(x().empty())", "y", id="queue"),
        pytest.param("import datetime; x = [datetime.date(2020, 1, 1)]", "x *= 2", "x[0] is x[1], x", id="dates"),
    ],
)
def test_a_change_to_whatever_can_be_pickled_is_seen(kernel, make, change, check):
    kernel.ok(make)
    kernel.ok(change)
    expected = kernel.ok(check).value
    kernel.reset()
    kernel.ok(make)
    kernel.wool(change)
    assert kernel.ok(check).value == expected


def test_a_change_before_an_error_is_seen(kernel):
    kernel.ok("xs = []; alias = xs")
    assert kernel.wool_error("xs.append(1)\n1 / 0").ename == "ZeroDivisionError"
    assert kernel.value("(xs, alias is xs)") == ([1], True)


def test_an_estimator_is_fitted_in_place(kernel):
    kernel.ok(
        "import numpy as np\nfrom sklearn.linear_model import LinearRegression\n"
        "from sklearn.pipeline import make_pipeline\nfrom sklearn.preprocessing import StandardScaler\n"
        "model = make_pipeline(StandardScaler(), LinearRegression()); alias = model; step = model[1]\n"
        "X = np.arange(20.0).reshape(-1, 1); y = 3 * X[:, 0] + 1"
    )
    result = kernel.wool("model.fit(X, y)")
    assert "text/html" in result.data
    assert kernel.value("(alias is model, model[1] is step, float(alias.predict([[10.0]])[0].round(6)))") == (
        True,
        True,
        31.0,
    )


def test_a_grid_search_is_fitted_in_place(kernel):
    kernel.ok(
        "from sklearn.datasets import load_iris\nfrom sklearn.model_selection import GridSearchCV\n"
        "from sklearn.tree import DecisionTreeClassifier\nX, y = load_iris(return_X_y=True)\n"
        "search = GridSearchCV(DecisionTreeClassifier(random_state=0), {'max_depth': [1, 3]}); alias = search"
    )
    kernel.wool("search.fit(X, y);")
    assert kernel.value("(alias is search, alias.best_params_, int(search.predict(X[:1])[0]))") == (
        True,
        {"max_depth": 3},
        0,
    )


def test_a_changed_input_brings_nothing_else_along(kernel):
    kernel.ok("a = [1]; b = [a, 2]; c = {'b': b}; ids = [id(a), id(b), id(c)]")
    kernel.wool("a.append(len(c))")
    assert kernel.value("(ids == [id(a), id(b), id(c)], c)") == (True, {"b": [[1, 1], 2]})


def test_an_input_that_was_deleted_in_the_cell_keeps_its_change_for_its_aliases(kernel):
    kernel.ok("xs = []; alias = xs")
    kernel.wool("xs.append(1)\ndel xs")
    assert kernel.value("(alias, 'xs' in globals())") == ([1], False)


def test_an_input_that_was_rebound_in_the_cell_keeps_its_change_for_its_aliases(kernel):
    kernel.ok("xs = []; alias = xs")
    kernel.wool("xs.append(1)\nxs = 'new'")
    assert kernel.value("(alias, xs)") == ([1], "new")


def test_views_of_one_array_stay_views(kernel):
    kernel.ok("import numpy as np\nbase = np.zeros(50_000); head = base[:100]; both = [base, head]")
    kernel.wool("base[:] = 1; head[0] = 5")
    assert kernel.value("(float(base[0]), float(head[0]), float(base[1]), np.shares_memory(base, head))") == (
        5.0,
        5.0,
        1.0,
        True,
    )


def test_many_small_objects_keep_their_identity(kernel):
    kernel.ok(
        "class P:\n    def __init__(self, i): self.i = i\nps = [P(i) for i in range(20_000)]; first, last = ps[0], ps[-1]"
    )
    kernel.wool("for p in ps: p.i += 1")
    assert kernel.value("(ps[0] is first, ps[-1] is last, sum(p.i for p in ps))") == (True, True, 200_010_000)
