"""IPython in a terminal, as somebody types into it."""

import os
import re
import sys
from contextlib import contextmanager

import pexpect
import pytest

from tests.support import pools
from tests.support.pools import lives
from tests.support.waiting import wait_until
from wool_jupyter.discovery import root

TIMEOUT_S = 30
MORE = r" {3}\.\.\.: "
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


class Terminal:
    def __init__(self, process: pexpect.spawn) -> None:
        self.process = process
        self._number = 1
        self._until_prompt()

    def _until_prompt(self) -> str:
        self.process.expect(rf"In \[{self._number}\]: ", timeout=TIMEOUT_S)
        self._number += 1
        return ESCAPES.sub("", self.process.before).replace("\r\n", "\n")

    def run(self, line: str) -> str:
        """What a line shows, its echo included, when the next prompt is there."""
        self.process.sendline(line)
        return self._until_prompt()

    def type(self, cell: str) -> str:
        """A cell line by line: two blank ones end a cell magic."""
        first, *others = [*cell.splitlines(), "", ""]
        self.process.sendline(first)
        for line in others:
            self.process.expect(MORE, timeout=TIMEOUT_S)
            self.process.sendline(line)
        return self._until_prompt()

    def magic(self, body: str, *, until: str) -> None:
        """Begins a cell, and returns when it has shown `until` on a line of its own."""
        self.process.sendline(f"get_ipython().run_cell_magic('wool', '', {body!r})")
        self.process.expect(rf"\n{until}", timeout=TIMEOUT_S)

    def interrupt(self) -> str:
        self.process.sendintr()
        return self._until_prompt()

    def leave(self) -> str:
        self.process.sendline("exit")
        self.process.expect(pexpect.EOF, timeout=TIMEOUT_S)
        self.process.close()
        return self.process.before.replace("\r\n", "\n")


@contextmanager
def opened(tmp_path):
    process = pexpect.spawn(
        sys.executable,
        ["-m", "IPython", "--simple-prompt", "--no-banner", "--no-confirm-exit", "--colors=NoColor"],
        cwd=str(tmp_path),
        env={**os.environ, "IPYTHONDIR": str(tmp_path / ".ipython"), "TERM": "dumb"},
        encoding="utf-8",
        dimensions=(60, 200),
    )
    process.delaybeforesend = None
    try:
        yield Terminal(process)
    finally:
        process.close(force=True)


@pytest.fixture
def terminal(tmp_path):
    """With the extension loaded."""
    with opened(tmp_path) as terminal:
        assert terminal.run("%load_ext wool_jupyter").strip() == "%load_ext wool_jupyter"
        yield terminal


@pytest.fixture
def pool_terminal(terminal):
    """With a pool, too."""
    assert "started a pool" in terminal.type("%%wool\nmade = 20")
    return terminal


def test_typed_cell_prints_shows_its_value_and_binds_its_names(terminal):
    shown = terminal.type("%%wool\nprint('hello from', __name__); x = 20\nx + 1")
    assert shown.endswith(
        "\nwool: started a pool of 2 worker processes for this notebook\nhello from __main__\nOut[2]: 21\n\n"
    )
    assert terminal.run("x * 2").endswith("\nOut[3]: 40\n\n")
    assert terminal.run("_2").endswith("\nOut[4]: 21\n\n")


def test_cell_reads_what_was_typed_before(pool_terminal):
    pool_terminal.run("def double(n): return 2 * n\n")
    assert "Out" in pool_terminal.type("%%wool\ndouble(made)")


@pytest.mark.parametrize(
    "cell",
    [
        "import sys; print(sys.stdout.isatty(), sys.stderr.isatty())",
        "import shutil; print(shutil.get_terminal_size())",
        "print(type(get_ipython()).__name__)",
        "from IPython.display import HTML; display(HTML('<b>x</b>'), [1] * 3, 'text')",
        "from tqdm.auto import tqdm; print(tqdm.__module__)",
        "from rich import print as p; p('[bold]b[/bold]', {'a': [1]})",
        "import pandas; pandas.DataFrame({'a': [1, 2]})",
        "import ipywidgets; display(ipywidgets.IntSlider(value=3))",
        "!echo from the shell; echo and err >&2",
        "len?",
        "get_ipython().showtraceback((ValueError, ValueError('shown'), None))",
        "import os; os.write(1, b'by descriptor\\n');",
    ],
)
def test_cell_shows_what_a_plain_one_shows(pool_terminal, cell):
    shown = pool_terminal.run(cell).removeprefix(cell).strip()
    woolly = pool_terminal.type(f"%%wool\n{cell}").strip()
    assert _unnumbered(woolly) == _unnumbered(shown)
    assert shown or cell.startswith("len")


def test_a_call_displays_what_a_plain_one_does(pool_terminal):
    pool_terminal.run("from IPython.display import HTML; import wool_jupyter")
    pool_terminal.run("shows = lambda: display(HTML('<b>x</b>'), [1] * 3, 'text')")
    shown = pool_terminal.run("shows()").removeprefix("shows()")
    assert "[1, 1, 1]\n" in shown
    call = "wool_jupyter.pool().submit(shows).result()"
    assert pool_terminal.run(call).removeprefix(call) == shown


def _unnumbered(text: str) -> str:
    return re.sub(r"Out\[\d+\]", "Out[n]", text)


def test_line_and_comment_do_the_same(pool_terminal):
    assert pool_terminal.run("%wool made + 1").endswith("Out[3]: 21\n\n")
    assert pool_terminal.run("twice = %wool made * 2").count("\n") <= 3
    assert pool_terminal.run("twice").endswith("Out[5]: 40\n\n")
    assert pool_terminal.type("# wool\nprint('there'); twice + 1").endswith("there\nOut[6]: 41\n\n")


def test_error_shows_the_line_of_the_cell(pool_terminal):
    shown = pool_terminal.type("%%wool\nbefore = 1\nbefore / 0")
    assert "\nCell In[3], line 3\n" in shown
    assert "----> 3 before / 0" in shown
    assert "\nZeroDivisionError: division by zero\n" in shown
    assert shown.count("Traceback") == 1
    assert "wool_jupyter/" not in shown
    assert pool_terminal.run("before").endswith("Out[4]: 1\n\n")


def test_syntax_error_shows_the_line_of_the_cell(pool_terminal):
    shown = pool_terminal.run(r"get_ipython().run_cell_magic('wool', '', 'good = 1\nbad = = 2\n')")
    assert "bad = = 2" in shown
    assert "SyntaxError: invalid syntax" in shown
    assert "wool_jupyter/" not in shown


def test_control_c_ends_a_loop_and_the_next_cell_works(pool_terminal):
    pool_terminal.magic("print('begun', flush=True)\nwhile True: pass\n", until="begun")
    shown = pool_terminal.interrupt()
    assert "\nKeyboardInterrupt" in shown
    assert "----> 3 while True: pass" in shown
    assert "wool_jupyter/" not in shown
    assert "Out" in pool_terminal.type("%%wool\nmade + 1")


def test_control_c_that_the_cell_handles_is_no_error(pool_terminal):
    body = (
        "import threading\ntry:\n    print('begun', flush=True)\n    threading.Event().wait()\n"
        "except KeyboardInterrupt:\n    saved = True\n"
    )
    pool_terminal.magic(body, until="begun")
    assert "Traceback" not in pool_terminal.interrupt()
    assert pool_terminal.run("saved").endswith("Out[4]: True\n\n")


def test_control_c_at_the_prompt_leaves_the_workers_alone(pool_terminal):
    process = pool_terminal.process
    before = pools.pool_processes(process.pid)
    process.sendintr()
    process.expect("KeyboardInterrupt", timeout=TIMEOUT_S)
    assert "Out" in pool_terminal.type("%%wool\nmade + 1")
    assert all(map(lives, before))


def test_cell_asks_at_the_terminal(pool_terminal):
    pool_terminal.magic("answer = input('who? ')\n", until=r"who\? ")
    pool_terminal.run("me, of course")
    assert pool_terminal.run("answer").endswith("Out[4]: 'me, of course'\n\n")


def test_worker_that_dies_is_an_error_and_the_next_cell_works(pool_terminal):
    shown = pool_terminal.type("%%wool\nprint('last words')\nimport os; os._exit(3)")
    assert "last words" in shown
    assert "exited with code 3" in shown
    assert "wool_jupyter/" not in shown
    assert "Out" in pool_terminal.type("%%wool\nmade + 1")


@pytest.mark.parametrize("way", ["exit", "end-of-file", "hang-up", "kill"])
def test_end_of_ipython_leaves_no_process_and_no_directory(pool_terminal, way):
    process = pool_terminal.process
    namespace = root.kernel_namespace(f"pid {process.pid}")
    wait_until(lambda: len(pools.pool_workers(process.pid)) == 2)
    processes = pools.pool_processes(process.pid)
    assert pools.pool_directories(namespace)

    if way == "exit":
        assert pool_terminal.leave().strip() == "exit"
        assert process.exitstatus == 0
    elif way == "end-of-file":
        process.sendeof()
        process.expect(pexpect.EOF, timeout=TIMEOUT_S)
        assert process.before.strip() == ""
    elif way == "hang-up":
        process.close(force=False)
    else:
        process.kill(9)

    wait_until(lambda: not any(map(lives, processes)), 10)
    wait_until(lambda: not pools.pool_directories(namespace), 10)


def test_exit_right_after_loading_is_quiet(terminal):
    assert terminal.leave().strip() == "exit"
    assert terminal.process.exitstatus == 0


def test_a_background_cell_prints_where_the_cursor_is_and_binds_before_the_next_cell(pool_terminal, tmp_path):
    gate = tmp_path / "gate"
    body = f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)\nprint('from the job')\nanswer = 6\n7"
    assert "wool: job 1 " in pool_terminal.run(f"get_ipython().run_cell_magic('wool', '--bg', {body!r})")
    pool_terminal.process.sendline("answer")
    pool_terminal.process.expect("wool: waits for job 1 ", timeout=TIMEOUT_S)
    gate.touch()
    pool_terminal.process.expect(r"In \[5\]: ", timeout=TIMEOUT_S)
    shown = ESCAPES.sub("", pool_terminal.process.before).replace("\r\n", "\n")
    assert "from the job\n7\n" in shown
    assert "wool: job 1 is done after" in shown
    assert shown.endswith("Out[4]: 6\n\n")


def test_a_background_error_is_shown_before_the_next_cell(pool_terminal):
    pool_terminal.run("get_ipython().run_cell_magic('wool', '--bg', '1 / 0')")
    shown = pool_terminal.run("%wool wait")
    assert "----> 2 1 / 0" in shown
    assert "ZeroDivisionError: division by zero" in shown
    assert "wool_jupyter/" not in shown


def begin_job_behind(gate, terminal, body=""):
    """It does `body` when there is such a file."""
    waits = f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)\n"
    terminal.run(f"get_ipython().run_cell_magic('wool', '--bg', {waits + body!r})")


def test_the_end_of_a_job_is_told_once_and_again_when_asked(pool_terminal, tmp_path):
    gate = tmp_path / "gate"
    begin_job_behind(gate, pool_terminal)
    pool_terminal.process.sendline("%wool wait")
    pool_terminal.process.expect("wool: waits for job 1", timeout=TIMEOUT_S)
    gate.touch()
    pool_terminal.process.expect(r"In \[5\]: ", timeout=TIMEOUT_S)
    assert pool_terminal.process.before.count("wool: job 1 is done after") == 1
    pool_terminal.process.sendline("%wool wait 1")
    pool_terminal.process.expect(r"In \[6\]: ", timeout=TIMEOUT_S)
    assert pool_terminal.process.before.count("wool: job 1 is done after") == 1


def test_control_c_ends_the_wait_for_a_name_and_not_the_job(pool_terminal, tmp_path):
    gate = tmp_path / "gate"
    begin_job_behind(gate, pool_terminal, "answer = 6")
    pool_terminal.process.sendline("answer")
    pool_terminal.process.expect("wool: waits for job 1 ", timeout=TIMEOUT_S)
    shown = pool_terminal.interrupt()
    assert "goes on; this cell has not run" in shown
    assert "KeyboardInterrupt" in shown
    gate.touch()
    assert pool_terminal.run("answer").endswith("Out[5]: 6\n\n")


def test_leaving_while_a_job_runs_says_so_and_ends_it(pool_terminal):
    pool_terminal.run("get_ipython().run_cell_magic('wool', '--bg', 'import time; time.sleep(600)')")
    processes = pools.pool_processes(pool_terminal.process.pid)
    assert "wool: job 1 had not ended" in pool_terminal.leave()
    wait_until(lambda: not any(map(lives, processes)), 10)


def test_pool_is_shown_and_scaled_in_words(pool_terminal):
    assert re.search(r"\nworker \w{8}  pid \d+  idle .* 1 done", pool_terminal.run("%wool status"))
    assert re.search(r"Out\[\d+\]: ?\n?worker \w{8}  pid \d+  idle ", pool_terminal.run("%wool dashboard"))
    assert "the pool shrinks to 1 worker process" in pool_terminal.run("%wool scale 1")
    assert "no worker runs anything" in pool_terminal.run("%wool interrupt")
