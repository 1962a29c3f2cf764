"""`wool_jupyter.pool()` in a real kernel: calls of notebook functions, where their text appears, and what ■ ends."""

import os
import textwrap

import pytest

from tests.support.kernel import TIMEOUT_S
from tests.support.waiting import wait_until

POOL = "import os, sys, time, wool_jupyter\npool = wool_jupyter.pool()"

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def calls(kernel):
    """The kernel with `pool`."""
    kernel.ok(POOL)
    return kernel


@pytest.fixture
def gate(tmp_path):
    """Source of `waits(name)`, which prints that it is in and waits for its file; `open(name)` makes it."""

    class Gate:
        source = textwrap.dedent(
            f"""
            def waits(name):
                import os, time
                print("in", name, flush=True)
                while not os.path.exists({str(tmp_path)!r} + "/" + str(name)):
                    time.sleep(0.01)
                print("out", name)
                return name
            """
        )

        def open(self, *names):
            for name in names:
                (tmp_path / str(name)).touch()

    made = Gate()
    yield made
    made.open(*range(10), *"abcdef", "end")


def test_the_pool_is_started_with_one_line_and_without_the_extension():
    from tests.support.kernel import Kernel

    kernel = Kernel()
    try:
        started = kernel.ok(POOL)
        assert started.stdout.startswith("wool: started a pool of ")
        assert kernel.ok("wool_jupyter.pool() is pool").stdout == ""
        assert kernel.value("pool.submit(os.getpid).result() != os.getpid()")
    finally:
        kernel.shutdown()


def test_notebook_functions_classes_and_globals_go_along(calls):
    calls.ok("""
        OFFSET = [5]
        class Point:
            SCALE = 2
            def __init__(self, x): self.x = x
            def moved(self, by): return Point(self.x * self.SCALE + by + OFFSET[0])
        def outer():
            k = 10
            def inner(x): return x + k + OFFSET[0]
            return inner
        p = Point(1)
        moved = pool.submit(p.moved, 2).result()
    """)
    assert calls.value("(type(moved) is Point, moved.x)") == (True, 9)
    assert calls.value("list(pool.map(outer(), range(3)))") == [15, 16, 17]
    assert calls.value("[q.x for q in pool.map(Point.moved, [p, p], [1, 2])]") == [8, 9]
    assert calls.value("[type(q) is Point for q in pool.map(lambda q: q, [p, moved])]") == [True, True]
    calls.ok("OFFSET[0] = 6\nPoint.SCALE = 3")
    assert calls.value("pool.submit(p.moved, 2).result().x") == 11


def test_a_function_knows_another_one_that_it_is_given(calls):
    """However often it is submitted: from the second time on it is packed apart from what it is given."""
    calls.ok("""
        def fast(): return "fast"
        def slow(): return "slow"
        def run(strategy, *others): return strategy is fast, run in others, strategy()
        shown = [pool.submit(run, each, run).result() for each in (fast, slow) * 2]
        mapped = list(pool.map(run, [fast, slow], [len, run]))
    """)
    assert calls.value("shown") == [(True, True, "fast"), (False, True, "slow")] * 2
    assert calls.value("mapped") == [(True, False, "fast"), (False, True, "slow")]
    calls.ok("before, fast = fast, lambda: 'faster'")
    assert calls.value("[pool.submit(run, each).result()[::2] for each in (before, fast)]") == [
        (False, "fast"),
        (True, "faster"),
    ]


def test_what_is_registered_with_a_function_of_a_library_is_there_for_the_next_call(calls, tmp_path):
    (tmp_path / "shapes.py").write_text(
        "import functools\n@functools.singledispatch\ndef area(shape):\n    return 'unknown'\n"
    )
    calls.ok(f"""
        sys.path.append({str(tmp_path)!r})
        from shapes import area
        def measured(shape): return area(shape)
        before = [pool.submit(measured, 1).result() for _ in range(3)]
        @area.register
        def of_number(shape: int): return shape
        after = [pool.submit(measured, 1).result() for _ in range(3)]
    """)
    assert calls.value("(before, after)") == (["unknown"] * 3, [1] * 3)


def test_a_module_that_was_edited_before_a_call_is_so_for_it_also_behind_one_that_runs(fresh_kernel, tmp_path):
    module, gate = tmp_path / "edited_module.py", tmp_path / "gate"
    module.write_text("def value(): return 'old'\n")
    os.utime(module, (1, 1))  # one that was just written is read again in any case
    fresh_kernel.ok("%wool start -n 1")
    fresh_kernel.ok(f"""
        import os, sys, time, wool_jupyter
        sys.path.append({str(tmp_path)!r})
        pool = wool_jupyter.pool()
        def look(wait=False):
            import edited_module, os, time
            from IPython.display import display
            if wait:
                open({str(tmp_path / "begun")!r}, "w").close()
                while not os.path.exists({str(gate)!r}):
                    display("waits")  # with each report the worker is sent what there is
                    time.sleep(0.01)
            return edited_module.value()
        before = [pool.submit(look).result() for _ in range(10)]
        first = pool.submit(look, True)
        while not os.path.exists({str(tmp_path / "begun")!r}): time.sleep(0.001)
        with open({str(module)!r}, "w") as file: print("def value(): return 'edited'", file=file)
        second, patience = pool.submit(look), time.monotonic() + 10
        while not second.running() and time.monotonic() < patience: time.sleep(0.001)  # it is sent ahead
        open({str(gate)!r}, "w").close()
        after = second.result()
    """)
    assert fresh_kernel.value("(before, first.result(), after)") == (["old"] * 10, "old", "edited")


@pytest.mark.parametrize("source", ["from random import random", "from numpy.random import rand as random"])
def test_random_numbers_of_calls_are_other_ones_whatever_their_name(calls, source):
    calls.ok(f"{source}\ndef draw(_=0): return random()")
    calls.ok("drawn = [pool.submit(draw).result() for _ in range(4)] + list(pool.map(draw, range(4)))")
    assert calls.value("len(set(drawn))") == 8


def test_a_function_finds_itself_in_main_as_in_a_cell(calls):
    calls.ok("""
        class Here:
            pass
        def looks():
            import inspect, pickle, sys
            return sys.modules["__main__"].Here is Here, type(pickle.loads(pickle.dumps(Here()))) is Here, __name__
    """)
    assert calls.value("pool.submit(looks).result()") == (True, True, "__main__")


def test_calls_do_not_see_what_earlier_ones_left(calls):
    calls.ok("""
        seen = []
        def leaves(x):
            global left
            seen.append(x)
            left = x
            return len(seen)
        def other():
            return "left" in globals()
    """)
    assert calls.value("list(pool.map(leaves, range(50)))") == [1] * 50
    assert calls.value("any(pool.submit(other).result() for _ in range(4))") is False
    assert calls.value("seen") == []


def test_a_function_that_is_submitted_again_is_the_one_of_that_moment(calls):
    calls.ok("""
import math
FACTOR, SHARED = 2, [0]
def helper(x): return x * FACTOR
def scaled(x, add=0): return helper(x) + add + math.floor(0.5)
def reads(): return len(SHARED)
def leaves():
    global FACTOR
    FACTOR += 1
    leaves.note = getattr(leaves, "note", 0) + 1
    return FACTOR, leaves.note
found = [[pool.submit(scaled, 10).result() for _ in range(3)]]
FACTOR = 3
found.append([pool.submit(scaled, 10).result() for _ in range(3)])
def helper(x): return x
found.append([pool.submit(scaled, 10, add=1).result() for _ in range(3)])
scaled.__defaults__ = (100,)
found.append([pool.submit(scaled, 10).result() for _ in range(3)])
lengths = []
for _ in range(3):
    SHARED.append(0)
    lengths.append(pool.submit(reads).result())
left = {pool.submit(leaves).result() for _ in range(4)}
""")
    assert calls.value("found") == [[20] * 3, [30] * 3, [11] * 3, [110] * 3]
    assert calls.value("(lengths, left)") == ([2, 3, 4], {(4, 1)})
    calls.ok("FACTOR = 7\nafter = [pool.submit(helper, 1).result(), pool.submit(leaves).result()]")
    assert calls.value("after") == [1, (8, 1)]


def test_large_arrays_travel_beside_the_messages_and_leave_no_file(calls):
    calls.ok("""
        import numpy as np
        big = np.arange(3_000_000.0)
        def doubled(a): return a * 2
        def row(i): return big[i] + big.sum() * 0
    """)
    assert calls.value("(pool.submit(doubled, big).result() == big * 2).all().item()") is True
    assert calls.value("[float(x) for x in pool.map(row, range(20))]") == [float(i) for i in range(20)]
    assert calls.value("[float(a[-1]) for a in pool.map(doubled, [big] * 5)]") == [5_999_998.0] * 5
    calls.ok(
        "futures = [pool.submit(doubled, big) for _ in range(3)]\nimport concurrent.futures; concurrent.futures.wait(futures)"
    )
    calls.ok("from wool_jupyter.notebook.runtime import runtime")
    left = "[str(f) for place in runtime().places for f in (place / 'calls').rglob('*') if f.is_file() and f.stat().st_size > 9]"
    assert calls.value(left) == []
    assert calls.value("float(futures[0].result()[1])") == 2.0  # in a later cell


# State of the process.


def test_directory_environment_and_path_are_the_kernels_and_stay_so(calls, tmp_path):
    (tmp_path / "a_module_of_mine.py").write_text("VALUE = 41")
    calls.ok(f"""
        os.chdir({str(tmp_path)!r}); os.environ["WOOL_TEST"] = "1"; sys.path.insert(0, {str(tmp_path)!r})
        def changes():
            os.chdir("/"); os.environ["WOOL_TEST"] = "2"; os.environ["WOOL_OTHER"] = "3"; sys.path[:] = sys.path[1:]
        def looks():
            return os.getcwd(), os.environ.get("WOOL_TEST"), os.environ.get("WOOL_OTHER"), sys.path[0]
        def imports():
            import a_module_of_mine
            return a_module_of_mine.VALUE
    """)
    here = (str(tmp_path), "1", None, str(tmp_path))
    assert (
        calls.value("[(pool.submit(changes).result(), pool.submit(looks).result())[1] for _ in range(4)]") == [here] * 4
    )
    assert calls.value("[pool.submit(f).result() for f in [changes, looks] * 4][1::2]") == [here] * 4
    assert calls.value("pool.submit(imports).result()") == 41
    assert calls.value("(os.getcwd(), os.environ['WOOL_TEST'], os.environ.get('WOOL_OTHER'))") == (
        str(tmp_path),
        "1",
        None,
    )
    calls.ok("del os.environ['WOOL_TEST']; os.chdir('/')")
    assert calls.value("pool.submit(looks).result()[:2]") == ("/", None)
    calls.wool("found = os.getcwd(), os.environ.get('WOOL_TEST'), os.environ.get('WOOL_OTHER')")
    assert calls.value("found") == ("/", None, None)


def test_random_numbers_differ_from_call_to_call(calls):
    calls.wool("1")  # the worker has the kernel's generators by now
    calls.ok("def draws():\n    import random\n    return random.random()")
    drawn = calls.value("[pool.submit(draws).result() for _ in range(20)]")
    assert len(set(drawn)) == 20
    calls.ok("import random; random.seed(7)")
    calls.wool("1")
    assert calls.value("pool.submit(draws).result() != random.random()") is True


# Text.


def test_text_is_where_the_call_was_submitted(calls, gate):
    calls.ok(gate.source)
    begun = calls.begin("print('before'); a = pool.submit(waits, 'a')")
    begun.result()
    other = calls.ok("print('another cell')")
    gate.open("a")
    assert "out a" in begun.late_text("out a")
    assert other.stdout == "another cell\n"
    assert calls.value("a.result()") == "a"


def test_text_stands_before_what_the_cell_prints_after_the_result(calls):
    shown = calls.ok("""
        def says(x):
            print("call", x); os.write(1, b"raw\\n"); os.system("echo child"); sys.stderr.write("err\\n")
        print("first")
        pool.submit(says, 1).result()
        print("between")
        pool.submit(says, 2).result()
        print("last")
    """)
    assert shown.stdout == "first\ncall 1\nraw\nchild\nbetween\ncall 2\nraw\nchild\nlast\n"
    assert shown.stderr == "err\nerr\n"


@pytest.fixture
def one_worker(fresh_kernel, gate, tmp_path):
    """The kernel with `pool` and `goes_on()`, whose thread shows `late 0` and so on, each when its gate is opened."""
    fresh_kernel.ok(f"{POOL}\n%wool start -n 1")
    fresh_kernel.ok(gate.source)
    fresh_kernel.ok(f"""
        def passes(name):
            while not os.path.exists({str(tmp_path)!r} + "/" + str(name)):
                time.sleep(0.01)
        def goes_on():
            def late():
                for n in range(4):
                    passes(n)
                    print("late", n)
            import threading
            threading.Thread(target=late).start()
    """)
    return fresh_kernel


def test_text_of_a_thread_of_a_call_is_shown_as_it_comes_while_the_cell_goes_on(one_worker, gate):
    begun = one_worker.begin("pool.submit(goes_on).result(); pool.submit(abs, 1).result(); passes('end')")
    for n in range(3):  # a first one may be seen in the look that was due when the calls had ended
        gate.open(n)
        begun.wait_for(f"late {n}\n")
    gate.open("end")
    begun.result()
    gate.open(3)
    assert begun.late_text("late 3\n")


def test_a_threads_display_between_calls_holds_no_text_back_and_comes_with_the_next_call(one_worker, gate):
    one_worker.ok("""
        def goes_on():
            from IPython.display import display
            def late():
                passes("a")
                display("a display")
                print("behind it")
                passes("b")
                print("and so on")
            import threading
            threading.Thread(target=late).start()
    """)
    begun = one_worker.begin("""
pool.submit(goes_on).result()
print("call ended", flush=True)
passes("c"); pool.submit(abs, 1).result()
passes("end")
""")
    begun.wait_for("call ended\n")
    gate.open("a")
    assert begun.wait_for("behind it\n").kinds == ["stdout"]
    gate.open("c")
    begun.wait_for("a display")
    gate.open("b")
    begun.wait_for("and so on\n")
    gate.open("end")
    assert begun.result().kinds == ["stdout", "display", "stdout"]


def test_a_call_that_leads_the_descriptors_elsewhere_takes_nobody_elses_text(calls):
    calls.ok("def elsewhere():\n    fd = os.open('/dev/null', os.O_WRONLY); os.dup2(fd, 1); os.dup2(fd, 2)")
    shown = calls.ok("""
        for _ in range(4):
            pool.submit(elsewhere).result()
            pool.submit(os.write, 1, b"here ").result()
    """)
    assert shown.stdout.split() == ["here"] * 4
    together = calls.ok(
        "[f.result() for f in [pool.submit(*call) for call in [(elsewhere,), (os.write, 1, b'there ')] * 20]]"
    )
    assert together.stdout.split() == ["there"] * 20


def test_text_is_captured_with_its_cell(calls):
    assert calls.ok("%%capture out\nprint('a'); pool.submit(print, 'b').result(); print('c')").stdout == ""
    assert calls.value("out.stdout") == "a\nb\nc\n"


def test_displays_and_figures_of_calls_appear_under_the_cell(calls):
    shown = calls.ok("""
        from IPython.display import HTML, display
        def shows():
            display(HTML("<b>bold</b>"))
            import matplotlib.pyplot as plt
            plt.plot([1, 2])
        pool.submit(shows).result()
        pool.submit(shows).result()
    """)
    assert [("text/html" in o.data, "image/png" in o.data) for o in shown.outputs if o.kind == "display"] == [
        (True, False), (False, True)] * 2  # fmt: skip
    assert calls.wool("1").kinds == ["result"]


def test_a_call_that_asks_for_input_fails_at_once(calls):
    error = calls.run("def asks(): return input('?')\npool.submit(asks).result()", allow_stdin=True).error
    assert (error.ename, error.evalue) == (
        "StdinNotImplementedError",
        "a call can't ask for input: no cell waits with it",
    )


# Errors.


def test_errors_show_the_lines_of_the_function_and_none_of_ours(calls):
    error = calls.run("""
        class Mine(Exception):
            def __init__(self, a, b): super().__init__(a, b); self.b = b
        def fails(x):
            y = x + 1
            raise Mine(y, "two")
        pool.submit(fails, 1).result()
    """).error
    assert (error.ename, error.evalue) == ("Mine", "(2, 'two')")
    assert '----> 5     raise Mine(y, "two")' in error.traceback
    assert "wool_jupyter" not in error.traceback.replace("import wool_jupyter", "")
    assert "hidden" not in error.traceback
    assert (
        calls.ok("try: list(pool.map(fails, [1]))\nexcept Mine as e: print(e.b, type(e) is Mine)").stdout
        == "two True\n"
    )


def test_what_ends_a_worker_is_said_in_words_and_harms_nobody_else(calls):
    error = calls.run("pool.submit(os._exit, 3).result()").error
    assert error.ename == "WorkerDied"
    assert "exited with code 3. `_exit(3)` had begun, and may have run in part" in error.evalue
    assert "wool_jupyter" not in error.traceback
    assert calls.run("pool.submit(sys.exit, 4).result()").error.ename == "SystemExit"
    assert calls.value("pool.submit(abs, -1).result()") == 1


def test_a_variable_may_have_a_name_of_the_shell_s(calls):
    calls.ok("open, exit = 4, 5\ndef f(x=0): return open + x\ndef g(): return exit")
    assert calls.value("[pool.submit(f).result(), pool.submit(g).result(), *pool.map(f, [1, 2])]") == [4, 5, 5, 6]
    calls.ok("seen = []\nfor open in (7, 8, 6): seen.append(pool.submit(f).result())")
    assert calls.value("[*seen, *pool.map(f, [0, 1]), *pool.map(lambda h: h(), [f])]") == [7, 8, 6, 6, 7, 6]
    calls.ok("del open, exit\ndef f(): return open('/dev/null').close()")
    assert calls.value("pool.submit(f).result()") is None


def test_an_async_function_is_refused_in_words(calls):
    error = calls.run("async def f(): pass\npool.submit(f).result()").error
    assert "is an async function: give one that runs it by `asyncio.run`" in error.evalue
    calls.ok("async def g(): return 5\ndef runs(): import asyncio; return asyncio.run(g())")
    assert calls.value("[pool.submit(runs).result() for _ in range(3)]") == [5] * 3


# ■.


@pytest.mark.parametrize(
    "waiting",
    [
        pytest.param("[f.result() for f in futures]", id="result"),
        pytest.param(
            "for f in __import__('concurrent.futures').futures.as_completed(futures): pass", id="as completed"
        ),
        pytest.param("with pool.executor() as ex: list(ex.map(waits, 'ef'))", id="executor"),
        pytest.param("for x in pool.map(waits, 'ef'): pass", id="map"),
        pytest.param("await futures[0]", id="await"),
        pytest.param("while True: time.sleep(0.01)", id="something else"),
    ],
)
def test_an_interrupt_ends_what_the_cell_has_submitted_and_nothing_older(calls, gate, waiting):
    calls.ok(f"{gate.source}\nold = pool.submit(waits, 'a')")
    running = calls.begin(f"futures = [pool.submit(waits, name) for name in 'bcd']\n{waiting}")
    running.wait_for("in b")
    calls.interrupt()
    assert running.result().status == "error"
    done = calls.value("[str(f) for f in __import__('concurrent.futures').futures.wait(futures, 20).not_done]")
    assert done == []
    assert calls.value("(type(futures[0].exception()).__name__, futures[2].cancelled())") == ("KeyboardInterrupt", True)
    assert calls.value("old.done()") is False
    gate.open("a")
    assert calls.value("old.result()") == "a"
    assert calls.value("list(pool.map(abs, [-1, -2]))") == [1, 2]


def test_an_interrupt_ends_calls_before_the_end_of_a_block_waits_for_them(calls, gate):
    calls.ok(gate.source)
    running = calls.begin(
        "with pool.executor() as ex:\n    futures = [ex.submit(waits, name) for name in 'bc']\n    futures[0].result()"
    )
    running.wait_for("in b")
    calls.interrupt()
    assert running.result(timeout=15).status == "error"
    assert calls.value("type(futures[0].exception()).__name__") == "KeyboardInterrupt"


def test_an_interrupt_of_a_later_cell_leaves_earlier_calls_alone(calls, gate):
    calls.ok(f"{gate.source}\nold = [pool.submit(waits, n) for n in range(4)]")
    running = calls.begin("print('here')\nwhile True: time.sleep(0.01)")
    running.wait_for("here")
    calls.interrupt()
    assert running.result().status == "error"
    gate.open(*range(4))
    assert calls.value("[f.result() for f in old]") == [0, 1, 2, 3]
    assert calls.value("__import__('signal').getsignal(2) is __import__('signal').default_int_handler") is True


# The pool's end.


def test_stopping_the_pool_ends_calls_and_the_next_one_starts_it_again(fresh_kernel, gate):
    fresh_kernel.ok(f"{POOL}\n{gate.source}\nrunning = pool.submit(waits, 'a')").text()
    fresh_kernel.ok(
        "waiting = [pool.submit(waits, n) for n in range(60)]\nwhile not running.running(): time.sleep(0.01)"
    )
    fresh_kernel.ok("%wool stop")
    assert fresh_kernel.value("[type(f.exception(20)).__name__ for f in (running, waiting[-1])]") == [
        "WorkerDied", "NoWorkersAvailable"]  # fmt: skip
    again = fresh_kernel.ok("pool.submit(abs, -1).result()")
    assert again.value == "1"
    assert "wool: started a pool" in again.stdout


def test_a_kernel_that_shuts_down_with_calls_under_way_leaves_nothing(fresh_kernel, gate):
    from tests.support.pools import lives, pool_processes
    from tests.support.waiting import wait_until

    fresh_kernel.ok(f"{POOL}\n{gate.source}\nfutures = [pool.submit(waits, n) for n in range(5)]")
    processes = pool_processes(fresh_kernel.pid)
    assert processes
    fresh_kernel.shutdown()
    wait_until(lambda: not any(map(lives, processes)), TIMEOUT_S)


# Beside other things.


def test_progress_bars_work_over_map_and_as_completed(calls):
    shown = calls.ok("""
        from concurrent.futures import as_completed
        from tqdm import tqdm
        print(sum(tqdm(pool.map(abs, [-1, -2, -3]), desc="mapped")))
        futures = [pool.submit(abs, -n) for n in range(4)]
        print(sorted(f.result() for f in tqdm(as_completed(futures), total=4, desc="completed")))
    """)
    assert shown.stdout == "6\n[0, 1, 2, 3]\n"
    assert "mapped: 100%" in shown.stderr
    assert "3/3" in shown.stderr
    assert "completed: 100%" in shown.stderr


def test_cells_run_beside_calls(calls, gate):
    calls.ok(f"{gate.source}\nheld = pool.submit(waits, 'a')")
    calls.wool("x = 5")
    assert calls.value("x") == 5
    gate.open("a")
    assert calls.value("held.result()") == "a"


def test_thousands_of_small_calls(calls):
    assert calls.value("sum(pool.map(lambda x: x + 1, range(5000)))") == sum(range(1, 5001))
    assert calls.value("sum(f.result() for f in [pool.submit(abs, -n) for n in range(2000)])") == sum(range(2000))


def test_calls_from_threads_of_a_cell(calls):
    shown = calls.ok("""
        import threading
        results = []
        def works(n): results.append(pool.submit(lambda: print("thread", n) or n).result())
        threads = [threading.Thread(target=works, args=[n]) for n in range(6)]
        for t in threads: t.start()
        for t in threads: t.join()
    """)
    assert sorted(calls.value("results")) == list(range(6))
    assert sorted(shown.stdout.splitlines()) == [f"thread {n}" for n in range(6)]


def test_bad_arguments_are_named(calls):
    for code, words in {
        "pool.map(abs, 3)": "argument 2 of map is no iterable: 3",
        "pool.map(3, [1])": "argument 1 of map can't be called: 3",
        "pool.submit('f')": "argument 1 of submit can't be called: 'f'",
        "pool.map(abs, [1], retries=-1)": "retries is a number of further attempts, not -1",
        "pool.executor(retries=-1)": "retries is a number of further attempts, not -1",
    }.items():
        error = calls.run(code).error
        assert error.evalue == words
        assert "_own" not in error.traceback


def test_the_package_itself_travels_by_name(calls):
    calls.wool("import wool_jupyter.pool.kernel_pool as inner\nname = wool_jupyter.pool.__name__, inner.__name__")
    assert calls.value("(name, inner is sys.modules['wool_jupyter.pool.kernel_pool'])") == (
        ("wool_jupyter.pool", "wool_jupyter.pool.kernel_pool"), True)  # fmt: skip


def test_the_pool_comes_home_as_itself_and_is_not_stored(calls):
    calls.wool("kept = [pool]")
    assert calls.value("kept[0] is pool") is True
    assert "can't be stored or copied" in calls.run("import pickle; pickle.dumps(pool)").error.evalue


def test_a_worker_that_is_ready_after_all_calls_have_ended_leaves_no_folder(calls):
    calls.ok("from wool_jupyter.notebook.runtime import runtime")
    for _ in range(40):
        calls.ok("for each in [pool.submit(str) for _ in range(4)]: each.cancel()")
    left = "[str(each) for place in runtime().places for each in place.glob('calls/*')]"
    wait_until(lambda: calls.value(left) == [])
