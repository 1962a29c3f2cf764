"""What is done when a module is imported is done once, and the import itself is as ever."""

import importlib
import inspect
import linecache
import sys
import types

import pytest

from wool_jupyter.import_hook import when_imported


@pytest.fixture
def package(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    folder = tmp_path / "some_package"
    folder.mkdir()
    (folder / "__init__.py").write_text("from some_package import part\n")
    (folder / "part.py").write_text("def f():\n    return 1\nVALUE = f()\n")
    before = list(sys.meta_path)
    yield folder
    assert sys.meta_path == before
    for name in [name for name in sys.modules if name.partition(".")[0] == "some_package"]:
        del sys.modules[name]


def test_it_is_done_at_the_end_of_the_import_of_that_module_alone(package):
    seen = []
    when_imported("some_package.part", lambda module: seen.append((module, module.VALUE)))
    importlib.import_module("json.tool")
    assert seen == []
    part = importlib.import_module("some_package.part")
    assert seen == [(part, 1)]
    importlib.reload(part)
    assert len(seen) == 1


def test_it_is_done_at_once_for_a_module_that_is_there(package):
    part = importlib.import_module("some_package.part")
    seen = []
    when_imported("some_package.part", seen.append)
    assert seen == [part]


def test_called_off_it_is_not_done(package):
    seen = []
    call_off = when_imported("some_package.part", seen.append)
    call_off()
    call_off()  # idempotent
    importlib.import_module("some_package.part")
    assert seen == []


def test_the_module_is_as_its_own_loader_makes_it(package):
    when_imported("some_package.part", lambda _: None)
    part = importlib.import_module("some_package.part")
    assert type(part.__loader__).__module__.startswith(("importlib", "_frozen_importlib"))
    assert part.__spec__.loader is part.__loader__
    assert "return 1" in inspect.getsource(part.f)
    assert linecache.getline(part.__file__, 2, vars(part)) == "    return 1\n"


def test_an_import_that_fails_may_be_tried_again(package):
    source = package / "part.py"
    text = source.read_text()
    source.write_text("raise LookupError('not now')\n")
    seen = []
    when_imported("some_package.part", seen.append)
    with pytest.raises(LookupError, match="not now"):
        importlib.import_module("some_package.part")
    assert seen == []
    source.write_text(text)
    importlib.invalidate_caches()
    part = importlib.import_module("some_package.part")
    assert seen == [part]


def test_a_module_that_is_not_to_be_had_is_missed_as_ever(package):
    call_off = when_imported("some_package.no_part", lambda _: None)
    importlib.import_module("some_package")
    with pytest.raises(ModuleNotFoundError, match="no_part"):
        importlib.import_module("some_package.no_part")
    call_off()


def test_two_may_wait_for_the_same_module(package):
    seen = []
    when_imported("some_package.part", lambda _: seen.append(1))
    when_imported("some_package.part", lambda _: seen.append(2))
    importlib.import_module("some_package.part")
    assert sorted(seen) == [1, 2]


def test_a_module_made_by_hand_is_there(monkeypatch):
    module = types.ModuleType("made_by_hand")  # its __spec__ is None
    monkeypatch.setitem(sys.modules, "made_by_hand", module)
    seen = []
    when_imported("made_by_hand", seen.append)
    assert seen == [module]
