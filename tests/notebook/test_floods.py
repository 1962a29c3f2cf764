"""More output than a notebook can show: it neither freezes nor grows the kernel, and can be seen."""

from time import monotonic

import psutil
import pytest

from tests.support.kernel import wool


def grown_bytes(kernel, cell):
    process = psutil.Process(kernel.pid)
    kernel.wool("1")
    before = process.memory_info().rss
    result = kernel.wool(cell, timeout=100)
    return result, process.memory_info().rss - before


def test_many_lines_are_all_shown_and_do_not_stay_in_the_kernel(kernel):
    """A plain cell leaves 20 MB in its kernel."""
    result, grown = grown_bytes(kernel, "print('\\n'.join(f'line {i}' for i in range(200_000)))")
    assert result.stdout.count("\n") == 200_000
    assert result.stderr == ""
    assert grown < 16e6


def test_text_that_goes_on_after_much_of_it_comes_in_few_messages(kernel):
    """ipykernel sends five in a second, and for each a page draws all text of the cell anew."""
    kernel.wool("1")
    began = monotonic()
    cell = kernel.begin(
        "%%wool\nimport time\nlines = ('x' * 99 + '\\n') * 100\nprint(lines * 100)\n"
        "for n in range(100):\n    print(lines, flush=True)\n    time.sleep(0.05)"
    )
    result = cell.result()
    took_s = monotonic() - began
    assert result.stdout.count("x" * 99 + "\n") == 20_000
    assert len(cell.streamed) < 8 + 1.5 * took_s


def test_a_line_without_an_end_is_cut_with_a_line_that_says_how_to_see_it(kernel):
    result, grown = grown_bytes(kernel, "print('x' * 100_000_000 + 'END')")
    assert len(result.stdout) < 3_000_000
    assert result.stdout.endswith("xEND\n")
    assert "97.5 MB of text left out here" in result.stderr
    assert grown < 40e6

    number = result.execution_count
    assert f"`%wool output In[{number}]` has it" in result.stderr
    shown = kernel.ok(f"%wool output In[{number}]")
    assert 2_000_000 < len(shown.stdout) < 3_000_000
    assert "this is the beginning" in shown.stderr
    kernel.ok(f"text = %wool output {number}")
    assert kernel.value("len(str(text))") == 100_000_004 - len(result.stdout)


def test_what_was_left_out_can_be_saved_and_looked_at_from_its_end(kernel, tmp_path):
    result = kernel.wool("for i in range(400_000): print(i)\nprint('end')")
    assert "left out here" in result.stderr
    assert "399999\nend\n" in result.stdout
    kernel.ok(f"left = %wool output\nleft.save({str(tmp_path / 'text')!r})")
    shown = " ".join(output.text for output in result.outputs if output.kind == "stdout").split()
    kept = (tmp_path / "text").read_text().split()
    assert sorted([*shown, *kept], key=str) == sorted([*map(str, range(400_000)), "end"], key=str)
    assert kernel.ok("%wool output -n 2").stdout.split() == kept[-2:]


def test_a_child_that_floods_does_not_hold_up_the_cell(kernel):
    result, grown = grown_bytes(
        kernel, "import subprocess\nsubprocess.run('yes | head -c 100000000', shell=True)\nprint('after')"
    )
    assert result.stdout.endswith("after\n")
    assert "left out here" in result.stderr
    assert grown < 40e6


def test_a_command_that_floods_takes_no_longer_than_its_output(kernel):
    """IPython's own reader needs minutes for it."""
    result = kernel.wool("!yes | head -c 40000000\nprint('after', _exit_code)", timeout=100)
    assert result.stdout.endswith("after 0\n")
    assert "left out here" in result.stderr


def test_bytes_that_are_no_text_are_shown_as_such(kernel):
    result = kernel.wool("import os\nfor i in range(100): os.write(1, os.urandom(100_000))\nprint('after')")
    assert result.stdout.endswith("after\n")
    assert "\ufffd" in result.stdout
    assert "left out here" in result.stderr


def test_a_thousand_pictures_are_all_shown(kernel):
    result, grown = grown_bytes(
        kernel,
        """
        from IPython.display import Image
        import os
        for i in range(1000): display(Image(b'\\x89PNG\\r\\n\\x1a\\n' + os.urandom(50_000)))
        """,
    )
    assert len([output for output in result.outputs if "image/png" in output.data]) == 1000
    assert grown < 40e6


def test_displays_without_an_end_are_cut_and_kept(kernel):
    result = kernel.wool("for i in range(4000): display(i)\nprint('after')", timeout=100)
    shown = [output.text for output in result.outputs if output.kind == "display"]
    assert 2000 <= len(shown) < 4000
    assert shown[-1] == "3999"
    assert "displays left out here" in result.stderr
    again = kernel.ok("%wool output")
    assert {*shown, *(output.text for output in again.outputs if output.kind == "display")} == {*map(str, range(4000))}


def test_the_budget_is_an_option(kernel):
    kernel.ok("%config Wool.output_budget_bytes = 1000")
    assert "left out here" in kernel.wool("for i in range(1000): print(i)").stderr
    kernel.ok("%config Wool.output_budget_bytes = None")
    assert len(kernel.wool("for i in range(500_000): print('line', i)", timeout=100).stdout) > 5_000_000


def test_interrupt_ends_a_flood(kernel):
    running = kernel.begin(wool("while True: print('again')"))
    running.wait_for("again\n")
    kernel.interrupt()
    assert running.result().error.ename == "KeyboardInterrupt"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("%wool output", "nothing was left out of the output of any cell"),
        ("%wool output 1", "%wool output: there is no job 1, and nothing was left out of the output of cell 1"),
        ("%wool output In[1]", "%wool output: nothing was left out of the output of cell 1"),
    ],
)
def test_nothing_to_recall_is_said(fresh_kernel, line, said):
    for _ in range(2):
        result = fresh_kernel.run(line)
        assert said in result.stdout + result.stderr
        fresh_kernel.wool("1")


def test_a_cell_that_is_no_number_is_named(kernel):
    assert "and not `x`" in kernel.run("%wool output x").stderr


def test_a_file_system_without_room_is_said_in_words(kernel):
    error = kernel.wool_error(
        """
        import os, resource
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
        try:
            print('x' * 2000)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        """
    )
    assert error.ename == "OSError"
    assert "output waits in" in error.evalue


# Of calls.

CALLS = """
import os, sys, wool_jupyter
pool = wool_jupyter.pool()
def floods(x):
    print("x" * 100_000_000)
    print("END", x)
def prints(x):
    sys.stdout.write(f"line {x} {'.' * 1000}\\n")  # at once, for the text of two workers may meet in a line
"""


@pytest.mark.parametrize("submits", ["pool.submit(floods, 5).result()", "list(pool.map(floods, [4, 5]))"])
def test_a_call_that_floods_is_cut_with_a_line_that_says_how_to_see_it(kernel, submits):
    kernel.ok(CALLS)
    before = psutil.Process(kernel.pid).memory_info().rss
    result = kernel.ok(f"{submits}\nprint('after')", timeout=100)
    assert len(result.stdout) < 3_000_000
    assert "END 5\n" in result.stdout
    assert result.stdout.endswith("after\n")
    assert result.stderr.count("too much for a notebook") == 1
    assert "MB of text left out here" in result.stderr
    assert psutil.Process(kernel.pid).memory_info().rss - before < 60e6
    kernel.ok(f"text = %wool output {result.execution_count}")
    whole = 100_000_007 if "submit" in submits else 200_000_014
    assert kernel.value("len(str(text))") == whole + len("after\n") - len(result.stdout)


@pytest.mark.parametrize("leaves", ["None", "subprocess.Popen(['sleep', '600'])"], ids=["nothing", "a child"])
def test_the_last_lines_of_the_last_flood_stand_under_the_cell_when_it_ends(fresh_kernel, leaves):
    """By then a run without a front end listens no longer. Also where something is left on the worker that may print."""
    kernel = fresh_kernel
    kernel.ok(f"%wool start -n 1\n{CALLS}\nimport subprocess\ndef leaves(): {leaves}\npool.submit(leaves).result()")
    result = kernel.ok("for n in range(12): pool.submit(prints, '.' * 5_000_000 + f'END {n}').result()", timeout=100)
    assert result.stderr.count("left out here") < 12
    assert "END 11 " in result.stdout


def test_many_calls_that_print_share_the_budget_of_their_cell(kernel):
    kernel.ok(CALLS)
    result = kernel.ok("list(pool.map(prints, range(10_000)))\nprint('after')", timeout=100)
    assert len(result.stdout) < 3_000_000
    assert "after\n" in result.stdout
    assert result.stderr.count("left out here") < 20
    kernel.ok("text = %wool output")
    kept = kernel.value("[int(word) for word in str(text).split() if word.isdigit()]")
    assert sorted([*kept, *(int(word) for word in result.stdout.split() if word.isdigit())]) == list(range(10_000))


def test_calls_that_display_without_an_end_are_cut_and_kept(kernel):
    kernel.ok(CALLS)
    result = kernel.ok("pool.submit(lambda: [display(n) for n in range(4000)]).result()\nprint('after')", timeout=100)
    shown = [output.text for output in result.outputs if output.kind == "display"]
    assert 2000 <= len(shown) < 4000
    assert shown[-1] == "3999"
    assert "displays left out here" in result.stderr
    again = kernel.ok("%wool output")
    assert {*shown, *(output.text for output in again.outputs if output.kind == "display")} == {*map(str, range(4000))}


def test_tasks_of_joblib_are_cut_too_and_the_budget_is_an_option(kernel):
    kernel.ok(f"{CALLS}\nimport joblib\n%config Wool.output_budget_bytes = 10_000")
    result = kernel.ok(
        "with joblib.parallel_config(backend='wool'): joblib.Parallel()(joblib.delayed(prints)(n) for n in range(200))"
    )
    assert "left out here" in result.stderr
    assert len(result.stdout) < 30_000
    kernel.ok("%config Wool.output_budget_bytes = None")
    assert len(kernel.ok("list(pool.map(prints, range(4_000)))").stdout) > 4_000_000


def test_what_a_call_that_is_interrupted_has_flooded_ends_with_its_last_lines(kernel):
    kernel.ok(CALLS)
    running = kernel.begin("def again():\n    while True: print('again')\npool.submit(again).result()")
    running.wait_for("again\n")
    kernel.interrupt()
    assert running.result().error.ename == "KeyboardInterrupt"
