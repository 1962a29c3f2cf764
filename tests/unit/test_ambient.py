import os
import pickle
import random
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from wool_jupyter.wire import ambient

NAME = "WOOL_TEST_VARIABLE"


@pytest.fixture(autouse=True)
def process_state():
    before = ambient.here()
    yield
    os.chdir(before["cwd"])
    ambient.follow(before, ambient.here())


def changed(**aspects):
    """This process's state, but for these."""
    return {**ambient.here(), **aspects}


def test_it_survives_the_trip():
    here = ambient.here()
    assert pickle.loads(pickle.dumps(here)) == here


def test_it_is_a_copy():
    here = ambient.here()
    os.environ[NAME] = "later"
    sys.path.append("/later")
    sys.argv.append("later")
    warnings.simplefilter("ignore", BytesWarning)
    assert NAME not in here["environment"]
    assert "/later" not in here["path"]
    assert "later" not in here["argv"]
    assert here["warnings"] != ambient.here()["warnings"]


def test_what_differs_is_followed(tmp_path):
    before = ambient.here()
    environment = {**before["environment"], NAME: "new", "HOME": "/elsewhere"}
    del environment["PATH"]
    wanted = {**before, "cwd": str(tmp_path), "environment": environment, "path": ["/first"], "argv": ["prog", "-x"]}
    ambient.follow(wanted, before)
    assert ambient.here() == wanted


def test_the_environment_reaches_child_processes():
    ambient.follow(changed(environment={**os.environ, NAME: "new"}), ambient.here())
    command = [sys.executable, "-c", f"import os; print(os.environ[{NAME!r}])"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "new\n"


def test_lists_keep_their_identity():
    """Other modules hold `sys.path` itself."""
    path, argv = sys.path, sys.argv
    ambient.follow(changed(path=["/new"], argv=["new"]), ambient.here())
    assert (sys.path, sys.argv) == (["/new"], ["new"])
    assert sys.path is path
    assert sys.argv is argv


def test_what_did_not_differ_stays_as_it_is_here(tmp_path):
    """On the way home: what the kernel's other threads have changed meanwhile is not rolled back."""
    before = ambient.here()
    os.chdir(tmp_path)
    os.environ[NAME] = "meanwhile"
    sys.path.append("/meanwhile")
    sys.argv.append("meanwhile")
    random.random()
    meanwhile = ambient.here()
    ambient.follow(before, before)
    assert ambient.here() == meanwhile


def test_each_variable_differs_by_itself():
    before = ambient.here()
    os.environ[NAME] = "meanwhile"
    ambient.follow({**before, "environment": {**before["environment"], "OTHER": "new"}}, before)
    assert (os.environ[NAME], os.environ["OTHER"]) == ("meanwhile", "new")


def test_a_variable_that_is_gone_already_is_no_error():
    ambient.follow({"environment": {}}, {"environment": {NAME: "old"}})
    assert NAME not in os.environ


def test_a_working_directory_that_is_gone_is_followed_nowhere(tmp_path):
    before = ambient.here()
    gone = tmp_path / "gone"
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()
    here = ambient.here()
    assert "cwd" not in here
    os.chdir(tmp_path)
    ambient.follow(here, before)
    assert Path.cwd() == tmp_path


def test_random_numbers_go_on_where_they_were():
    before = ambient.here()
    expected = random.random(), np.random.random()
    ambient.follow(before, ambient.here())
    assert (random.random(), np.random.random()) == expected


def test_options_of_libraries_follow_and_come_back():
    before = ambient.here()
    pd.set_option("display.max_rows", 7)
    np.set_printoptions(precision=2)
    changed_here = ambient.here()
    ambient.follow(before, changed_here)
    assert pd.get_option("display.max_rows") == 60
    assert np.get_printoptions()["precision"] == 8
    ambient.follow(changed_here, before)
    assert pd.get_option("display.max_rows") == 7
    assert np.get_printoptions()["precision"] == 2


def test_a_library_that_is_not_loaded_is_not_asked():
    script = """
import sys
from wool_jupyter.wire import ambient
here = ambient.here()
ambient.follow({**here, "pandas options": {}}, here)
print({"numpy", "pandas", "matplotlib"} & sys.modules.keys(), sorted(here))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "set() ['argv', 'cwd', 'environment', 'path', 'random', 'warnings']\n"
