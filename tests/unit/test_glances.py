"""What tells in a microsecond that nothing was set anew (`Aspect.glance`), and what all glances together notice."""

import logging
import os
import sys
import warnings

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

from wool_jupyter.wire import ambient
from wool_jupyter.wire.aspects.table import ASPECTS
from wool_jupyter.wire.aspects.unchanged import Unchanged


def test_what_changes_within_is_noticed_and_what_is_read_may_be_made_anew():
    options = {"display": {"rows": 3, "names": ["a"]}}
    glance = Unchanged(lambda: dict(options))
    assert glance() is (first := glance())
    options["display"]["rows"] = 4
    assert (second := glance()) is not first
    options["display"]["names"].append("b")
    assert glance() is not second
    assert glance() is glance()


def test_what_can_t_be_compared_counts_as_changed():
    values = [np.array([1, 2])]
    glance = Unchanged(lambda: [*values])
    assert glance() is glance()  # the very same one is not asked
    before = glance()
    values[0] = np.array([1, 2])
    assert glance() is not before


def test_a_level_that_is_set_is_noticed_and_what_is_logged_is_not():
    logger, glance = logging.getLogger("test_glances"), ASPECTS["logging"].glance
    before = glance()
    logger.warning("said")
    assert glance() is before
    logger.setLevel(logging.ERROR)
    assert glance() is not before


@pytest.fixture
def nothing_stays(monkeypatch, tmp_path):
    limit, level = sys.getrecursionlimit(), logging.getLogger("test_glances").level
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [*sys.argv])
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("TEST_GLANCES", "1")
    with warnings.catch_warnings(), pd.option_context("display.max_rows", 9), mpl.rc_context():
        yield
    sys.setrecursionlimit(limit)
    logging.getLogger("test_glances").setLevel(level)


CHANGES = {
    "cwd": lambda: os.chdir("/"),
    "environment": lambda: os.environ.update(TEST_GLANCES="2"),
    "path": lambda: sys.path.append("x"),
    "argv": lambda: setattr(sys, "argv", None),
    "recursion limit": lambda: sys.setrecursionlimit(sys.getrecursionlimit() + 1),
    "warnings": lambda: warnings.filterwarnings("ignore", "test_glances"),
    "logging": lambda: logging.getLogger("test_glances").setLevel(1),
    "pandas options": lambda: pd.set_option("display.max_rows", 3),
    "matplotlib rcParams": lambda: mpl.rcParams.update({"lines.linewidth": 9}),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_glance_notices(change, nothing_stays):
    before = ambient.glance()
    assert ambient.glance() == before
    change()
    assert ambient.glance() != before
