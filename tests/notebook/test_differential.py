"""Cells as people write them: with `%%wool` on top, everything is as without it."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from tests.support import cases, differential
from tests.support.programs import programs

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
FILES = sorted((Path(__file__).parent / "differential").glob("*.cells"))
CASES = [pytest.param(case, id=f"{file.stem}: {case.title}") for file in FILES for case in cases.read(file)]


@pytest.mark.parametrize("case", CASES)
def test_a_cell_leaves_and_shows_the_same_in_a_worker(pair, case):
    found, notices = pair.differences(case)
    assert not (wrong := differential.verdict(case, found, notices, README)), wrong


def _agree(pair, program):
    found, notices = pair.differences(cases.Case("", tuple(program)))
    cells = "\n".join(f"# {'%%wool' if cell.is_wool else '%%'}\n{cell.source}" for cell in program)
    assert not found, f"{cells}\n\n{notices}\n{found}"


_SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.timeout(600)
@settings(_SETTINGS, max_examples=60)
@given(program=programs())
def test_small_programs_do_the_same_in_a_worker(pair, program):
    _agree(pair, program)


@pytest.mark.thorough
@pytest.mark.timeout(7200)
@settings(_SETTINGS, max_examples=3000)
@given(program=programs())
def test_many_small_programs_do_the_same_in_a_worker(pair, program):
    _agree(pair, program)
