"""`joblib.parallel_config(backend="wool")`: what joblib and scikit-learn do with `n_jobs` runs on the notebook's pool."""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.support.kernel import Kernel
from tests.support.waiting import wait_until

IMPORTS = "import joblib, os, time\nfrom joblib import Parallel, delayed"
DATA = """
import warnings
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.inspection import permutation_importance
from sklearn.metrics import make_scorer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.svm import SVC
X, y = make_classification(200, random_state=0)
"""


def on_wool(body, **options):
    given = ", ".join(f"{name}={value!r}" for name, value in ({"backend": "wool"} | options).items())
    return f"with joblib.parallel_config({given}):\n{textwrap.indent(textwrap.dedent(body).strip(), '    ')}"


@pytest.fixture
def notebook(kernel):
    kernel.ok(IMPORTS)
    return kernel


@pytest.fixture
def learning(notebook):
    notebook.ok(DATA, timeout=60)
    return notebook


def worker_pids(kernel):
    return set(map(int, re.findall(r"pid (\d+)", kernel.ok("%wool status").stdout)))


def all_idle(kernel):
    return kernel.ok("%wool status").stdout.count("idle") == len(worker_pids(kernel)) > 0


def files_of_calls(kernel):
    kernel.ok("from wool_jupyter.notebook.runtime import runtime")
    places = kernel.value("list(map(str, runtime().places))")
    return {path for place in places for path in Path(place).glob("calls/*/**/*")}


# ---- the name


def test_loading_the_extension_imports_no_joblib_and_the_name_is_there_once_it_is(fresh_kernel):
    assert fresh_kernel.value("'joblib' in __import__('sys').modules") is False
    fresh_kernel.ok(IMPORTS)
    assert fresh_kernel.value("'wool' in joblib.parallel.BACKENDS")
    assert fresh_kernel.value("any('wool' in type(f).__module__ for f in __import__('sys').meta_path)") is False
    fresh_kernel.ok("%unload_ext wool_jupyter")
    assert fresh_kernel.value("'wool' in joblib.parallel.BACKENDS") is False
    fresh_kernel.ok("%load_ext wool_jupyter")  # joblib is there already
    assert fresh_kernel.value("'wool' in joblib.parallel.BACKENDS")


def test_unloading_before_joblib_is_imported_leaves_nothing(fresh_kernel):
    fresh_kernel.ok("%unload_ext wool_jupyter")
    assert fresh_kernel.value("any('wool' in type(f).__module__ for f in __import__('sys').meta_path)") is False
    fresh_kernel.ok(IMPORTS)
    assert fresh_kernel.value("'wool' in joblib.parallel.BACKENDS") is False


def test_the_pool_is_started_when_there_is_something_to_do_and_one_line_says_so(fresh_kernel):
    fresh_kernel.ok(IMPORTS)
    asked = fresh_kernel.ok(on_wool("joblib.effective_n_jobs(-1), joblib.effective_n_jobs(1)")).stdout
    assert asked == ""
    assert "no pool runs" in fresh_kernel.ok("%wool status").stdout
    result = fresh_kernel.ok(on_wool("print(Parallel(n_jobs=2)(delayed(abs)(n) for n in (-1, 2)))"))
    assert result.stdout.splitlines()[0].startswith("wool: started a pool of ")
    assert result.stdout.splitlines()[1:] == ["[1, 2]"]
    assert result.stderr == ""


def test_it_can_be_named_in_parallel_itself(notebook):
    assert notebook.value("Parallel(n_jobs=2, backend='wool')(delayed(abs)(n) for n in (-1, -2))") == [1, 2]


PROGRAM = """
import joblib
import wool_jupyter

def square(n):
    return n * n

if __name__ == "__main__":
    wool_jupyter.pool()
    print(joblib.Parallel(n_jobs=2, backend="wool")(joblib.delayed(square)(n) for n in range(4)))
"""


def test_a_program_asks_for_the_pool_first(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    ran = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.splitlines()[-1] == "[0, 1, 4, 9]"
    assert ran.stderr == ""


def test_a_child_process_of_the_kernel_has_no_pool_and_says_so(notebook):
    notebook.ok("""
    def try_it():
        try:
            Parallel(n_jobs=2, backend="wool")(delayed(abs)(n) for n in range(2))
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    import multiprocessing
    with multiprocessing.get_context("fork").Pool(1) as children:
        said = children.apply(try_it)
    """)
    assert "WoolError: The pool belongs to the process that this one was forked from" in notebook.value("said")


# ---- where tasks run


def test_tasks_run_on_the_workers_and_one_job_in_the_kernel(notebook, tmp_path):
    notebook.ok(f"""
    here = {str(tmp_path)!r}
    def where(n):
        open(f"{{here}}/{{os.getpid()}}", "w").close()
        while len(os.listdir(here)) < 2:  # the second worker may still be starting
            time.sleep(0.01)
        return os.getpid()
    """)
    notebook.ok(on_wool("pids = Parallel(n_jobs=2)(delayed(where)(n) for n in range(8))"))
    assert set(notebook.value("pids")) <= worker_pids(notebook)
    assert len(set(notebook.value("pids"))) == 2
    notebook.ok(on_wool("pids = Parallel(n_jobs=1)(delayed(where)(n) for n in range(3))"))
    assert set(notebook.value("pids")) == {notebook.pid}


def test_the_number_of_jobs_is_counted_as_joblib_does(notebook):
    most = notebook.value("joblib.cpu_count()")
    counted = [notebook.value(f"joblib.parallel.get_active_backend()[0].effective_n_jobs({n})") for n in (-1, -2, 1)]
    notebook.ok(on_wool("numbers = [joblib.effective_n_jobs(n) for n in (-1, -2, 1)], joblib.effective_n_jobs(10_000)"))
    assert notebook.value("numbers") == (counted, most)
    assert "n_jobs == 0" in notebook.run(on_wool("Parallel(n_jobs=0)([])")).error.evalue


def test_the_pool_is_used_whole_unless_a_number_is_given(notebook):
    notebook.ok(on_wool("parallel = Parallel()"))
    assert notebook.value("parallel.n_jobs") == -1


def test_shared_memory_is_asked_of_threads(notebook):
    notebook.ok("seen = []")
    notebook.ok(on_wool("_ = Parallel(n_jobs=2, require='sharedmem')(delayed(seen.append)(n) for n in range(3))"))
    assert sorted(notebook.value("seen")) == [0, 1, 2]


def test_parallelism_inside_a_task_is_that_of_lokys_workers(notebook):
    notebook.ok("""
    def innermost(n):
        return type(joblib.parallel.get_active_backend()[0]).__name__
    def inner(n):
        backend, _ = joblib.parallel.get_active_backend()
        return type(backend).__name__, Parallel(n_jobs=2)(delayed(innermost)(n) for n in range(2))
    def nested(backend):
        with joblib.parallel_config(backend=backend):
            return Parallel(n_jobs=2)(delayed(inner)(n) for n in range(2))
    """)
    assert notebook.value("nested('wool')") == [("ThreadingBackend", ["SequentialBackend"] * 2)] * 2
    assert notebook.value("nested('wool') == nested('loky')")


def test_in_a_cell_on_a_worker_it_means_threads_and_one_line_says_so(notebook):
    body = on_wool("""
    for _ in range(2):
        pids = set(Parallel()(delayed(os.getpid)() for _ in range(4)))
    """)
    for _ in range(2):
        result = notebook.wool(f"{body}\n{body}\npids == {{os.getpid()}}")
        assert result.value == "True"
        assert result.stderr.count("\n") == 1
        assert 'on a worker joblib\'s backend "wool" uses threads' in result.stderr


def test_a_backend_of_the_notebook_can_be_used_in_a_cell_on_a_worker(notebook):
    notebook.ok("backend = joblib.parallel.BACKENDS['wool'](nesting_level=0)")
    cell = "with joblib.parallel_config(backend=backend):\n    numbers = Parallel(n_jobs=2)(delayed(abs)(n) for n in (-1, -2))"
    for run in (notebook.ok, notebook.wool, notebook.ok):
        run(cell)
        assert notebook.value("numbers") == [1, 2]


def test_a_cell_on_a_worker_may_give_the_options_that_it_gives_in_the_kernel(notebook):
    cell = on_wool("numbers = Parallel(n_jobs=2)(delayed(abs)(n) for n in (-1, -2))", inner_max_num_threads=1)
    for run in (notebook.ok, notebook.wool):
        run(cell)
        assert notebook.value("numbers") == [1, 2]


def test_an_option_that_there_is_not_is_named(notebook):
    assert "'workers'" in notebook.run(on_wool("pass", workers=3)).error.evalue


def test_a_cell_is_served_between_the_batches_of_a_long_call(notebook):
    notebook.ok("""
    import threading
    def call():
        results.extend(Parallel(n_jobs=2, backend="wool")(delayed(time.sleep)(0.3) for _ in range(100)))
    results = []
    thread = threading.Thread(target=call)
    thread.start()
    """)
    assert notebook.wool("1 + 1", timeout=15).value == "2"
    assert notebook.value("(thread.is_alive(), results)") == (True, [])
    notebook.ok("%wool restart")
    notebook.ok("thread.join(20)")
    assert notebook.value("thread.is_alive()") is False


# ---- what is seen of it


def test_progress_and_output_stand_under_the_cell_that_calls(notebook):
    notebook.ok("""
    def talk(n):
        print("task", n)
    def numbers():
        for n in range(6):
            print("taken", n)
            yield n
    """)
    cell = on_wool(
        "_ = Parallel(n_jobs=2, verbose=10, pre_dispatch=2, batch_size=1)(delayed(talk)(n) for n in numbers())"
    )
    for _ in range(2):  # the second time on threads that the first has started
        result = notebook.ok(cell)
        assert "Using backend WoolBackend with 2 concurrent workers" in result.stderr
        assert "Done   6 out of   6 | elapsed" in result.stderr
        lines = result.stdout.splitlines()
        assert sorted(line for line in lines if line.startswith("task")) == [f"task {n}" for n in range(6)]
        assert [line for line in lines if line.startswith("taken")] == [f"taken {n}" for n in range(6)]
    assert notebook.strays == []


def test_an_exception_arrives_with_the_lines_that_raised_it(notebook):
    notebook.ok("""
    class Wrong(Exception):
        def __init__(self, number, text):
            super().__init__(number, text)
            self.number = number
    def check(n):
        if n == 3:
            raise Wrong(n, "odd")  # here
        return n
    """)
    result = notebook.run(on_wool("Parallel(n_jobs=2, batch_size=1)(delayed(check)(n) for n in range(30))"))
    error = result.error
    assert error.ename == "Wrong"
    assert "# here" in error.traceback
    assert result.stderr == ""
    assert "wool_jupyter" not in error.traceback
    caught = "try:\n" + textwrap.indent(on_wool("Parallel(n_jobs=2)(delayed(check)(n) for n in range(9))"), "    ")
    notebook.ok(f"{caught}\nexcept Wrong as error:\n    caught = error")
    assert notebook.value("(caught.number, caught.args)") == (3, (3, "odd"))


def test_what_a_task_can_not_take_along_is_named(notebook):
    error = notebook.run(
        "file = open(os.devnull)\n" + on_wool("Parallel(n_jobs=2)(delayed(len)(f) for f in [file] * 3)")
    ).error
    assert error.ename == "CannotShip"
    assert "TextIOWrapper" in error.evalue


def test_a_generator_of_tasks_that_fails_ends_the_call(notebook):
    notebook.ok("def tasks():\n    yield from (delayed(abs)(n) for n in range(5))\n    raise LookupError('no more')")
    assert notebook.run(on_wool("Parallel(n_jobs=2, pre_dispatch=2)(tasks())")).error.ename == "LookupError"
    assert notebook.value("Parallel(n_jobs=2, backend='wool')(delayed(abs)(n) for n in (-1, -2))") == [1, 2]


def test_a_worker_that_dies_is_an_error_in_words_and_is_replaced(notebook):
    before = worker_pids(notebook)
    notebook.ok("def die(n):\n    if n == 2:\n        os.kill(os.getpid(), 9)\n    time.sleep(0.05)\n    return n")
    error = notebook.run(on_wool("Parallel(n_jobs=2)(delayed(die)(n) for n in range(4))")).error
    assert error.ename == "WorkerDied"
    assert "SIGKILL" in error.evalue
    wait_until(lambda: len(worker_pids(notebook)) == len(before) and worker_pids(notebook) != before, 20)
    assert notebook.value("Parallel(n_jobs=2, backend='wool')(delayed(abs)(n) for n in (-1, -2))") == [1, 2]


def test_an_interrupt_ends_the_call_at_once_and_the_next_one_works(notebook, tmp_path):
    notebook.ok(f"""
    def wait(n):
        open(f"{tmp_path}/{{n}}", "w").close()
        time.sleep(60)
    """)
    running = notebook.begin(on_wool("Parallel(n_jobs=2)(delayed(wait)(n) for n in range(8))"))
    wait_until(lambda: len(list(tmp_path.iterdir())) == 2)
    notebook.interrupt()
    assert running.result(10).error.ename == "KeyboardInterrupt"
    assert (
        notebook.ok("Parallel(n_jobs=2, backend='wool')(delayed(abs)(n) for n in (-1, -2))", timeout=9).value
        == "[1, 2]"
    )
    wait_until(lambda: all_idle(notebook))
    assert len(list(tmp_path.iterdir())) == 2  # none of the others has begun


DEAF = """
import signal
def deaf(n):
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    open(f"{place}/{os.getpid()}", "w").close()
    time.sleep(4)
"""


def test_a_task_that_does_not_answer_an_interrupt_does_not_keep_its_worker_from_the_next_call(notebook, tmp_path):
    notebook.ok(f"place = {str(tmp_path)!r}\n{DEAF}")
    running = notebook.begin(on_wool("Parallel(n_jobs=2)(delayed(deaf)(n) for n in range(8))"))
    wait_until(lambda: len(list(tmp_path.iterdir())) == 2)
    deaf = {int(path.name) for path in tmp_path.iterdir()}
    notebook.interrupt()
    assert running.result(10).error.ename == "KeyboardInterrupt"
    wait_until(lambda: all_idle(notebook) and not worker_pids(notebook) & deaf)
    assert notebook.ok("Parallel(n_jobs=2, backend='wool')(delayed(abs)(n) for n in (-1, -2))").value == "[1, 2]"


def test_a_worker_that_keeps_a_value_of_the_notebook_is_given_more_time(notebook, tmp_path):
    pid = int(notebook.wool("import os\nkept = open(os.devnull)\nos.getpid()").value)
    notebook.ok(f"place = {str(tmp_path)!r}\n{DEAF}")
    running = notebook.begin(on_wool("Parallel(n_jobs=2)(delayed(deaf)(n) for n in range(8))"))
    wait_until((tmp_path / str(pid)).exists)
    notebook.interrupt()
    assert running.result(10).error.ename == "KeyboardInterrupt"
    wait_until(lambda: all_idle(notebook))
    assert pid in worker_pids(notebook)
    assert notebook.wool("kept.closed").value == "False"


def test_a_task_that_fails_ends_the_others(notebook, tmp_path):
    notebook.ok(f"""
    def fail(n):
        if n == 0:
            while not os.path.exists("{tmp_path}/1"):
                time.sleep(0.01)
            raise LookupError
        open(f"{tmp_path}/{{n}}", "w").close()
        time.sleep(60)
    """)
    assert notebook.run(on_wool("Parallel(n_jobs=2)(delayed(fail)(n) for n in range(8))")).error.ename == "LookupError"
    wait_until(lambda: all_idle(notebook))
    # The one that was next may have begun before joblib heard of the failure.
    assert {path.name for path in tmp_path.iterdir()} <= {"1", "2"}


def test_a_time_limit_ends_the_call(notebook):
    assert (
        notebook.run(on_wool("Parallel(n_jobs=2, timeout=0.3)(delayed(time.sleep)(60) for _ in range(4))")).error.ename
        == "TimeoutError"
    )
    assert (
        notebook.ok("Parallel(n_jobs=2, backend='wool')(delayed(abs)(n) for n in (-1, -2))", timeout=9).value
        == "[1, 2]"
    )


def test_a_warning_of_many_tasks_is_shown_once_by_each_worker(notebook, tmp_path):
    notebook.ok("""
    import pathlib, warnings
    def careful(n, workers):
        warnings.warn('careful')
        (workers / str(os.getpid())).touch()
        while len(list(workers.iterdir())) < 2:  # the second worker may have been started for this cell
            time.sleep(0.01)
    """)
    for cell in range(3):  # each cell anew
        workers = tmp_path / str(cell)
        workers.mkdir()
        tasks = f"(delayed(careful)(n, pathlib.Path({str(workers)!r})) for n in range(20))"
        result = notebook.ok(on_wool(f"Parallel(n_jobs=2, batch_size=1){tasks};"))
        assert len(list(workers.iterdir())) == 2
        if cell:  # what the first one imports there looks at warnings, too, and then Python forgets which it has shown
            assert result.stderr.count("UserWarning: careful") == 2


def test_a_warning_that_is_an_error_is_one_in_a_task(notebook):
    notebook.ok("import warnings\ndef careful(n):\n    warnings.warn('careful')")
    cell = "with warnings.catch_warnings(action='error'):\n" + textwrap.indent(
        on_wool("Parallel(n_jobs=2)(delayed(careful)(n) for n in range(4))"), "    "
    )
    assert notebook.run(cell).error.ename == "UserWarning"


# ---- joblib's ways of calling


@pytest.mark.parametrize(
    "options", ["pre_dispatch='all'", "pre_dispatch=1", "batch_size=7", "batch_size=1", "pre_dispatch='3*n_jobs'"]
)
def test_results_come_in_order(notebook, options):
    notebook.ok(on_wool(f"squares = Parallel(n_jobs=2, {options})(delayed(pow)(n, 2) for n in range(50))"))
    assert notebook.value("squares") == [n**2 for n in range(50)]


def test_small_tasks_are_sent_together(notebook):
    result = notebook.ok(on_wool("numbers = Parallel(n_jobs=2, verbose=10)(delayed(abs)(n) for n in range(3000))"))
    assert "Setting batch_size=" in result.stderr
    assert notebook.value("numbers == list(range(3000))")


def test_one_parallel_is_called_again_and_again(notebook):
    notebook.ok(
        on_wool("""
    with Parallel(n_jobs=2) as parallel:
        rows = [parallel(delayed(pow)(n, power) for n in range(5)) for power in (1, 2)]
    """)
    )
    assert notebook.value("rows") == [[0, 1, 2, 3, 4], [0, 1, 4, 9, 16]]
    assert notebook.value("parallel(delayed(abs)(n) for n in (-1, -2))") == [1, 2]


def test_one_parallel_goes_on_after_a_task_that_failed(notebook):
    notebook.ok(
        on_wool("""
    with Parallel(n_jobs=2) as parallel:
        try:
            parallel(delayed(int)(text) for text in "12x4")
        except ValueError as error:
            caught = str(error)
        numbers = parallel(delayed(int)(text) for text in "1234")
    """)
    )
    assert notebook.value("numbers") == [1, 2, 3, 4]
    assert "'x'" in notebook.value("caught")


def test_results_are_taken_as_they_come(notebook):
    notebook.ok(
        on_wool("""
    ordered = list(Parallel(n_jobs=2, return_as="generator")(delayed(pow)(n, 2) for n in range(20)))
    unordered = list(Parallel(n_jobs=2, return_as="generator_unordered")(delayed(pow)(n, 2) for n in range(20)))
    """)
    )
    assert notebook.value("ordered") == notebook.value("sorted(unordered)") == [n**2 for n in range(20)]


def test_a_generator_of_results_is_used_up_in_a_later_cell(notebook):
    before = files_of_calls(notebook)
    notebook.ok("""
    def slow(n):
        time.sleep(0.02)
        return n
    def taken():
        for n in range(30):
            print("taken", n)
            yield delayed(slow)(n)
    """)
    notebook.ok(
        on_wool("numbers = Parallel(n_jobs=2, return_as='generator', pre_dispatch=1)(taken())\nfirst = next(numbers)")
    )
    between = notebook.ok("time.sleep(0.3)")  # while tasks are still taken
    assert notebook.value("first") == 0
    assert notebook.value("list(numbers)") == list(range(1, 30))
    assert between.stdout == ""  # they belong to the cell that called
    wait_until(lambda: files_of_calls(notebook) <= before)


def test_two_generators_of_results_live_side_by_side(notebook):
    notebook.ok(
        on_wool("""
    evens, odds = (Parallel(n_jobs=2, return_as="generator")(delayed(abs)(n) for n in range(k, 20, 2)) for k in (0, 1))
    mixed = [n for pair in zip(evens, odds) for n in pair]
    """)
    )
    assert notebook.value("mixed") == list(range(20))


def test_a_generator_that_is_dropped_ends_its_tasks_and_leaves_no_file(notebook):
    before = files_of_calls(notebook)
    notebook.ok("import numpy as np, gc\nlarge = np.ones(1 << 20)")
    notebook.ok("def slow(n, data):\n    time.sleep(0.05 if n < 2 else 60)\n    return n")
    notebook.ok(
        on_wool(
            "numbers = Parallel(n_jobs=2, return_as='generator')(delayed(slow)(n, large) for n in range(40))\nfirst = next(numbers)"
        )
    )
    notebook.ok(
        "import warnings\nwith warnings.catch_warnings():\n    warnings.simplefilter('ignore')\n    del numbers\n    gc.collect()"
    )
    wait_until(lambda: all_idle(notebook), 20)
    wait_until(lambda: files_of_calls(notebook) <= before)


# ---- large data


MAPPED = """
def inode(array, n):
    address = array.__array_interface__["data"][0]
    for line in open("/proc/self/maps"):
        begin, end = (int(part, 16) for part in line.split()[0].split("-"))
        if begin <= address < end:
            return line.split()[4], float(array[n]), array.flags.writeable
"""


def test_an_array_for_many_tasks_leaves_the_kernel_once(notebook):
    notebook.ok("import numpy as np\nlarge = np.arange(4_000_000.0)" + MAPPED)
    notebook.ok(on_wool("seen = Parallel(n_jobs=2, batch_size=1)(delayed(inode)(large, n) for n in range(20))"))
    inodes, values, writeable = zip(*notebook.value("seen"), strict=True)
    assert len(set(inodes)) == 1
    assert inodes[0] != "0"
    assert values == tuple(map(float, range(20)))
    assert all(writeable)


def test_an_array_that_is_changed_between_two_calls_arrives_as_it_is(notebook):
    notebook.ok("import numpy as np\nlarge = np.zeros(4_000_000)" + MAPPED)
    notebook.ok(
        on_wool("""
    with Parallel(n_jobs=2, batch_size=1) as parallel:
        seen = []
        for n in range(3):
            large[5] = n
            seen += parallel(delayed(inode)(large, 5) for _ in range(3))
    """)
    )
    assert [value for _, value, _ in notebook.value("seen")] == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_tasks_may_write_into_what_they_get(notebook):
    notebook.ok(
        "import numpy as np\nlarge = np.zeros(1 << 20)\ndef add(array, n):\n    array += n\n    return float(array.sum())"
    )
    notebook.ok(on_wool("sums = Parallel(n_jobs=2, batch_size=1)(delayed(add)(large, n) for n in range(6))"))
    assert notebook.value("sums") == [float(n << 20) for n in range(6)]
    assert notebook.value("float(large.sum())") == 0


# ---- threads below Python


THREADS = """
import numpy as np
def native(n=0):
    from threadpoolctl import threadpool_info
    return sorted({each["num_threads"] for each in threadpool_info()})
"""


def test_tasks_share_the_cpus_and_cells_keep_what_the_environment_says(notebook):
    notebook.ok(THREADS)
    cpus, plain = notebook.value("joblib.cpu_count()"), notebook.value("native()")
    before = notebook.wool("native()").value
    notebook.ok(on_wool("seen = Parallel(n_jobs=2, batch_size=1)(delayed(native)(n) for n in range(8))"))
    assert notebook.value("seen") == [[min(plain[0], max(1, cpus // 2))]] * 8
    notebook.ok("import wool_jupyter\nseen = wool_jupyter.pool().submit(native).result()")
    assert notebook.value("seen") == [max(1, cpus // notebook.value("wool_jupyter.pool().main_threads"))]
    assert notebook.wool("native()").value == before == repr(plain)


def test_more_native_threads_can_be_asked_for(notebook):
    notebook.ok(THREADS)
    most = notebook.value("native()")
    notebook.ok(on_wool("seen = Parallel(n_jobs=2)(delayed(native)(n) for n in range(4))", inner_max_num_threads=64))
    assert notebook.value("seen") == [most] * 4  # never more than the environment says


def test_the_environment_may_allow_fewer(tmp_path):
    kernel = Kernel(env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"})
    try:
        kernel.ok(f"%load_ext wool_jupyter\n{IMPORTS}\n{THREADS}")
        kernel.ok(on_wool("seen = Parallel(n_jobs=2)(delayed(native)(n) for n in range(4))", inner_max_num_threads=2))
        assert kernel.value("seen") == [[1]] * 4
    finally:
        kernel.shutdown()


# ---- scikit-learn


SAME = """
def search(n_jobs):
    found = GridSearchCV(SVC(), {"C": [0.1, 1, 10], "gamma": [0.01, 0.1]}, cv=3, n_jobs=n_jobs).fit(X, y)
    return {name: value for name, value in found.cv_results_.items() if "time" not in name}, found.best_params_
def forest(n_jobs):
    model = RandomForestClassifier(20, random_state=7, n_jobs=n_jobs).fit(X, y)
    return model.predict_proba(X), model.feature_importances_
def scores(n_jobs):
    return cross_val_score(RandomForestClassifier(5, random_state=np.random.RandomState(3)), X, y, cv=4, n_jobs=n_jobs)
def importance(n_jobs):
    model = RandomForestClassifier(5, random_state=7).fit(X, y)
    return permutation_importance(model, X, y, random_state=1, n_jobs=n_jobs).importances
def same(function):
    alone = function(1)
    with joblib.parallel_config(backend="wool"):
        np.testing.assert_equal(function(2), alone)
        np.testing.assert_equal(function(-1), alone)
"""


@pytest.mark.parametrize("what", ["search", "forest", "scores", "importance"])
def test_results_are_those_of_one_job(learning, what):
    learning.ok(SAME)
    learning.ok(f"same({what})", timeout=90)


def test_classes_and_functions_of_the_notebook_take_part(learning):
    learning.ok("""
    CALLS = "a name that is read"
    class Majority(ClassifierMixin, BaseEstimator):
        def __init__(self, shift=0):
            self.shift = shift
        def fit(self, X, y):
            self.classes_ = np.unique(y)
            self.most_ = np.bincount(y).argmax()
            return self
        def predict(self, X):
            return np.full(len(X), self.most_)
    def own_score(truth, guess):
        return float((truth == guess).mean()) + len(CALLS)
    """)
    code = on_wool("""
    found = GridSearchCV(Majority(), {"shift": [0, 1, 2]}, cv=3, scoring=make_scorer(own_score), n_jobs=2).fit(X, y)
    """)
    learning.ok(code)
    assert learning.value("float(found.best_score_) > 19 and type(found.best_estimator_) is Majority")
    learning.ok("own_score = lambda truth, guess: 5.0")  # edited, and run again
    learning.ok(code)
    assert learning.value("float(found.best_score_)") == 5.0


def test_an_estimator_that_is_half_written_is_told_apart_by_its_own_error(learning):
    learning.ok("""
    class Half(ClassifierMixin, BaseEstimator):
        def fit(self, X, y):
            return self
    """)
    error = learning.run(
        on_wool("cross_val_score(Half(), X, y, cv=3, n_jobs=2, error_score='raise', scoring='accuracy')")
    ).error
    alone = learning.run("cross_val_score(Half(), X, y, cv=3, n_jobs=1, error_score='raise', scoring='accuracy')").error
    assert (error.ename, error.evalue) == (alone.ename, alone.evalue)


def test_fits_that_fail_are_told_as_with_one_job(learning):
    learning.ok("""
    class Fails(SVC):
        def fit(self, X, y):
            if self.C == 2:
                raise ValueError("no such C")
            return super().fit(X, y)
    def search(n_jobs):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = GridSearchCV(Fails(), {"C": [1, 2]}, cv=2, n_jobs=n_jobs).fit(X, y)
        return [each.category.__name__ for each in caught], np.isnan(found.cv_results_["mean_test_score"]).tolist()
    """)
    alone = learning.value("search(1)")
    assert "FitFailedWarning" in alone[0]
    learning.ok(on_wool("seen = search(2)"))
    assert learning.value("seen") == alone


def test_the_configuration_of_sklearn_goes_along(learning):
    learning.ok("""
    import sklearn
    def setting(n):
        return sklearn.get_config()["working_memory"]
    with sklearn.config_context(working_memory=77), joblib.parallel_config(backend="wool"):
        seen = sklearn.utils.parallel.Parallel(n_jobs=2)(sklearn.utils.parallel.delayed(setting)(n) for n in range(4))
    """)
    assert learning.value("seen") == [77] * 4
