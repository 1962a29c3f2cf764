"""One test for each trap that somebody has stepped into."""

import re
import textwrap

import numpy as np
import pytest

from tests.support.kernel import wool


def test_a_large_figure_that_was_left_open_is_shown(kernel):
    """Its picture is a file of the call, which is gone when the cell has ended."""
    result = kernel.wool(
        "import matplotlib.pyplot as plt, numpy as np\n"
        "plt.figure(figsize=(12, 9), dpi=150); plt.imshow(np.random.rand(400, 400))\n'value'"
    )
    assert result.kinds == ["result", "display"]
    assert len(result.outputs[1].data["image/png"]) > 300_000


def test_a_name_that_is_only_in_a_text_and_can_not_be_loaded_is_left_out(kernel):
    kernel.ok("class Trap:\n    def __reduce__(self): return (int, ('no number',))\ntrap = Trap()")
    assert kernel.wool("'it is a trap', 'trap' in globals()").value == "('it is a trap', False)"
    assert kernel.wool_error("trap").ename == "CannotLoad"


ITERATORS = [
    pytest.param("map(int, ['1', '2'])", id="map"),
    pytest.param("filter(None, [1, 2])", id="filter"),
    pytest.param("itertools.chain([1, 2], [3])", id="chain"),
    pytest.param("enumerate('ab')", id="enumerate"),
    pytest.param("zip('ab', [1, 2])", id="zip"),
    pytest.param("iter([1, 2])", id="list"),
    pytest.param("iter({1: 2})", id="dict"),
    pytest.param("iter({1})", id="set"),
    pytest.param("reversed([1, 2])", id="reversed"),
    pytest.param("itertools.islice([1, 2, 3], 2)", id="islice"),
]


@pytest.mark.parametrize("iterator", ITERATORS)
@pytest.mark.parametrize("use", ["list(it)", "next(it)"])
def test_an_iterator_goes_on_where_the_cell_has_left_it(kernel, iterator, use):
    kernel.ok(f"import itertools\nit = {iterator}; plain = {iterator}")
    kernel.ok(use.replace("it)", "plain)"))
    kernel.wool(use)
    assert kernel.value("list(it) == list(plain)")


def test_logging_that_was_set_up_in_the_kernel_speaks_on_a_worker_and_the_other_way(kernel):
    kernel.ok("import logging\nlogging.basicConfig(level=logging.INFO, force=True)\nlog = logging.getLogger('mine')")
    assert kernel.wool("log.info('heard')").stderr == "INFO:mine:heard\n"
    kernel.wool("logging.basicConfig(level=logging.ERROR, format='now %(message)s', force=True)")
    assert kernel.ok("log.info('quiet'); log.error('loud')").stderr == "now loud\n"
    kernel.ok("logging.basicConfig(level=logging.WARNING, handlers=[], force=True)")


def test_options_of_the_shell_and_of_figures_follow_the_kernel(kernel):
    kernel.ok("get_ipython().ast_node_interactivity = 'all'")
    assert [output.text for output in kernel.wool("1\n2").outputs] != []
    kernel.ok("get_ipython().ast_node_interactivity = 'last_expr'")
    kernel.ok("import matplotlib.pyplot as plt\n%config InlineBackend.figure_formats = ['svg']")
    result = kernel.wool("plt.plot([1, 2]); plt.show()")
    kernel.ok("%config InlineBackend.figure_formats = ['png']")
    assert "image/svg+xml" in result.outputs[0].data


def test_the_format_of_figures_can_be_set_again_after_a_cell_has_changed_it(kernel):
    kernel.ok("import matplotlib.pyplot as plt\n%matplotlib inline\n%config InlineBackend.figure_format = 'png'")
    kernel.wool("import matplotlib.pyplot as plt\n%config InlineBackend.figure_format = 'svg'")
    kernel.ok("%config InlineBackend.figure_format = 'png'")
    for drawn in (kernel.ok("plt.plot([1, 2]); plt.show()"), kernel.wool("plt.plot([1, 2]); plt.show()")):
        assert set(drawn.outputs[0].data) == {"text/plain", "image/png"}


def test_a_format_of_figures_that_waits_for_pyplot_can_be_taken_back(fresh_kernel):
    # A worker that has no pyplot yet, either, as no cell has drawn.
    fresh_kernel.wool("%config InlineBackend.figure_format = 'svg'")
    fresh_kernel.ok("del get_ipython().config.InlineBackend['figure_format']")
    drawn = fresh_kernel.wool("import matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.show()")
    assert set(drawn.outputs[0].data) == {"text/plain", "image/png"}


def test_functions_in_options_travel(kernel):
    kernel.ok("import pandas as pd\npd.set_option('display.float_format', lambda number: f'<{number:.1f}>')")
    assert "<2.0>" in kernel.wool("pd.DataFrame({'a': [2.0]})").value
    kernel.ok("pd.reset_option('display.float_format')")


def test_a_warning_class_of_the_notebook_may_be_filtered(kernel):
    kernel.ok("import warnings\nclass Mine(UserWarning): pass\nwarnings.simplefilter('ignore', Mine)")
    assert (
        kernel.wool("import warnings\nwarnings.warn('hidden', Mine)\nwarnings.warn('shown')").stderr.count("Warning")
        == 1
    )
    kernel.ok("warnings.resetwarnings()")


def test_an_old_handle_lets_nothing_go_that_is_newer(kernel):
    kernel.wool("gen = (i for i in range(9))")
    kernel.run(wool("next(gen)\nimport os; os._exit(1)"))
    assert "run In[" in kernel.wool_error("next(gen)").evalue
    kernel.wool("gen = (i for i in range(9))")
    for expected in ("0", "1", "2"):
        assert kernel.wool("next(gen)").value == expected


def test_a_name_whose_worker_is_gone_is_no_trouble_to_cells_that_do_not_name_it(kernel):
    kernel.wool("gen = (i for i in range(9))")
    kernel.ok("%wool restart")
    assert kernel.wool("'x' in globals()").value == "False"
    error = kernel.wool_error("next(gen)")
    assert re.search(r"`gen` \(generator\) lived on a worker that is gone: run In\[\d+\] again", error.evalue)


def test_a_result_whose_class_is_not_to_be_had_here_is_told_and_the_others_arrive(kernel, tmp_path):
    module = tmp_path / "edited_here.py"
    module.write_text("class A: pass\n")
    kernel.ok(f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nimport edited_here")
    module.write_text("class A: pass\nclass B: pass\n")
    result = kernel.wool("import edited_here\nb = edited_here.B()\nother = 42")
    assert "`b` could not be loaded here" in result.stderr
    assert kernel.value("other") == 42


def test_a_display_of_a_thread_is_never_under_another_cell(kernel, tmp_path):
    gate = tmp_path / "gate"
    kernel.wool(
        "import threading, time, os\n"
        "from IPython.display import HTML, display\n"
        f"def late():\n    while not os.path.exists({str(gate)!r}): time.sleep(0.01)\n    display(HTML('late')); done.set()\n"
        "done = threading.Event()\nthreading.Thread(target=late).start()"
    )
    result = kernel.wool(f"open({str(gate)!r}, 'w').close()\ndone.wait(10)")
    assert "late" not in str([output.data for output in result.outputs])


def test_an_interrupt_while_results_come_home_stops_run_all_and_keeps_them(kernel):
    body = (
        "import os, signal\nclass Late:\n    def __setstate__(self, state):\n"
        f"        if os.getpid() == {kernel.pid}: os.kill({kernel.pid}, signal.SIGINT)\n"
        "late = Late(); late.x = 1; kept = 2"
    )
    result = kernel.run(wool(body))
    assert result.error.ename == "KeyboardInterrupt"
    assert kernel.value("kept") == 2


def test_one_line_helps_with_what_people_type(kernel):
    assert kernel.ok("%wool").stdout.startswith(("wool:", "worker"))
    assert kernel.run("%%wool # heavy\n1 + 1").value == "2"
    assert "`%wool start -n N`" in kernel.run("%%wool -n 4\n1").stderr
    assert "%%wool" in kernel.run("%%wool?").payload[0]["data"]["text/plain"]
    assert "%%wool [" not in kernel.run("%wool?").payload[0]["data"]["text/plain"]


LINKED = """
class Node:
    def __init__(self, value, next):
        self.value, self.next = value, next
head = None
for i in range(2000):
    head = Node(i, head)
"""


def test_a_long_chain_of_objects_comes_and_comes_back(kernel):
    kernel.ok(LINKED)
    kernel.wool("""
        node = head
        while node.next:
            node = node.next
        node.value = 'last'
        other = head
    """)
    kernel.ok("length, at = 1, head\nwhile at.next: at, length = at.next, length + 1")
    assert kernel.value("(length, at.value, other is head, node is at)") == (2000, "last", True, True)


def test_a_change_of_what_only_a_raised_recursion_limit_can_pickle_comes_back(kernel):
    kernel.ok("import sys; sys.setrecursionlimit(30_000)\nx = None\nfor _ in range(12_000): x = [x]")
    assert kernel.wool("x.append(1); sys.getrecursionlimit()").value == "30000"
    assert kernel.value("len(x)") == 2
    kernel.wool("import sys; sys.setrecursionlimit(1_000)")
    assert kernel.value("sys.getrecursionlimit()") == 1_000


def test_results_that_can_not_be_loaded_are_the_error_of_the_cell(kernel):
    """A cycle through a set, of objects whose hash needs what they hold: pickle's own limit."""
    error = kernel.wool_error("""
        class E:
            def __init__(self, n): self.n, self.peers = n, set()
            def __hash__(self): return self.n
        a, b = E(1), E(2)
        a.peers, b.peers = {b}, {a}
        total = 1
    """)
    assert error.ename == "CannotLoad"
    assert error.evalue.startswith(
        "The cell has run, and not all of its results can be loaded here: AttributeError: 'E' object has no"
    )
    assert kernel.value("(E(3).n, total)") == (3, 1)  # what came before is here


@pytest.mark.parametrize(
    "breaks",
    ["import pickle; pickle.dumps = None", "import gc; gc.isenabled = None"],
)
def test_a_worker_that_fails_by_a_fault_of_its_own_is_replaced(fresh_kernel, breaks):
    fresh_kernel.ok("%wool start -n 1")
    error = fresh_kernel.wool_error(breaks)
    assert error.ename == "CallFailed"
    assert error.evalue.endswith("It is replaced, and what lived on it is gone")
    assert fresh_kernel.wool("1 + 1").value == "2"


def test_state_of_the_process_that_makes_no_sense_costs_no_result(kernel):
    kernel.wool("import sys; sys.argv = None; z = 1")
    assert kernel.value("z") == 1
    assert kernel.wool("z + 1").value == "2"


READS_GLOBALS = {
    "setstate": (
        "import threading",
        """
        class C:
            def __init__(self): self.n, self.lock = 0, threading.Lock()
            def __getstate__(self): return {"n": self.n}
            def __setstate__(self, state): self.__dict__.update(state); self.lock = threading.Lock()
        """,
    ),
    "hash": (
        "import math\nSEED = 5",
        """
        class C:
            n = 0
            def __hash__(self): return math.floor(SEED)
            def __eq__(self, other): return isinstance(other, C) and self is other
        """,
    ),
    "append": (
        "SCALE = 2",
        """
        class C(list):
            n = 0
            def append(self, x): super().append(x * SCALE)
            def extend(self, xs):
                for x in xs: super().append(x if SCALE else 0)
        """,
    ),
}


@pytest.mark.parametrize("kind", READS_GLOBALS)
def test_objects_whose_methods_read_the_notebook_are_loaded_after_what_they_read(kernel, kind):
    reads, made = READS_GLOBALS[kind]
    made = textwrap.dedent(made).strip()
    kernel.ok(
        f"{reads}\n{made}\na = C()\nheld = {{id(a): [a]}}; grouped = {{1: a}}\nkeys = {{a}} if C.__hash__ else [a]"
    )
    kernel.wool("a.n += 1; b = next(iter(keys)); b.n += 1")
    assert kernel.value("(a.n, a is b, a in keys)") == (2, True, True)
    kernel.reset()
    kernel.wool(f"{reads}\n{made}\na = C()\nkeys = {{a}} if C.__hash__ else [a]; kept = [a]")
    assert kernel.value("(a in keys, kept[0] is a)") == (True, True)


def test_a_class_that_delegates_what_it_has_not_comes_and_comes_back(kernel):
    kernel.ok("""
        class W:
            def __init__(self, d): self.d = d
            def __getattr__(self, name): return getattr(self.d, name)
        w = W([1])
        also = w.d
    """)
    kernel.wool("w.n = 3; w.append(2); v = W({}); ")
    assert kernel.value("(w.n, w.d, also is w.d, v.d)") == (3, [1, 2], True, {})


def test_an_array_on_a_file_is_that_file_on_the_worker(kernel, tmp_path):
    file = tmp_path / "data"
    kernel.ok(
        f"import numpy as np\nm = np.memmap({str(file)!r}, dtype='i4', mode='w+', shape=(10_000, 3))\npart = m[5_000:]"
    )
    kernel.wool("m[0] = 7; part[1] = 8; m.flush()")
    kernel.ok("m[2] = 9; m.flush()")
    written = np.fromfile(file, "i4").reshape(-1, 3)
    assert (written[0].tolist(), written[2].tolist(), written[5_001].tolist()) == ([7] * 3, [9] * 3, [8] * 3)
    kernel.ok(f"r = np.memmap({str(file)!r}, dtype='i4', mode='r')")
    assert kernel.wool_error("r[0] = 1").ename == "ValueError"
    kernel.wool(f"w = np.memmap({str(file)!r}, dtype='i4', mode='r+', offset=12)")
    assert kernel.value("(type(w).__name__, int(w[3]), r.flags.writeable, len(w))") == ("memmap", 9, False, 29_997)


def test_a_private_mapping_comes_back_changed(kernel, tmp_path):
    file = tmp_path / "data"
    file.write_bytes(bytes(400))
    kernel.ok(f"import numpy as np\nm = np.memmap({str(file)!r}, dtype='i4', mode='c')\nv = np.asarray(m)")
    kernel.wool("m[3] = 7")
    assert kernel.value("(int(m[3]), int(v[3]))") == (7, 7)
    assert file.read_bytes() == bytes(400)


@pytest.mark.parametrize("make", ["np.matrix(base)", "np.ma.array(base, mask=base > 90, copy=False)", "base.view(Own)"])
def test_arrays_of_other_classes_are_changed_where_they_lie(kernel, make):
    kernel.ok(f"""
        import numpy as np
        class Own(np.ndarray): pass
        base = np.arange(100).reshape(10, 10)
        m = {make}
        view = np.asarray(m)
    """)
    kernel.wool("m[0, 1] = 77")
    assert kernel.value("(int(m[0, 1]), int(view[0, 1]), type(m).__name__)")[:2] == (77, 77)


def test_arguments_of_an_exception_come_back(kernel):
    kernel.ok("e = ValueError(1, [2])")
    kernel.wool("e.args = (e.args[1], 3); e.args[0].append(4); e.note = 5")
    assert kernel.value("(e.args, e.note)") == (([2, 4], 3), 5)


@pytest.mark.parametrize("left_on", ["settrace", "setprofile"])
def test_a_tracer_that_a_cell_left_on_ends_with_it(kernel, left_on):
    kernel.wool(f"import sys; seen = []; sys.{left_on}(lambda *event: seen.append(event[1]))\ndef f(): pass\nf()")
    assert kernel.value("'call' in seen")
    kernel.wool("seen.clear(); f()")
    assert kernel.value("seen") == []


def test_texts_have_one_hash_on_all_workers(kernel):
    """Else a vocabulary that is made from a set would have another order in the next cell."""
    kernel.wool("one = hash('text')")
    assert kernel.run(wool("import os; os._exit(1)")).error.ename == "WorkerDied"
    kernel.wool("two = hash('text')\nimport os; seen = 'PYTHONHASHSEED' in os.environ")
    assert kernel.value("(one == two, seen)") == (True, False)
