"""`%wool expression` in a line, and `# wool` as the first line of a cell."""

import pytest


@pytest.fixture
def kernel(kernel):
    kernel.ok("import os\ndef pid(): return os.getpid()\ndef double(n): return 2 * n")
    return kernel


def is_here(kernel, expression):
    return kernel.value(f"{expression} == __import__('os').getpid()")


# %wool expression


def test_a_line_gives_its_value(kernel):
    assert kernel.ok("x = %wool double(3)\nx").value == "6"
    assert kernel.ok("%wool double(4)").value == "8"
    kernel.ok("where = %wool pid()")
    assert not is_here(kernel, "where")


def test_a_semicolon_silences_the_statement_and_not_the_value(kernel):
    assert kernel.ok("%wool double(4);").outputs == []
    assert kernel.ok("x = %wool double(5); # a;b\nx").value == "10"


def test_a_line_may_bind_and_change_what_it_reads(kernel):
    kernel.ok("data = []\nsame = data")
    kernel.ok("%wool made = data.append(1) or 7")
    assert kernel.value("(made, data, same is data)") == (7, [1], True)


def test_a_line_in_a_function_knows_the_functions_names(kernel):
    assert kernel.ok("def f(n):\n    r = %wool double(n) + n\n    return r\nf(4)").value == "12"


def test_an_error_shows_the_line_of_the_cell(kernel):
    result = kernel.run("a = 1\n\nb = %wool double(1 / 0)\n")
    assert result.error.ename == "ZeroDivisionError"
    assert "line 3" in result.error.traceback
    assert "----> 3 double(1 / 0)" in result.error.traceback


def test_braces_and_dollars_are_pythons(kernel):
    assert kernel.ok("%wool {n: f'{n}$x' for n in range(2)}").value == "{0: '0$x', 1: '1$x'}"


def test_commands_come_first_and_say_so(kernel):
    result = kernel.ok("status = 3\n%wool status")
    assert "worker" in result.stdout
    assert "`%wool (status)` is the variable" in result.stderr
    assert kernel.ok("%wool (status)").value == "3"


def test_commands_know_the_notebooks_variables(kernel):
    assert kernel.run("n = 0\n%wool start -n {n}").stderr.startswith("UsageError: a pool needs at least one worker")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("%wool statsu", "did you mean `%wool status`?"),
        ("%wool strat -n 3", "did you mean `%wool start`?"),
        ("%wool nothing", "`nothing` is neither a variable nor a command (status, start"),
        ("%wool --version", "%wool: `--version` is no option of a line; `%wool help` tells of all that there are"),
        ("%wool --bg double(4)", "`--bg` is no option of a line"),
        ("%wool stop it", "%wool stop does not take `it`"),
    ],
)
def test_a_slip_is_no_expression(kernel, line, said):
    assert said in kernel.run(line).stderr


def test_a_sign_is_pythons(kernel):
    assert kernel.ok("four = 4\n%wool -four").value == "-4"
    assert kernel.ok("%wool --four").value == "4"
    assert kernel.ok("%wool -abs(-four)").value == "-4"


def test_output_of_a_line_stands_under_its_cell(kernel):
    assert kernel.ok("for n in range(2):\n    print('here', n)\n    %wool print('there', n)").stdout == (
        "here 0\nthere 0\nhere 1\nthere 1\n"
    )


# the comment


@pytest.mark.parametrize(
    "first", ["# wool", "#wool", "# wool:", "\n\n   # wool", "# wool: -o where", "# wool -o where"]
)
def test_the_comment_runs_the_cell_on_a_worker(kernel, first):
    indent = "   " if first.startswith("\n") else ""
    kernel.ok(f"{first}\n{indent}where = pid()")
    assert not is_here(kernel, "where")


@pytest.mark.parametrize("colon", [":", "", " :"])
def test_options_follow_with_a_colon_or_without(kernel, colon):
    kernel.ok("m = 4")
    kernel.ok(f"# wool{colon} -i double,n=m -o r=result\nresult = double(n)")
    assert kernel.value("(r, 'result' in globals())") == (8, False)


@pytest.mark.parametrize("first", ["# wool: --bg", "# wool --bg"])
def test_the_comment_runs_the_cell_in_the_background(kernel, first):
    kernel.ok(f"{first}\nwhere = pid()")
    assert kernel.value("type(_).__name__") == "Job"
    assert not is_here(kernel, "where")


@pytest.mark.parametrize(
    "cell",
    [
        "where = pid()\n# wool",
        "# wool is a fabric\nwhere = pid()",
        "# woolly\nwhere = pid()",
        "# wool - a fabric\nwhere = pid()",
        "# wool -- a fabric\nwhere = pid()",
        "text = '''\n# wool\n'''; where = pid()",
        "'''\n# wool'''; where = pid()",
        "#\n# wool\nwhere = pid()",
        "%%capture\n#\n# wool\nwhere = pid()",
    ],
)
def test_nothing_else_does(kernel, cell):
    kernel.ok(cell)
    assert is_here(kernel, "where")


def test_the_comment_alone_is_a_comment(fresh_kernel):
    assert fresh_kernel.ok("# wool").outputs == []
    assert fresh_kernel.ok("# wool\n\n").outputs == []


def test_below_the_magic_it_is_a_comment(kernel):
    kernel.ok("%%wool\n# wool\nwhere = pid()")
    assert not is_here(kernel, "where")


def test_magics_stand_above_it(kernel):
    timed = kernel.ok("%%time\n# wool\nprint(pid() > 0)\n5")
    assert timed.stdout.startswith("True\nCPU times")
    assert timed.value == "5"
    kernel.ok("%%capture caught\n# wool\nprint('in')\nwhere = pid()")
    assert kernel.value("caught.stdout") == "in\n"
    assert not is_here(kernel, "where")


def test_magics_stand_below_it(kernel):
    assert kernel.ok("# wool\n%%bash\necho $PPID").stdout.strip() != str(kernel.pid)


def test_an_error_shows_the_lines_that_the_user_sees(kernel):
    error = kernel.run("\n# wool\nx = 1\n1 / 0").error
    assert "----> 4 1 / 0" in error.traceback
    assert "# wool" in error.traceback
    assert kernel.run("# wool\nx = = 1").error.traceback.count("line 2") == 1


@pytest.mark.parametrize("first", ["# wool: of sheep", "# wool --bgg"])
def test_what_is_no_option_is_said(kernel, first):
    said = kernel.run(f"{first}\nwhere = 1").stderr
    assert "`# wool: …` on the first line takes options of %%wool" in said


def test_it_goes_with_the_extension(fresh_kernel):
    fresh_kernel.ok("%reload_ext wool_jupyter\n%unload_ext wool_jupyter")
    fresh_kernel.ok("# wool\nimport os; where = os.getpid()")
    assert is_here(fresh_kernel, "where")
    fresh_kernel.ok("%load_ext wool_jupyter")
    fresh_kernel.ok("# wool\nimport os; where = os.getpid()")
    assert not is_here(fresh_kernel, "where")
