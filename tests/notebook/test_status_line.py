"""A line under a cell that runs long, for who wants it."""

import re

import pytest

LONG = "import time\nbegan = time.time()\nwhile time.time() - began < {seconds}: sum(range(1000))"


@pytest.fixture
def kernel(fresh_kernel):
    fresh_kernel.ok("%config Wool.status_line = True\n%wool start -n 1")
    return fresh_kernel


def lines(result):
    return [(output.kind, output.text) for output in result.outputs if output.kind in ("display", "update")]


def test_it_comes_after_a_while_changes_with_time_and_is_emptied(kernel):
    result = kernel.wool(LONG.format(seconds=8) + "\nprint('done')")
    shown = lines(result)
    assert [kind for kind, _ in shown] == ["display"] + ["update"] * (len(shown) - 1)
    assert re.fullmatch(r"wool: worker \w{8} \(pid \d+\) at work for \d+ s.*", shown[0][1])
    assert "% CPU" in shown[-2][1]
    assert shown[-1][1] == ""
    assert 3 <= len(shown) <= 2 + 2 * 8
    assert (
        len({output.transient["display_id"] for output in result.outputs if output.kind in ("display", "update")}) == 1
    )
    assert result.stdout == "done\n"


def test_a_short_cell_has_none(kernel):
    assert kernel.wool("print(1)").kinds == ["stdout"]


def test_an_interrupt_empties_it_too(kernel):
    cell = kernel.begin("%%wool\nimport threading\nthreading.Event().wait()")
    cell.wait_for("at work")
    kernel.interrupt()
    result = cell.result()
    assert result.error.ename == "KeyboardInterrupt"
    assert lines(result)[-1] == ("update", "")


def test_it_is_off_by_default(fresh_kernel):
    assert fresh_kernel.wool(LONG.format(seconds=6)).kinds == ["stdout"]
