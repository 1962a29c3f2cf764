"""`%%wool --bg`: the job, its output, its names, and what becomes of them when others bind them too."""

import itertools
import re
from pathlib import Path

import pytest

from tests.support.jobs import Gate, submit
from tests.support.kernel import Kernel, wool
from tests.support.waiting import wait_until


class _OfThisModule:
    """Replaced when a test has left it hanging: one fault makes one test fail."""

    def __init__(self):
        self._kernel = None

    def get(self):
        if self._kernel is None:
            self._kernel = Kernel()
            self._kernel.ok("%load_ext wool_jupyter\n%wool start -n 2", store_history=False)
        return self._kernel

    def put_back(self):
        """No job goes on after a test."""
        try:
            for _ in range(2):  # again: what ignores it is ended
                for line in self._kernel.ok("%wool jobs", store_history=False, timeout=5).stdout.splitlines():
                    if re.search(r"waits for a worker|runs since", line):
                        self._kernel.ok(f"%wool cancel {line.split()[1]}", store_history=False, timeout=5)
            self._kernel.run("%wool wait", store_history=False, timeout=15)
            self._kernel.reset(timeout=5)
        except AssertionError:
            self.shutdown()

    def shutdown(self):
        if self._kernel is not None:
            self._kernel.shutdown(now=True)
            self._kernel = None


@pytest.fixture(scope="module")
def _of_this_module():
    shared = _OfThisModule()
    yield shared
    shared.shutdown()


@pytest.fixture
def kernel(_of_this_module):
    yield _of_this_module.get()
    _of_this_module.put_back()


def value(kernel, expression):
    return kernel.value(f"({expression})")


@pytest.fixture
def gates(tmp_path):
    numbers = itertools.count()
    return lambda: Gate(tmp_path / f"gate-{next(numbers)}")


@pytest.fixture
def gate(gates):
    return gates()


# What it is.


def test_it_returns_at_once_and_other_cells_run_meanwhile(kernel, gate):
    job = submit(kernel, f"{gate.wait}x = 20\nx + 1")
    assert re.search("runs since|waits for a worker", job.sentence())
    assert value(kernel, "1 + 1") == 2
    gate.open()
    assert job.wait().stdout.endswith("bound `x`\n")
    assert value(kernel, "x") == 20
    assert job.cell.late(lambda shown: "21" in shown.text("display")).stderr == ""


def test_the_job_is_the_result_of_its_cell(kernel, gate):
    job = submit(kernel, f"{gate.wait}'value'")
    kernel.ok("job = _")
    assert re.fullmatch(rf"<Job {job.number}: (running|waiting), \d+\.\d s>", value(kernel, "repr(job)"))
    assert value(kernel, "job.done()") is False
    gate.open()
    assert kernel.ok("job.result()").value == "'value'"
    assert value(kernel, "job.done(), job.state") == (True, "done")
    assert kernel.ok("await job").value == "'value'"


def test_awaiting_it_gives_its_value_and_its_names(kernel, gate):
    submit(kernel, f"{gate.wait}bound = 3\nbound * 2")
    running = kernel.begin("job = _\nprint('before')\nprint(await job, get_ipython().user_ns['bound'])")
    running.wait_for("before")
    gate.open()
    assert running.result().stdout == "before\n6 3\n"


def test_a_time_limit_on_the_result_leaves_the_job_running(kernel, gate):
    job = submit(kernel, f"{gate.wait}1")
    kernel.ok("job = _")
    assert kernel.run("job.result(0.1)").error.ename == "TimeoutError"
    assert "runs since" in job.sentence()
    gate.open()
    assert kernel.ok("job.result(timeout=20)").value == "1"


def test_a_thread_waits_for_the_main_thread_to_bind(kernel, gate):
    submit(kernel, f"{gate.wait}threaded = 5\nthreaded")
    kernel.ok(
        "import threading\njob, seen = _, []\n"
        "thread = threading.Thread(target=lambda: seen.append((job.result(), get_ipython().user_ns['threaded'])))\nthread.start()"
    )
    gate.open()
    kernel.ok("%wool wait\nthread.join()")
    assert value(kernel, "seen") == [(5, 5)]


def test_its_display_tells_the_state_and_stays_true(kernel, gate):
    job = submit(kernel, f"{gate.wait}x = 1")
    shown = next(output for output in job.cell.late(lambda _: True).outputs if output.kind == "display")
    updates = kernel.ok("%wool jobs").outputs
    gate.open()
    updates += job.wait().outputs
    last = [u for u in updates if u.kind == "update" and u.transient == shown.transient][-1]
    assert re.fullmatch(rf"wool: job {job.number} is done after \d+\.\d s: bound `x`", last.text)
    assert "text/html" in last.data


def test_news_that_came_when_no_cell_ran_come_again_with_the_next_one(kernel):
    """For nbclient, which listens to the running cell alone."""
    job = submit(kernel, "quick = 1")

    def is_told(shown):
        return any(output.kind == "update" and "bound `quick`" in output.text for output in shown.outputs)

    job.cell.late(is_told)
    assert is_told(kernel.ok("1"))


def test_names_are_bound_between_cells_without_one_that_runs(kernel, gate):
    kernel.ok("class Told:\n    def __setstate__(self, state):\n        open(state['path'], 'w').close()")
    told = Path(gate.path.with_name("told"))
    submit(kernel, f"told = Told()\ntold.path = {str(told)!r}\n{gate.wait}")
    gate.open()
    wait_until(told.exists)


def test_names_are_not_bound_in_the_midst_of_a_cell_that_awaits(kernel, gate):
    kernel.ok("x = 'old'")
    job = submit(kernel, f"{gate.wait}x = 'new'\nprint('bye')")
    look = "get_ipython().user_ns['x']"
    running = kernel.begin(f"import asyncio\nbefore = {look}\nprint('begun')\nawait asyncio.sleep(1.5)\nafter = {look}")
    running.wait_for("begun")
    gate.open()
    job.cell.late(lambda shown: "bye" in shown.stdout)
    running.result()
    assert value(kernel, "before, after") == ("old", "old")
    assert value(kernel, "x") == "new"


# Its output.


def test_output_is_under_its_own_cell_and_nowhere_else(kernel, gates):
    first, second = gates(), gates()
    job = submit(
        kernel,
        f"import sys\nprint('one', flush=True)\n{first.wait}print('two')\nprint('three', file=sys.stderr)\n"
        f"from IPython.display import display, HTML\ndisplay(HTML('<b>four</b>'))\n{second.wait}print('five')",
    )
    job.cell.late(lambda shown: "one\n" in shown.stdout)
    running = kernel.begin("import time\nfor i in range(20):\n    print('other', i, flush=True)\n    time.sleep(0.05)")
    running.wait_for("other 1")
    first.open()
    other = running.result()
    second.open()
    job.wait()
    shown = job.cell.late(lambda shown: "five" in shown.stdout)
    assert set(other.kinds) <= {"stdout", "update"}
    assert other.stdout == "".join(f"other {i}\n" for i in range(20))
    kinds = [(o.kind, o.text or o.data.get("text/html")) for o in shown.outputs if "wool: job" not in o.text]
    assert kinds[:3] == [
        ("stdout", "one\ntwo\n"),
        ("stderr", "three\n"),
        ("display", "<IPython.core.display.HTML object>"),
    ]
    assert kinds[3:] == [("stdout", "five\n")]


def test_what_it_has_shown_can_be_shown_again(kernel):
    job = submit(kernel, "import sys\nprint('out')\nprint('err', file=sys.stderr)\ndisplay({'shown': 1})\n7")
    job.wait()
    again = kernel.ok(f"%wool output {job.number}")
    seen = [(o.kind, o.text) for o in again.outputs if o.kind != "update"]
    assert seen[:4] == [("stdout", "out\n"), ("stderr", "err\n"), ("display", "{'shown': 1}"), ("display", "7")]
    kernel.ok(f"job = Out[{max(kernel_outs(kernel))}]")
    assert value(kernel, "str(job.output), job.output.stderr, len(job.output.outputs)") == ("out\n", "err\n", 2)


def kernel_outs(kernel):
    return value(kernel, "[n for n, out in Out.items() if type(out).__name__ == 'Job']")


def test_a_cleared_output_is_gone_from_what_is_shown_again(kernel):
    job = submit(
        kernel, "from IPython.display import clear_output\nprint('old')\nclear_output(wait=True)\nprint('new')"
    )
    job.wait()
    assert "clear" in job.cell.late(lambda shown: "new" in shown.stdout).kinds
    assert kernel.ok(f"%wool output {job.number}").stdout.splitlines()[0] == "new"


def test_a_flood_of_lines_arrives_whole_in_few_messages(kernel):
    job = submit(kernel, "for i in range(100_000): print(i)")
    job.wait()
    messages = [m for m in kernel.strays if m["msg_type"] == "stream"]
    text = job.cell.late(lambda shown: "99999\n" in shown.stdout).stdout
    assert text == "".join(f"{i}\n" for i in range(100_000))
    assert len(messages) < 100
    assert kernel.ok(f"%wool output {job.number}").stdout.startswith(text)


def test_a_flood_of_text_is_cut_as_that_of_a_cell(kernel):
    job = submit(kernel, "print('x' * 10_000_000 + 'END')")
    job.wait()
    shown = job.cell.late(lambda shown: "END" in shown.stdout)
    assert len(shown.stdout) < 3_000_000
    cell = re.search(r"MB of text left out here \(`%wool output (In\[\d+\])` has it", shown.stderr)[1]
    assert cell == re.search(r"In\[\d+\]", kernel.ok("%wool jobs").stdout.splitlines()[-1])[0]
    kernel.ok(f"left = %wool output {cell}")
    assert value(kernel, "len(str(left))") == 10_000_004 - len(shown.stdout)
    again = kernel.ok(f"%wool output {job.number}")
    assert again.stdout.startswith(shown.stdout)
    assert "left out here" in again.stderr


def test_the_number_of_a_job_is_not_that_of_a_cell(fresh_kernel):
    fresh_kernel.ok("%wool start -n 1")
    fresh_kernel.ok("%config Wool.output_budget_bytes = 1000")
    result = fresh_kernel.wool("for i in range(1000): print(i)")
    jobs = [submit(fresh_kernel, f"print('of job {n}')") for n in range(1, result.execution_count + 1)]
    jobs[-1].wait()
    assert fresh_kernel.ok(f"%wool output {result.execution_count}").stdout.startswith(f"of job {jobs[-1].number}\n")
    assert jobs[-1].number == result.execution_count
    left = re.search(r"`(%wool output .*?)`", result.stderr)[1]
    assert "of job" not in fresh_kernel.ok(left).stdout
    assert fresh_kernel.ok("%wool output -n 1").stdout.strip().isdecimal()  # and not of job 1


def test_displays_without_an_end_are_cut_and_the_last_one_is_shown(kernel):
    job = submit(kernel, "for i in range(3000): display(i)")
    job.wait()
    shown = job.cell.late(lambda shown: any(output.text == "2999" for output in shown.outputs))
    texts = [output.text for output in shown.outputs if output.kind == "display"]
    assert 2000 < len(texts) < 2900
    assert "displays left out here" in shown.stderr
    again = kernel.ok(f"%wool output {re.search(r'In.[0-9]+.', shown.stderr)[0]}")
    assert {*map(str, range(3000))} <= {*texts, *(output.text for output in again.outputs)}


def test_a_figure_is_a_picture_under_its_cell(kernel):
    kernel.ok("%matplotlib inline")
    job = submit(kernel, "import matplotlib.pyplot as plt\nplt.plot([1, 2]);")
    shown = job.cell.late(lambda shown: any("image/png" in output.data for output in shown.outputs))
    job.wait()
    assert sum("image/png" in output.data for output in shown.outputs) == 1


def test_what_the_binding_prints_is_under_its_cell(kernel, gate):
    kernel.ok("class Loud:\n    def __setstate__(self, state):\n        print('rebuilt', flush=True)")
    job = submit(kernel, f"loud = Loud()\nloud.a = 1\n{gate.wait}")
    kernel.ok("1")
    gate.open()
    job.cell.late(lambda shown: "rebuilt" in shown.stdout)


def test_a_question_is_an_error_at_once(kernel):
    job = submit(kernel, "asked = True\ninput('who? ')")
    assert "StdinNotImplementedError" in job.end()
    assert "----> 3 input('who? ')" in job.error().traceback
    assert value(kernel, "asked")


def test_text_of_a_thread_that_outlives_the_job_is_under_its_cell(kernel, gate):
    job = submit(
        kernel, f"import threading\ndef late():\n    import os, time\n"
        f"    while not os.path.exists({str(gate.path)!r}): time.sleep(0.01)\n    print('late', flush=True)\n"
        "threading.Thread(target=late).start()\nprint('main')",
    )  # fmt: skip
    job.wait()
    gate.open()
    assert "main\nlate\n" in job.cell.late(lambda shown: "late" in shown.stdout).stdout


def test_a_help_text_is_shown_under_its_cell(kernel):
    job = submit(kernel, "len?")
    job.wait()
    assert "Return the number of items" in job.cell.late(lambda shown: "Return" in shown.stdout).stdout


# Who reads its names.


@pytest.mark.parametrize(
    ("before", "cell"),
    [
        pytest.param("", "print(answer)", id="plain"),
        pytest.param("", "%%wool\nprint(answer)", id="worker"),
        pytest.param("def use(): return answer\ndef outer(): return use()", "print(outer())", id="functions"),
        pytest.param("class Use:\n    def get(self): return answer\nuse = Use()", "print(use.get())", id="instance"),
        pytest.param("import functools\nuse = functools.partial(lambda: answer)", "print(use())", id="partial"),
        pytest.param("", "%time print(answer)", id="%time"),
        pytest.param("", "%%time\nprint(answer)", id="%%time"),
        pytest.param("", "%%capture out\nprint(answer)\n", id="%%capture"),
        pytest.param("", "!echo {answer}", id="command"),
        pytest.param("", "print(globals()['answer'])", id="globals"),
        pytest.param("", "print(eval('answer'))", id="eval"),
        pytest.param("", "if answer:\n    print(answer)", id="branch"),
        pytest.param("answer = 'old'", "answer += '!'\nprint(answer[:-1])", id="augmented"),
    ],
)
def test_a_cell_that_reads_a_pending_name_waits_for_it(kernel, gate, before, cell):
    kernel.ok(before or "None")
    job = submit(kernel, f"{gate.wait}answer = 'right'")
    running = kernel.begin(cell)
    shown = running.wait_for("waits for job")
    assert f"waits for job {job.number} (In[" in shown.stderr
    assert "which is to bind `answer`" in shown.stderr
    gate.open()
    result = running.result()
    assert result.status == "ok", result
    text = kernel.ok("print(out.stdout)").stdout if "capture" in cell else result.stdout
    assert "right" in text


@pytest.mark.parametrize(
    "cell",
    [
        "print('the answer is pending')",
        "[answer for answer in (1, 2)]",
        "other.answer = 1",
        "f(answer=1)",
        "%wool jobs",
        "def use(): return answer",
        "%%wool\nclass Use:\n    def get(self): return answer",
    ],
)
def test_a_cell_that_does_not_read_it_runs_at_once(kernel, gate, cell):
    kernel.ok("import types\nother = types.SimpleNamespace()\ndef f(**_): pass")
    job = submit(kernel, f"{gate.wait}answer = 1")
    result = kernel.ok(cell)
    assert "waits for job" not in result.stderr
    gate.open()
    job.wait()
    assert value(kernel, "answer") == 1


def test_a_function_is_defined_at_once_and_its_call_waits(kernel, gate):
    submit(kernel, f"{gate.wait}answer = 'right'")
    for magic in ("", "%%wool\n"):
        assert "waits for job" not in kernel.ok(f"{magic}def use(): return answer").stderr
    running = kernel.begin("%%wool\nprint(use())")
    running.wait_for("waits for job")
    gate.open()
    assert running.result().stdout == "right\n"


def test_a_module_that_is_there_already_is_not_waited_for(kernel, gate):
    kernel.ok("import math")
    job = submit(kernel, f"import math\n{gate.wait}x = math.pi")
    assert kernel.ok("print(math.e > 2)").outputs[-1].text == "True\n"
    gate.open()
    assert kernel.ok("math.floor(x)").value == "3"
    assert "is done" in job.sentence()


def test_an_object_that_it_plainly_changes_is_waited_for(kernel, gate):
    kernel.ok("results = {'a': 1}\nalias = results\ndata = [1]\nalso = data")
    submit(kernel, f"{gate.wait}results['b'] = 2")
    submit(kernel, f"{gate.wait}data.append(2)")
    running = kernel.begin("print(results, alias is results, data, also is data)")
    running.wait_for("waits for job")
    gate.open()
    assert running.result().stdout == "{'a': 1, 'b': 2} True [1, 2] True\n"


def test_jobs_that_store_into_one_object_take_turns(kernel, gate):
    kernel.ok("results = {}")
    submit(kernel, f"{gate.wait}results['a'] = 1")
    running = kernel.begin("%%wool --bg\nresults['b'] = 2")
    running.wait_for("waits for job")
    gate.open()
    running.result()
    assert kernel.ok("print(results)").stdout == "{'a': 1, 'b': 2}\n"


@pytest.mark.parametrize("cell", ["print(answer)", "%%wool\nprint(answer)"], ids=["plain", "worker"])
def test_an_interrupt_ends_the_wait_and_not_the_job(kernel, gate, cell):
    job = submit(kernel, f"{gate.wait}answer = 1")
    running = kernel.begin(f"{cell}\nran = True")
    running.wait_for("waits for job")
    kernel.interrupt()
    result = running.result()
    assert result.error.ename == "KeyboardInterrupt"
    assert "wool_jupyter" not in result.error.traceback
    assert f"wool: job {job.number} (In[" in result.stderr
    assert "goes on; this cell has not run" in result.stderr
    assert not value(kernel, "'ran' in vars(__import__('__main__'))") if "%%" not in cell else True
    assert "runs since" in job.sentence()
    gate.open()
    assert kernel.ok("print(answer)").stdout == "1\n"


def test_a_name_error_of_a_pending_name_says_so(kernel, gate):
    job = submit(kernel, f"{gate.wait}answer = 1")
    result = kernel.run("import types\ntypes.FunctionType(compile('answer', 'x', 'eval'), get_ipython().user_ns)()")
    assert result.error.ename == "NameError"
    assert f"`answer` is not bound yet: job {job.number} is to bind it" in result.stderr
    gate.open()


# Who else binds them.


@pytest.mark.parametrize(
    ("cell", "left"),
    [
        pytest.param("answer = 'mine'", "'mine'", id="assigned"),
        pytest.param("answer = 'old'", "'old'", id="the same object"),
        pytest.param("exec('answer' + ' = 1')", "1", id="exec"),
        pytest.param("def change():\n    global answer\n    answer = 2\nchange()", "2", id="function"),
        pytest.param("from string import digits as answer", "'0123456789'", id="import"),
        pytest.param("%%wool\nanswer = 'mine'", "'mine'", id="worker"),
    ],
)
def test_a_cell_s_own_binding_wins(kernel, gate, cell, left):
    kernel.ok("answer = 'old'")
    job = submit(kernel, f"{gate.wait}answer = 'job'\nother = 1")
    if cell.startswith("exec"):
        gate_is_shut = kernel.begin(cell)  # it may read anything, and so it waits
        gate_is_shut.wait_for("waits for job")
        gate.open()
        assert gate_is_shut.result().status == "ok"
        assert value(kernel, "answer") == 1
        return
    assert f"this cell has bound `answer`: what job {job.number} makes of it is dropped" in kernel.ok(cell).stderr
    gate.open()
    job.wait()
    assert kernel.ok("answer").value == left
    assert value(kernel, "other") == 1
    assert "answer" not in job.sentence()


def test_a_deletion_wins(kernel, gate):
    kernel.ok("answer = 'old'")
    job = submit(kernel, f"{gate.wait}answer = 'job'")
    assert "this cell has bound `answer`" in kernel.ok("del answer").stderr
    gate.open()
    job.wait()
    assert kernel.run("answer").error.ename == "NameError"


def test_a_pending_name_that_is_not_there_can_be_deleted(kernel, gate):
    job = submit(kernel, f"{gate.wait}answer = 'job'")
    assert "this cell has bound `answer`" in kernel.ok("del answer").stderr
    gate.open()
    job.wait()
    assert kernel.run("answer").error.ename == "NameError"


def test_a_cell_that_fails_before_it_binds_leaves_the_job_its_name(kernel, gate):
    job = submit(kernel, f"{gate.wait}answer = 'job'")
    assert kernel.run("1 / 0\nanswer = 'mine'").error.ename == "ZeroDivisionError"
    gate.open()
    job.wait()
    assert value(kernel, "answer") == "job"


@pytest.mark.parametrize("first_to_end", [0, 1])
def test_of_two_jobs_the_later_one_counts(kernel, gates, first_to_end):
    doors = [gates(), gates()]
    jobs = [submit(kernel, f"{doors[0].wait}answer = 'first'")]
    jobs.append(submit(kernel, f"{doors[1].wait}answer = 'second'"))
    told = jobs[1].cell.late(lambda _: True).stderr
    assert f"`answer` is pending from job {jobs[0].number}, too: what this one binds will count" in told
    for which in (first_to_end, 1 - first_to_end):
        doors[which].open()
        jobs[which].wait()
    assert value(kernel, "answer") == "second"


def test_a_star_import_does_not_undo_what_a_cell_has_bound(kernel, gate):
    job = submit(kernel, f"{gate.wait}from string import *")
    kernel.ok("digits = 'mine'")
    gate.open()
    job.wait()
    assert value(kernel, "digits, punctuation[:2]") == ("mine", '!"')


def test_a_function_that_a_cell_has_redefined_stays(kernel, gate):
    kernel.ok("def f(): return 'old'")
    job = submit(kernel, f"{gate.wait}def f(): return 'job'\nresult = f()")
    kernel.ok("def f(): return 'mine'")
    gate.open()
    job.wait()
    assert value(kernel, "f(), result") == ("mine", "job")


def test_a_change_in_place_comes_home_and_keeps_identity(kernel, gate):
    kernel.ok("import numpy as np\narray = np.zeros(3)\nalias = array\ndef change(a): a[1] = 5")
    job = submit(kernel, f"{gate.wait}change(array)")
    assert value(kernel, "float(array[1])") == 0.0
    gate.open()
    job.wait()
    assert value(kernel, "float(array[1]), alias is array") == (5.0, True)


@pytest.mark.parametrize("made", ["np.zeros(3)", "np.zeros(100_000)", "list(range(5))"])
def test_a_change_on_both_sides_is_said_and_the_cell_s_counts(kernel, gate, made):
    kernel.ok(f"import numpy as np\nvalues = {made}\nother = [1]\ndef change(a, n): a[n] = 50")
    job = submit(kernel, f"{gate.wait}change(values, 0)\nchange(other, 0)")
    kernel.ok("change(values, 1)")
    gate.open()
    job.wait()
    assert value(kernel, "int(values[0]), int(values[1]), other") == (0, 50, [50])
    shown = kernel.ok(f"%wool output {job.number}").stdout
    assert "`values`: changed here while the job ran, and by the job; the job's changes are dropped" in shown


def test_inputs_are_those_of_the_submission(kernel, gate):
    kernel.ok("n = 1\nitems = [1]")
    submit(kernel, f"{gate.wait}seen = (n, list(items))")
    kernel.ok("n = 2\nitems.append(2)")
    gate.open()
    assert value(kernel, "seen") == (1, [1])


def test_state_of_the_process_follows_unless_it_was_changed_here(kernel, gates, tmp_path):
    kernel.ok("import os\nos.environ['A'] = 'old'")
    first, second = gates(), gates()
    for name in ("one", "two", "three"):
        (tmp_path / name).mkdir()
    one = submit(kernel, f"{first.wait}os.environ['A'] = 'job'\nos.chdir({str(tmp_path / 'one')!r})")
    first.open()
    one.wait()
    assert value(kernel, "os.environ['A'], os.getcwd()") == ("job", str(tmp_path / "one"))
    two = submit(kernel, f"{second.wait}os.chdir({str(tmp_path / 'two')!r})")
    kernel.ok(f"os.chdir({str(tmp_path / 'three')!r})")
    second.open()
    two.wait()
    assert value(kernel, "os.getcwd()") == str(tmp_path / "three")
    assert "cwd: changed here while the job ran" in kernel.ok(f"%wool output {two.number}").stdout


def test_generators_of_numbers_go_on_as_if_there_were_no_job(kernel):
    kernel.ok("import random\nrandom.seed(1)\nexpected = random.Random(1).random()")
    submit(kernel, "drawn = random.random()").wait()
    assert value(kernel, "random.random() == expected == drawn")


def test_options_name_what_goes_in_and_comes_back(kernel, gate):
    kernel.ok("sample, n = [1, 2], 'n'")
    job = submit(kernel, f"{gate.wait}result, other = sum(frame), 0", "-i frame=sample -o best=result")
    running = kernel.begin("best")
    running.wait_for("which is to bind `best`")
    gate.open()
    assert running.result().value == "3"
    assert value(kernel, "'other' in dir()") is False
    assert "bound `best`" in job.sentence()


def test_an_input_that_an_option_names_is_waited_for(kernel, gate):
    submit(kernel, f"{gate.wait}def use(): return pending\npending = 7")
    running = kernel.begin("%%wool -i f=use -o got=result\nresult = f()")
    running.wait_for("waits for job")
    gate.open()
    assert running.result().status == "ok"
    assert value(kernel, "got") == 7


def test_another_thread_takes_what_is_there(kernel, gate):
    kernel.ok("x = 'old'")
    submit(kernel, f"{gate.wait}x = 'new'")
    kernel.ok(
        "import threading\nseen = []\n"
        "def read(): seen.append(get_ipython().run_cell_magic('wool', '', \"__import__('builtins').str('ran')\"))\n"
        "def submit():\n    try: get_ipython().run_cell_magic('wool', '--bg', '1')\n"
        "    except Exception as error: seen.append(str(error))"
    )
    kernel.ok("for act in (read, submit):\n    thread = threading.Thread(target=act); thread.start(); thread.join()")
    assert value(kernel, "seen") == [
        "ran",
        "A cell in the background is submitted by the main thread, which binds its names",
    ]
    gate.open()


def test_a_value_that_asks_for_a_job_while_it_is_loaded_is_told_that_it_can_t(kernel, gate):
    submit(kernel, "1").wait()
    kernel.ok(
        "job = Out[max(n for n, out in Out.items() if type(out).__name__ == 'Job')]\nasked = []\n"
        "class Asks:\n    def __setstate__(self, state):\n"
        "        late = get_ipython().user_ns['late']\n"
        "        try: late.result()\n        except Exception as error: asked.append(str(error))"
    )
    kernel.ok(f"%%wool --bg\n{gate.wait}asks = Asks()\nasks.a = 1")
    kernel.ok("late = _")
    gate.open()
    kernel.ok("%wool wait")
    assert "is being taken in" in value(kernel, "asked[-1]")


def test_a_value_that_can_t_travel_is_a_handle(kernel):
    submit(kernel, "import threading\nlock = threading.Lock()").wait()
    assert "kept on a worker" in value(kernel, "repr(lock)")
    assert kernel.wool("lock.acquire()").value == "True"


# How it ends.


def test_an_error_is_native_under_its_cell_and_stops_who_reads_its_names(kernel):
    kernel.ok("answer = 'old'")
    job = submit(kernel, "print('before')\nearly = 1\nnumber = 0\nearly / number\nanswer = 2")
    error = job.error()
    assert (error.ename, error.evalue) == ("ZeroDivisionError", "division by zero")
    assert "----> 5 early / number" in error.traceback
    assert "wool_jupyter" not in error.traceback
    stopped = kernel.run("print(answer)\nran = True").error
    assert stopped.ename == "JobFailed"
    assert f"`answer` was to be bound by job {job.number}, which failed after" in stopped.evalue
    assert "ZeroDivisionError: division by zero" in stopped.evalue
    assert stopped.traceback.count("\n") == 0
    assert value(kernel, "answer, 'ran' in dir()") == ("old", False)  # said once
    assert value(kernel, "early") == 1


def test_its_error_can_be_raised_where_its_result_is_asked_for(kernel):
    kernel.ok("class Mine(Exception):\n    def __init__(self, a, b): super().__init__(a, b)")
    submit(kernel, "raise Mine(1, 2)")
    kernel.ok("job = _")
    error = kernel.run("job.result()").error
    assert error.ename == "Mine"
    assert "----> 2 raise Mine(1, 2)" in error.traceback
    assert "wool_jupyter" not in error.traceback
    assert kernel.ok("try:\n    job.result()\nexcept Mine as error:\n    print(error.args)").stdout == "(1, 2)\n"


def test_the_traceback_is_shown_again_with_the_output(kernel):
    job = submit(kernel, "print('before')\n{}['key']")
    job.end()
    again = kernel.ok(f"%wool output {job.number}")
    assert again.stdout.startswith("before\n")
    assert "KeyError" in again.stderr


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ("raise ExceptionGroup('both', [ValueError(1), KeyError(2)])", "ExceptionGroup"),
        ("compile('1 +', 'x', 'exec')", "SyntaxError"),
    ],
)
def test_errors_that_ipython_shows_in_its_own_way(kernel, body, name):
    job = submit(kernel, body)
    error = job.error()
    assert error.ename == name
    assert "wool_jupyter/" not in error.traceback


def test_a_syntax_error_is_the_cell_s_own(kernel):
    error = kernel.run("%%wool --bg\nx = = 1").error
    assert error.ename == "SyntaxError"


def test_an_input_that_can_t_be_shipped_is_an_error_of_the_cell(kernel):
    kernel.ok("import threading\nlock = (threading.Condition(), open('/dev/null'))[1]")
    error = kernel.run("%%wool --bg\nlock.read()").error
    assert error.ename == "CannotShip"
    assert "`lock`" in error.evalue


def test_a_worker_that_dies_ends_its_job_in_words(kernel):
    job = submit(kernel, "print('last words', flush=True)\nimport os\nos._exit(3)\nanswer = 1")
    assert "exited with code 3" in job.end()
    assert job.error().ename == "WorkerDied"
    assert "last words\n" in job.cell.late(lambda _: True).stdout
    assert kernel.run("answer").error.ename == "NameError"  # `%wool wait` has said it
    assert kernel.wool("1 + 1").value == "2"


@pytest.mark.parametrize("how", ["%wool cancel {number}", "job.cancel()"])
def test_cancelling_is_an_interrupt(kernel, gate, how):
    job = submit(
        kernel,
        "early = 1\ntry:\n    print('busy', flush=True)\n    __import__('time').sleep(600)\nfinally:\n    saved = 2\nlate = 3",
    )
    kernel.ok("job = _")
    job.cell.late(lambda shown: "busy" in shown.stdout)
    kernel.ok(how.format(number=job.number))
    assert "was cancelled after" in job.end()
    assert value(kernel, "early, saved") == (1, 2)
    assert job.cell.late(lambda _: True).error is None
    assert kernel.run("job.result()").error.ename == "JobCancelled"


def test_a_cell_that_reads_what_was_cancelled_is_stopped_once(kernel):
    job = submit(kernel, "print('busy', flush=True)\n__import__('time').sleep(600)\nanswer = 1")
    job.cell.late(lambda shown: "busy" in shown.stdout)
    kernel.ok(f"%wool cancel {job.number}")
    stopped = kernel.run("answer").error
    assert stopped.ename == "JobFailed"
    assert "which was cancelled after" in stopped.evalue
    assert kernel.run("answer").error.ename == "NameError"


def test_a_job_that_saves_when_it_is_cancelled_ends_well(kernel):
    job = submit(
        kernel,
        "try:\n    print('busy', flush=True)\n    __import__('time').sleep(600)\nexcept KeyboardInterrupt:\n    saved = 1",
    )
    job.cell.late(lambda shown: "busy" in shown.stdout)
    kernel.ok(f"%wool cancel {job.number}")
    assert "is done after" in job.end()
    assert value(kernel, "saved") == 1


def test_a_job_that_a_cancellation_can_t_reach_loses_its_worker(kernel):
    body = (
        "import signal, time\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\n"  # as a C call that does not return
        "print('busy', flush=True)\ntime.sleep(600)"
    )
    job = submit(kernel, body)
    job.cell.late(lambda shown: "busy" in shown.stdout)
    kernel.ok(f"%wool cancel {job.number}")
    assert "was cancelled" in job.end()
    assert kernel.wool("1 + 1").value == "2"


def test_cancelled_twice_it_loses_its_worker(kernel):
    body = (
        "import time\nprint('busy', flush=True)\n"
        "while True:\n    try: time.sleep(600)\n    except KeyboardInterrupt: print('no', flush=True)"
    )
    job = submit(kernel, body)
    job.cell.late(lambda shown: "busy" in shown.stdout)
    kernel.ok(f"%wool cancel {job.number}")
    job.cell.late(lambda shown: "no" in shown.stdout)
    kernel.ok(f"%wool cancel {job.number}")
    assert "was cancelled" in job.end()
    assert kernel.wool("1 + 1").value == "2"


def test_one_that_waits_in_line_leaves_it_when_it_is_cancelled(kernel, gate):
    busy = [submit(kernel, gate.wait) for _ in range(2)]
    job = submit(kernel, "ran = True")
    assert "waits for a worker" in job.sentence()
    kernel.ok(f"%wool cancel {job.number}")
    assert "was cancelled" in job.end()
    gate.open()
    for each in busy:
        each.wait()
    assert not value(kernel, "'ran' in dir()")


def test_a_name_that_no_worker_can_load_and_only_a_text_names_is_left_out(kernel, gate):
    kernel.ok(
        "import sys, types\nmodule = types.ModuleType('only_here')\nexec('class C: pass', vars(module))\n"
        "sys.modules['only_here'] = module\nthing, n = module.C(), 1\nmodule.C.__module__ = 'only_here'"
    )
    busy = [submit(kernel, gate.wait) for _ in range(2)]
    job = submit(kernel, "about = 'about thing'\nran = n + 1")
    kernel.ok("n = 5")
    gate.open()
    assert "is done after" in job.end()
    assert value(kernel, "ran") == 6
    shown = kernel.ok(f"%wool output {job.number}").stdout
    assert "`n`: changed since the job was submitted, which has the values of now" in shown
    for each in busy:
        each.wait()


STORM = """
import os, random, signal, threading

def run(n, press):
    press.start()
    get_ipython().run_cell_magic("wool", "--bg", f"stormed = {n}")

submitted = caught = 0
for n in range(80):
    # Many come at once, and some late: a submission takes one millisecond, or ten.
    press = threading.Timer(0.02 * random.Random(n).random() ** 3, os.kill, (os.getpid(), signal.SIGINT))
    try:
        run(n, press)
        submitted += 1
    except KeyboardInterrupt:
        caught += 1
    try:  # a late one
        press.join()
        sum(range(1000))
    except KeyboardInterrupt:
        caught += 1
"""


def test_an_interrupt_at_any_moment_of_a_submission_leaves_nothing_half_done(kernel):
    before = submit(kernel, "1").number
    kernel.ok(STORM, timeout=60)
    assert value(kernel, "0 < submitted < 80")
    assert value(kernel, "caught") == 80  # none is lost
    kernel.ok("%wool wait", timeout=60)
    states = [line for line in kernel.ok("%wool jobs").stdout.splitlines() if int(line.split()[1]) > before]
    assert states
    assert all(re.search("is done after|was cancelled after", line) for line in states), states
    submit(kernel, "stormed = 'last'").wait()
    assert value(kernel, "stormed") == "last"
    assert kernel.wool("1 + 1").value == "2"


WAITING_STORM = """
import os, random, signal, threading
presses = []
for n in range(40):
    get_ipython().run_cell_magic("wool", "--bg", f"waited_{n} = {n}")
    job = runtime().background.jobs[max(runtime().background.jobs)]
    press = threading.Timer(random.Random(n).uniform(0, 0.02), os.kill, (os.getpid(), signal.SIGINT))
    try:
        press.start()
        job.result()
    except KeyboardInterrupt:
        presses.append(n)
    try:
        press.join()
        sum(range(1000))
    except KeyboardInterrupt:
        pass
"""


def test_an_interrupt_at_any_moment_of_a_wait_loses_no_name(kernel):
    kernel.ok("from wool_jupyter.notebook.runtime import runtime")
    kernel.ok(WAITING_STORM, timeout=60)
    kernel.ok("%wool wait")
    names = ", ".join(f"waited_{n}" for n in range(40))
    assert value(kernel, names) == tuple(range(40))


def test_a_job_can_t_be_shipped(kernel):
    submit(kernel, "1").wait()
    kernel.ok("job = Out[max(n for n, out in Out.items() if type(out).__name__ == 'Job')]")
    error = kernel.wool_error("job.number")
    assert error.ename == "CannotShip"
    assert "`job` (wool_jupyter.notebook.job.Job) stays in the kernel" in error.evalue
    assert "runtime" not in error.evalue


def test_jobs_take_their_turn_first_come_first_served(kernel, gate):
    submit(kernel, gate.wait)
    submit(kernel, gate.wait)
    body = "import time\nstarted_{n} = time.monotonic()\ntime.sleep(0.3)"
    jobs = [submit(kernel, body.format(n=n)) for n in range(6)]
    assert "waits for a worker" in jobs[0].sentence()
    gate.open()
    kernel.ok("%wool wait")
    started = [value(kernel, f"started_{n}") for n in range(6)]
    assert sorted(started[::2]) == started[::2]


def test_many_jobs_at_once_all_end(kernel):
    for n in range(20):
        submit(kernel, f"n_{n} = {n} ** 2\nprint(n_{n})")
    kernel.ok("%wool wait")
    assert [value(kernel, f"n_{n}") for n in range(20)] == [n**2 for n in range(20)]


def test_waiting_for_a_job_that_failed_is_an_error(kernel, gate):
    good = submit(kernel, f"{gate.wait}1")
    bad = submit(kernel, "1 / 0")
    bad.cell.late(lambda shown: shown.error)
    gate.open()
    error = kernel.run("%wool wait").error
    assert error.ename == "JobFailed"
    assert f"job {bad.number} failed" in error.evalue
    assert "is done" in good.sentence()
    kernel.ok("%wool wait")  # said once


def test_an_interrupt_ends_a_wait_in_words(kernel, gate):
    job = submit(kernel, gate.wait)
    running = kernel.begin(f"%wool wait {job.number}")
    running.wait_for(f"wool: waits for job {job.number}")
    kernel.interrupt()
    result = running.result()
    assert result.error.ename == "KeyboardInterrupt"
    assert f"the wait has ended, and job {job.number} goes on" in result.stdout
    gate.open()
    assert "is done" in job.end()


@pytest.mark.parametrize("word", ["jobs", "wait", "cancel"])
def test_the_words_without_a_job(fresh_kernel, word):
    assert fresh_kernel.ok(f"%wool {word}").stdout == "wool: no background jobs\n"
    assert fresh_kernel.run("%%wool --bg\nx = = 1").error.ename == "SyntaxError"
    assert fresh_kernel.ok(f"%wool {word}").stdout == "wool: no background jobs\n"


@pytest.mark.parametrize("word", ["wait", "cancel"])
def test_a_number_that_is_none_is_said(kernel, word):
    job = submit(kernel, "1")
    job.wait()
    assert "there is no job 99999" in kernel.run(f"%wool {word} 99999").stderr
    said = kernel.run(f"%wool {word} x").stderr
    assert "takes numbers of jobs" in said
    assert ("without any it waits for all" in said) == (word == "wait")


def test_the_cell_run_again_while_its_job_runs_makes_another(kernel, gate):
    first = submit(kernel, f"{gate.wait}answer = 1")
    second = submit(kernel, f"{gate.wait}answer = 1")
    assert second.number == first.number + 1
    gate.open()
    kernel.ok("%wool wait")
    assert value(kernel, "answer") == 1


def test_under_capture_the_job_runs_all_the_same(kernel):
    job = submit_captured(kernel)
    kernel.ok(f"%wool wait {job}")
    assert value(kernel, "captured_x") == 1
    assert kernel.ok(f"%wool output {job}").stdout.startswith("printed\n")


def submit_captured(kernel):
    kernel.ok("%%capture out\n%%wool --bg\nprint('printed')\ncaptured_x = 1")
    return kernel.ok("%wool jobs").stdout.splitlines()[-1].split()[1]


def test_stop_ends_jobs_in_words(kernel, gate):
    running = submit(kernel, f"answer = 0\n{gate.wait}answer = 1")
    waiting = [submit(kernel, f"{gate.wait}other = {n}") for n in range(2)]
    running.cell.late(lambda _: True)
    told = kernel.ok("%wool stop").stdout
    numbers = [running.number, *(job.number for job in waiting)]
    assert f"wool: stopped the pool, and with it jobs {numbers[0]}, {numbers[1]} and {numbers[2]}" in told
    for job in (running, *waiting):
        assert "was cancelled after" in job.end()
        assert "the pool was stopped" in job.sentence()
    error = kernel.run("other").error
    assert error.ename in ("JobFailed", "NameError")
    assert kernel.wool("1 + 1").value == "2"


def test_a_blocking_cell_behind_jobs_takes_its_turn(kernel, gate):
    submit(kernel, gate.wait)
    submit(kernel, gate.wait)
    running = kernel.begin(wool("'mine'"))
    running.wait_for("waits for a free worker")
    gate.open()
    assert running.result().value == "'mine'"


@pytest.mark.parametrize("now", [True, False], ids=["now", "in order"])
def test_no_job_outlives_its_kernel(tmp_path, now):
    kernel = Kernel()
    try:
        kernel.ok("%load_ext wool_jupyter")
        submit(kernel, f"import os\nopen({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\nprint('up', flush=True)\n"
               "__import__('time').sleep(600)").cell.late(lambda shown: "up" in shown.stdout)  # fmt: skip
        pid = int((tmp_path / "pid").read_text())
        kernel.restart(now=now)
        wait_until(lambda: not Path(f"/proc/{pid}").exists())
        kernel.ok("%load_ext wool_jupyter")
        assert "no background jobs" in kernel.ok("%wool jobs").stdout
        assert submit(kernel, "1 + 1").number == 1
    finally:
        kernel.shutdown(now=True)


def test_unloading_takes_all_hooks_away(fresh_kernel, gate):
    hooks = "[len(get_ipython().events.callbacks['pre_run_cell']), len(get_ipython().ast_transformers)]"
    before = fresh_kernel.value(hooks)
    submit(fresh_kernel, gate.wait)
    fresh_kernel.ok("%unload_ext wool_jupyter")
    assert fresh_kernel.value(hooks) == before
    fresh_kernel.ok("%load_ext wool_jupyter")
    gate.open()
    assert submit(fresh_kernel, "1").end().startswith("job 1 is done")
