"""How the modules of a routine's caller are found."""

import importlib
import importlib.metadata
import sys

import pytest

from wool_jupyter.wire import callers


@pytest.fixture(autouse=True)
def as_before(monkeypatch):
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(callers._finder, "path", [])
    loaded = set(sys.modules)
    yield
    for name in set(sys.modules) - loaded:
        del sys.modules[name]


def test_a_caller_s_modules_are_found_and_the_path_is_left_alone(tmp_path):
    (tmp_path / "callers_own.py").write_text("value = 5\n")
    (tmp_path / "callers_package").mkdir()
    (tmp_path / "callers_package" / "__init__.py").touch()
    (tmp_path / "callers_package" / "inside.py").write_text("value = 6\n")
    before = list(sys.path)
    for _ in range(2):
        callers.follow([str(tmp_path)])
    assert importlib.import_module("callers_own").value == 5
    assert importlib.import_module("callers_package.inside").value == 6
    assert sys.path == before
    assert callers.path().count(str(tmp_path)) == 1, "its own calls take it along"


def test_nothing_of_the_worker_s_own_is_shadowed(tmp_path):
    (tmp_path / "colorsys.py").write_text("raise LookupError\n")
    callers.follow([str(tmp_path)])
    sys.modules.pop("colorsys", None)
    assert importlib.import_module("colorsys").__file__ != str(tmp_path / "colorsys.py")


def test_a_caller_s_distributions_are_found(tmp_path):
    made = tmp_path / "callers_thing-1.5.dist-info"
    made.mkdir()
    (made / "METADATA").write_text("Metadata-Version: 2.1\nName: callers_thing\nVersion: 1.5\n")
    callers.follow([str(tmp_path)])
    assert importlib.metadata.version("callers_thing") == "1.5"
