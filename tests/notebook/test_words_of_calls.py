"""What the errors of calls say to the user: which call it was, and what is to be done. The user's lines stand alone."""

import re

import pytest

from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def calls(kernel):
    kernel.ok("import os, sqlite3, sys, time, wool_jupyter\nfrom pathlib import Path\npool = wool_jupyter.pool()")
    return kernel


@pytest.mark.parametrize(
    ("made", "words"),
    [
        ("pool.map(abs, [1, 2, 3])", "<Results of a map of 3: `list` or a loop takes them>"),
        ("pool.map(abs, iter([1, 2, 3]))", "<Results of a map: `list` or a loop takes them>"),
        ("pool.executor()", "<Executor of a pool's workers>"),
    ],
)
def test_what_a_call_gives_says_what_it_is(calls, made, words):
    assert calls.ok(made).value == words


DIES = "def dies(name, at=None):\n    if name == at:\n        os._exit(3)\n    return name\n"


@pytest.mark.parametrize(
    ("use", "words"),
    [
        pytest.param("list(pool.map(dies, 'abc', 'bbb'))", "`dies('b', 'b')` (call 2 of its map) had", id="map"),
        pytest.param("pool.submit(dies, 7, at=7).result()", "`dies(7, at=7)` had", id="submit"),
        pytest.param(
            "list(pool.executor().map(dies, [Path('x.csv')], [Path('x.csv')]))",
            "`dies('x.csv', 'x.csv')` (call 1 of its map) had",
            id="executor",
        ),
        pytest.param(
            "import functools\npool.submit(functools.partial(dies, at=1), 1).result()", "`dies(1)` had", id="partial"
        ),
    ],
)
def test_the_death_of_a_worker_says_which_call_it_took(calls, use, words):
    error = calls.run(f"{DIES}{use}").error
    assert error.ename == "WorkerDied"
    assert f"exited with code 3. {words} begun, and may have run in part" in error.evalue


def test_the_death_of_a_worker_that_ran_tasks_of_joblib_says_which(calls):
    error = calls.run(
        f"{DIES}import joblib\njoblib.Parallel(n_jobs=2, batch_size=3, pre_dispatch='all', backend='wool')"
        "(joblib.delayed(dies)(n, 4) for n in range(6))"
    ).error
    assert error.ename == "WorkerDied"
    assert "`dies(3, 4)` (with 2 more tasks of its batch) had begun" in error.evalue


def test_a_result_that_was_lost_on_its_way_tells_which_call_ended_the_worker(calls):
    calls.ok("def dies(n):\n    if n == 5: os._exit(3)\n    return n")
    error = calls.run("list(pool.map(dies, range(9)))").error
    words = r"`dies\(5\)` \(call 6 of its map\)"
    assert re.fullmatch(
        rf"The worker \(pid \d+\) exited with code 3\. "
        rf"({words} had begun, and may have run in part"
        rf"|It was at {words}\. `dies\(\d\)` \(call \d of its map\) has run before, and its result is lost)",
        error.evalue,
    )


ONCE = """
marks = Path({!r})
def dies_once(name):
    if name == 'b' and not (marks / name).exists():
        (marks / name).touch()
        os._exit(3)
    return name
"""


def test_a_call_that_is_run_again_is_told_of_in_one_line(calls, tmp_path):
    calls.ok(ONCE.format(str(tmp_path)))
    result = calls.ok("print(list(pool.map(dies_once, 'abc', retries=1)))")
    assert result.stdout == "['a', 'b', 'c']\n"
    assert re.fullmatch(
        r"wool: The worker \(pid \d+\) exited with code 3: `dies_once\('b'\)` \(call 2 of its map\) is run again\n",
        result.stderr,
    )


# What can't be shipped.


@pytest.mark.parametrize(
    ("use", "words"),
    [
        pytest.param(
            "pool.submit(reads, conn).result()",
            "argument `db` (sqlite3.Connection) of `reads` can't be shipped to a worker: connect inside the function",
            id="parameter",
        ),
        pytest.param(
            "list(pool.map(reads, [{'a': conn}]))",
            "argument `db['a']` (sqlite3.Connection) of `reads` can't be shipped to a worker: connect inside the function",
            id="map",
        ),
        pytest.param(
            "pool.submit(reads, db=None, many=conn).result()",
            "argument `many` (sqlite3.Connection) of `reads` can't be shipped to a worker: connect inside the function",
            id="keyword",
        ),
        pytest.param(
            "pool.submit(reads, 1, 2, conn).result()",
            "`argument 3` (sqlite3.Connection) of `reads` can't be shipped to a worker: connect inside the function",
            id="further arguments",
        ),
        pytest.param(
            "pool.submit(abs, conn).result()",
            "`argument 1` (sqlite3.Connection) of `abs` can't be shipped to a worker: connect inside the function",
            id="by position",
        ),
        pytest.param(
            "list(pool.map(Store().keep, [1]))",
            "`Store.keep.__self__.conn` (sqlite3.Connection) can't be shipped to a worker: connect inside the function",
            id="method",
        ),
        pytest.param(
            "pool.submit(reads, Moody()).result()",
            "argument `db` (__main__.Moody) of `reads` can't be shipped to a worker (ValueError: not today): "
            "make it inside the function",
            id="its own reason",
        ),
        pytest.param(
            "joblib.Parallel(n_jobs=2, backend='wool')(joblib.delayed(reads)(conn) for _ in range(3))",
            "argument `db` (sqlite3.Connection) of `reads` can't be shipped to a worker: connect inside the function",
            id="joblib",
        ),
    ],
)
def test_an_argument_that_can_not_be_shipped_is_named_as_the_function_names_it(calls, use, words):
    calls.ok("""
        import joblib
        conn = sqlite3.connect(":memory:")
        def reads(db, many=False, *more): return db
        class Store:
            def __init__(self): self.conn = conn
            def keep(self, value): return value
        class Moody:
            def __getstate__(self): raise ValueError("not today")
    """)
    error = calls.run(use).error
    assert (error.ename, error.evalue) == ("CannotShip", words)
    assert use in error.traceback
    for inner in ("cloudpickle", "PicklingError", "wool_jupyter/"):
        assert inner not in error.traceback


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("(n for n in [1])", "the result of `makes` (generator) can't be shipped: return a list of what it yields"),
        (
            "{'db': sqlite3.connect(':memory:')}",
            "`result['db']` (sqlite3.Connection) in the result of `makes` can't be shipped: return what is needed of it",
        ),
        (
            "open(os.devnull)",
            "the result of `makes` (_io.TextIOWrapper) can't be shipped: return its name, or what stands in it",
        ),
    ],
)
@pytest.mark.parametrize("use", ["pool.submit(makes).result()", "list(pool.map(lambda _: makes(), [1]))"])
def test_a_result_that_can_not_be_shipped_is_told_of_by_the_function(calls, use, body, words):
    error = calls.run(f"def makes():\n    return {body}\n{use}").error
    assert error.ename == "CannotShip"
    assert error.evalue == words.replace("`makes`", "`<lambda>`" if "lambda" in use else "`makes`")
    assert f"----> 3 {use}" in error.traceback
    for inner in ("cloudpickle", "PicklingError", "cannot pickle", "wool_jupyter/"):
        assert inner not in error.traceback


# ■.


WAITS = """
def waits(n):
    print("in", n, flush=True)
    while True: time.sleep(0.01)
"""


@pytest.mark.parametrize(
    "waiting",
    [
        pytest.param("future.result()", id="result"),
        pytest.param("future.exception()", id="exception"),
        pytest.param("list(pool.map(waits, 'ab'))", id="map"),
        pytest.param("list(pool.executor().map(waits, 'ab'))", id="map of an executor"),
        pytest.param("executor = pool.executor(); executor.submit(waits, 1); executor.shutdown()", id="shutdown"),
    ],
)
def test_an_interrupt_of_a_wait_shows_the_users_lines_alone(calls, waiting):
    calls.ok(WAITS)
    running = calls.begin(f"future = pool.submit(waits, 0); {waiting}")
    running.wait_for("in 0")
    calls.interrupt()
    error = running.result().error
    assert error.ename == "KeyboardInterrupt"
    assert f"----> 1 future = pool.submit(waits, 0); {waiting}" in error.traceback
    for inner in ("concurrent", "threading.py", "wool_jupyter", "hidden"):
        assert inner not in error.traceback


def test_an_interrupt_at_the_end_of_a_block_shows_the_users_lines_alone(calls):
    calls.ok(WAITS)
    running = calls.begin("with pool.executor() as executor: executor.submit(waits, 0)")
    running.wait_for("in 0")
    calls.interrupt()
    error = running.result().error
    assert error.ename == "KeyboardInterrupt"
    for inner in ("concurrent", "threading.py", "wool_jupyter", "hidden"):
        assert inner not in error.traceback


def test_a_time_out_shows_the_users_lines_alone(calls, tmp_path):
    gate = tmp_path / "gate"
    calls.ok(f"gate = Path({str(gate)!r})\ndef waits(gate):\n    while not gate.exists(): time.sleep(0.01)")
    error = calls.run("future = pool.submit(waits, gate); future.result(0.01)").error
    gate.touch()
    assert error.ename == "TimeoutError"
    assert calls.value("future.result(60)") is None
    for inner in ("concurrent", "threading.py", "wool_jupyter", "hidden"):
        assert inner not in error.traceback


def test_an_interrupt_in_the_users_own_generator_of_arguments_shows_its_line(calls, tmp_path):
    mark = tmp_path / "mark"
    running = calls.begin(
        f"mark = Path({str(mark)!r})\n"
        "def rows():\n"
        "    yield 1\n"
        "    while True: mark.touch(); time.sleep(0.01)\n"
        "list(pool.map(abs, rows()))"
    )
    wait_until(mark.exists)
    calls.interrupt()
    error = running.result().error
    assert error.ename == "KeyboardInterrupt"
    assert re.search(r"-> \d+ +while True: mark.touch\(\)", error.traceback)
    assert "wool_jupyter" not in error.traceback
