"""`-i` and `-o`: the user says what goes in and what comes back."""

import pytest


def test_only_the_inputs_that_are_named_go_in(kernel):
    kernel.ok("a, b = 1, 2")
    assert kernel.run("%%wool -i a\nsorted({'a', 'b'} & set(globals()))").value == "['a']"


def test_an_input_may_have_another_name_in_the_cell(kernel):
    kernel.ok("small, frame = [1], [2]")
    assert kernel.run("%%wool -i frame=small\nframe.append(3); len(frame)").value == "2"
    assert kernel.value("(small, frame)") == ([1, 3], [2])


def test_an_input_brings_what_its_functions_need(kernel):
    kernel.ok("k = 10\ndef scaled(x): return k * x")
    assert kernel.run("%%wool -i scaled\nscaled(2)").value == "20"


def test_a_name_that_was_left_out_is_told_apart_from_one_that_does_not_exist(kernel):
    kernel.ok("a, b = 1, 2")
    result = kernel.run("%%wool -i a\na + b")
    assert result.error.ename == "NameError"
    assert "wool: `b` is a variable of the notebook, and -i leaves it out" in result.stderr
    assert "-i" not in kernel.run("%%wool -i a\na + nowhere").stderr


def test_an_input_that_can_t_travel_and_is_named_refuses_the_cell(kernel):
    kernel.ok("import threading; lock = threading.Lock()")
    result = kernel.run("%%wool -i lock\nprint('ran')")
    assert result.error.ename == "CannotShip"
    assert result.stdout == ""


def test_only_the_results_that_are_named_come_back(kernel):
    kernel.ok("keep, data = 0, [1]")
    kernel.run("%%wool -o total\ntotal = sum(data); waste = 'x'; data.append(2); keep = 5; del data")
    assert kernel.value("(total, keep, data, 'waste' in globals())") == (1, 0, [1, 2], False)


def test_results_may_have_other_names_in_the_notebook(kernel):
    kernel.ok("before = [1]")
    kernel.run("%%wool -o best=result, again = result, same=before\nresult = [before]")
    assert kernel.value("best == [[1]] and again is best and same is before and best[0] is before")
    assert not kernel.value("'result' in globals()")


def test_a_function_comes_back_under_its_new_name(kernel):
    kernel.run("%%wool -o scale=f\ndef f(x): return 3 * x")
    assert kernel.value("scale(2)") == 6


def test_a_result_that_is_named_comes_home_whatever_its_size(kernel):
    kernel.ok("%config Wool.result_budget_bytes = 1000")
    try:
        kernel.run("%%wool -o big\nbig = bytes(5000)")
        assert kernel.value("len(big)") == 5000
    finally:
        kernel.ok("%config Wool.result_budget_bytes = None")


@pytest.mark.parametrize("cell", ["-o kept\nkept[0] = 5", "-o kept\npass", "-o kept=other\nother = kept"])
def test_what_was_kept_for_its_size_comes_home_when_it_is_named(kernel, cell):
    kernel.ok("%config Wool.result_budget_bytes = 1000")
    try:
        kernel.wool("kept = bytearray(5000)")
        assert kernel.run("kept[0]").error.ename == "KeptOnWorker"
        assert kernel.run(f"%%wool {cell}").status == "ok"
        assert kernel.value("(type(kept).__name__, len(kept), kept[0])") == ("bytearray", 5000, 5 * ("= 5" in cell))
    finally:
        kernel.ok("%config Wool.result_budget_bytes = None")


def test_a_result_that_can_t_travel_is_kept_under_its_new_name(kernel):
    result = kernel.run("%%wool -o held=lock\nimport threading; lock = threading.Lock()")
    assert "read `held` will run" in result.stderr
    assert kernel.wool("type(held).__name__").value == "'lock'"


def test_nothing_is_lost_when_a_result_was_not_bound(kernel):
    result = kernel.run("%%wool -o renamed=result,reslut\nresult = 5; other = 6")
    assert (result.error.ename, result.error.evalue) == (
        "NotBound",
        "The cell has run, and has not bound `reslut`, which -o asks for: all that it bound is here",
    )
    assert kernel.value("(renamed, other)") == (5, 6)


def test_an_error_of_the_cell_goes_before_results_that_it_did_not_reach(kernel):
    result = kernel.run("%%wool -o a,b\na = 1\n1 / 0\nb = 2")
    assert result.error.ename == "ZeroDivisionError"
    assert kernel.value("a") == 1


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("-i nope", "-i: the notebook has no variable `nope`"),
        ("-i tabel", "-i: the notebook has no variable `tabel` (did you mean `table`?)"),
        ("-i a.b", "-i takes names of variables, separated by commas, and `a.b` is none"),
        ("-o x=table.size", "-o takes names of variables, separated by commas, and `x=table.size` is none"),
        ("-o a,,b", "-o has a comma too many, or a name too few, in `a,,b`"),
        ("-i table,", "-i has a comma too many, or a name too few, in `table,`"),
        ("-i table, -i", "%%wool: -i needs names of variables after it"),
        ("-i os=", "-i: a name is missing after the `=` of `os=`; `new=old` renames a variable"),
        ("-i =table", "-i: a name is missing before the `=` of `=table`; `new=old` renames a variable"),
        ("-o a,a", "-o names `a` twice"),
        ("-o for", "-o takes names of variables, separated by commas, and `for` is none"),
        ("-n 4", "%%wool: unrecognized arguments: -n 4 (`%wool start -n N` sets the number of workers)"),
        (
            "--bgg",
            "%%wool: unrecognized arguments: --bgg (its options are `-i NAMES`, `-o NAMES` and `--bg`; `--help` tells more)",
        ),
        ("-i", "%%wool: -i needs names of variables after it"),
    ],
)
def test_options_that_make_no_sense_are_told_and_nothing_runs(kernel, options, says):
    kernel.ok("table = [1]")
    result = kernel.run(f"%%wool {options}\nprint('ran')")
    assert result.status == "error"
    assert result.stderr.strip() == f"UsageError: {says}"
    assert result.stdout == ""


def test_an_option_may_be_given_more_than_once(kernel):
    kernel.ok("a, b = 1, 2")
    kernel.run("%%wool -i a -o c -i b -o d\nc, d = a, b")
    assert kernel.value("(c, d)") == (1, 2)


def test_a_comment_after_the_options_is_no_option(kernel):
    kernel.ok("a = 1")
    assert kernel.run("%%wool -i a -o c  # what this is about\nc = a").status == "ok"
    assert kernel.value("c") == 1
