import os
import pickle
import subprocess
import sys

import pytest

from wool_jupyter.wire.ambient import Ambient

NAME = "WOOL_TEST_VARIABLE"


@pytest.fixture(autouse=True)
def process_state():
    before = Ambient.here()
    yield
    os.chdir(before.cwd)
    os.environ.clear()
    os.environ.update(before.environment)
    sys.path[:], sys.argv[:] = before.path, before.argv


def state(*, cwd="/", environment=None, path=(), argv=("x",)):
    return Ambient(cwd, environment or {}, list(path), list(argv))


def test_it_survives_the_trip():
    here = Ambient.here()
    assert pickle.loads(pickle.dumps(here)) == here


def test_it_is_a_copy():
    here = Ambient.here()
    os.environ[NAME] = "later"
    sys.path.append("/later")
    sys.argv.append("later")
    assert NAME not in here.environment
    assert "/later" not in here.path
    assert "later" not in here.argv


def test_what_differs_is_followed(tmp_path):
    before = Ambient.here()
    environment = {**before.environment, NAME: "new", "HOME": "/elsewhere"}
    del environment["PATH"]
    Ambient(str(tmp_path), environment, ["/first"], ["prog", "-x"]).follow(before)
    assert Ambient.here() == Ambient(str(tmp_path), environment, ["/first"], ["prog", "-x"])


def test_the_environment_reaches_child_processes():
    before = Ambient.here()
    Ambient(before.cwd, {**before.environment, NAME: "new"}, before.path, before.argv).follow(before)
    command = [sys.executable, "-c", f"import os; print(os.environ[{NAME!r}])"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "new\n"


def test_lists_keep_their_identity():
    """Other modules hold `sys.path` itself."""
    path, argv, before = sys.path, sys.argv, Ambient.here()
    Ambient(before.cwd, before.environment, ["/new"], ["new"]).follow(before)
    assert sys.path is path
    assert sys.argv is argv


def test_what_did_not_differ_stays_as_it_is_here(tmp_path):
    """On the way home: what the kernel's other threads have changed meanwhile is not rolled back."""
    before = Ambient.here()
    os.chdir(tmp_path)
    os.environ[NAME] = "meanwhile"
    sys.path.append("/meanwhile")
    sys.argv.append("meanwhile")
    meanwhile = Ambient.here()
    before.follow(before)
    assert Ambient.here() == meanwhile


def test_each_part_differs_by_itself(tmp_path):
    before = Ambient.here()
    os.environ[NAME] = "meanwhile"
    Ambient(str(tmp_path), before.environment, before.path, before.argv).follow(before)
    assert os.getcwd() == str(tmp_path)
    assert os.environ[NAME] == "meanwhile"


def test_a_variable_that_is_gone_already_is_no_error():
    state(cwd=None).follow(state(cwd=None, environment={NAME: "old"}))
    assert NAME not in os.environ


def test_a_working_directory_that_is_gone_is_none_and_followed_nowhere(tmp_path):
    before = Ambient.here()
    gone = tmp_path / "gone"
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()
    here = Ambient.here()
    assert here.cwd is None
    os.chdir(tmp_path)
    here.follow(before)
    assert os.getcwd() == str(tmp_path)
