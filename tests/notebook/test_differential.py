"""Cells as people write them: with `%%wool` on top, everything is as without it."""

from pathlib import Path

import pytest

from tests.support import cases, differential

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
FILES = sorted((Path(__file__).parent / "differential").glob("*.cells"))
CASES = [pytest.param(case, id=f"{file.stem}: {case.title}") for file in FILES for case in cases.read(file)]


@pytest.mark.parametrize("case", CASES)
def test_a_cell_leaves_and_shows_the_same_in_a_worker(pair, case):
    found, notices = pair.differences(case.cells)
    assert not (wrong := differential.verdict(case, found, notices, README)), wrong
