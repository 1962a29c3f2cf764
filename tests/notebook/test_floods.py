"""More output than a notebook can show: it neither freezes nor grows the kernel, and can be seen."""

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
    """IPython's own reader needs more than ten minutes for it."""
    result = kernel.wool("!yes | head -c 100000000\nprint('after', _exit_code)", timeout=100)
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
        ("%wool output 1", "nothing was left out of the output of cell 1"),
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
