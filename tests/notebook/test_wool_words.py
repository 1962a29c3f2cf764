"""`%wool` in words: what it says, what it does, and what Tab offers."""

import re

import pytest

from tests.support.pools import pool_workers
from tests.support.waiting import wait_until
from wool_jupyter.notebook.commands import Commands
from wool_jupyter.notebook.magics import COMMANDS

WAITS = "%%wool\nimport threading\nprint('begun', flush=True)\nthreading.Event().wait()"


def status(kernel):
    """[uid's beginning, pid, state] of each worker."""
    text = kernel.ok("%wool status").stdout
    return [list(found) for found in re.findall(r"^worker (\w{8})  (?:pid (\d+))?\s+(\w+)", text, re.MULTILINE)]


def until_idle(kernel, workers):
    wait_until(lambda: [state for *_, state in status(kernel)] == ["idle"] * workers)


def said(kernel, line):
    result = kernel.run(line)
    return result.stdout + result.stderr


def option(kernel):
    return kernel.value("get_ipython().magics_manager.registry['Wool'].workers")


def test_scale_makes_the_pool_larger_and_smaller(fresh_kernel):
    assert "started a pool" in said(fresh_kernel, "%wool scale 1")
    assert said(fresh_kernel, "%wool scale 3") == "wool: the pool grows to 3 worker processes\n"
    until_idle(fresh_kernel, 3)
    assert said(fresh_kernel, "%wool scale 3") == "wool: the pool has 3 already\n"
    assert said(fresh_kernel, "%wool scale 1") == "wool: the pool shrinks to 1 worker process\n"
    until_idle(fresh_kernel, 1)
    wait_until(lambda: len(pool_workers(fresh_kernel.pid)) == 1)
    assert fresh_kernel.wool("print(1)").stdout == "1\n"
    assert option(fresh_kernel) == 1


def test_a_worker_that_keeps_a_value_stays_until_the_value_is_gone(fresh_kernel):
    fresh_kernel.ok("%wool start -n 2")
    until_idle(fresh_kernel, 2)
    fresh_kernel.wool("import os, threading\nkept = threading.Lock()\nhome = os.getpid()")
    assert "keeps 1 value of the notebook" in said(fresh_kernel, "%wool")
    fresh_kernel.ok("%wool scale 1")
    until_idle(fresh_kernel, 1)
    assert int(status(fresh_kernel)[0][1]) == fresh_kernel.value("home")
    fresh_kernel.ok("%wool scale 2")
    until_idle(fresh_kernel, 2)
    other = next(pid for _, pid, _ in status(fresh_kernel) if int(pid) != fresh_kernel.value("home"))
    fresh_kernel.wool("again = kept.locked()")
    assert fresh_kernel.value("again") is False
    fresh_kernel.ok("del kept")
    fresh_kernel.ok("get_ipython().run_line_magic('reset', '-f out')", store_history=False)
    wait_until(lambda: "keeps" not in said(fresh_kernel, "%wool"))
    assert other


def test_start_with_a_smaller_number_says_how_and_changes_nothing(fresh_kernel):
    fresh_kernel.ok("%wool start -n 2")
    assert (
        said(fresh_kernel, "%wool start -n 1") == "wool: a pool of 2 runs already; `%wool scale 1` makes it smaller\n"
    )
    assert option(fresh_kernel) == 2
    assert said(fresh_kernel, "%wool start") == "wool: a pool of 2 runs already\n"
    assert said(fresh_kernel, "%wool start -n 3") == "wool: the pool grows to 3 worker processes\n"
    assert option(fresh_kernel) == 3


def test_a_worker_is_restarted_by_the_beginning_of_its_name(fresh_kernel):
    fresh_kernel.ok("%wool start -n 1")
    (before,) = status(fresh_kernel)
    assert said(fresh_kernel, f"%wool restart {before[0][:5].upper()}") == (
        f"wool: ended worker {before[0]}, and another takes its place\n"
    )
    wait_until(lambda: [state for *_, state in status(fresh_kernel)] == ["dead", "idle"])
    assert "as was asked" in said(fresh_kernel, "%wool status")
    assert f"worker {before[0]} is dead" in said(fresh_kernel, f"%wool restart {before[0]}")
    assert fresh_kernel.wool("print(1)").stdout == "1\n"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("%wool scale", "takes a number of workers, as in `%wool scale 4`, not nothing"),
        ("%wool scale many", "not many"),
        ("%wool scale 0", "at least one worker, not 0; `%wool stop` ends it"),
        ("%wool scale -- -1", "at least one worker, not -1"),
        ("%wool scale -n 3", "takes no -n; `%wool scale 3` changes the number of workers"),
        ("%wool start 3", "`%wool start -n 3` would"),
        ("%wool stop now", "does not take `now`"),
        ("%wool restart 5f -n 2", "not both"),
        ("%wool start -n", "%wool start: -n needs a number after it; `%wool help` tells more"),
        ("%wool logs -n all", "%wool logs: -n takes a number, and `all` is none; `%wool help` tells more"),
        ("%wool stop --now", "%wool stop: unrecognized arguments: --now; `%wool help` tells more"),
        ("%wool restart zz", "there is no worker `zz`; those of the pool are "),
        ("%wool interrupt zz", "there is no worker `zz`"),
        ("%wool interrupt", "no worker runs anything"),
    ],
)
def test_what_makes_no_sense_is_said(kernel, line, words):
    text = said(kernel, line)
    assert words in text
    assert "Traceback" not in text


def test_of_many_workers_some_are_named(fresh_kernel):
    fresh_kernel.ok("%wool start -n 10")
    text = said(fresh_kernel, "%wool restart zz")
    assert re.fullmatch(r"UsageError: there .* are (\w{8}, ){7}\w{8} and 2 more \(`%wool status`\)\n", text)


def test_more_workers_than_a_pool_can_have_are_refused_and_nothing_changes(fresh_kernel):
    def refused(line):
        error = fresh_kernel.run(line).error
        assert error.ename == "StartFailed"
        assert re.fullmatch(r"A pool has at most \d+ workers here, and 10000 were asked for", error.evalue)
        assert "wool_jupyter/" not in error.traceback

    refused("%wool start -n 10000")
    assert "no pool runs" in said(fresh_kernel, "%wool status")
    assert option(fresh_kernel) is None
    fresh_kernel.ok("%wool start -n 1")
    refused("%wool scale 10000")
    refused("%wool start -n 10000")
    assert option(fresh_kernel) == 1
    assert len(status(fresh_kernel)) == 1
    fresh_kernel.ok("%wool stop\n%config Wool.workers = 10000")
    refused("%%wool\n1")


@pytest.mark.parametrize("line", ["%wool interrupt", "%wool restart 5f"])
def test_without_a_pool_it_says_so(fresh_kernel, line):
    assert "no pool runs; the next %%wool cell starts one" in said(fresh_kernel, line)


@pytest.mark.parametrize("body", ["%wool status", "%load_ext wool_jupyter\n%wool status", "%wool"])
def test_on_a_worker_it_says_where_it_belongs(kernel, body):
    result = kernel.run("%%wool\n" + body)
    assert "this cell runs on a worker: put it into a cell without %%wool" in result.stderr
    assert "no pool runs" not in result.stdout


@pytest.mark.parametrize(
    "line", ["%history -n", "%store numbers", "%rerun 1", "%save cells.py 1-3", "%notebook here.ipynb"]
)
def test_what_is_about_the_session_is_told_where_it_belongs(kernel, tmp_path, line):
    kernel.ok("numbers = [1]")
    result = kernel.run(f"%%wool\n{line.format(tmp_path)}\nprint('went on')")
    name = line.partition(" ")[0]
    assert result.stderr == (
        f"UsageError: `{name}` is about the notebook's session, and this cell runs on a worker: put it into a cell without %%wool\n"
    )
    assert result.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_a_magic_that_only_the_notebook_has_is_told_to_need_the_cell(kernel):
    hint = "wool: only the notebook has `{}`: a worker needs it to be loaded or made in this cell, too\n"
    register = "from IPython.core.magic import register_line_magic, register_cell_magic\n"
    register += "@register_line_magic\ndef shout(line): print(line.upper())\n"
    register += "@register_cell_magic\ndef louder(line, cell): print(cell.upper())\n"
    kernel.ok(register)
    line, cell = (kernel.run(f"%%wool\n{use}").stderr for use in ("%shout it", "%%louder\nit"))
    assert line == hint.format("%shout") + "UsageError: Line magic function `%shout` not found.\n"
    assert cell == hint.format("%%louder") + "UsageError: Cell magic `%%louder` not found.\n"
    assert kernel.wool(f"{register}get_ipython().run_line_magic('shout', 'it')").stdout == "IT\n"
    assert "wool:" not in kernel.run("%%wool\n%run nosuch.py\n").stderr


@pytest.mark.parametrize("above", ["%%wool", "# wool", "%%wool\n%%time"])
def test_a_second_magic_on_a_worker_is_told_that_one_is_enough(kernel, above):
    result = kernel.run(f"{above}\n%%wool --bg\nprint('ran')")
    assert result.stderr.startswith("UsageError: this cell runs on a worker already: it needs one `%%wool`")
    assert result.status == "error"
    assert "ran" not in result.stdout


def test_help_tells_of_every_command_and_option(kernel):
    text = said(kernel, "%wool help")
    assert text == said(kernel, "%wool --help") == said(kernel, "%wool -h") == said(kernel, "%%wool --help\n")
    for word in COMMANDS:
        assert re.search(rf"^  {word}\b.*  \w", text, re.MULTILINE), word
    of_a_cell = said(kernel, "%%wool --help\nprint('ran')")
    assert text.startswith(of_a_cell.partition("\n\nThe cell has not run.")[0])
    for option in ("-i NAMES", "-o NAMES", "--bg"):
        assert re.search(rf"^  {option} +\w", of_a_cell, re.MULTILINE), option
    assert "\nran" not in of_a_cell
    assert max(map(len, text.splitlines())) <= 98


@pytest.mark.parametrize("line", ["%wool scale --help", "%wool -h scale"])
def test_help_of_a_command_does_nothing_else(kernel, line):
    before = option(kernel)
    text = said(kernel, line)
    assert "%wool scale N\n" in text or "scale N " in text
    assert option(kernel) == before


def test_help_is_a_command_and_a_call_of_help_is_none(kernel):
    assert "Help on built-in function abs" in kernel.ok("%wool help(abs)").stdout


def test_a_death_is_told_with_its_time(fresh_kernel):
    fresh_kernel.ok("%wool start -n 1")
    fresh_kernel.wool_error("import os; os._exit(1)")
    assert re.search(r"exited with code 1, \d+ s ago$", said(fresh_kernel, "%wool status"), re.MULTILINE)


KEEPS = "%%wool\nimport threading\ngen = (i for i in range(5))\nlock = threading.Lock()"
GONE = "`{}` ({}) lived on a worker that is gone: run In[{}] again, which made it"


@pytest.mark.parametrize("line", ["%wool stop", "%wool restart", "%wool restart {}", "import os; os.kill({}, 9)"])
def test_values_whose_worker_was_ended_are_named_and_look_gone(fresh_kernel, line):
    fresh_kernel.ok("%wool start -n 1")
    (worker,) = status(fresh_kernel)
    made = fresh_kernel.ok(KEEPS).execution_count
    fresh_kernel.ok("box = [gen]")
    text = said(fresh_kernel, line.format(worker[1 if "kill" in line else 0]))
    if "kill" not in line:
        assert f"; what lived there is gone: `gen` of In[{made}], `lock` of In[{made}]\n" in text
    gone = GONE.format("gen", "generator", made)
    wait_until(lambda: fresh_kernel.ok("gen").value == f"<{gone}>")
    assert fresh_kernel.ok("box").value == f"[<{gone}>]"
    assert fresh_kernel.run("next(gen)").error.evalue == gone
    assert fresh_kernel.wool_error("next(gen)").evalue == gone
    assert "keeps" not in said(fresh_kernel, "%wool status")
    assert fresh_kernel.ok(KEEPS + "\nnext(gen)").value == "0"
    assert "kept on a worker: use it in a %%wool cell" in fresh_kernel.ok("gen").value


def test_a_value_that_was_shown_as_its_worker_shows_it_is_not_when_that_is_gone(fresh_kernel):
    assert fresh_kernel.wool("(i for i in ())").value.startswith("<generator")
    fresh_kernel.ok("shown = _")
    fresh_kernel.ok("%wool stop")
    assert "lived on a worker that is gone" in fresh_kernel.ok("shown").value


def test_only_what_lived_on_the_worker_that_is_restarted_is_gone(fresh_kernel):
    fresh_kernel.ok("%wool start -n 2")
    fresh_kernel.ok(KEEPS)
    home = next(uid for uid, *_ in status(fresh_kernel) if "keeps" in line_of(fresh_kernel, uid))
    other = next(uid for uid, *_ in status(fresh_kernel) if uid != home)
    assert "is gone" not in said(fresh_kernel, f"%wool restart {other}")
    assert "kept on a worker" in fresh_kernel.ok("gen").value
    assert "is gone" in said(fresh_kernel, f"%wool restart {home}")


def line_of(kernel, uid):
    return next(line for line in said(kernel, "%wool status").splitlines() if uid in line)


def test_interrupt_reaches_what_no_main_thread_waits_for(fresh_kernel):
    """Told as to a panel, whose cell it is: the notebook's own main thread can't type while it waits."""
    fresh_kernel.ok("%wool start -n 1")
    cell = fresh_kernel.begin(
        "import threading\n"
        "line = threading.Timer(1, get_ipython().run_line_magic, ('wool', 'interrupt'))\n"
        "line.start()\n"
        "get_ipython().run_cell_magic('wool', '', 'import threading; threading.Event().wait()')"
    )
    assert cell.result().error.ename == "KeyboardInterrupt"
    assert [state for *_, state in status(fresh_kernel)] == ["idle"]


def offered(kernel, code):
    message = kernel.client.complete(code, len(code))
    while True:
        reply = kernel.client.get_shell_msg(timeout=60)
        if reply["parent_header"]["msg_id"] == message:
            return reply["content"]["matches"]


def test_tab_offers_words_workers_options_and_names(fresh_kernel):
    fresh_kernel.ok("%wool start -n 1\ndata = [1]\n_hidden = 2")
    uid = status(fresh_kernel)[0][0]
    for code, words in {
        "x = 1\n%wool st": ["start", "status", "stop"],
        "view = %wool da": ["dashboard"],
        "%wool restart ": [uid],
        f"%wool interrupt {uid[:2]}": [uid],
        "%%wool --o": ["--output"],
        "%%wool -i da": ["data"],
        "%%wool -o ": ["data"],
        "\n%%wool --in": ["--input"],
    }.items():
        assert offered(fresh_kernel, code) == words, code
    assert {"dashboard", "doctor", "interrupt", "logs", "restart", "scale", "start", "status", "stop"} <= set(
        offered(fresh_kernel, "%wool ")
    )
    for code in ("%%wool -", "%%wool -i data -"):
        assert {"--bg", "--input", "--output", "-i", "-o"} <= set(offered(fresh_kernel, code)), code
    for code in ("%wool restart x ", "%%wool\n--o", "%wool status st"):
        assert not {"--output", "start", uid} & set(offered(fresh_kernel, code)), code
    assert offered(fresh_kernel, "%%wool\ndata.appe") == ["append"]


def test_tab_offers_it_once_when_the_extension_is_loaded_again_and_not_after_it_was_unloaded(fresh_kernel):
    fresh_kernel.ok("%reload_ext wool_jupyter")
    assert offered(fresh_kernel, "%wool sta") == ["start", "status"]
    fresh_kernel.ok("%unload_ext wool_jupyter")
    assert "status" not in offered(fresh_kernel, "%wool sta")


def test_a_request_that_needs_a_pool_or_makes_no_sense_is_answered_at_once():
    """Without a kernel, and without what a pool needs."""
    answers = []
    Commands(None).obey({"do": "interrupt", "worker": "ab"}, answers.append, deaf=False)
    Commands(None).obey("nonsense", answers.append, deaf=False)
    assert answers == [
        {"did": "interrupt", "error": "no pool runs"},
        {"did": None, "error": "not understood: 'nonsense'"},
    ]
