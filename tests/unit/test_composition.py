"""When a function may be taken for packed already: whenever it is, packing it anew would give the same."""

import functools
import sys
import types

import pytest

from tests.support.sides import Side
from wool_jupyter.pool.known_functions import KnownFunctions
from wool_jupyter.wire import calls, composition, rebuilding

DATA = calls.Data(())
SOURCE = """
import math
from json import dumps
from math import floor
from collections import OrderedDict
K = 3
NAMES = ("a", "b")
def helper(x):
    return x + K
def f(x, y=2, *, z=4):
    "What it is for."
    return helper(x) + math.pi + floor(y) + len(NAMES) + len(dumps("Word")) + len(OrderedDict()) + z
def made():
    inner = 1
    def closure():
        return inner
    def change(value):
        nonlocal inner
        inner = value
    return closure, change
g, change = made()
"""


@pytest.fixture
def kernel():
    side = Side()
    side.run(SOURCE)
    return side


def known(kernel, name="f"):
    """Whether two submissions after the first have it from one packing."""
    functions = KnownFunctions()
    with kernel:
        first, *packed = [functions.packed(kernel.names[name], DATA) for _ in range(3)]
        assert first is None, "who submits it once need not look at it"
        return packed[0] is packed[1] is not None


@pytest.mark.parametrize("name", ["f", "helper", "g"])
def test_a_function_of_constants_modules_and_other_functions_is_packed_once(kernel, name):
    assert known(kernel, name)


@pytest.mark.parametrize(
    "change",
    [
        "K = 4",
        "K = 3.0",
        "NAMES = ('a',)",
        "Word = 1",
        "del K",
        "math = None",
        "def helper(x):\n    return x",
        "helper.__defaults__ = (1,)",
        "f.__defaults__ = (3,)",
        "f.__kwdefaults__ = {'z': 5}",
        "f.__kwdefaults__['z'] = 5",
        "f.__doc__ = 'Another one.'",
        "f.__name__ = 'other'",
        "f.__code__ = helper.__code__",
        "f.__annotations__['x'] = int",
        "del f",
    ],
)
def test_a_change_is_seen(kernel, change):
    functions, f = KnownFunctions(), kernel.names["f"]
    with kernel:
        for _ in range(2):
            before = functions.packed(f, DATA)
    kernel.run(change)
    with kernel:
        after = functions.packed(f, DATA)
    assert before is not None
    assert after is not before
    assert after is None or arrived(after) == arrived(packed_anew(kernel, f)) != arrived(before)


def packed_anew(kernel, function):
    with kernel:
        return calls.PackedFunction(function, DATA)


def arrived(packed):
    """What a worker has of it. Its bytes differ: those of code depend on who refers to it."""
    request = calls.decode_request(packed.body)
    with Side() as worker:
        function = calls.unpack_call(request).function
        names = {name: worker.names[name] for name in request.order if name}
    described = {name: described_as(value) for name, value in names.items()}
    return described_as(function), described, request.submodules


def described_as(value):
    is_function = isinstance(value, types.FunctionType)
    return (value.__code__, *rebuilding.function_state(value)) if is_function else (type(value), value)


def test_what_a_closure_holds_is_seen(kernel):
    functions, g = KnownFunctions(), kernel.names["g"]
    with kernel:
        for _ in range(2):
            before = functions.packed(g, DATA)
    kernel.run("change(2)")
    with kernel:
        after = functions.packed(g, DATA)
    assert None is not before is not after is not None
    assert arrived(before)[0] == arrived(after)[0]  # the code is the same: what it closes over is not
    assert calls.decode_request(before.body).parcel != calls.decode_request(after.body).parcel


def test_which_tuples_are_the_same_one_is_seen(kernel):
    kernel.run("def f():\n    return K is NAMES\nK = NAMES = (1, 2.5)\nmade_of = lambda values: tuple(list(values))")
    functions, f = KnownFunctions(), kernel.names["f"]
    with kernel:
        for _ in range(2):
            before = functions.packed(f, DATA)
    kernel.run("NAMES = made_of(K)")
    with kernel:
        after = functions.packed(f, DATA)
    assert None is not before is not after is not None


def test_a_function_of_hundreds_of_parts_is_packed_once(kernel):
    kernel.run("K = tuple((n, str(n)) for n in range(1000))")
    assert known(kernel)


def test_a_long_chain_of_functions_is_packed_each_time(kernel):
    links = "\n".join(f"def f{n}():\n    return f{n - 1}" for n in range(1, sys.getrecursionlimit()))
    kernel.run(f"def f0():\n    return 0\n{links}\nf = f{sys.getrecursionlimit() - 1}")
    assert not known(kernel)


def test_what_another_thread_changes_meanwhile_is_not_taken_for_what_was_there(kernel, monkeypatch):
    """The old value comes back, and it is the very same object."""
    functions, f = KnownFunctions(), kernel.names["f"]
    pack = calls.PackedFunction

    def packed_during_a_change(*args):
        kernel.names["K"] = 4
        return pack(*args)

    with kernel:
        functions.packed(f, DATA)
        with monkeypatch.context() as patched:
            patched.setattr(calls, "PackedFunction", packed_during_a_change)
            functions.packed(f, DATA)
        kernel.names["K"] = 3
        after = functions.packed(f, DATA)
    assert arrived(after) == arrived(packed_anew(kernel, f))


def test_a_submodule_that_was_imported_since_goes_along(kernel, monkeypatch):
    package, part = types.ModuleType("package"), types.ModuleType("package.part")
    package.__path__ = []
    monkeypatch.setitem(sys.modules, "package", package)
    kernel.names["package"] = package
    kernel.run("def uses():\n    return package.part")
    functions, uses = KnownFunctions(), kernel.names["uses"]
    with kernel:
        for _ in range(2):
            before = functions.packed(uses, DATA)
        monkeypatch.setitem(sys.modules, "package.part", part)
        after = functions.packed(uses, DATA)
    assert calls.decode_request(before.body).submodules == ()
    assert calls.decode_request(after.body).submodules == ("package.part",)


@pytest.mark.parametrize(
    "holds",
    [
        "K = [1]",
        "K = {}",
        "K = (1, [2])",
        "class K: pass",
        "K = object()",
        "import functools; K = functools.lru_cache(len)",
        "helper.note = 1",
        "K = [].append",
        "def helper(x, at=[]): return at",
        "def helper(x): return eval('x', globals())",
        "import types; math = types.ModuleType('math')",
        "from tests.support.looks import kind_of as K",
    ],
)
def test_what_may_change_and_stay_the_same_object_is_packed_each_time(kernel, holds):
    kernel.run(holds)
    assert not known(kernel)


def test_what_is_no_plain_function_is_packed_each_time(kernel):
    kernel.run("class C:\n    def m(self):\n        return 1\nmethod = C.m")
    for each in (functools.partial(len), len, kernel.names["method"], kernel.names["C"]().m):
        functions = KnownFunctions()
        with kernel:
            assert [functions.packed(each, DATA) for _ in range(3)] == [None] * 3


def test_nothing_is_kept_of_a_function_that_is_gone(kernel):
    functions = KnownFunctions()
    with kernel:
        for number in range(20):
            kernel.run(f"def short_lived():\n    return {number}")
            for _ in range(2):
                functions.packed(kernel.names["short_lived"], DATA)
    kernel.run("del short_lived")
    assert len(functions._known) <= 1


def test_a_function_with_large_data_goes_with_the_cell_that_it_was_packed_for(kernel, tmp_path):
    kernel.run(f"K = 'x' * {5 << 20}")
    functions = KnownFunctions()
    data = calls.Data((str(tmp_path),))
    with kernel:
        assert [functions.packed(kernel.names["f"], data) for _ in range(3)] == [None] * 3
    assert list(tmp_path.iterdir()) == []


def test_it_holds_what_it_consists_of_so_that_nothing_new_is_taken_for_it(kernel):
    """A new object may have the address of one that is gone."""
    kernel.run("def f():\n    return K\nK = 1 << 70")
    with kernel:
        before = composition.of(kernel.names["f"])
    for number in range(100):
        kernel.run(f"K = (1 << 70) + {number + 1}")
        with kernel:
            assert composition.of(kernel.names["f"]) != before
