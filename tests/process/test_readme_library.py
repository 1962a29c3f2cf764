"""The README's examples of the library, as scripts in an empty folder."""

import re
import subprocess
import sys

import pytest

from tests.support.readme import EXAMPLES, LIBRARY


@pytest.fixture
def scripts(tmp_path):
    for name, text in EXAMPLES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def script(folder, name, **options):
    return subprocess.Popen(
        [sys.executable, "-W", "error", name],
        cwd=folder,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **options,
    )


def test_every_example_of_the_section_is_run_here():
    assert len(re.findall(r"^```python", LIBRARY, re.MULTILINE)) == len(EXAMPLES)
    assert set(EXAMPLES) == {"squares.py", "balancing.py", "serve.py", "borrow.py"}


def test_a_pool_and_its_routines(scripts):
    with script(scripts, "squares.py") as running:
        assert running.communicate(timeout=60) == ("[9, 16]\n[1, 4, 9]\n", "")
    assert running.returncode == 0


def test_an_own_balancer(scripts):
    with script(scripts, "balancing.py") as running:
        assert running.communicate(timeout=60) == ("[0, 1, 8, 27, 64]\n", "")
    assert running.returncode == 0


def test_a_pool_that_others_borrow(scripts):
    with script(scripts, "serve.py", stdin=subprocess.PIPE) as serving:
        assert serving.stdout.readline() == "serving\n"
        with script(scripts, "borrow.py") as borrowing:
            assert borrowing.communicate(timeout=60) == ("27\n", "")
        assert serving.communicate("\n", timeout=60) == ("", "")
    assert (serving.returncode, borrowing.returncode) == (0, 0)
    with script(scripts, "borrow.py") as late:
        out, error = late.communicate(timeout=60)
    assert out == ""
    assert "DiscoveryNamespaceNotFound" in error.splitlines()[-1]
