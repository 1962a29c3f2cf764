import contextvars
import decimal
import logging
import os
import pickle
import random
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from cycler import cycler
from matplotlib_inline.config import InlineBackend

from wool_jupyter.wire import ambient, pickling

NAME = "WOOL_TEST_VARIABLE"


def here():
    """The state, unpacked."""
    return {name: pickling.loads(value) for name, value in ambient.here().items()}


def follow(wanted, before):
    ambient.follow(*({name: pickling.dumps(value) for name, value in state.items()} for state in (wanted, before)))


@pytest.fixture(autouse=True)
def process_state():
    before = here()
    yield
    os.chdir(before["cwd"][0])
    follow(before, here())


@pytest.fixture
def restored():
    """What `process_state` does not put back: in place, so that nothing is told of it."""
    context, kwargs = decimal.getcontext().copy(), dict(InlineBackend.instance().print_figure_kwargs)
    serif, rows, argv = mpl.rcParams["font.serif"], pd.get_option("display.max_rows"), list(sys.argv)
    cycle = mpl.rcParams["axes.prop_cycle"]
    # A list and a cycle of its own, which the defaults don't share.
    mpl.rcParams["font.serif"], mpl.rcParams["axes.prop_cycle"] = ["Other"], cycler(color=["r", "g", "b"])
    yield
    decimal.setcontext(context)
    mpl.rcParams["font.serif"] = serif
    mpl.rcParams["axes.prop_cycle"] = cycle
    now = InlineBackend.instance().print_figure_kwargs
    now.clear()
    now.update(kwargs)
    pd.set_option("display.max_rows", rows)
    sys.argv[:] = argv


def directory(path):
    """As the aspect has it."""
    return str(path), path.stat().st_dev, path.stat().st_ino


def changed(**aspects):
    """This process's state, but for these."""
    return {**here(), **aspects}


def test_it_survives_the_trip():
    found = here()
    assert pickle.loads(pickle.dumps(found)) == found


def test_it_is_a_copy():
    found = here()
    os.environ[NAME] = "later"
    sys.path.append("/later")
    sys.argv.append("later")
    warnings.simplefilter("ignore", BytesWarning)
    assert NAME not in found["environment"]
    assert "/later" not in found["path"]
    assert "later" not in found["argv"]
    assert found["warnings"] != here()["warnings"]


def test_what_differs_is_followed(tmp_path):
    before = here()
    environment = {**before["environment"], NAME: "new", "HOME": "/elsewhere"}
    del environment["PATH"]
    wanted = {
        **before,
        "cwd": directory(tmp_path),
        "environment": environment,
        "path": ["/first"],
        "argv": ["prog", "-x"],
    }
    follow(wanted, before)
    assert here() == wanted


def test_the_environment_reaches_child_processes():
    follow(changed(environment={**os.environ, NAME: "new"}), here())
    command = [sys.executable, "-c", f"import os; print(os.environ[{NAME!r}])"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "new\n"


def test_lists_keep_their_identity():
    """Other modules hold `sys.path` itself."""
    path, argv = sys.path, sys.argv
    follow(changed(path=["/new"], argv=["new"]), here())
    assert (sys.path, sys.argv) == (["/new"], ["new"])
    assert sys.path is path
    assert sys.argv is argv


def test_what_did_not_differ_stays_as_it_is_here(tmp_path):
    """On the way home: what the kernel's other threads have changed meanwhile is not rolled back."""
    before = here()
    os.chdir(tmp_path)
    os.environ[NAME] = "meanwhile"
    sys.path.append("/meanwhile")
    sys.argv.append("meanwhile")
    random.random()
    meanwhile = here()
    follow(before, before)
    assert here() == meanwhile


def test_each_variable_differs_by_itself():
    before = here()
    os.environ[NAME] = "meanwhile"
    follow({**before, "environment": {**before["environment"], "OTHER": "new"}}, before)
    assert (os.environ[NAME], os.environ["OTHER"]) == ("meanwhile", "new")


def test_a_variable_that_is_gone_already_is_no_error():
    follow({"environment": {}}, {"environment": {NAME: "old"}})
    assert NAME not in os.environ


def test_a_working_directory_that_is_gone_has_a_name_all_the_same(tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()
    assert here()["cwd"][0] == f"/proc/{os.getpid()}/cwd"
    os.chdir(here()["cwd"][0])  # as another process would
    with pytest.raises(FileNotFoundError):
        Path.cwd()


def test_a_working_directory_that_was_made_anew_is_another_one(tmp_path):
    (tmp_path / "made").mkdir()
    os.chdir(tmp_path / "made")
    before = here()
    (tmp_path / "made").rename(tmp_path / "old")
    (tmp_path / "made").mkdir()
    follow({"cwd": directory(tmp_path / "made")}, before)
    Path("new").touch()
    assert (tmp_path / "made" / "new").exists()


CONTEXT = """
import decimal, sys
import numpy as np
from wool_jupyter.wire import ambient
def in_new_context(function, *args):
    import contextvars
    return contextvars.Context().run(function, *args)
def set_and_tell():
    np.seterr(all="raise")
    decimal.getcontext().prec = 7
    return ambient.here()
def follow(state):
    ambient.follow(state, state)
    return np.geterr()["over"], decimal.getcontext().prec
print(*in_new_context(follow, in_new_context(set_and_tell)), np.geterr()["over"])
"""


def test_what_is_kept_in_a_context_is_followed_in_each(tmp_path):
    done = subprocess.run([sys.executable, "-c", CONTEXT], capture_output=True, text=True, check=True)
    assert done.stdout == "raise 7 warn\n"


def test_only_what_differs_is_told():
    before = ambient.here()
    os.environ[NAME] = "new"
    sys.set_int_max_str_digits(5000)
    changed, were = ambient.differences(before, ambient.here())
    assert changed.keys() == were.keys() == {"environment", "digits of an int"}


def test_the_time_zone_is_in_force():
    before = here()
    follow({"environment": {**before["environment"], "TZ": "Asia/Tokyo"}}, before)
    assert time.localtime(0).tm_hour == 9
    follow(before, here())


def test_random_numbers_go_on_where_they_were():
    before = here()
    expected = random.random(), np.random.random()
    follow(before, here())
    assert (random.random(), np.random.random()) == expected


def test_options_of_libraries_follow_and_come_back():
    before = here()
    pd.set_option("display.max_rows", 7)
    np.set_printoptions(precision=2)
    changed_here = here()
    follow(before, changed_here)
    assert pd.get_option("display.max_rows") == 60
    assert np.get_printoptions()["precision"] == 8
    follow(changed_here, before)
    assert pd.get_option("display.max_rows") == 7
    assert np.get_printoptions()["precision"] == 2


def _in_place(items, value):
    items.append(value)
    return items


def _category():
    """Of the notebook, and so described whenever it travels."""
    return type("Mine", (UserWarning,), {"__module__": "__main__", "level": 1})


@pytest.mark.parametrize(
    ("aspect", "change"),
    [
        pytest.param("environment", lambda: os.environ.__setitem__(NAME, "x"), id="a variable"),
        pytest.param("path", lambda: sys.path.append("/x"), id="the path"),
        pytest.param("argv", lambda: sys.argv.append(True), id="an argument"),
        pytest.param("warnings", lambda: warnings.simplefilter("ignore", BytesWarning), id="a filter"),
        pytest.param("decimal", lambda: decimal.getcontext().traps.update({decimal.Inexact: True}), id="a trap"),
        pytest.param("random", random.random, id="a number drawn"),
        pytest.param("pandas options", lambda: pd.set_option("display.max_rows", 7), id="an option"),
        pytest.param(
            "matplotlib rcParams",
            lambda: _in_place(mpl.rcParams["font.serif"], "Mine"),
            id="a list of options, in place",
        ),
        pytest.param(
            "matplotlib rcParams",
            lambda: mpl.rcParams["axes.prop_cycle"].__iadd__(cycler(linewidth=[1, 2, 3])),
            id="a cycle, in place",
        ),
        pytest.param(
            "figures",
            lambda: InlineBackend.instance().print_figure_kwargs.update(dpi=50),
            id="options of figures, in place",
        ),
    ],
)
def test_a_change_is_told_and_what_is_as_before_is_not_pickled_again(aspect, change, restored, monkeypatch):
    before = ambient.here()
    with monkeypatch.context() as patched:
        patched.setattr(pickling, "dumps", lambda value: pytest.fail(f"{value!r} has not changed"))
        assert ambient.here() == before
    change()
    after = ambient.here()
    assert [name for name in after if after[name] != before.get(name)] == [aspect]


def test_what_changes_while_it_is_read_is_read_again(restored, monkeypatch):
    aspect = ambient.ASPECTS["pandas options"]

    def changed_by_another_thread():
        with pd.option_context("display.max_rows", 8):
            return aspect.read()

    pd.set_option("display.max_rows", 9)
    with monkeypatch.context() as patched:
        meanwhile = replace(aspect, read=changed_by_another_thread, key=iter([b"9", b"8"]).__next__)
        patched.setitem(ambient.ASPECTS, "pandas options", meanwhile)
        assert here()["pandas options"]["display.max_rows"] == 8
        patched.setitem(ambient.ASPECTS, "pandas options", replace(aspect, key=lambda: b"9"))
        assert here()["pandas options"]["display.max_rows"] == 9


@pytest.mark.parametrize("colours", [5, 10])  # the default has ten
def test_cycles_of_arrays_travel(restored, colours):
    for first in (0.0, 0.5):
        mpl.rcParams["axes.prop_cycle"] = cycler(color=[np.array([first, 0, 0, 1.0])] * colours)
        state = ambient.here()
        assert ambient.unshippable(state) == []
        cycle = pickling.loads(state["matplotlib rcParams"])["axes.prop_cycle"]
        assert [colour[0] for colour in cycle.by_key()["color"]] == [first] * colours


class Effect:
    width = 3


def test_an_object_among_the_options_travels_as_it_is_now(restored):
    mpl.rcParams["path.effects"] = [Effect()]
    before = ambient.here()
    mpl.rcParams["path.effects"][0].width = 9
    assert ambient.here()["matplotlib rcParams"] != before["matplotlib rcParams"]
    mpl.rcParams["path.effects"] = []


def test_keys_tell_when_options_of_calls_have_changed(restored):
    before = ambient.key_of_calls()
    assert ambient.key_of_calls() == before
    pd.set_option("display.max_rows", 7)
    assert ambient.key_of_calls() != before
    for change in (
        lambda: mpl.rcParams["font.serif"].append("Mine"),
        lambda: mpl.rcParams["axes.prop_cycle"].__iadd__(cycler(linewidth=[1, 2, 3])),
        lambda: mpl.rcParams.update({"lines.linewidth": 3.5}),
        lambda: warnings.simplefilter("ignore", BytesWarning),
        lambda: setattr(decimal.getcontext(), "prec", 7),
        lambda: os.chdir("/"),
    ):
        before = ambient.key_of_calls()
        assert ambient.key_of_calls() == before
        change()
        assert ambient.key_of_calls() != before
    pd.set_option("display.float_format", lambda number: f"<{number}>")
    assert ambient.key_of_calls() != ambient.key_of_calls(), "what can't be told by a key is looked at each time"
    pd.reset_option("display.float_format")


def test_a_new_context_gets_what_is_kept_in_contexts():
    def look():
        return decimal.getcontext().prec, np.geterr()["over"]

    def changes():
        decimal.getcontext().prec = 7
        np.seterr(over="raise")
        return ambient.here()

    wanted = contextvars.Context().run(changes)
    context = contextvars.Context()
    context.run(ambient.follow_in_context, wanted)
    assert context.run(look) == (7, "raise")


def test_equal_values_of_two_types_are_two_values():
    sys.argv[:] = ["1", 1]
    before = ambient.here()["argv"]
    sys.argv[:] = ["1", True]
    assert ambient.here()["argv"] != before
    sys.argv[:] = ["1"]


def test_a_category_of_the_notebook_travels_as_it_is_now(restored, monkeypatch):
    mine = _category()
    monkeypatch.setattr(sys.modules["__main__"], "Mine", mine, raising=False)
    warnings.simplefilter("ignore", mine)
    before = ambient.here()["warnings"]
    mine.level = 2
    assert ambient.here()["warnings"] != before


def test_functions_and_classes_of_the_notebook_travel_in_options():
    pd.set_option("display.float_format", lambda number: f"<{number}>")
    state = ambient.here()
    assert ambient.unshippable(state) == []
    pd.reset_option("display.float_format")
    ambient.follow(state, ambient.here())
    assert pd.get_option("display.float_format")(1) == "<1>"


def test_an_aspect_that_can_not_be_pickled_is_told_and_the_others_follow(tmp_path):
    with Path(__file__).open() as unshippable:
        pd.set_option("display.float_format", lambda number: f"{number}{unshippable}")
        state = ambient.here()
    assert ambient.unshippable(state) == ["pandas options"]
    state["cwd"] = pickling.dumps(directory(tmp_path))
    ambient.follow(state, ambient.here())
    assert Path.cwd() == tmp_path


def test_what_could_not_be_pickled_is_put_back():
    with Path(__file__).open() as unshippable:
        pd.set_option("display.float_format", lambda number: f"{number}{unshippable}")
    ambient.follow({"pandas options": pickling.dumps({})}, {"pandas options": b""})
    assert pd.get_option("display.float_format") is None


def test_what_a_library_refuses_is_told_and_the_rest_follows(tmp_path):
    wanted = {
        "cwd": pickling.dumps(directory(tmp_path)),
        "pandas options": pickling.dumps({"of.another.library": 1}),
        "argv": b"no pickle",
        "warnings": pickling.dumps([]),
    }
    failed = ambient.follow(wanted, ambient.here())
    assert [each.partition(" (")[0] for each in failed] == ["pandas options", "argv"]
    assert "of.another.library" in failed[0]
    assert (Path.cwd(), warnings.filters) == (tmp_path, [])


def test_a_directory_that_is_gone_is_an_error(tmp_path):
    state = pickling.dumps(directory(tmp_path))
    tmp_path.rmdir()
    with pytest.raises(FileNotFoundError):
        ambient.follow({"cwd": state}, ambient.here())


def test_a_handler_that_somebody_holds_is_the_same_one_when_it_prints_otherwise():
    handler = logging.StreamHandler(sys.stdout)
    logger = logging.getLogger("suite_held")
    logger.addHandler(handler)
    before = ambient.here()
    handler.setFormatter(logging.Formatter("{message}", style="{"))
    handler.terminator = "."
    after = ambient.here()
    handler.setFormatter(None)
    handler.terminator = "\n"
    assert ambient.follow(after, before) == []
    assert logger.handlers == [handler]
    assert (handler.formatter._fmt, handler.terminator) == ("{message}", ".")
    logger.removeHandler(handler)


def test_what_makes_no_sense_is_replaced():
    sys.argv, before = None, sys.argv
    ambient.follow({"argv": pickling.dumps(before)}, {"argv": b""})
    assert sys.argv == before


def test_a_library_that_is_not_loaded_is_not_asked():
    script = """
import sys
from wool_jupyter.wire import ambient, pickling
here = ambient.here()
ambient.follow({**here, "pandas options": pickling.dumps({})}, here)
print({"numpy", "pandas", "matplotlib"} & sys.modules.keys(), sorted(here))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(
        "set() ['argv', 'cwd', 'digits of an int', 'environment', 'locale', 'logging', 'path', "
    )
