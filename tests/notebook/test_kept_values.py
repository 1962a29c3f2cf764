"""Results that can't travel, and those that should not: they stay on their worker and are used there."""

import re

import pytest

from tests.support.kernel import wool
from tests.support.waiting import wait_until

MAKES = "import threading\nlock = threading.Lock()\ngen = (i for i in range(5))\nother = 3"


def test_a_result_that_can_not_travel_is_named_once_and_the_others_arrive(kernel):
    result = kernel.wool(MAKES)
    notices = [line for line in result.stderr.splitlines() if line.startswith("wool:")]
    assert len(notices) == 2
    assert re.search(r"`lock` \(_thread\.lock\) can't be shipped.*stays on its worker", result.stderr)
    assert kernel.value("other") == 3


def test_one_that_there_is_no_memory_to_pack_is_said_to_be_that(fresh_kernel):
    result = fresh_kernel.wool("""
        import resource
        used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()
        whole = resource.getrlimit(resource.RLIMIT_AS)
        parts = [bytearray(20 << 20) for _ in range(8)]
        resource.setrlimit(resource.RLIMIT_AS, (used + (240 << 20), whole[1]))
    """)
    assert "`parts` (list) can't be shipped, as its worker has no memory left to pack it: it stays" in result.stderr
    assert "bytearray" not in result.stderr
    assert fresh_kernel.wool("resource.setrlimit(resource.RLIMIT_AS, whole)\nlen(parts)").value == "8"


def test_a_later_cell_gets_the_object_itself(kernel):
    kernel.wool(MAKES)
    assert kernel.wool("next(gen), next(gen)").value == "(0, 1)"
    assert kernel.wool("lock.acquire(), list(gen)").value == "(True, [2, 3, 4])"
    assert kernel.wool("lock.locked()").value == "True"


def test_a_plain_cell_that_touches_one_is_told_where_it_lives(kernel):
    kernel.wool(MAKES)
    for use in ("list(gen)", "gen.send(None)", "lock.acquire()", "with lock: pass", "len(gen)", "gen()"):
        error = kernel.run(use).error
        assert error.ename == "KeptOnWorker"
        assert re.search(r"`(gen|lock)` .* lives on a worker: use it in a %%wool cell", error.evalue)
        assert use in error.traceback
        assert "wool_jupyter" not in error.traceback
    assert "use it in a %%wool cell" in kernel.ok("gen").value


def test_a_process_that_a_cell_has_started_is_looked_after_where_it_runs(kernel):
    result = kernel.wool(
        "import subprocess\nchild = subprocess.Popen(['sleep', '60'])\nover = subprocess.Popen(['false']); over.wait()"
    )
    assert re.search(r"`child` \(subprocess\.Popen\) can't be shipped: it stays on its worker", result.stderr)
    assert kernel.value("over.poll()") == 1
    assert kernel.wool("child.poll()").value is None
    assert kernel.wool("child.terminate(); child.wait()").value == "-15"


def test_a_process_of_the_kernel_stays_its_own(kernel):
    kernel.ok("import subprocess\nchild = subprocess.Popen(['sleep', '60'])")
    assert (
        "`child` (subprocess.Popen) stays in the kernel, it can't be shipped: start it inside the cell"
        in kernel.run(wool("child.poll()")).error.evalue
    )
    assert kernel.value("child.poll()") is None
    assert kernel.value("(child.terminate(), child.wait())") == (None, -15)


MOODY = """
class Moody:
    def __getstate__(self): raise ValueError("call save() before pickling")
moody = Moody()
inside = {"a": [moody]}
"""
SAYS = "(ValueError: call save() before pickling)"


def test_what_an_object_says_about_why_it_does_not_travel_is_shown(kernel):
    kernel.ok(MOODY)
    assert kernel.wool_error("moody").evalue == (
        f"`moody` (__main__.Moody) stays in the kernel, it can't be shipped {SAYS}: make it inside the cell"
    )
    assert f"`inside['a'][0]` (__main__.Moody) stays in the kernel, it can't be shipped {SAYS}: make" in (
        kernel.wool("len(inside)").stderr
    )
    assert f"`again['a'][0]` (__main__.Moody) can't be shipped {SAYS}: it stays on its worker" in (
        kernel.wool(MOODY + "again = inside\ndel inside, moody").stderr
    )


FINISHED = """
import asyncio, csv, multiprocessing, os, re, socket, sqlite3, threading
from concurrent.futures import ThreadPoolExecutor
from tqdm import tqdm

with multiprocessing.Pool(2) as pool:
    squares = pool.map(abs, [-1, -2])
with ThreadPoolExecutor(2) as executor:
    futures = [executor.submit(abs, -n) for n in range(3)]
thread = threading.Thread(target=abs, args=(1,))
thread.start()
thread.join()
child = multiprocessing.Process(target=abs, args=(1,))
child.start()
child.join()
numbers = (n for n in range(3))
found = [*numbers]
match = re.search("a+", "xaay")
with tqdm(total=3, file=sys.stdout) as bar:
    bar.update(3)
out = sys.stdout

async def half(n):
    return n / 2

tasks = [asyncio.create_task(half(n)) for n in range(3)]
gathered = asyncio.gather(*tasks)
await gathered
sock = socket.socket()
sock.close()
ends = multiprocessing.Pipe()
ends[0].close(), ends[1].close()
database = sqlite3.connect(":memory:")
database.row_factory = sqlite3.Row
cursor = database.execute("select 7 as seven")
rows = cursor.fetchall()
database.close()
with open(os.devnull, "w") as table:
    writer = csv.writer(table)
later = threading.Thread(target=print, args=("later",))
"""


def test_what_has_ended_comes_home_and_pins_no_worker(fresh_kernel):
    kernel = fresh_kernel
    result = kernel.wool(f"import sys{FINISHED}")
    assert [line for line in result.stderr.splitlines() if line.startswith("wool:")] == []
    assert "keeps" not in kernel.ok("%wool status").stdout
    assert kernel.value("(match.group(), match.span(), squares, [f.result() for f in futures])") == (
        "aa", (1, 3), [1, 2], [0, 1, 2])  # fmt: skip
    assert kernel.value("(thread.is_alive(), child.exitcode, list(numbers), bar.n)") == (False, 0, [], 3)
    assert kernel.value("([t.result() for t in tasks], await gathered, rows[0]['seven'])") == (
        [0, 0.5, 1],
        [0, 0.5, 1],
        7,
    )
    assert kernel.value("(sock.fileno(), cursor.connection is database, cursor.description[0][0])") == (
        -1,
        True,
        "seven",
    )
    assert kernel.ok("later.start(); later.join()").stdout == "later\n"
    refusals = {
        "pool.map(abs, [1])": "Pool not running",
        "executor.submit(abs)": "after shutdown",
        "cursor.fetchone()": "closed database",
        "writer.writerow([1])": "closed file",
    }
    for use, says in refusals.items():
        assert says in kernel.run(use).error.evalue
    assert kernel.ok("print('here', file=out)").stdout == "here\n"
    again = kernel.wool(
        "print(match.group(), thread.is_alive(), child.exitcode, next(numbers, None), await gathered, file=out)"
    )
    assert (again.stdout, again.stderr) == ("aa False 0 None [0.0, 0.5, 1.0]\n", "")


def test_what_a_plain_cell_has_ended_can_be_read(kernel):
    kernel.ok("import sys, logging\nthread = None\nhandler = logging.StreamHandler(sys.stdout)" + FINISHED)
    result = kernel.wool(
        "print(match.group(), thread.is_alive(), child.exitcode, list(numbers), len(futures), file=out)\n"
        "box = [pool, executor]\nhandler.stream.write('by the handler\\n')\nmatch, thread"
    )
    assert result.stdout.splitlines()[0] == "aa False 0 [] 3"
    assert "by the handler" in result.stdout
    assert result.stderr == ""
    assert kernel.value("(box[0] is pool, box[1] is executor, _[0] is match, _[1] is thread)") == (True,) * 4
    assert kernel.ok("print('here', file=out)").stdout == "here\n"


def test_what_a_manager_shares_is_shared_with_workers_and_a_dead_one_hides_no_result(kernel):
    kernel.ok("import multiprocessing\nmanager = multiprocessing.Manager()\ncounts = manager.dict(a=1)\nbox = [counts]")
    result = kernel.wool("""
        import multiprocessing
        counts["b"] = 2
        with multiprocessing.Manager() as own:
            gone = own.list([1])
        zeros = [0, gone]
        last = [9]
        own.address == gone._token.address, box[0] is counts
    """)
    assert (result.value, result.stderr) == ("(True, True)", "")
    assert kernel.value("(dict(counts), zeros[0], zeros[1] is gone, last)") == ({"a": 1, "b": 2}, 0, True, [9])
    assert "FileNotFoundError" in kernel.run("len(gone)").error.ename
    lives = kernel.wool("living = multiprocessing.Manager()\nlist_ = living.list([1])\nlast = [10]")
    assert "`list_` (ListProxy) can't be shipped: it stays on its worker" in lives.stderr
    assert kernel.value("last") == [10]
    assert kernel.wool("len(list_)").value == "1"
    kernel.wool("living.shutdown()")
    kernel.ok("manager.shutdown()")
    assert kernel.wool("type(counts).__name__, last").value == "('DictProxy', [10])"


def test_a_cell_that_changes_what_holds_them_leaves_them_as_they_are(kernel):
    kernel.ok(f"import sys{FINISHED}\nbox = [thread, child]; before = thread.ident, child.pid")
    kernel.wool("box.append(len(box))")
    assert kernel.value("(box[0] is thread, box[1] is child, box[2:])") == (True, True, [2])
    assert kernel.value("before == (thread.ident, child.pid)")


@pytest.mark.parametrize("use", ["%%wool\n{}", "{}"])
def test_a_temporary_directory_that_a_cell_has_made_is_there_until_its_name_goes(kernel, use):
    kernel.wool(
        "import os, tempfile\nmade = tempfile.TemporaryDirectory(); root = made.name\nopen(f'{root}/x', 'w').close()"
    )
    kernel.ok(use.format("found = os.listdir(root)"))
    assert kernel.value("found") == ["x"]
    kernel.ok("del made")
    kernel.wool("import gc\ngc.collect()")
    wait_until(lambda: not kernel.value("os.path.exists(root)"))


def test_a_temporary_directory_of_the_kernel_stays_when_a_cell_has_used_it(kernel):
    kernel.ok("import os, tempfile\nmade = tempfile.TemporaryDirectory()")
    kernel.wool("open(f'{made.name}/x', 'w').close()")
    kernel.wool("import gc\ngc.collect()")
    assert kernel.value("os.listdir(made.name)") == ["x"]


def test_it_may_be_handed_around(kernel):
    kernel.wool(MAKES)
    kernel.ok("box = {'deep': [gen]}; same = gen")
    assert kernel.wool("box['deep'][0] is gen is same, next(same)").value == "(True, 0)"
    kernel.wool("again = gen")
    assert kernel.value("again is gen")


def test_a_last_value_that_can_not_travel_is_shown_as_its_worker_shows_it(kernel):
    assert re.fullmatch(r"<generator object <genexpr> at 0x[0-9a-f]+>", kernel.wool("(i for i in range(3))").value)
    assert kernel.wool("list(_)").value == "[0, 1, 2]"


def test_what_was_kept_is_let_go_when_the_kernel_lets_go(kernel):
    kernel.wool("import weakref\nclass Held:\n    def __init__(self): self.gen = (i for i in ())\nheld = Held()")
    kernel.wool("ref = [0]\nimport builtins\nbuiltins._ref = weakref.ref(held)")
    assert kernel.wool("import builtins\nbuiltins._ref() is not None").value == "True"
    kernel.ok("del held")
    kernel.wool("import gc\ngc.collect()")
    assert kernel.wool("import builtins, gc\ngc.collect()\nbuiltins._ref() is None").value == "True"


def test_the_death_of_its_worker_makes_it_an_error_that_says_so(kernel):
    kernel.wool(MAKES)
    kernel.run(wool("next(gen)\nimport os; os._exit(1)"))
    error = kernel.wool_error("next(gen)")
    assert error.ename == "KeptOnWorker"
    assert "gone" in error.evalue
    assert kernel.wool("1 + 1").value == "2"


def test_values_of_two_workers_in_one_cell_are_refused_by_name(fresh_kernel, tmp_path):
    fresh_kernel.ok("%load_ext wool_jupyter")
    fresh_kernel.ok("%wool start -n 2")
    cell = (
        "import os, time\n{0} = (i for i in ())\nopen('{1}/{0}', 'w').close()\n"
        "while len(os.listdir('{1}')) < 2: time.sleep(0.01)"  # the other one runs beside it
    )
    both = (
        "import threading\n"
        "shell = get_ipython()\n"
        f"first = {cell.format('first', tmp_path)!r}\n"
        "one = threading.Thread(target=shell.run_cell_magic, args=('wool', '', first))\n"
        "one.start()\n"
        f"shell.run_cell_magic('wool', '', {cell.format('second', tmp_path)!r})\n"
        "one.join()"
    )
    fresh_kernel.ok(both)
    error = fresh_kernel.wool_error("list(first), list(second)")
    assert error.ename == "KeptOnWorker"
    assert "first" in error.evalue
    assert "second" in error.evalue


@pytest.mark.parametrize("size", [100_000, 3_000_000])
def test_a_result_above_the_budget_stays_and_one_below_comes_home(kernel, size):
    kernel.ok("%config Wool.result_budget_bytes = 10_000_000")
    try:
        result = kernel.wool(f"import numpy as np\nlarge = np.arange({size})\nsmall = 1")
        assert kernel.value("small") == 1
        assert kernel.wool("int(large[-1])").value == str(size - 1)
        if size == 3_000_000:
            assert "`large` (ndarray) has 24 MB, above the budget for results" in result.stderr
            assert kernel.run("large[0]").error.ename == "KeptOnWorker"
        else:
            assert result.stderr == ""
            assert kernel.value("int(large[-1])") == size - 1
    finally:
        kernel.ok("%config Wool.result_budget_bytes = None")


def test_what_is_made_of_a_class_that_is_kept_is_kept_too(kernel):
    kernel.wool("class Log:\n    file = open('/dev/null')\n    def __init__(self): self.n = 1")
    shown = kernel.wool("""
    log, other = Log(), 5
    class Sub(Log): pass
    subs = [Sub()]
    """)
    assert "`log` (__main__.Log) can't be shipped: it stays on its worker" in shown.stderr
    assert kernel.value("other") == 5
    assert kernel.wool("log.n, type(log) is Log, isinstance(subs[0], Log), type(subs[0]) is Sub").value == (
        "(1, True, True, True)"
    )
    assert kernel.wool("Log").value == "__main__.Log"
    assert kernel.wool_error("raise ValueError(Log)").ename == "ValueError"
