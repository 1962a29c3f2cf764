"""The state of the process follows the kernel into a cell and comes back after it."""

# ruff: noqa: E501 (a case is a line)

import pytest

CELLS = [
    pytest.param("import os; os.chdir(sub); os.getcwd()", "import os; os.getcwd() == sub", id="chdir"),
    pytest.param("%cd -q {sub}\nopen('here.txt', 'w').close()", "import os; os.listdir(sub)", id="%cd"),
    pytest.param(
        "import os; os.environ['WOOL_NEW'] = '1'; os.getenv('WOOL_OLD')", "os.environ.get('WOOL_NEW')", id="environ set"
    ),
    pytest.param("import os; del os.environ['WOOL_OLD']", "os.environ.get('WOOL_OLD')", id="environ deleted"),
    pytest.param("%env WOOL_NEW=2\n", "os.environ.get('WOOL_NEW')", id="%env"),
    pytest.param("!echo $WOOL_OLD", "1", id="environ of children"),
    pytest.param(
        "import sys; sys.path.insert(0, sub)\nimport mod_in_sub; mod_in_sub.v",
        "sys.path[0] == sub, mod_in_sub.v",
        id="sys.path",
    ),
    pytest.param("import sys; sys.argv", "sys.argv[1:]", id="sys.argv read"),
    pytest.param("import sys; sys.argv = ['a', 'b']", "sys.argv", id="sys.argv bound"),
    pytest.param("import sys; sys.argv.append('c')", "sys.argv[-1]", id="sys.argv appended"),
    pytest.param("import random; random.seed(3); a = random.random(); a", "random.random()", id="random"),
    pytest.param("import random; random.random()", "random.random()", id="random goes on"),
    pytest.param("import numpy as np; np.random.seed(3); np.random.rand()", "np.random.rand()", id="numpy random"),
    pytest.param("import numpy as np; np.random.rand()", "np.random.rand()", id="numpy random goes on"),
    pytest.param(
        "import warnings; warnings.simplefilter('ignore')\nwarnings.warn('x')",
        "warnings.warn('y')",
        id="warnings filters",
    ),
    pytest.param(
        "import pandas as pd; pd.set_option('display.max_rows', 3); pd.get_option('display.precision')",
        "pd.get_option('display.max_rows')",
        id="pandas options",
    ),
    pytest.param("import os; os.umask(os.umask(0o22)); open('rel.txt').read()", "1", id="relative paths"),
    pytest.param("open('new.txt', 'w').write('x')", "open('new.txt').read()", id="relative file made"),
    pytest.param("import local_mod; local_mod.v", "local_mod.v", id="local module"),
]

SETUP = """
import os, sys, random, warnings
import numpy as np, pandas as pd
random.seed(1); np.random.seed(1); pd.set_option('display.precision', 4); pd.reset_option('display.max_rows')
np.set_printoptions(precision=8)
for module in ('mod_in_sub', 'local_mod'): sys.modules.pop(module, None)
os.chdir(base); sub = base + '/sub'
for made in ('new.txt', 'sub/here.txt'):
    if os.path.exists(made): os.remove(made)
os.environ['WOOL_OLD'] = 'old'; sys.argv = ['prog', '-x']
if base not in sys.path: sys.path.insert(0, base)
"""


@pytest.mark.parametrize(("cell", "check"), CELLS)
def test_process_state_follows_and_comes_back(same, tmp_path, cell, check):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "mod_in_sub.py").write_text("v = 5\n")
    (tmp_path / "local_mod.py").write_text("v = 6\n")
    (tmp_path / "rel.txt").write_text("relative\n")
    same(
        cell,
        before=[f"base = {str(tmp_path)!r}" + SETUP],
        after=[check, "sorted(k for k in os.environ if k.startswith('WOOL'))"],
    )


def test_a_local_module_that_was_edited_is_fresh_in_the_next_cell(kernel, tmp_path):
    module = tmp_path / "edited_mod.py"
    module.write_text("v = 1\n")
    kernel.ok(f"import sys; sys.path.insert(0, {str(tmp_path)!r})")
    assert kernel.wool("import edited_mod; edited_mod.v").value == "1"
    module.write_text("v = 'much longer'\n")
    assert kernel.wool("import edited_mod; edited_mod.v").value == "'much longer'"


def test_a_directory_that_is_gone_is_no_error(kernel, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    kernel.ok(f"import os; os.chdir({str(gone)!r}); os.rmdir({str(gone)!r})")
    assert kernel.wool("1 + 1").value == "2"


ASYNC = [
    pytest.param("import asyncio\nasync def f(): return 3\nx = asyncio.run(f())", "x == 3", id="asyncio.run"),
    pytest.param(
        "import asyncio\nasync def f(): return 3\nx = await f() + asyncio.run(f())",
        "x == 6",
        id="asyncio.run and await",
    ),
    pytest.param(
        "import asyncio\nx = asyncio.new_event_loop().run_until_complete(asyncio.sleep(0, 3))", "x == 3", id="own loop"
    ),
    pytest.param(
        "import asyncio\nt = asyncio.create_task(asyncio.sleep(0, 3))\nx = await t\ndel t", "x == 3", id="task"
    ),
    pytest.param(
        "import asyncio\nasync with asyncio.timeout(5): x = await asyncio.to_thread(lambda: 3)",
        "x == 3",
        id="to_thread",
    ),
    pytest.param(
        "import asyncio\nasync with asyncio.TaskGroup() as tg: t = tg.create_task(asyncio.sleep(0, 3))\nx = t.result()\ndel tg, t",
        "x == 3",
        id="TaskGroup",
    ),
    pytest.param(
        "import asyncio\np = await asyncio.create_subprocess_exec('echo', 'hi', stdout=-1)\nx = (await p.communicate())[0]\ndel p",
        "x == b'hi\\n'",
        id="subprocess",
    ),
    pytest.param(
        "import signal\nold = signal.signal(signal.SIGUSR1, lambda *a: hits.append(1))\nimport os; os.kill(os.getpid(), signal.SIGUSR1)\nx = len(hits)",
        "x == 1 and hits == [1]",
        id="signal",
    ),
    pytest.param(
        "import signal\nsignal.signal(signal.SIGALRM, lambda *a: hits.append(1)); signal.setitimer(signal.ITIMER_REAL, 0.01)\nsignal.pause()",
        "hits == [1]",
        id="alarm",
    ),
    pytest.param(
        "import multiprocessing as mp\nwith mp.Pool(2) as p: x = p.map(square, [1, 2, 3])\ndel p",
        "x == [1, 4, 9]",
        id="Pool",
    ),
    pytest.param(
        "def cube(i): return i ** 3\nimport multiprocessing as mp\nwith mp.Pool(2) as p: x = p.map(cube, [1, 2])\ndel p",
        "x == [1, 8]",
        id="Pool of a function of the cell",
    ),
    pytest.param(
        "from concurrent.futures import ProcessPoolExecutor as P\nwith P(2) as p: x = list(p.map(square, [1, 2]))\ndel p",
        "x == [1, 4]",
        id="ProcessPoolExecutor",
    ),
    pytest.param(
        "import multiprocessing as mp\nq = mp.Queue(); p = mp.Process(target=q.put, args=(5,)); p.start(); x = q.get(); p.join()\ndel p, q",
        "x == 5",
        id="Process and Queue",
    ),
    pytest.param(
        "import os\npid = os.fork()\nif pid == 0: os._exit(7)\nx = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])",
        "x == 7",
        id="fork",
    ),
    pytest.param(
        "from concurrent.futures import ThreadPoolExecutor as T\nwith T(3) as p: x = list(p.map(square, [1, 2]))\ndel p",
        "x == [1, 4]",
        id="threads",
    ),
    pytest.param(
        "import threading\nt = threading.Thread(target=lambda: hits.append(2)); t.start(); t.join()\ndel t",
        "hits == [2]",
        id="thread changes an input",
    ),
    pytest.param("import threading\nx = threading.current_thread() is threading.main_thread()", "x", id="main thread"),
    pytest.param(
        "import joblib\nx = joblib.Parallel(2)(joblib.delayed(square)(i) for i in range(3))",
        "x == [0, 1, 4]",
        id="joblib",
    ),
    pytest.param(
        "import subprocess, sys\nx = subprocess.check_output([sys.executable, '-c', 'print(1)'])",
        "x == b'1\\n'",
        id="child python",
    ),
    pytest.param(
        "from sklearn.ensemble import RandomForestClassifier as R\nx = R(4, n_jobs=2, random_state=0).fit([[0], [1]], [0, 1]).predict([[1]]).tolist()",
        "x == [1]",
        id="n_jobs",
    ),
    pytest.param(
        "import sqlite3\nc = sqlite3.connect(':memory:'); x = c.execute('select 1').fetchone(); c.close(); del c",
        "x == (1,)",
        id="sqlite",
    ),
    pytest.param(
        "import contextvars\nv = contextvars.ContextVar('v', default=3); x = v.get(); del v",
        "x == 3",
        id="context variable",
    ),
    pytest.param(
        "import atexit, gc, weakref, sys\nclass A: pass\na = A(); r = weakref.ref(a); x = r() is a; del r",
        "x",
        id="weakref",
    ),
]


@pytest.mark.parametrize(("cell", "check"), ASYNC)
def test_loops_signals_processes_and_threads_work(kernel, cell, check):
    kernel.ok("hits = []\ndef square(i): return i * i")
    result = kernel.wool(cell)
    assert result.stdout == ""
    assert kernel.value(check)


def test_a_future_import_holds_for_the_cells_that_follow_on_both_sides(kernel):
    reads = "x: undefined = 3; __annotations__"
    kernel.ok("from __future__ import annotations")
    assert kernel.wool(reads).value == "{'x': 'undefined'}"
    kernel.reset()
    kernel.wool("from __future__ import annotations")
    assert kernel.ok(reads).value == "{'x': 'undefined'}"
    kernel.reset()
    assert kernel.wool_error(reads).ename == "NameError"
