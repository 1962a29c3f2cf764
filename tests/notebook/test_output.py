"""What a cell shows: what, in which order, where and how often."""

# ruff: noqa: E501 (a case is a line)

import os

import pytest

from tests.support.kernel import wool
from tests.support.waiting import wait_until

CELLS = [
    pytest.param("print('a'); print('b')", id="print"),
    pytest.param(
        "from IPython.display import display, HTML\nprint(1); display(HTML('<b>2</b>')); print(3); display(4, 5); 6",
        id="display between prints",
    ),
    pytest.param("display({'a': 1}); display('x', metadata={}); display()", id="display builtin"),
    pytest.param(
        "from IPython.display import display\ndisplay({'text/plain': 'p', 'text/html': '<i>p</i>'}, raw=True, metadata={'text/html': {'k': 1}})",
        id="raw display",
    ),
    pytest.param(
        "from IPython.display import Markdown, Latex, JSON, SVG, Javascript\ndisplay(Markdown('*a*'), Latex('$a$'), JSON({'a': 1}), Javascript('1'))",
        id="many types",
    ),
    pytest.param("h = display('one', display_id='fixed'); h.update('two')", id="update of a handle"),
    pytest.param(
        "from IPython.display import update_display\ndisplay('one', display_id='d1'); update_display('two', display_id='d1')",
        id="update_display",
    ),
    pytest.param(
        "from IPython.display import clear_output\nprint('a'); clear_output(); print('b'); clear_output(wait=True); print('c')",
        id="clear_output",
    ),
    pytest.param("for i in range(5): print(f'\\r{i}', end='')", id="carriage return"),
    pytest.param("print('ünïcödé 日本 🎉 \\x1b[31mred\\x1b[0m')", id="unicode"),
    pytest.param("print('a' * 65535 + 'é' + 'b' * 65536 + '日本🎉' * 50_000)", id="long unicode"),
    pytest.param("for i in range(20_000): print('line', i, 'é')", id="20,000 lines"),
    pytest.param(
        "import sys\nsys.stdout.write('no newline')\nsys.stdout.writelines(['a', 'b'])\nsys.stdout.flush()", id="write"
    ),
    pytest.param("print('a', 'b', sep='', end='')\nprint('c', flush=True)", id="end and flush"),
    pytest.param(
        "import sys\nprint(sys.stdout.isatty(), sys.stdout.encoding, sys.stdout.writable())", id="stream attributes"
    ),
    pytest.param("!echo shell; echo err >&2", id="shell"),
    pytest.param("print('before')\n!echo shell\nprint('after')", id="shell in order"),
    pytest.param("x = !printf 'a\\nb'\nx", id="shell assignment"),
    pytest.param(
        "from contextlib import redirect_stdout\nimport io\nb = io.StringIO()\nwith redirect_stdout(b): print('hidden')\nprint('seen', b.getvalue())",
        id="redirect",
    ),
    pytest.param(
        "import sys\nold = sys.stdout\nclass W:\n    def write(self, t): old.write(t.upper())\n    def flush(self): pass\nsys.stdout = W()\nprint('a')\nsys.stdout = old\nprint('b')\ndel old, W",
        id="replaced stdout",
    ),
    pytest.param(
        "import logging\nlog = logging.getLogger('mine'); log.addHandler(logging.StreamHandler()); log.warning('w'); log.handlers.clear()",
        id="logging handler",
    ),
    pytest.param("import logging\nlogging.warning('root')", id="logging root"),
    pytest.param(
        "import threading\nt = threading.Thread(target=print, args=('from a thread',)); t.start(); t.join(); del t",
        id="thread",
    ),
    pytest.param(
        "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(2) as ex: list(ex.map(lambda i: None, range(3)))\nprint('done'); del ex",
        id="thread pool",
    ),
    pytest.param(
        "class R:\n    def __repr__(self): print('while shown'); return 'R'\nr = R(); r", id="repr that prints"
    ),
    pytest.param("class R:\n    def _repr_html_(self): return '<b>R</b>'\ndisplay(R())", id="html repr"),
    pytest.param("class R:\n    def _ipython_display_(self): print('mine')\nR()", id="_ipython_display_"),
    pytest.param("import pprint; pprint.pprint({'b': 1, 'a': [1] * 50})", id="pprint"),
    pytest.param(
        "import traceback\ntry: 1/0\nexcept Exception: print(traceback.format_exc().splitlines()[-1])", id="format_exc"
    ),
    pytest.param("from IPython.display import Image\nImage(b'\\x89PNG\\r\\n\\x1a\\n' + b'0' * 30)", id="image"),
    pytest.param(
        "from IPython.utils.capture import capture_output\nwith capture_output() as c: print('x'); display(1)\nprint(c.stdout, len(c.outputs))",
        id="capture_output",
    ),
    pytest.param(
        "from tqdm import tqdm\nimport sys\nfor i in tqdm([1], file=sys.stdout, disable=True): print(i)",
        id="tqdm disabled",
    ),
    pytest.param("help(len)", id="help"),
    pytest.param("print(open.__module__, print.__module__)", id="builtins"),
]


@pytest.mark.parametrize("cell", CELLS)
def test_output_is_that_of_a_plain_cell(same, cell):
    same(cell)


def test_cell_magics_inside_show_their_output(kernel):
    assert kernel.wool("%%bash\necho one\necho two").stdout == "one\ntwo\n"
    assert kernel.wool("%%html\n<b>x</b>").outputs[0].data["text/html"] == "<b>x</b>\n"
    assert kernel.wool("%%writefile /dev/null\nx").stdout == "Overwriting /dev/null\n"
    assert kernel.wool("%%sh\necho hi").stdout == "hi\n"


def test_output_below_python_is_shown_in_its_place(kernel):
    result = kernel.wool(
        """
        import os, subprocess, sys, ctypes
        print('one')
        os.write(1, b'two\\n')
        subprocess.run(['echo', 'three'])
        print('four')
        os.system('echo five')
        ctypes.CDLL(None).printf(b'six\\n')
        ctypes.CDLL(None).fflush(None)
        sys.stdout.flush()
        os.write(2, b'err\\n')
        subprocess.run(['sh', '-c', 'echo err2 >&2'])
        print('seven')
        """
    )
    assert [(o.kind, o.text) for o in result.outputs] == [
        ("stdout", "one\ntwo\nthree\nfour\nfive\nsix\n"),
        ("stderr", "err\nerr2\n"),
        ("stdout", "seven\n"),
    ]


def test_unflushed_c_output_is_shown_before_the_cell_ends(kernel):
    kernel.wool("import ctypes\nctypes.CDLL(None).printf(b'buffered ')")
    result = kernel.wool("ctypes.CDLL(None).printf(b'in C\\n');")
    assert result.stdout == "in C\n"


def test_all_kinds_of_output_keep_their_order(kernel):
    result = kernel.wool(
        """
        import os, subprocess, sys
        from IPython.display import HTML, display
        print('a')
        print('b', file=sys.stderr)
        os.write(1, b'c\\n')
        display(HTML('<p>d</p>'))
        subprocess.run(['echo', 'e'])
        !echo f
        display('g')
        print('h', file=sys.stderr)
        print('i')
        'j'
        """
    )
    assert [(o.kind, o.text.replace("\r", "")) for o in result.outputs] == [
        ("stdout", "a\n"),
        ("stderr", "b\n"),
        ("stdout", "c\n"),
        ("display", "<IPython.core.display.HTML object>"),
        ("stdout", "e\nf\n"),
        ("display", "'g'"),
        ("stderr", "h\n"),
        ("stdout", "i\n"),
        ("result", "'j'"),
    ]


TAKE_TURNS = """
import sys, time
def take_turns():
    print('a'); time.sleep(0.08); print('b', file=sys.stderr); time.sleep(0.08); print('c'); display('d')
"""


@pytest.mark.parametrize(
    "cell",
    ["%%wool\ntake_turns()", "import wool_jupyter\nwool_jupyter.pool().submit(take_turns).result()"],
    ids=["a cell", "a call"],
)
def test_streams_that_take_turns_slowly_keep_their_order(kernel, cell):
    """Each is seen by a look of its own, and a kernel gathers each stream for 0.2 s."""
    kernel.ok(TAKE_TURNS)
    result = kernel.ok(cell)
    assert [(o.kind, o.text) for o in result.outputs] == [
        ("stdout", "a\n"),
        ("stderr", "b\n"),
        ("stdout", "c\n"),
        ("display", "'d'"),
    ]


def test_text_that_follows_a_display_at_once_stands_below_it(kernel):
    """The text is in a file before the display has come."""
    result = kernel.wool("for i in range(200): display(i); print(i)")
    assert [o.kind for o in result.outputs] == ["display", "stdout"] * 200


def test_a_stream_that_a_cell_leaves_replaced_is_put_back_with_a_line(kernel):
    result = kernel.wool("import io, sys\nsys.stdout = io.StringIO()\nprint('hidden')")
    assert result.stdout == ""
    assert "`sys.stdout` is put back" in result.stderr
    assert kernel.wool("print('heard')").outputs[0].text == "heard\n"


def test_output_appears_while_the_cell_runs(kernel, tmp_path):
    gate = tmp_path / "gate"
    running = kernel.begin(
        wool(
            f"import os, time\nprint('early')\ndisplay('shown')\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)\nprint('late')"
        )
    )
    running.wait_for("early\n")
    seen = running.wait_for("'shown'")
    assert "late" not in seen.stdout
    gate.touch()
    assert running.result().stdout == "early\nlate\n"


def test_characters_cut_by_two_writes_are_whole(kernel):
    result = kernel.wool("import os, time\nfor b in '日é🎉'.encode(): os.write(1, bytes([b])); time.sleep(0.06)")
    assert result.stdout == "日é🎉"


def test_a_display_can_be_updated_by_a_later_cell_of_either_kind(kernel):
    first = kernel.wool("h = display('one', display_id=True)")
    display_id = first.outputs[0].transient["display_id"]
    second = kernel.wool("h.update('two')")
    assert [(o.kind, o.text, o.transient) for o in second.outputs] == [("update", "'two'", {"display_id": display_id})]
    third = kernel.ok("h.update('three')")
    assert [(o.kind, o.text) for o in third.outputs] == [("update", "'three'")]


def test_capture_above_takes_all_output(kernel):
    result = kernel.ok("%%capture out\n%%wool\nimport sys\nprint('a')\nprint('b', file=sys.stderr)\ndisplay(1)\n2")
    assert result.outputs == []
    assert kernel.value("(out.stdout, out.stderr, len(out.outputs))") == ("a\n", "b\n", 2)


def test_capture_keeps_the_number_of_outputs_of_a_plain_cell(kernel):
    kernel.ok("%%capture out\nprint('a'); display(1)\n2")
    expected = kernel.value("(out.stdout, out.stderr, len(out.outputs))")
    kernel.ok("%%capture out\n%%wool\nprint('a'); display(1)\n2")
    assert kernel.value("(out.stdout, out.stderr, len(out.outputs))") == expected


def test_a_handler_made_in_one_cell_logs_under_the_cell_that_uses_it(kernel):
    kernel.wool(
        "import logging, sys\nlogging.basicConfig(stream=sys.stdout, format='%(message)s', force=True)\nlogging.warning('one')"
    )
    result = kernel.wool("import logging\nlogging.warning('two')")
    assert result.stdout + result.stderr in ("two\n", "WARNING:root:two\n")


def test_output_of_a_thread_that_outlives_its_cell_never_appears_under_another(kernel, tmp_path):
    gate, done = tmp_path / "gate", tmp_path / "done"
    kernel.wool(
        f"""
        import os, threading, time
        def late():
            while not os.path.exists({str(gate)!r}): time.sleep(0.01)
            print('from the first cell')
            open({str(done)!r}, 'w').close()
        threading.Thread(target=late).start()
        print('started')
        """
    )
    running = kernel.begin(
        wool(f"import os, time\nprint('second')\nwhile not os.path.exists({str(done)!r}): time.sleep(0.01)")
    )
    running.wait_for("second\n")
    gate.touch()
    wait_until(done.exists)
    assert running.result().stdout == "second\n"


def test_input_asks_in_the_front_end(kernel):
    result = kernel.wool("name = input('Name? ')\nprint('hello', name)", answers=["Ada"])
    assert [(o.kind, o.text) for o in result.outputs if o.kind == "stdin"] == [("stdin", "Name? ")]
    assert result.stdout == "hello Ada\n"
    assert kernel.value("name") == "Ada"


def test_getpass_asks_for_a_password(kernel):
    result = kernel.wool("import getpass\np = getpass.getpass('Secret: ')\nprint(len(p))", answers=["1234"])
    assert [(o.text, o.metadata) for o in result.outputs if o.kind == "stdin"] == [("Secret: ", {"password": True})]
    assert result.stdout == "4\n"


def test_two_questions_get_their_answers(kernel):
    assert kernel.wool("a, b = input(), input('b')\nprint(a, b)", answers=["1", "2"]).stdout == "1 2\n"


@pytest.mark.parametrize("ask", ["input('x')", "__import__('getpass').getpass()"])
def test_a_question_without_a_front_end_fails_at_once(kernel, ask):
    error = kernel.wool_error(f"print('before')\n{ask}")
    assert error.ename == "StdinNotImplementedError"
    assert (
        "raw_input was called, but this frontend does not support input requests." in error.evalue
        or ask != "input('x')"
    )


def test_a_question_without_a_front_end_can_be_handled_by_the_cell(kernel):
    assert (
        kernel.wool("try: input()\nexcept Exception as e: print(type(e).__name__)").stdout
        == "StdinNotImplementedError\n"
    )


PLOT = "import matplotlib.pyplot as plt\n"


@pytest.mark.parametrize(
    "cell",
    [
        pytest.param("plt.plot([1, 2])", id="left open"),
        pytest.param("plt.plot([1, 2]);", id="silenced"),
        pytest.param("plt.plot([1, 2])\nplt.show()\nprint('after')", id="show"),
        pytest.param("fig, ax = plt.subplots()\nax.plot([1])\nprint('drawn')", id="subplots"),
        pytest.param("fig, ax = plt.subplots()\nfig", id="figure as result"),
        pytest.param("plt.plot([1]); plt.show(); plt.plot([2]); plt.show()", id="two"),
        pytest.param("plt.figure(); plt.figure()", id="two left open"),
        pytest.param("fig = plt.figure(); plt.close(fig)", id="closed"),
        pytest.param("fig = plt.figure()\ndisplay(fig)\nplt.close()", id="displayed"),
        pytest.param("import pandas as pd\npd.Series([1, 2]).plot()", id="pandas"),
    ],
)
def test_figures_appear_as_in_a_plain_cell(same, cell):
    same(PLOT + cell, before=["%matplotlib inline\n" + PLOT], after=["plt.get_fignums()", "pass", "1"])


def test_an_open_figure_appears_after_the_error(kernel):
    result = kernel.run(wool(PLOT + "plt.plot([1])\n1 / 0"))
    assert result.kinds == ["error", "display"]
    assert kernel.ok("plt.get_fignums()").value == "[]"


def test_figures_appear_without_the_kernel_having_imported_matplotlib(fresh_kernel):
    result = fresh_kernel.wool(PLOT + "plt.plot([1, 2])")
    assert [o.kind for o in result.outputs if "image/png" in o.data] == ["display"]
    assert result.kinds[-2:] == ["result", "display"]
    assert fresh_kernel.run("1").kinds == ["result"]


def test_a_figure_comes_back_and_can_be_shown_again(kernel):
    kernel.wool(PLOT + "fig, ax = plt.subplots()\nax.plot([1, 2]);")
    assert kernel.ok("import matplotlib.pyplot as plt\nplt.get_fignums()").value == "[]"
    again = kernel.ok("fig")
    assert "image/png" in again.data
    assert kernel.value("(ax.figure is fig, len(ax.lines))") == (True, 1)


def test_a_figure_of_a_plain_cell_can_be_drawn_on(kernel):
    kernel.ok("%matplotlib inline\n" + PLOT + "fig, ax = plt.subplots(); plt.close(fig)")
    kernel.wool("ax.plot([1, 2]); ax.set_title('t');")
    assert kernel.value("(len(ax.lines), ax.get_title(), ax.figure is fig, fig.axes[0] is ax)") == (1, "t", True, True)


def test_rc_parameters_follow_the_kernel_and_come_back(kernel):
    kernel.ok("import matplotlib.pyplot as plt\nplt.rcParams['lines.linewidth'] = 7")
    assert (
        kernel.wool(
            "import matplotlib.pyplot as plt\nplt.rcParams['axes.grid'] = True\nplt.rcParams['lines.linewidth']"
        ).value
        == "7.0"
    )
    assert kernel.value("(plt.rcParams['axes.grid'], plt.rcParams['lines.linewidth'])") == (True, 7.0)


def test_no_output_is_left_for_a_cell_that_has_ended(kernel):
    for _ in range(5):
        kernel.wool("for i in range(200): print(i)")
    kernel.ok("pass")
    late = [m["content"]["text"] for m in kernel.strays if m["msg_type"] == "stream"]
    assert [
        text for text in late if text.strip().splitlines()[-1].isdigit()
    ] == []  # a thread of an earlier test may still print


def test_text_of_a_thread_that_outlives_its_cell_stands_under_that_cell(kernel):
    first = kernel.begin(
        wool("""
            import builtins, threading
            builtins.go = threading.Event()
            def late():
                builtins.go.wait()
                print("late")
            thread = threading.Thread(target=late, daemon=True)
            thread.start()
            del thread
            print("first")
        """)
    )
    assert first.result().stdout == "first\n"
    second = kernel.wool("import builtins; builtins.go.set(); print('second')")
    assert second.stdout == "second\n"
    assert first.late_text(until="late\n") == "late\n"


def test_text_of_a_child_that_outlives_its_cell_stands_under_that_cell(kernel, tmp_path):
    fifo = tmp_path / "go"
    os.mkfifo(fifo)
    first = kernel.begin(
        wool(f"""
            import subprocess
            subprocess.Popen("read line < {fifo}; echo late", shell=True)
            print("first")
        """)
    )
    assert "first" in first.result().stdout
    fifo.write_text("go\n")
    assert first.late_text(until="late\n") == "late\n"


def test_late_text_that_a_worker_leaves_behind_is_not_lost(kernel):
    first = kernel.begin(
        wool("""
            import builtins, os, threading
            builtins.go = threading.Event()
            def late():
                builtins.go.wait()
                print("last words", flush=True)
                os._exit(3)
            threading.Thread(target=late, daemon=True).start()
        """)
    )
    first.result()
    assert kernel.wool_error("import builtins, signal; builtins.go.set(); signal.pause()").ename == "WorkerDied"
    assert first.late_text(until="last words\n") == "last words\n"
