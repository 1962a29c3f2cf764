"""Options of libraries are for each call what they are in the notebook when it is submitted."""

import pytest

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def calls(fresh_kernel):
    """A worker, and a kernel with numpy, pandas and `pool`."""
    fresh_kernel.ok("%wool start -n 1")
    fresh_kernel.ok(
        "import decimal, time, warnings, numpy as np, pandas as pd, wool_jupyter\npool = wool_jupyter.pool()"
    )
    return fresh_kernel


def test_what_is_kept_in_a_context_is_the_notebooks_in_every_call(calls):
    calls.ok("""
def third(_=0): return str(decimal.Decimal(1) / 3)
def divides(_=0):
    try: return str(np.float64(1) / 0)
    except FloatingPointError: return "raised"
def shown(_=0): return str(np.array([1.23456789]))
decimal.getcontext().prec = 5; np.seterr(all="raise"); np.set_printoptions(precision=2)
functions = third, divides, shown
by_submit = [{pool.submit(f).result() for _ in range(4)} for f in functions]
by_map = [set(pool.map(f, range(5))) for f in functions]
""")
    expected = [{"0.33333"}, {"raised"}, {"[1.23]"}]
    assert (calls.value("by_submit"), calls.value("by_map")) == (expected, expected)


def test_numpys_print_options_are_the_notebooks_in_every_cell(calls):
    calls.ok("np.set_printoptions(precision=2)")
    shown = [calls.wool("print(np.array([1.23456789]))").stdout for _ in range(3)]
    assert shown == ["[1.23]\n"] * 3


def test_options_that_change_between_two_submits_are_those_of_each(calls):
    calls.ok("""
def rows(): return pd.get_option("display.max_rows")
def action(): return warnings.filters[0][0]
futures = []
for n in range(5, 10):
    pd.set_option("display.max_rows", n)
    futures.append(pool.submit(rows))
with warnings.catch_warnings():
    warnings.simplefilter("error")
    futures.append(pool.submit(action))
warnings.simplefilter("ignore")
futures.append(pool.submit(action))
found = [future.result() for future in futures]
""")
    assert calls.value("found") == [5, 6, 7, 8, 9, "error", "ignore"]


SHORT = {
    "pd.set_option('display.max_rows', 3)": "pd.get_option('display.max_rows')",
    "mpl.rcParams.update({'lines.linewidth': 9})": "mpl.rcParams['lines.linewidth']",
    "warnings.simplefilter('error')": "warnings.filters[0][0]",
    "sys.setrecursionlimit(5000)": "sys.getrecursionlimit()",
    "sys.argv.append('x')": "list(sys.argv)",
    "logging.getLogger('x').setLevel(10)": "logging.getLogger('x').level",
    "logging.disable(40)": "logging.root.manager.disable",
    "socket.setdefaulttimeout(3)": "socket.getdefaulttimeout()",
    "os.environ.update(NEW='x')": "os.environ.get('NEW')",
    "os.chdir('/')": "os.getcwd()",
}


def test_what_a_short_call_changes_of_options_is_not_there_for_the_next_one(calls):
    calls.ok(f"""
import logging, os, socket, sys, matplotlib as mpl
SHORT = {SHORT!r}
left = {{}}
for change, state in SHORT.items():
    changes, tells = eval(f"lambda: {{change}}"), eval(f"lambda: {{state}}")
    def either(n): return changes() if n % 2 else tells()
    before = [pool.submit(tells).result() for _ in range(2)][1]  # the first one may import
    after = []
    for _ in range(5):
        pool.submit(changes).result()
        after.append(pool.submit(tells).result())
    after += list(pool.map(either, range(10)))[::2]
    if after != [before] * 10:
        left[change] = before, after
""")
    assert calls.value("left") == {}


def test_what_a_longer_call_changes_of_the_umask_and_handlers_is_not_there_for_the_next_one(calls):
    calls.ok("""
import logging, os
def changes():
    os.umask(0o77); logging.getLogger().addHandler(logging.StreamHandler())
    time.sleep(0.01)  # work: after one that takes no time these are not looked at
def state(): return len(logging.getLogger().handlers), os.umask(0o22)
before = pool.submit(state).result()
pool.submit(changes).result()
after = pool.submit(state).result()
""")
    assert calls.value("after == before")
