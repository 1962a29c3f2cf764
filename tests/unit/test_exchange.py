"""Variables there and back (`notebook.shipment`, `worker.cell.changes`, `wire.patching`, `notebook.homecoming`), in one process."""

import numpy as np
import pytest

from tests.support.sides import Side, run_cell, ship
from wool_jupyter.errors import CannotLoad, CannotShip, StaysInKernel
from wool_jupyter.wire.patching import Patch
from wool_jupyter.worker.cell.changes import Arrival


@pytest.fixture
def kernel():
    return Side()


@pytest.fixture
def cell(kernel, tmp_path):
    def run(source):
        return run_cell(kernel, source, tmp_path)

    return run


SLOTTED = "class S:\n    __slots__ = ('v',)\n    def __init__(self, v):\n        self.v = v\n"
STATEFUL = """
class H:
    def __init__(self):
        self.n, self.handle = 1, object
    def __getstate__(self):
        return {"n": self.n}
    def __setstate__(self, state):
        if state["n"] == 13:
            raise LookupError("unlucky")
        self.n, self.handle = state["n"], object
"""

INPUTS = """
import threading, functools, collections, enum
import numpy as np, pandas as pd
class P:
    def __init__(self, x):
        self.x = x
    def double(self):
        return 2 * self.x
class E(enum.Enum):
    A = 1
def f():
    return 1
numbers, mapping, strings = [1, 2], {"a": [1]}, {f"word {k}" for k in range(50)}
nested, point, member = {"p": P([1]), "t": (1, [2])}, P(3), E.A
array, big, frame = np.arange(5), np.arange(100_000), pd.DataFrame({"a": [1, 2], "b": ["x", "y"]})
series, text, raw, error = pd.Series([1, 2]), "abc", bytearray(b"abc"), ValueError("x", 3)
objects = np.array([1, "a", [2]], dtype=object)
cached, part = functools.lru_cache(f), functools.partial(f)
"""


def test_unchanged_inputs_report_nothing(kernel, cell):
    kernel.run(INPUTS)
    names = (
        "numbers mapping strings nested point member array big frame series text raw error objects cached part f P E"
    )
    ran = cell("; ".join(names.split()) + "; cached(); point.double(); frame.sum(); big.sum(); sorted(strings)")
    assert set(names.split()) <= ran.shipment.digests().keys()
    assert ran.changed == set()
    assert ran.arrived.names == {}
    assert ran.arrived.class_changes == []
    assert ran.notices == []


@pytest.mark.parametrize(
    ("make", "change", "shows"),
    [
        pytest.param("x = [1]", "x.append(2)", "x == [1, 2]", id="list"),
        pytest.param("x = {'a': 1}", "x['b'] = 2; x.pop('a')", "list(x.items()) == [('b', 2)]", id="dict"),
        pytest.param("x = {'a': 1, 'b': 2}", "x['a'] = x.pop('a')", "list(x) == ['b', 'a']", id="order of a dict"),
        pytest.param("x = {1}", "x.add(2); x.discard(1)", "x == {2}", id="set"),
        pytest.param("x = bytearray(b'a')", "x += b'b'", "x == b'ab'", id="bytearray"),
        pytest.param("x = P(1)", "x.x = 2; x.y = 3", "(x.x, x.y) == (2, 3)", id="instance"),
        pytest.param("x = P(1)", "del x.x", "vars(x) == {}", id="attribute deleted"),
        pytest.param("x = np.zeros(3)", "x[1] = 5", "x.tolist() == [0, 5, 0]", id="array"),
        pytest.param("x = np.zeros(100_000)", "x[-1] = 5", "x[-1] == 5", id="large array"),
        pytest.param("x = np.array([[1], 'a', None], dtype=object)", "x[0].append(2)", "x[0] == [1, 2]", id="objects"),
        pytest.param("x = pd.DataFrame({'a': [1]})", "x['b'] = 2", "x.columns.tolist() == ['a', 'b']", id="frame"),
        pytest.param("x = pd.DataFrame({'a': [1]})", "x.attrs['k'] = 1", "x.attrs == {'k': 1}", id="frame's notes"),
        pytest.param("x = pd.Series([1, 2])", "x[0] = 7", "x.tolist() == [7, 2]", id="series"),
        pytest.param("x = H()", "x.n = 2", "(x.n, x.handle) == (2, object)", id="own state"),
        pytest.param("x = ValueError('a')", "x.note = 1", "x.note == 1", id="exception"),
        pytest.param("def x(): return 1", "x.calls = [1]", "x.calls == [1]", id="function's attribute"),
        pytest.param("x = f(1)", "x()", "x.__closure__[0].cell_contents == 2", id="closure"),
    ],
)
def test_a_change_in_place_reaches_the_original(kernel, cell, make, change, shows):
    kernel.run(
        "import numpy as np, pandas as pd\nclass P:\n    def __init__(self, x):\n        self.x = x\n"
        "def f(n):\n    def g():\n        nonlocal n\n        n += 1\n    return g\n" + STATEFUL
    )
    kernel.run(f"{make}\nother = 5")
    kernel.run("same = x\nholder = [x]")
    ran = cell(f"other\n{change}")
    assert ran.changed == {"x"}
    assert kernel("x is same and holder[0] is x")
    assert kernel(shows)
    assert ran.notices == []


def test_an_input_inside_another_is_one_object_on_both_sides(kernel, cell):
    kernel.run("a = [1]\nb = {'a': a, 'again': [a]}")
    cell("assert b['a'] is a\na.append(2)\nb['new'] = a")
    assert kernel("a is b['a'] is b['again'][0] is b['new']")
    assert kernel("a") == [1, 2]


def test_names_bound_arrive_and_originals_come_home_as_themselves(kernel, cell):
    kernel.run("a = [1]\ngone = 1")
    ran = cell("c = [a, 2]\nimport math\ndef g(): return a\ndel gone")
    assert set(ran.arrived.names) == {"c", "math", "g"}
    assert kernel("c[0] is a and g() is a")
    assert "gone" not in kernel.names


@pytest.mark.parametrize(
    ("original", "new"),
    [
        pytest.param("np.zeros(2)", "np.ones(3)", id="another shape"),
        pytest.param("np.zeros(2)", "np.ones(2, dtype='int8')", id="another dtype"),
        pytest.param("np.broadcast_to(0.0, 2)", "np.ones(2)", id="read-only"),
    ],
)
def test_an_array_that_cant_be_filled_in_place_is_replaced(original, new):
    original, new = eval(original), eval(new)
    holder, table = [original], {"x": original}
    contents = {("array", None): ([1], [new]), ("list", None): ([2], [[original, 1]])}
    contents["dict", None] = [3], [{"x": original}]
    patch = Patch([("x", contents)], {1: original, 2: holder, 3: table})
    assert patch.current(original) is new
    assert holder[0] is new
    assert table["x"] is new
    assert patch.inside == {id(original): "x"}


@pytest.mark.parametrize(
    "made", ["np.broadcast_to(np.arange(10.0), (3, 10))", "np.array([None, 'a'])", "np.arange(9)[::2]"]
)
def test_what_must_not_be_written_into_here_must_not_there(kernel, cell, made):
    kernel.run(f"import numpy as np\nx = {made}; x.flags.writeable = False; original, before = x, x.copy()")
    cell("""
        try:
            x[0] = 5
        except ValueError as error:
            said = str(error)
    """)
    assert kernel("said") == "assignment destination is read-only"
    assert kernel("x is original and (x == before).all()")


def test_an_array_that_fits_is_filled_in_place():
    original, holder = np.zeros(2), []
    patch = Patch([("x", {("array", None): ([1], [np.ones(2)])})], {1: original, 2: holder})
    assert original.tolist() == [1, 1]
    assert patch.replaced == {}


@pytest.mark.parametrize(
    ("make", "change", "shows"),
    [
        pytest.param("x = S(1)", "x.v = 2", "x.v == 2", id="slots"),
        pytest.param("x = collections.deque([1])", "x.append(2)", "list(x) == [1, 2]", id="deque"),
        pytest.param("x = random.Random(1)", "x.random()", "x.random() == second", id="random numbers"),
        pytest.param(
            "x = collections.defaultdict(list)", "x['a'].append(1)", "dict(x) == {'a': [1]}", id="defaultdict"
        ),
        pytest.param("x = collections.Counter('a')", "x.update('ab')", "dict(x) == {'a': 2, 'b': 1}", id="Counter"),
    ],
)
def test_whatever_its_own_pickling_can_refill_keeps_its_identity(kernel, cell, make, change, shows):
    kernel.run(
        "import collections, random\nsecond = [r.random() for r in [random.Random(1)] for _ in 'ab'][1]\n"
        + SLOTTED
        + make
    )
    kernel.run("same, holder = x, [x]")
    ran = cell(change)
    assert kernel(shows)
    assert kernel("x is same and holder[0] is x")
    assert ran.notices == []


def test_what_cant_be_filled_in_place_is_replaced_with_a_notice(kernel, cell):
    kernel.run("import array\nx = array.array('i', [1])\nholder = [x]")
    ran = cell("x.append(2)\nholder")
    assert kernel("list(x)") == [1, 2]
    assert kernel("holder[0] is x")
    assert len(ran.notices) <= 1


def test_a_set_holds_the_replacement(kernel, cell):
    kernel.run(SLOTTED + "s = {S(1)}")
    cell("for each in s:\n    each.v = 2")
    assert kernel("[each.v for each in s]") == [2]


def test_a_failing_setstate_leaves_the_object_as_it_was(kernel, cell):
    kernel.run(STATEFUL + "x = H()")
    ran = cell("x.n = 13\nother = 2")
    assert ran.notices == ["`x` could not be brought up to date: LookupError: unlucky"]
    assert kernel("(x.n, x.handle, other)") == (1, object, 2)


def test_a_dead_copy_of_a_state_never_rolls_an_instance_back(kernel, cell):
    """The dict that pickling made for an instance has the number of the kernel's own."""
    kernel.run("class P: pass\npoints = [P() for _ in range(3)]\nfor p in points:\n    p.n = [0]\n    p.k = 0")
    cell("for p in points:\n    p.k += 1\n    p.n.append(p.k)")
    assert kernel("[(p.k, p.n) for p in points]") == [(1, [0, 1])] * 3


def test_numbers_agree_on_both_sides(kernel, tmp_path):
    kernel.run(INPUTS)
    source = (
        "numbers, mapping, strings, nested, point, member, array, big, frame, series, raw, error, cached, part, P, E"
    )
    shipment, names = ship(kernel, source, tmp_path)
    with kernel:
        originals = dict(shipment.originals)
    worker = Side()
    with worker:
        arrival = Arrival(names)
        mine = {n: type(o).__name__ for n, o in arrival._objects.items() if type(o).__name__ != "_Gone"}
    theirs = {n: type(o).__name__.replace("PickleBuffer", "bytearray") for n, o in originals.items() if n in mine}
    assert mine == theirs


def test_class_attributes_that_the_cell_changed_come_home(kernel, cell):
    kernel.run("class P:\n    n = 1\np = P()")
    cell("P.n += 1\np")
    assert kernel("P.n, type(p) is P") == (2, True)


def test_a_variable_that_cant_travel_is_named_with_its_path(kernel, cell):
    kernel.run("x = memoryview(b'')")
    with pytest.raises(CannotShip, match=r"`x` \(memoryview\) stays in the kernel"):
        cell("x")


def test_a_part_that_cant_travel_stays_and_is_there_again_afterwards(kernel, cell):
    kernel.run("view = memoryview(b'')\nx = {'k': [1, view], 'n': 1}\nalias = x['k']")
    cell("x['n'] = 2; x['k'].insert(0, x['k'][1]); x['again'] = x['k'][0]")
    assert kernel("x['n'], len(alias), alias[0] is view, alias[2] is view, x['again'] is view") == (
        2,
        3,
        True,
        True,
        True,
    )


@pytest.mark.parametrize(
    "make",
    [
        "open('/dev/null')",
        "open('/dev/null', 'rb')",
        "(i for i in ())",
        "__import__('threading').Thread()",
        "memoryview(b'')",
    ],
)
def test_a_part_that_stays_is_left_alone_by_changes_around_it(kernel, cell, make):
    kernel.run(
        f"part = {make}\nkind = type(part)\nd = {{'f': part, 'n': 0}}\nclass C: pass\nc = C(); c.f = part; c.n = 0"
    )
    ran = cell("d['n'] = 1; c.n = 1")
    assert kernel("d['f'] is part, c.f is part, type(part) is kind, d['n'], c.n") == (True, True, True, 1, 1)
    assert ran.notices == []
    kernel.run("getattr(part, 'close', str)()")


def test_a_part_that_stays_says_so_when_it_is_used(kernel, cell):
    kernel.run("x = {'k': [1, memoryview(b'')]}")
    with pytest.raises(StaysInKernel, match=r"`x\['k'\]\[1\]` \(memoryview\) stays in the kernel"):
        cell("x['k'][1].tobytes()")


def test_what_is_left_behind_can_still_not_be_read_under_a_name_of_its_own(kernel, cell):
    kernel.run("x = [memoryview(b'')]\nz = x[0]")
    with pytest.raises(CannotShip, match=r"`z` \(memoryview\)"):
        cell("x, z")


def test_a_library_s_object_is_never_taken_to_pieces(kernel, tmp_path):
    """Without an inner part it would be broken in a way that nobody can explain. In a container it stays as a whole."""
    kernel.run("import queue\nq = queue.Queue()\nq.item = memoryview(b'')\nconf = {'q': q, 'n': 1}")
    with pytest.raises(CannotShip, match=r"`q\.item` \(memoryview\)"):
        ship(kernel, "q", tmp_path)
    shipment, _ = ship(kernel, "conf", tmp_path)
    (notice,) = shipment.notices
    assert notice.startswith("`conf['q']` (queue.Queue) stays in the kernel")


def test_a_variable_that_cant_be_loaded_is_named(kernel, cell):
    kernel.run("class B:\n    def __reduce__(self):\n        return int, ('no number',)\nok, bad = [1], B()")
    with pytest.raises(CannotLoad, match="`bad` could not be loaded on the worker: ValueError"):
        cell("ok, bad")


def test_an_input_that_a_cell_rebinds_and_changes_is_both(kernel, cell):
    kernel.run("a = [1]\nb = a")
    cell("a.append(2)\na = 'new'")
    assert kernel("a, b") == ("new", [1, 2])


def test_a_large_unchanged_neighbour_of_a_change_does_not_travel(kernel, cell):
    kernel.run("import numpy as np\nx = [np.zeros(1_000_000), 1]")
    ran = cell("x[1] = 2")
    assert kernel("x[1]") == 2
    assert ran.parcel.nbytes < 10_000


def test_a_large_result_comes_writable(kernel, cell):
    cell("import numpy as np\nx = np.arange(1_000_000)")
    assert kernel("x.flags.writeable")
    np.testing.assert_array_equal(kernel("x"), np.arange(1_000_000))


@pytest.mark.parametrize(
    "make",
    [
        "np.datetime64('2020-01-01', 's') + np.arange(400_000)",
        "np.arange(800_000)[::2]",
        "(np.datetime64('2020-01-01', 's') + np.arange(800_000))[::2]",
        "np.asfortranarray(np.arange(400_000).reshape(100, -1))",
        "np.arange(400_000).astype('m8[s]')",
    ],
)
def test_a_large_array_that_numpy_would_copy_is_changed_in_place_all_the_same(kernel, tmp_path, make):
    kernel.run(f"import numpy as np\nx = {make}\nalias, part, before = x, x[3:5], x.copy()")
    ran = run_cell(kernel, "x[4] = x[9]; tail = x[-5:]; found = part[1].copy(), before[9]", tmp_path)
    assert len(ran.changed) == 1
    assert kernel("alias is x and np.shares_memory(part, x)")
    assert kernel("(x[4] == before[9]).all() and (part[1] == before[9]).all() and (tail == x[-5:]).all()")
    assert kernel("np.array_equal(found[0], found[1])")
    assert kernel("(np.delete(x, 4, axis=0) == np.delete(before, 4, axis=0)).all()")
    assert not run_cell(kernel, "x[4], part, tail", tmp_path).changed


def test_what_loading_copies_is_known_to_be_unchanged_by_its_content(kernel, tmp_path):
    """Such a buffer lies in the message's own file, and nobody has told what it holds."""
    kernel.run("import numpy as np\nx = np.arange(100_000)[::2]")
    assert not run_cell(kernel, "x[4]", tmp_path).changed
    assert run_cell(kernel, "x[4] = 5", tmp_path).changed == {"x"}
    assert kernel("x[4] == 5")


def test_a_large_frame_of_polars_that_a_cell_changes_is_changed_here(kernel, tmp_path):
    kernel.run("""
        import numpy as np, polars as pl
        x = pl.DataFrame({"a": np.arange(200_000.0), "t": [str(n) for n in range(200_000)]})
        s = pl.Series("s", np.arange(200_000))
        alias, before, held = x, x.clone(), [s]
    """)
    assert not run_cell(kernel, "x['a'].sum(), s.sum(), held", tmp_path).changed
    run_cell(
        kernel, "x[3, 'a'] = -1.0; x.insert_column(0, pl.Series('n', range(200_000))); s[5] = 0; new = x[:3]", tmp_path
    )
    assert kernel("alias is x and held[0] is s")
    assert kernel("(x.columns, x[3, 'a'], x[4, 'a'], s[5], s[6], new.shape)") == (
        ["n", "a", "t"],
        -1.0,
        4.0,
        0,
        6,
        (3, 3),
    )
    assert kernel("before[3, 'a']") == 3.0


LARGE = {
    "numbers": "np.arange(500_000.0)",
    "in Fortran order": "np.asfortranarray(np.arange(500_000.0).reshape(500, -1))",
    "dates": "np.datetime64('2020-01-01', 's') + np.arange(500_000)",
    "structured": "np.arange(500_000.0).view([('a', 'i4'), ('b', 'f4')])",
    "a view of another": "whole[1000:]",
    "part of a frame": "pd.DataFrame({'a': np.arange(500_000.0)})",
}


@pytest.mark.parametrize("make", LARGE)
def test_of_a_large_array_that_changed_here_and_there_no_more_travels_than_these_pages(kernel, tmp_path, make):
    kernel.run(f"""
        import numpy as np, pandas as pd
        whole = np.arange(501_000.0)
        x = {LARGE[make]}
        if isinstance(x, pd.DataFrame): x = x['a'].array._ndarray
        alias, there, here = x, x[7:9], x.copy(order="K")
    """)
    ran = run_cell(
        kernel, "flat = x.reshape(-1, order='A'); flat[[0, 77_777, -1]] = flat[[5, 6, 7]]; del flat", tmp_path
    )
    assert len(ran.changed) == 1
    assert ran.parcel.nbytes < 50_000
    kernel.run("flat = here.reshape(-1, order='A'); flat[[0, 77_777, -1]] = flat[[5, 6, 7]]")
    assert kernel("alias is x and np.shares_memory(there, x) and (x == here).all()")


@pytest.mark.parametrize(
    "change",
    [
        "x[:] = x[::-1].copy()",
        "x[0] = 9; x.shape = (1000, -1)",
        "x[0] = 9; x.flags.writeable = False",
        "x[0] = 9; x.dtype = 'M8[s]'",
    ],
)
def test_of_one_that_is_another_array_now_all_travels(kernel, tmp_path, change):
    kernel.run("import numpy as np\nx = np.arange(500_000); alias, here = x, x.copy()")
    assert run_cell(kernel, change, tmp_path).parcel.nbytes >= 4_000_000
    kernel.run(change.replace("x", "here"))
    assert kernel("(x.dtype, x.shape, x.flags.writeable) == (here.dtype, here.shape, here.flags.writeable)")
    assert kernel("(x == here).all()")
