"""`wool_jupyter.pool()` on a worker of it: bodies that await calls of their own pool, and those that would block for one."""

import re

import pytest

from tests.support.waiting import wait_until

POOL = "import os, sys, time, wool_jupyter\npool = wool_jupyter.pool()"

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def calls(kernel):
    """The kernel with `pool`."""
    kernel.ok(POOL)
    return kernel


def test_a_cell_on_a_worker_may_await_calls_and_gets_their_text(calls):
    calls.ok("from wool_jupyter.notebook.runtime import runtime")
    wait_until(lambda: calls.value("len(runtime().workers()) > 1"))
    calls.ok("def lent(x): print('lent', x); return x * 2, os.getpid()")
    shown = calls.wool("""
        import asyncio, os
        value, pid = await pool.submit(lent, 4)
        others = await asyncio.gather(*(pool.submit(lent, n) for n in range(3)))
        ordered = [value async for value, _ in pool.map(lent, range(3))]
        same = pid == os.getpid()
    """)
    assert calls.value("(value, same, [v for v, _ in others], ordered)") == (8, False, [0, 2, 4], [0, 2, 4])
    assert sorted(shown.stdout.split()) == sorted(["lent"] * 7 + list("4012012"))
    calls.wool("failed = None\ntry: await pool.submit(lent, None)\nexcept TypeError as e: failed = str(e)")
    assert "NoneType" in calls.value("failed")


@pytest.mark.parametrize(
    ("death", "words"),
    [
        ("os._exit(3)", r"exited with code 3"),
        ("os.kill(os.getpid(), 9)", r"was killed by SIGKILL.*memory.*its peak was [\d.]+ MB"),
        ("__import__('faulthandler')._sigsegv()", r"was killed by SIGSEGV; `%wool logs` shows where"),
    ],
)
def test_the_death_of_a_worker_that_ran_an_awaited_call_is_told_in_words(calls, death, words):
    calls.ok("from wool_jupyter.notebook.runtime import runtime")
    wait_until(lambda: calls.value("len(runtime().workers()) > 1"))
    calls.ok(f"import os\ndef dies(): {death}")
    error = calls.wool_error("import os; print('awaits', os.getpid())\nawait pool.submit(dies)")
    assert error.ename == "WorkerDied"
    assert re.fullmatch(rf"The worker \(pid \d+\) {words}\. `dies\(\)` may have run in part", error.evalue)


@pytest.mark.parametrize(
    "use",
    [
        "pool.submit(abs, 1).result()",
        "list(__import__('concurrent.futures').futures.as_completed([pool.submit(abs, 1)]))",
        "__import__('concurrent.futures').futures.wait([pool.submit(abs, 1)])",
        "list(pool.map(abs, [1]))",
        "pool.executor()",
    ],
)
def test_blocking_for_the_own_pool_is_refused_at_once_in_words(calls, use):
    calls.ok(
        f"import wool_jupyter\ndef blocks():\n    return {use}\ndef finds():\n    pool = wool_jupyter.pool()\n    return {use}"
    )
    for error in (calls.wool_error(use), *(calls.run(f"pool.submit({f}).result()").error for f in ("blocks", "finds"))):
        assert error.ename == "BlockedOnOwnPool"
        assert (
            "must not block for another of its calls: `await pool.submit(...)`, `async for x in pool.map(...)`, or"
            in (error.evalue)
        )


def test_a_call_that_is_not_awaited_on_a_worker_is_not_lost_silently(calls):
    shown = calls.wool("pool.submit(abs, -1)\nNone")
    assert "was never awaited, and has not run: `await` begins it" in shown.stderr


def test_what_a_call_on_a_worker_gives_says_what_to_do_with_it(calls):
    said = calls.wool("print(call := pool.submit(abs, -1), found := pool.map(abs, [1, 2]))").stdout
    assert said == (
        "<Call on another worker: `await` begins it and gives its result> "
        "<Results of a map of 2: `async for` begins it and takes them>\n"
    )


# Where nobody else is free.

BODY = """
    def inner(x): print("inner", x); return x * 2, os.getpid()
    async def waits(x): return await pool.submit(inner, x)
    def outer(x):
        import asyncio
        return asyncio.run(waits(x)), os.getpid()
"""


@pytest.fixture(params=[1, 2], ids=["one worker", "two workers"])
def few(fresh_kernel, request):
    fresh_kernel.ok(f"%wool start -n {request.param}\n{POOL}")
    fresh_kernel.ok(BODY)
    return fresh_kernel


def test_bodies_that_wait_for_calls_of_their_own_do_not_wait_for_each_other(few):
    shown = few.ok("found = list(pool.map(outer, range(12)))")
    assert few.value("[value for (value, _), _ in found]") == [2 * n for n in range(12)]
    assert sorted(shown.stdout.splitlines()) == sorted(f"inner {n}" for n in range(12))


def test_a_tree_of_calls_that_wait_for_their_branches_ends(few):
    few.ok("""
        import asyncio
        async def both(n): return sum(await asyncio.gather(pool.submit(leaves, n - 1), pool.submit(leaves, n - 1)))
        def leaves(n): return 1 if n == 0 else asyncio.run(both(n))
    """)
    assert few.value("pool.submit(leaves, 4).result(60)") == 16
    few.wool("found = await pool.submit(leaves, 3)")
    assert few.value("found") == 8


@pytest.fixture
def alone(fresh_kernel):
    """One worker: what its bodies await runs inside them."""
    fresh_kernel.ok(f"%wool start -n 1\n{POOL}")
    fresh_kernel.ok("import asyncio")
    return fresh_kernel


def test_random_numbers_of_a_body_are_the_same_wherever_its_calls_run(alone):
    alone.ok("""
        import random, numpy as np
        def draws(): return random.random(), float(np.random.rand())
        def seeds(): random.seed(7); np.random.seed(7)
    """)
    alone.wool("""
        random.seed(0); np.random.seed(0)
        expected = [draws() for _ in range(3)]
        random.seed(0); np.random.seed(0)
        first, inside = draws(), [await pool.submit(draws) for _ in range(3)]
        second, _ = draws(), await pool.submit(seeds)
        found = [first, second, draws()]
    """)
    assert alone.value("found == expected")
    assert alone.value("len({number for pair in inside + expected for number in pair})") == 12


def test_a_call_inside_the_body_has_copies_and_a_namespace_of_its_own(alone):
    alone.ok("""
        class Point:
            def __init__(self): self.seen = []
        OFFSET = [1]
        def changes(point):
            global left
            left = 1
            point.seen.append(1); OFFSET.append(2)
            return point, os.getpid(), len(OFFSET)
        def is_left(): return "left" in globals()
    """)
    alone.wool("""
        mine = Point()
        point, pid, length = await pool.submit(changes, mine)
        facts = pid == os.getpid(), length, len(OFFSET), mine.seen, point.seen, type(point) is Point
        there = await pool.submit(is_left), "left" in globals()
    """)
    assert alone.value("facts") == (True, 2, 1, [], [1], True)
    assert alone.value("there") == (False, False)


def test_a_call_inside_the_body_leaves_the_process_as_it_was(alone, tmp_path):
    alone.ok(f"""
        def changes():
            import decimal, warnings
            found = os.getcwd(), decimal.getcontext().prec
            os.chdir({str(tmp_path)!r}); os.environ["WOOL_TEST"] = "1"; sys.path.insert(0, "nowhere")
            warnings.simplefilter("error"); decimal.getcontext().prec = 3
            return found
    """)
    alone.wool("""
        import decimal, warnings
        decimal.getcontext().prec = 9
        def state(): return os.getcwd(), os.environ.get("WOOL_TEST"), sys.path[0], warnings.filters[0][0], decimal.getcontext().prec
        before = state()
        found = await pool.submit(changes)
        same = before == state(), found == (before[0], 9)
    """)
    assert alone.value("same") == (True, True)


def test_a_call_inside_the_body_may_run_loops_and_show_things(alone):
    alone.ok("""
        def runs():
            from IPython.display import HTML, display
            async def g(): return 5
            display(HTML("<b>bold</b>")); os.system("echo child")
            with asyncio.Runner() as runner: first = runner.run(g())
            return first + asyncio.run(g())
    """)
    shown = alone.wool("ticks = []\nvalue = await pool.submit(runs)\nawait asyncio.sleep(0.01)\nprint('after')")
    assert alone.value("value") == 10
    assert shown.kinds == ["display", "stdout"]
    assert shown.stdout == "child\nafter\n"
    alone.ok("async def waits(): return await pool.submit(runs)\ndef outer(): return asyncio.run(waits())")
    alone.ok("value = pool.submit(outer).result(60)")
    assert alone.value("value") == 10


def test_an_error_of_a_call_inside_the_body_is_the_awaiters(alone):
    alone.ok("""
        class Mine(Exception):
            def __init__(self, a, b): super().__init__(a, b); self.b = b
        def fails(): raise Mine(1, "two")
        async def coroutine(): pass
    """)
    error = alone.wool_error("await pool.submit(fails)")
    assert (error.ename, error.evalue) == ("Mine", "(1, 'two')")
    assert "def fails(): raise Mine" in error.traceback
    assert "wool_jupyter" not in error.traceback
    assert "is an async function" in alone.wool_error("await pool.submit(coroutine)").evalue
    alone.wool("try: await pool.submit(sys.exit, 3)\nexcept SystemExit as e: code = e.code")
    assert alone.value("code") == 3


def test_calls_that_await_themselves_without_end_are_a_recursion_error(alone):
    alone.ok("""
        async def deeper(n): return await pool.submit(down, n + 1)
        def down(n): return asyncio.run(deeper(n))
    """)
    result = alone.run("pool.submit(down, 0).result()")
    assert result.error.ename == "RecursionError"
    assert "maximum recursion depth exceeded" in result.error.evalue
    assert "`down`" in result.error.evalue
    assert "wool_jupyter" not in result.error.traceback
    assert result.stderr == ""
    assert alone.wool("await pool.submit(abs, -1)").value == "1"


@pytest.mark.parametrize("body", ["await pool.submit(stays)", "await asyncio.gather(pool.submit(time.sleep, 60))"])
def test_an_interrupt_reaches_a_call_inside_the_body(alone, body):
    alone.ok("def stays():\n    print('inside', flush=True)\n    while True: time.sleep(0.01)")
    running = alone.begin(f"%%wool\nprint('inside', flush=True)\n{body}")
    running.wait_for("inside")
    alone.interrupt()
    assert running.result(timeout=8).error.ename == "KeyboardInterrupt"
    alone.wool("x = 2")
    assert alone.value("x") == 2


@pytest.fixture
def both(fresh_kernel):
    """Two workers that serve."""
    fresh_kernel.ok(f"%wool start -n 2\n{POOL}\nimport asyncio\nfrom wool_jupyter.notebook.runtime import runtime")
    wait_until(lambda: fresh_kernel.value("len(runtime().workers())") == 2)
    return fresh_kernel


def test_who_waits_gives_its_next_calls_to_a_worker_that_has_become_free(both):
    both.ok("def where(): time.sleep(0.1); return os.getpid()")
    both.wool("pids = await asyncio.gather(*(pool.submit(where) for _ in range(20)))")
    shares = both.value("sorted(pids.count(pid) for pid in set(pids))")
    assert len(shares) == 2
    assert shares[0] >= 4


def test_a_thread_of_a_body_waits_until_another_worker_is_free(both, tmp_path):
    gate = tmp_path / "gate"
    both.ok(f"""
        def holds():
            print("held", flush=True)
            while not os.path.exists({str(gate)!r}): time.sleep(0.01)
        async def asks(): return await pool.submit(os.getpid)
    """)
    holding = both.begin("held = pool.submit(holds)")
    holding.result()
    holding.late_text("held")
    cell = both.begin("""%%wool
print("asks", flush=True)
pid = await asyncio.to_thread(lambda: asyncio.run(asks()))
other = pid != os.getpid()""")
    cell.wait_for("asks")
    gate.touch()
    assert cell.result().status == "ok"
    assert both.value("other") is True
