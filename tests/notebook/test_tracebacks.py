import atexit
import io
import linecache
import pickle
import re
import sys

import cloudpickle
import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from wool_jupyter.errors import NoWorkersAvailable
from wool_jupyter.notebook.source import prepare_source
from wool_jupyter.notebook.tracebacks import show_natively, show_plainly
from wool_jupyter.wire import tracebacks as wire
from wool_jupyter.wire.exceptions import reduce_exception

# Its frames have to lie in the package. The body runs here, and its error makes the trip.
MAGIC = """
import pickle

def wool(line, cell):
    prepared = prepare_source(shell, cell)
    seen.append(prepared)
    try:
        exec(compile(prepared.source, prepared.filename, "exec"), {"__name__": "__main__"})
    except BaseException as raised:
        error = pickle.loads(dumped(raised))
    else:
        return
    arrive(error)

def arrive(error):
    show_natively(error, shell)
    raise error

def refused(line, cell):
    error = NoWorkersAvailable("all workers are gone")
    error.add_note("start some")
    show_plainly(error)
    raise error
"""


class Pickler(cloudpickle.Pickler):
    def reducer_override(self, obj):
        if isinstance(obj, BaseException):
            return reduce_exception(obj, portable=lambda value: True)
        return super().reducer_override(obj)


def dumped(value):
    stream = io.BytesIO()
    Pickler(stream, protocol=5).dump(value)
    return stream.getvalue()


class Notebook:
    def __init__(self, shell, capsys):
        self.shell, self.capsys, self.seen = shell, capsys, []
        names = {"seen": self.seen, "shell": shell, "__name__": "wool_jupyter.notebook.magics"}
        for used in (NoWorkersAvailable, dumped, prepare_source, show_natively, show_plainly):
            names[used.__name__] = used
        exec(compile(MAGIC, wire._PACKAGE + "notebook/magics.py", "exec"), names)
        for magic in ("wool", "refused"):
            shell.register_magic_function(names[magic], "cell", magic)

    def run(self, *lines, store=True):
        """What the cell shows, without rulers."""
        self.capsys.readouterr()
        self.result = self.shell.run_cell("\n".join(lines), store_history=store)
        out, err = self.capsys.readouterr()
        return re.sub(r"\x1b\[[0-9;]*m|-{10,}\n", "", out + err)


@pytest.fixture
def notebook(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)  # of whoever runs the suite; another one than ours is a warning
    # The shell puts itself in the place of these.
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    for name in ("displayhook", "excepthook"):
        monkeypatch.setattr(sys, name, getattr(sys, name))
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    config.InteractiveShell.xmode = "Context"
    shell = InteractiveShell.instance(config=config)
    yield Notebook(shell, capsys)
    atexit.unregister(shell.atexit_operations)
    shell.atexit_operations()
    InteractiveShell.clear_instance()
    for name in ("last_type", "last_value", "last_traceback", "last_exc"):
        vars(sys).pop(name, None)


def files(text):
    return re.findall(r"^ *(?:File (\S+)|Cell (In\[\d+\], line \d+))", text, flags=re.MULTILINE)


def lines(text):
    return [cell for _file, cell in files(text)]


def test_an_error_shows_the_lines_of_the_cell_only(notebook):
    notebook.run("1")
    text = notebook.run("%%wool", "def f(a):", "    return 1 / a", "f(0)")
    assert lines(text) == ["In[2], line 4", "In[2], line 3"]
    assert "ZeroDivisionError: division by zero" in text
    assert "magics.py" not in text
    assert "run_cell_magic" not in text
    assert isinstance(notebook.result.error_in_exec, ZeroDivisionError)


def test_a_shown_error_looks_the_same_in_tb_and_when_raised_again(notebook):
    text = notebook.run("%%wool", "1 / 0")
    assert lines(notebook.run("%tb")) == lines(text) == ["In[1], line 2"]
    again = notebook.run("import sys", "raise sys.last_value")
    assert lines(again) == ["In[3], line 2", "In[1], line 2"]


def test_a_shown_error_can_be_the_cause_of_a_plain_one(notebook):
    notebook.run("%%wool", "1 / 0")
    text = notebook.run("import sys", "raise ValueError from sys.last_value")
    assert lines(text) == ["In[1], line 2", "In[2], line 2"]
    assert "magics.py" not in text


def test_causes_show_their_own_lines(notebook):
    text = notebook.run("%%wool", "try:", "    {}['k']", "except KeyError as e:", "    raise ValueError from e")
    assert lines(text) == ["In[1], line 3", "In[1], line 5"]


def test_a_syntax_error_shows_its_line_and_no_frame(notebook):
    text = notebook.run("%%wool", "", "x = 1 +")
    assert lines(text) == ["In[1], line 3"]
    assert len(files(text)) == 1
    assert "SyntaxError: invalid syntax" in text


def test_a_group_shows_the_frames_of_the_cell_only(notebook):
    text = notebook.run("%%wool", "raise ExceptionGroup('g', [ValueError(1), TypeError(2)])")
    assert re.findall(r'File "(.*?)-\w+>", line (\d+)', text) == [("<ipython-input-1", "2")]
    assert "ValueError: 1" in text
    assert "magics.py" not in text


@pytest.mark.parametrize("body", ["x = 1 +", "raise ExceptionGroup('g', [ValueError(1)])"], ids=["syntax", "group"])
@pytest.mark.parametrize("call", ["shown", "caught"])
def test_no_handler_is_left_behind(notebook, body, call):
    before = notebook.shell.custom_exceptions, notebook.shell.CustomTB
    if call == "shown":
        notebook.run("%%wool", body)
    else:
        body = f"get_ipython().run_cell_magic('wool', '', {body!r})"
        notebook.run("try:", f"    {body}", "except Exception: pass")
    assert (notebook.shell.custom_exceptions, notebook.shell.CustomTB) == before
    assert notebook.shell.events.callbacks["post_run_cell"] == []


def test_an_unrelated_error_of_the_same_cell_is_not_hijacked(notebook):
    call = "get_ipython().run_cell_magic('wool', '', 'x = 1 +')"
    text = notebook.run("try:", f"    {call}", "except Exception: pass", "raise SyntaxError('mine')")
    assert "SyntaxError: mine" in text
    assert "invalid syntax" not in text
    assert notebook.shell.custom_exceptions == ()


def test_a_handler_of_the_user_gets_what_it_asked_for(notebook):
    got = []
    notebook.shell.set_custom_exc(
        (SyntaxError,), lambda shell, kind, value, tb, tb_offset=None: got.append((value, tb))
    )
    notebook.run("%%wool", "exec('x = (')")
    ((error, traceback),) = got
    assert error is notebook.result.error_in_exec
    assert traceback.tb_frame.f_code.co_filename.startswith("<ipython-input-1-")
    assert traceback.tb_next is None


def test_a_system_exit_looks_as_in_a_plain_cell(notebook):
    with pytest.warns(UserWarning, match="To exit"):
        plain = notebook.run("raise SystemExit(3)")
    with pytest.warns(UserWarning, match="To exit"):
        wool = notebook.run("%%wool", "raise SystemExit(3)")
    assert wool == plain


def test_a_keyboard_interrupt_shows_the_lines_of_the_cell(notebook):
    text = notebook.run("%%wool", "raise KeyboardInterrupt('mine')")
    assert lines(text) == ["In[1], line 2"]
    assert "KeyboardInterrupt: mine" in text


def test_verbose_mode_shows_the_locals(notebook):
    notebook.shell.InteractiveTB.set_mode("Verbose")
    text = notebook.run("%%wool", "def f(a, *rest):", "    total = a + 1", "    return total / 0", "f(3, 4)")
    assert "in f(a=3, *rest=(4,))" in text
    assert "total = 4" in text


def test_a_frozen_error_is_shown_and_matched(notebook):
    text = notebook.run(
        "%%wool",
        "from dataclasses import dataclass",
        "@dataclass(frozen=True)",
        "class FrozenError(Exception): code: int",
        "raise FrozenError(3)",
    )
    assert lines(text) == ["In[1], line 5"]
    assert notebook.result.error_in_exec.code == 3


def test_an_error_of_ours_is_one_line_and_its_notes(notebook):
    text = notebook.run("%%refused", "x")
    assert text == "NoWorkersAvailable: all workers are gone\nstart some\n"
    assert notebook.run("%tb").startswith(text)


def test_an_error_that_was_shown_can_still_be_pickled(notebook):
    notebook.run("%%wool", "1 / 0")
    assert pickle.loads(pickle.dumps(notebook.result.error_in_exec)).args == ("division by zero",)


@pytest.mark.parametrize(
    ("cell", "line"),
    [
        pytest.param(["%%wool", "1 / 0"], 2, id="plain"),
        pytest.param(["%%time", "%%wool", "1 / 0"], 3, id="time above"),
        pytest.param(["%%capture", "%%wool", "1 / 0"], 3, id="capture above"),
        pytest.param(["%%capture", "%%time", "%%wool -n 2", "", "1 / 0", "", ""], 5, id="two above and blank lines"),
        pytest.param(["", "", "%%wool", "", "  ", "1 / 0"], 6, id="blank lines"),
        pytest.param(["  %%wool", "  if True:", "    1 / 0"], 3, id="indented"),
        pytest.param(["%%wool", "!true", "%time", "1 / 0"], 4, id="magics inside"),
    ],
)
def test_lines_are_those_that_the_user_sees(notebook, cell, line):
    notebook.run("first = 1")
    notebook.run(*cell)
    (prepared,) = notebook.seen
    source = prepared.source.split("\n")
    assert source[line - 1].strip() == "1 / 0"
    assert prepared.number == 2
    assert notebook.shell.compile.format_code_name(prepared.filename) == ("Cell", "In[2]")
    assert linecache.getline(prepared.filename, line).strip() == "1 / 0"


def test_the_lines_above_the_body_are_comments(notebook):
    notebook.run("", "%%time", "%%wool -n 2", "", "x = 1")
    assert notebook.seen[0].source == "\n# %%time\n# %%wool -n 2\n\nx = 1\n"


def test_a_body_called_from_code_counts_from_one_line_above_it(notebook):
    text = notebook.run(
        "body = 'x = 1\\n1 / 0'", "def f():", "    get_ipython().run_cell_magic('wool', '', body)", "f()"
    )
    assert lines(text) == ["In[1], line 4", "In[1], line 3"]
    assert notebook.seen[0].source.startswith("# %%wool\nx = 1\n1 / 0")


def test_a_cell_without_history_has_its_lines_and_the_next_number(notebook):
    notebook.run("1")
    text = notebook.run("%%time", "%%wool", "1 / 0", store=False)
    assert "In[2], line 3" in text


def test_a_body_outside_any_cell_is_prepared(notebook):
    prepared = prepare_source(notebook.shell, "x = 1\n")
    assert prepared.source == "# %%wool\nx = 1\n"
