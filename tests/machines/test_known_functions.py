"""A notebook edits what its function reads, in any order, and submits it again and again: each call gives what the function gives
at that moment."""

from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support import looks
from tests.support.sides import Side
from wool_jupyter.pool.known_functions import KnownFunctions
from wool_jupyter.wire import calls

DATA = calls.Data(())
SOURCE = """
import json, math
from collections import OrderedDict
from json import dumps
from tests.support.looks import kind_of, look
def made(value):
    def closure():
        return value
    def change(other):
        nonlocal value
        value = other
    return closure, change
def empty():
    if False:
        value = 1
    return lambda: value
def own(function):
    assert function.__globals__ is globals(), "what a library has, stays as it is"
    return function
def g():
    return 1
def h():
    return g(), a
def f(*args):
    found = {"kind_of": kind_of}
    try: found["a"] = a
    except NameError: pass
    try: found["b"] = b
    except NameError: pass
    try: found["c"] = c
    except NameError: pass
    try: found["g"] = g
    except NameError: pass
    try: found["h"] = h
    except NameError: pass
    return look(found, args)
first = f
change = lambda _: None
a = b = c = 1
"""
NAMES = st.sampled_from("abcgh")
VALUES = st.sampled_from(
    [
        "1", "True", "1.0", "0.0", "-0.0", "300", "10 ** 20", "'a'", "'b'", "b'a'", "None", "...", "()", "(1, 2)",
        "(10 ** 20, 'c')", "(a, b)", "(b, a)", "((a,), b)", "(g,)", "[1]", "{'a': b}", "a", "b", "c", "g", "h", "f", "kind_of",
        "math", "json", "dumps", "math.floor", "OrderedDict", "lambda: a", "lambda: (a, 'b')", "empty()", "made(a)[0]",
        "tuple([10 ** 20, 'c'])",
    ]
)  # fmt: skip
FUNCTIONS = st.sampled_from("gh")
EDITS = st.one_of(
    st.builds("{} = {}".format, NAMES, VALUES),
    st.builds("{}, {} = {}, {}".format, NAMES, NAMES, NAMES, NAMES),
    st.builds("del {}".format, NAMES),
    st.builds("def {}(p={}, *, q={}):\n    return p, q, b".format, FUNCTIONS, VALUES, VALUES),
    st.builds("def {}(p: {} = 1):\n    'In words.'\n    return 'c', g".format, FUNCTIONS, VALUES),
    st.builds("own({}).__defaults__ = ({},)".format, FUNCTIONS, VALUES),
    st.builds("own({}).__kwdefaults__ = {{'q': {}}}".format, FUNCTIONS, VALUES),
    st.builds("own({}).__kwdefaults__['q'] = {}".format, FUNCTIONS, VALUES),
    st.builds("own({}).__annotations__['p'] = {}".format, FUNCTIONS, VALUES),
    st.builds("own({}).__doc__ = {}".format, FUNCTIONS, VALUES),
    st.builds("own({}).__name__ = {}".format, FUNCTIONS, st.sampled_from(["'g'", "'other'"])),
    st.builds("own({}).__code__ = {}.__code__".format, NAMES, NAMES),
    st.builds("own({}).note = {}".format, FUNCTIONS, VALUES),
    st.builds("del own({}).note".format, FUNCTIONS),
    st.builds("g, change = made({})".format, VALUES),
    st.builds("change({})".format, VALUES),
    st.builds("{}.append(a)".format, NAMES),
    st.builds("kind_of.register({}, own({}))".format, st.sampled_from(["int", "str"]), FUNCTIONS),
    st.sampled_from(["f = None", "f = first", "f.note = 1", "del f.note"]),
)
SUBMITS = st.lists(NAMES, max_size=2)


@pytest.fixture(autouse=True)
def kinds():
    yield
    looks.forget_kinds()


@pytest.mark.parametrize("examples", [100, pytest.param(5000, marks=[pytest.mark.thorough, pytest.mark.timeout(900)])])
def test_a_call_gives_what_the_function_gives_when_it_is_submitted(examples):
    quiet = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]

    @settings(max_examples=examples, deadline=None, suppress_health_check=quiet)
    @given(st.lists(st.tuples(EDITS, SUBMITS), max_size=12))
    def check(steps):
        looks.forget_kinds()
        kernel, functions = Side(), KnownFunctions()
        kernel.run(SOURCE)
        for edit, names in [("", []), ("", []), *steps]:
            with suppress(Exception):  # of an edit that makes no sense now
                kernel.run(edit)
            args = [kernel.names[name] for name in names if name in kernel.names]
            with kernel:
                expected = repr(kernel.names["first"](*args))
                packed = submitted(functions, calls.Invocation(kernel.names["first"], tuple(args), {}))
            assert ran(*packed) == expected

    check()


def submitted(functions, invocation):
    """As an executor does."""
    known = functions.packed(invocation.function, DATA)
    alone = None if known is None else known.pack_arguments(invocation, DATA)
    return (None, calls.pack_blocking(invocation, DATA).body) if alone is None else (known.body, alone.body)


def ran(function, call):
    """As a worker does."""
    with Side():
        if function is None:
            found = calls.unpack_call(calls.decode_request(call))
        else:
            found = calls.unpack_call(calls.decode_request(function)).function
            found = calls.Invocation(found, *calls.unpack_arguments(call))
        return repr(found.function(*found.args, **found.kwargs))
