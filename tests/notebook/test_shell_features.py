"""Magics, help and completion: a cell body is IPython."""

import re

import pytest

from tests.support.kernel import plain, wool

CELLS = [
    pytest.param("%pwd", id="%pwd"),
    pytest.param("%env HOME", id="%env"),
    pytest.param("%precision 3\n1 / 3", id="%precision"),
    pytest.param("%pinfo len", id="%pinfo"),
    pytest.param("len?", id="help mark"),
    pytest.param("len??", id="source marks"),
    pytest.param("f?", id="help of an own function"),
    pytest.param("f??", id="source of an own function"),
    pytest.param("%psource f", id="%psource"),
    pytest.param("%pdoc f", id="%pdoc"),
    pytest.param("%who_ls", id="%who_ls"),
    pytest.param("a = %who_ls int\na", id="magic assignment"),
    pytest.param("%system echo hi", id="%system"),
    pytest.param("%sx echo hi", id="%sx"),
    pytest.param("!!echo hi", id="double bang"),
    pytest.param("!echo out; echo err >&2; exit 3\n_exit_code", id="status of a command"),
    pytest.param("!kill -9 $$\n_exit_code", id="signal of a command"),
    pytest.param("!printf 'caf\\303\\251 \\377 \\303'; test -t 1 && stty size", id="a command at a terminal"),
    pytest.param("%alias hi echo hello\n%hi", id="%alias"),
    pytest.param("%xmode Minimal\n", id="%xmode"),
    pytest.param("%load_ext autoreload\n%autoreload 2", id="autoreload"),
    pytest.param("%config InlineBackend.figure_format = 'svg'\n", id="%config"),
    pytest.param("get_ipython().run_line_magic('pwd', '')", id="run_line_magic"),
    pytest.param("get_ipython().run_cell('z = n + 1; print(z)').success", id="run_cell"),
    pytest.param("get_ipython().system('echo hi')", id="system"),
    pytest.param("get_ipython().getoutput('echo hi')", id="getoutput"),
    pytest.param("get_ipython().__class__.__name__, 'IPKernelApp' in get_ipython().config", id="notebook detection"),
    pytest.param("%psearch n*", id="%psearch"),
    pytest.param("from IPython import get_ipython as g\ng() is get_ipython()", id="get_ipython"),
    pytest.param("exec(get_ipython().transform_cell('!echo hi'))", id="transform_cell"),
    pytest.param("%run {path}", id="%run"),
    pytest.param("%run -i {path}", id="%run -i"),
    pytest.param("%set_env WOOL_SUITE=1\nimport os; os.environ['WOOL_SUITE']", id="%set_env"),
    pytest.param("x = 5; x\nx + 1;", id="only the last is shown"),
    pytest.param("a = 1 if True else 2; a", id="expression after a statement"),
    pytest.param("import asyncio\nx = await asyncio.sleep(0, 3); x", id="await"),
    pytest.param("import asyncio\nasync def c(i): return i\nawait asyncio.gather(c(1), c(2))", id="gather"),
    pytest.param("async with __import__('contextlib').AsyncExitStack() as st: print('in')\ndel st", id="async with"),
    pytest.param("[i async for i in ag()]", id="async comprehension"),
    pytest.param("words", id="list"),
    pytest.param("from __future__ import annotations\ndef g(a: nothing): pass\ng.__annotations__", id="future"),
    pytest.param("print('a') # comment ?", id="comment with a mark"),
    pytest.param("'''text\n%not magic\n!not shell\n'''", id="magic in text"),
    pytest.param(">>> n + 1", id="prompt"),
    pytest.param("    n + 1", id="indented"),
    pytest.param("n + 1  # \\\n", id="backslash"),
    pytest.param("words[0].\\\n  upper()", id="continued line"),
]


@pytest.mark.parametrize("cell", CELLS)
def test_a_shell_feature_works_as_in_a_plain_cell(kernel, tmp_path, cell):
    path = tmp_path / "script.py"
    path.write_text("made = 3\nprint('script', __name__, globals().get('n'))\n")
    before = [
        f"path = {str(path)!r}; n = 41; words = ['a']\ndef f(a):\n    'doc of f'\n    return a\nasync def ag():\n    yield n"
    ]
    seen = []
    for kind in (plain, wool):
        kernel.reset()
        kernel.ok(before[0])
        kernel.ok(kind("%precision %r\n%xmode Context"))
        result = kernel.run(kind(cell))
        payload = [{**each, "data": re.sub(r"0x\w+|File: .*", "", str(each.get("data")))} for each in result.payload]
        left = kernel.ok("sorted(k for k in globals() if k in 'made z a x'.split()), n").value
        seen.append((result.as_seen(), payload, left))
    kernel.ok("%precision %r\n%xmode Context")
    assert seen[1] == seen[0]


def test_help_about_the_magics_shows_examples(kernel):
    for code, example in (("%%wool?", "%%wool\n"), ("%wool?", "%wool start -n 4")):
        ((page,),) = (kernel.ok(code).payload,)
        assert example in page["data"]["text/plain"]
        assert "Examples" in page["data"]["text/plain"]


@pytest.mark.parametrize(
    "code",
    [
        "%%wool --nonsense\npass",
        "%%wool -x 3\npass",
        "%%wool extra\npass",
        "%wool nonsense",
        "%wool start -n",
        "%wool start -n x",
        "%wool start -n 0",
        "%wool start -n -1",
        "%wool stop -n 2",
        "%wool status --nonsense",
    ],
)
def test_a_wrong_option_is_one_line_of_usage_error(kernel, code):
    result = kernel.run(code)
    assert result.status == "error"
    assert result.stderr.startswith("UsageError: ")
    assert len(result.stderr.splitlines()) == 1
    assert result.kinds == ["stderr"]


def test_loading_twice_and_reloading_do_no_harm(fresh_kernel):
    assert fresh_kernel.ok("%reload_ext wool_jupyter").outputs == []
    assert "already loaded" in fresh_kernel.ok("%load_ext wool_jupyter").stdout
    fresh_kernel.wool("x = 1")
    fresh_kernel.ok("%reload_ext wool_jupyter")
    assert fresh_kernel.wool("x").value == "1"


def test_an_option_that_can_not_be_does_not_end_a_reload(fresh_kernel):
    fresh_kernel.run("%config Wool.workers = 'many'")
    notice = fresh_kernel.ok("%reload_ext wool_jupyter").stderr
    assert re.fullmatch(
        r"wool: the options of Wool are left out: .*'workers'.* expected an int, not the str 'many'\.\n", notice
    )
    assert fresh_kernel.value("[type(each).__name__ for each in get_ipython().configurables].count('Wool')") == 1
    assert "pool of 3 " in fresh_kernel.ok("%config Wool.workers = 3\n%wool start").stdout
    assert fresh_kernel.ok("%reload_ext wool_jupyter").stderr == ""


def test_unloading_takes_the_magics_away_and_stops_the_pool(fresh_kernel):
    pid = fresh_kernel.wool("import os; os.getpid()").value
    fresh_kernel.ok("%unload_ext wool_jupyter")
    assert not fresh_kernel.value(f"__import__('os').path.exists('/proc/{pid}')")
    assert "not found" in fresh_kernel.run("%%wool\npass").stderr
    assert "not found" in fresh_kernel.run("%wool status").stderr
    fresh_kernel.ok("%load_ext wool_jupyter")
    assert fresh_kernel.wool("1").value == "1"


def test_loading_imports_nothing_heavy(fresh_kernel):
    assert (
        fresh_kernel.value("[m for m in ('grpc', 'numpy', 'pandas', 'cloudpickle') if m in __import__('sys').modules]")
        == []
    )


def test_an_empty_cell_does_nothing(kernel):
    for body in ("#", "# only a comment", "pass"):
        assert kernel.wool(body).outputs == []


def test_a_cell_run_by_run_cell_magic_in_a_loop_binds(kernel):
    kernel.ok("total = 0\nfor i in range(3):\n    get_ipython().run_cell_magic('wool', '', 'total += i')")
    assert kernel.value("total") == 3


def test_a_cell_within_a_cell_is_refused_in_words_or_runs(kernel):
    result = kernel.run("%%wool\n%%wool\nx = 1\nprint(x)")
    assert "Traceback" not in result.stderr
    assert result.status == "ok" or result.error is None or "wool" in result.error.evalue


def test_history_keeps_the_cell_as_typed(kernel, same):
    kernel.wool("x = 1")
    assert kernel.value("In[-2] if In[-1].startswith('print') else In[-1]").startswith(
        ("%%wool", "get_ipython().run_cell_magic('wool'")
    )
    same("1", after=["len(In)"])
