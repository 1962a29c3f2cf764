"""What a cell raises, and how it is shown."""

import re
import runpy
from pathlib import Path

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError

from tests.support.kernel import plain, wool

ROOT = Path(__file__).parents[2]

ERRORS = """\
class Two(Exception):
    def __init__(self, code, text):
        super().__init__(f'{code}: {text}'); self.code, self.text = code, text
class KwOnly(ValueError):
    def __init__(self, *, code): self.code = code
    def __str__(self): return f'code {self.code}'
class Plain(Exception): pass
class Slotted(Exception):
    __slots__ = ('v',)
    def __init__(self, v): self.v = v
def fail(a):
    b = a - 1
    return 1 / b
def outer(a):
    return fail(a)
def call(f): return f()
"""

CELLS = [
    pytest.param("1 / 0", id="zero"),
    pytest.param("\n\n\nx = 1\n\n1 / 0", id="blank lines at top"),
    pytest.param("# comment\n'''doc'''\n1 / 0", id="comment at top"),
    pytest.param("x = 1\ny = [i for i in (1, 0) if 1 / i]", id="comprehension"),
    pytest.param("fail(1)", id="function of another cell"),
    pytest.param("outer(1)", id="functions of another cell"),
    pytest.param("def here():\n    x = 1\n    return outer(x)\nhere()", id="functions of both"),
    pytest.param("raise Two(3, 'text')", id="two arguments"),
    pytest.param("raise KwOnly(code=4)", id="keyword only"),
    pytest.param("raise Plain", id="class"),
    pytest.param("raise Plain('a', 1)", id="args"),
    pytest.param("raise Slotted(3)", id="slots"),
    pytest.param(
        "class New(Exception):\n    def __init__(self, a, b): self.a = a\nraise New(1, 2)", id="defined in the cell"
    ),
    pytest.param("try: 1 / 0\nexcept Exception as e: raise Two(1, 'x') from e", id="cause"),
    pytest.param("try: fail(1)\nexcept Exception: raise Plain('b')", id="context"),
    pytest.param("try: fail(1)\nexcept Exception: raise Plain('b') from None", id="suppressed"),
    pytest.param("e = Plain('m')\ne.add_note('a note')\ne.add_note('two\\nlines')\nraise e", id="notes"),
    pytest.param("x = 1 +\ny = 2", id="syntax"),
    pytest.param("for i in range(3):\nprint(i)", id="indentation"),
    pytest.param("return 3", id="return outside"),
    pytest.param("print(outer.__name__)\nreturn 3", id="return outside after what is run"),
    pytest.param("x = 1; print(x); return x; print(2)", id="return outside in one line"),
    pytest.param("print(1)\ndef f(a, a): pass\nprint(2)", id="arguments of one name"),
    pytest.param("print(1)\nfrom __future__ import nothing", id="unknown future"),
    pytest.param("print(1)\nclass K:\n    y = [(x := 1) for _ in (1,)]", id="walrus in a class"),
    pytest.param("print(1)\nfail(1)\nnonlocal x", id="before what does not compile"),
    pytest.param("print(1)\nfrom __future__ import annotations\ndef f(x: Y): pass\nf()", id="late future"),
    pytest.param("exec('x = = 1')", id="syntax in exec"),
    pytest.param("import json; json.loads('{')", id="library"),
    pytest.param("import pandas as pd; pd.DataFrame({'a': [1]})['b']", id="pandas"),
    pytest.param("assert 1 == 2, 'no'", id="assert"),
    pytest.param("undefined", id="name"),
    pytest.param("from os import nothing", id="import"),
    pytest.param("import no_such_module", id="module"),
    pytest.param("(1).nothing", id="attribute suggestion"),
    pytest.param("pritn(1)", id="name suggestion"),
    pytest.param("{}['k']", id="key"),
    pytest.param("open('/no/such/file')", id="os error"),
    pytest.param("'é'.encode('ascii')", id="unicode"),
    pytest.param("raise KeyboardInterrupt", id="keyboard interrupt"),
    pytest.param("raise KeyboardInterrupt('mine')", id="keyboard interrupt with text"),
    pytest.param("raise GeneratorExit", id="generator exit"),
    pytest.param("raise StopIteration(3)", id="stop iteration"),
    pytest.param("raise StopAsyncIteration", id="stop async iteration"),
    pytest.param("import asyncio; raise asyncio.CancelledError", id="cancelled"),
    pytest.param("import asyncio; raise TimeoutError('t')", id="timeout"),
    pytest.param("import asyncio\nawait asyncio.sleep(0)\n1 / 0", id="after await"),
    pytest.param("async def f():\n    1 / 0\nawait f()", id="in a coroutine"),
    pytest.param("raise ExceptionGroup('g', [ValueError(1), Two(1, 'a')])", id="group"),
    pytest.param("raise BaseException('base')", id="BaseException"),
    pytest.param("print('before')\nimport sys\nprint('err', file=sys.stderr)\n1 / 0", id="after output"),
    pytest.param("def r(n): return r(n + 1)\nr(0)", id="recursion"),
    pytest.param("%nosuchmagic", id="unknown magic"),
    pytest.param("%timeit -n x pass", id="usage of a magic"),
    pytest.param("x = 1\nx.y = 2", id="attribute assignment"),
    pytest.param("next(iter([]))", id="next"),
    pytest.param("call(lambda: 1 / 0)", id="lambda by a function of another cell"),
    pytest.param("raise ValueError('multi\\nline')", id="multi-line message"),
    pytest.param("raise ValueError()", id="no message"),
    pytest.param("class E(Exception):\n    def __str__(self): return 1/0\nraise E", id="broken str"),
]


@pytest.mark.parametrize("cell", CELLS)
def test_an_error_looks_as_in_a_plain_cell(kernel, cell):
    """Not compared frame by frame: IPython 9 shows wrong lines of causes and comprehensions in plain cells."""
    seen = []
    for kind in (plain, wool):
        kernel.reset()
        kernel.ok(ERRORS)
        result = kernel.run(kind(cell))
        text = result.error.traceback if result.error else result.stderr
        said = text.split("\n\n")[-1].split("%%wool")[-1] if result.error else text.splitlines()[-1]
        error = result.error and (result.error.ename, re.sub(r" \(.*, line", " (line", result.error.evalue))
        seen.append((result.status, result.stdout, error, said, result.kinds))
    assert seen[1] == seen[0]
    assert not re.search("wool_jupyter|interactiveshell", text)
    assert_lines_are_right(text, {1: ERRORS, 2: wool(cell)})


def assert_lines_are_right(text, cells):
    """Every line that an arrow points at is that line of that cell."""
    number = None
    for line in text.splitlines():
        if head := re.match(r"Cell In\[(\d+)\], line (\d+)", line):
            number = int(head[1])
        elif line.startswith("File "):
            number = None
        elif (arrow := re.match(r"-+> (\d+) (?!get_ipython)(.*)", line)) and number is not None:
            assert cells[number].splitlines()[int(arrow[1]) - 1].strip() == arrow[2].strip()


CATCH = (
    "try:\n    get_ipython().run_cell_magic('wool', '', {body!r})\nexcept BaseException as caught:\n    err = caught\n"
)


@pytest.mark.parametrize(
    ("body", "check", "expected"),
    [
        pytest.param(
            "raise Two(3, 'x')", "(type(err) is Two, err.code, err.text, str(err))", (True, 3, "x", "3: x"), id="two"
        ),
        pytest.param("raise KwOnly(code=4)", "(type(err) is KwOnly, err.code, err.args)", (True, 4, ()), id="keyword"),
        pytest.param("raise Slotted(5)", "(type(err) is Slotted, err.v)", (True, 5), id="slots"),
        pytest.param(
            "e = Plain(1); e.extra = [1]; raise e",
            "(type(err) is Plain, err.extra, err.args)",
            (True, [1], (1,)),
            id="attribute",
        ),
        pytest.param("e = Plain(); e.add_note('n'); raise e", "err.__notes__", ["n"], id="notes"),
        pytest.param("raise Plain from KeyError('k')", "repr(err.__cause__)", "KeyError('k')", id="cause"),
        pytest.param("raise SystemExit(3)", "(type(err).__name__, err.code)", ("SystemExit", 3), id="system exit"),
        pytest.param(
            "import sys; sys.exit('bye')", "(type(err).__name__, err.code)", ("SystemExit", "bye"), id="sys.exit"
        ),
        pytest.param("raise KeyboardInterrupt('k')", "repr(err)", "KeyboardInterrupt('k')", id="interrupt"),
        pytest.param("raise StopIteration(3)", "(repr(err), err.value)", ("StopIteration(3)", 3), id="stop"),
        pytest.param(
            "open('/no/such')",
            "(type(err).__name__, err.errno, err.filename)",
            ("FileNotFoundError", 2, "/no/such"),
            id="os",
        ),
        pytest.param("'é'.encode('ascii')", "(err.start, err.object)", (0, "é"), id="unicode"),
        pytest.param("import json; json.loads('{')", "(err.pos, err.doc)", (1, "{"), id="json"),
        pytest.param(
            "import subprocess; subprocess.run(['false'], check=True)",
            "(err.returncode, err.cmd)",
            (1, ["false"]),
            id="process",
        ),
        pytest.param(
            "raise ExceptionGroup('g', [Two(1, 'a'), KeyError(2)])",
            "(len(err.exceptions), type(err.exceptions[0]) is Two)",
            (2, True),
            id="group",
        ),
        pytest.param(
            "import threading; e = Plain('m'); e.lock = threading.Lock(); raise e",
            "(type(err) is Plain, str(err))",
            (True, "m"),
            id="unpicklable attribute",
        ),
        pytest.param("raise Plain(open('/dev/null'))", "type(err) is Plain", True, id="unpicklable argument"),
        pytest.param(
            "class Here(Exception): pass\nraise Here(1)",
            "(type(err) is Here, err.args)",
            (True, (1,)),
            id="class of the cell",
        ),
        pytest.param("err0 = Plain(1)\nraise err0", "err is err0", True, id="same object as a name"),
        pytest.param("raise old", "err is old", True, id="same object as an input"),
    ],
)
def test_an_error_arrives_with_type_and_content(kernel, body, check, expected):
    kernel.ok(ERRORS + "\nold = Plain('old')")
    kernel.ok(CATCH.format(body=body + "\n"))
    assert kernel.value(check) == expected


@pytest.mark.parametrize(
    "body", ["raise SystemExit(3)", "raise KeyboardInterrupt", "raise GeneratorExit", "1 / 0", "x = ("]
)
def test_after_an_error_the_next_cell_runs_on_the_same_worker(kernel, body):
    kernel.wool("import os; before = os.getpid()")
    kernel.run(wool(body))
    kernel.wool("after = os.getpid()")
    assert kernel.value("before == after")


def test_a_system_exit_looks_as_in_a_plain_cell(same):
    same("raise SystemExit(3)", after=["1"])


def lines_of(traceback):
    return re.findall(r"Cell In\[(\d+)\], line (\d+)", traceback)


@pytest.mark.parametrize(
    ("cell", "line"),
    [
        pytest.param("%%wool\n1 / 0", "2", id="first"),
        pytest.param("%%wool\n\n\n1 / 0", "4", id="blank lines"),
        pytest.param("\n\n%%wool\n1 / 0", None, id="blank lines above"),
        pytest.param("%%time\n%%wool\nx = 1\n1 / 0", "4", id="time above"),
        pytest.param("%%capture out\n%%wool\nx = 1\n1 / 0", "4", id="capture above"),
    ],
)
def test_a_traceback_shows_the_line_of_the_cell_once(kernel, cell, line):
    kernel.ok("pass")
    error = kernel.run(cell).error
    assert error.ename == "ZeroDivisionError"
    assert error.traceback.count("1 / 0") == 1
    assert error.traceback.count("Traceback (most recent call last)") == 1
    assert not re.search("wool_jupyter|run_cell_magic|interactiveshell", error.traceback)
    if line is not None:
        assert lines_of(error.traceback) == [("2", line)]


def test_a_traceback_shows_functions_of_other_cells_with_their_numbers(kernel):
    kernel.ok("def f(a):\n    return 1 / a")
    kernel.wool("def g(a):\n    return f(a)")
    error = kernel.wool_error("g(0)")
    assert lines_of(error.traceback) == [("3", "2"), ("2", "3"), ("1", "2")]


def test_an_error_in_a_function_of_a_wool_cell_called_by_a_plain_one_shows_its_line(kernel):
    kernel.wool("def g(a):\n    x = 1\n    return x / a")
    error = kernel.run("g(0)").error
    assert lines_of(error.traceback) == [("2", "1"), ("1", "4")]
    assert "return x / a" in error.traceback


def test_tb_and_debugger_state_know_the_last_error(kernel):
    kernel.wool_error("1 / 0")
    assert "ZeroDivisionError" in kernel.run("%tb").stdout + kernel.run("%tb").text("error") + str(
        kernel.run("%tb").error
    )
    assert kernel.value("type(__import__('sys').last_value).__name__") == "ZeroDivisionError"


def test_warnings_are_shown_once(same):
    same(
        "import warnings\nfor _ in range(3): warnings.warn('careful')\nwarnings.warn('other', DeprecationWarning)",
    )


def test_warnings_as_errors_follow_the_kernel(kernel):
    kernel.ok("import warnings; warnings.simplefilter('error')")
    assert kernel.wool_error("warnings.warn('careful')").ename == "UserWarning"


def test_ignored_warnings_follow_the_kernel(kernel):
    kernel.ok("import warnings; warnings.simplefilter('ignore')")
    assert kernel.wool("import warnings\nwarnings.warn('careful')").outputs == []


def test_an_error_stops_run_all(tmp_path):
    show = runpy.run_path(str(ROOT / "notebooks" / "show.py"))
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(s) for s in ("%load_ext wool_jupyter", "%%wool\na = 1\n1 / 0", "print('ran')")]
    )
    path = tmp_path / "n.ipynb"
    nbformat.write(notebook, path)
    client = show["client_for"](path)
    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        client.execute()
    assert client.nb.cells[2].outputs == []
    assert [output.output_type for output in client.nb.cells[1].outputs][-1] == "error"


@pytest.mark.parametrize(
    ("setup", "use", "words"),
    [
        pytest.param("import threading; x = threading.Lock()", "x", ["`x`", "lock"], id="lock"),
        pytest.param("x = (i for i in range(3))", "list(x)", ["`x`", "generator", "list"], id="generator"),
        pytest.param(
            "x = open('/dev/null')", "x.read()", ["`x`", "TextIOWrapper", "open it inside the cell"], id="file"
        ),
        pytest.param(
            "import threading\nx = threading.Thread(target=threading.Event().wait, daemon=True)\nx.start()",
            "x.join()",
            ["`x`", "Thread", "start it inside"],
            id="thread",
        ),
        pytest.param("x = get_ipython()", "x.user_ns", ["`x`"], id="shell"),
        pytest.param("x = memoryview(b'a')", "x[0]", ["`x`", "memoryview"], id="memoryview"),
    ],
)
def test_an_input_that_cannot_be_shipped_is_named_with_advice(kernel, setup, use, words):
    kernel.ok(setup)
    error = kernel.wool_error(use)
    assert error.ename == "CannotShip"
    for word in words:
        assert word in error.evalue
    assert len(error.traceback.splitlines()) == 1
    assert kernel.wool("1").value == "1"


@pytest.mark.parametrize(
    ("setup", "use", "words"),
    [
        pytest.param("x = {'a': [1, (i for i in ())]}", "next(x['a'][1])", ["`x['a'][1]`", "generator"], id="nested"),
        pytest.param(
            "class C: pass\nx = C(); x.conn = __import__('sqlite3').connect(':memory:')",
            "x.conn.cursor()",
            ["`x.conn`", "sqlite3.Connection", "connect inside the cell"],
            id="connection",
        ),
        pytest.param(
            "def mk():\n    g = (i for i in ())\n    def x(): return g\n    return x\nx = mk()",
            "next(x())",
            ["`x.<closure g>`", "generator"],
            id="closure",
        ),
        pytest.param(
            "class D: pass\nx = [D()]; x[0].f = open('/dev/null')", "x[0].f.read()", ["`x[0].f`"], id="attribute path"
        ),
    ],
)
def test_a_part_of_an_input_that_cannot_be_shipped_is_told_at_the_start_and_when_it_is_used(kernel, setup, use, words):
    kernel.ok(setup)
    assert kernel.wool("bool(id(x))").value == "True"
    result = kernel.run(wool(f"x\nprint('runs')\n{use}"))
    assert (result.stdout, result.error.ename) == ("runs\n", "StaysInKernel")
    for word in words:
        assert word in result.stderr
        assert word in result.error.evalue
    kernel.ok(use.replace("next(", "type("))


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        pytest.param("import threading; kept = threading.Lock()", "lock", id="lock"),
        pytest.param("kept = (i for i in range(3))", "generator", id="generator"),
        pytest.param("kept = open('/dev/null')", "TextIOWrapper", id="file"),
        pytest.param("import sqlite3; kept = sqlite3.connect(':memory:')", "Connection", id="connection"),
        pytest.param("kept = [1, (i for i in ())]", "(list|generator)", id="nested"),
        pytest.param("import socket; kept = socket.socket()", "socket", id="socket"),
    ],
)
def test_a_result_that_cannot_travel_is_named_and_the_others_arrive(kernel, make, kind):
    result = kernel.wool(f"first = 1\n{make}\nlast = [2]")
    assert re.fullmatch(rf"wool: `kept.*\(\S*{kind}\).*\n", result.stderr), result.stderr
    assert kernel.value("(first, last)") == (1, [2])


def test_an_error_whose_message_is_larger_than_ours_arrives_as_itself_and_loses_no_name(kernel):
    error = kernel.wool_error("bound = 1\nraise ValueError('x' * 20_000_000)")
    assert (error.ename, len(error.evalue)) == ("ValueError", 20_000_000)
    assert kernel.value("bound") == 1


def test_what_does_not_fit_into_a_message_is_said_in_our_words_and_the_next_cell_runs(kernel):
    kernel.ok("import os; os.environ.update({f'LARGE_{n}': 'z' * 100_000 for n in range(200)})")
    error = kernel.run("%%wool\n1").error
    assert (error.ename, error.evalue) == (
        "MessageTooLarge",
        "a message of 19.1 MiB is larger than 16 MiB, and was not sent: large data travels in variables",
    )
    kernel.ok("for n in range(200): del os.environ[f'LARGE_{n}']")
    assert kernel.wool("1 + 1").value == "2"
