"""Modules of the user's that a worker imports anew when they were edited (`worker.cell.local_modules`)."""

import importlib
import os
import sys
import time
import warnings

import pytest

from wool_jupyter.worker.cell.local_modules import LocalModules


@pytest.fixture
def module(tmp_path, monkeypatch):
    """What imports it, and what writes its value as an editor does."""
    monkeypatch.syspath_prepend(str(tmp_path))
    file = tmp_path / "local_module_of_a_test.py"

    class Module:
        def write(self, value):
            file.write_text(f"VALUE = {value}")
            long_ago = time.time() - 100 + value
            os.utime(file, (long_ago, long_ago))
            importlib.invalidate_caches()

        def imported(self):
            return importlib.import_module(file.stem)

    yield Module()
    sys.modules.pop(file.stem, None)


def test_one_that_was_imported_before_the_first_cell_stays_the_same(module):
    module.write(1)
    modules = LocalModules()
    first = module.imported()
    for _ in range(2):
        modules.cell_begins()
        assert module.imported() is first
        modules.cell_ended()


def test_one_that_was_edited_is_imported_anew_also_beside_others_that_come_and_go(module, monkeypatch):
    modules = LocalModules()
    modules.cell_begins()
    module.write(1)
    monkeypatch.setitem(sys.modules, "comes", type(sys)("comes"))
    assert module.imported().VALUE == 1
    modules.cell_ended()
    monkeypatch.delitem(sys.modules, "comes")
    modules.cell_begins()
    module.write(2)
    modules.cell_ended()
    modules.cell_begins()
    assert module.imported().VALUE == 2


def test_one_that_takes_the_place_of_another_in_the_table_is_seen(module, monkeypatch):
    monkeypatch.setitem(sys.modules, "goes", type(sys)("goes"))
    modules = LocalModules()
    modules.cell_begins()
    monkeypatch.delitem(sys.modules, "goes")
    module.write(1)
    assert module.imported().VALUE == 1
    modules.cell_begins()
    module.write(2)
    modules.cell_begins()
    assert module.imported().VALUE == 2


class Warns:
    @property
    def __module__(self):
        warnings.warn("ask for something else", FutureWarning, stacklevel=1)
        return "somewhere"


class Fails:
    @property
    def __module__(self):
        raise RuntimeError


@pytest.mark.parametrize("value", [Warns(), Fails()])
def test_one_that_holds_an_object_which_does_not_like_to_be_asked_is_looked_through_all_the_same(
    module, value, tmp_path
):
    other = tmp_path / "holder_of_a_test.py"
    other.write_text("first = None; import local_module_of_a_test")
    modules = LocalModules()
    modules.cell_begins()
    module.write(1)
    importlib.import_module(other.stem).first = value
    modules.cell_ended()
    module.write(2)
    modules.cell_begins()
    assert other.stem not in sys.modules


@pytest.mark.parametrize("file", ["made_up.py", "/made_up.py"])
def test_one_that_a_library_makes_itself_has_no_file_that_could_be_edited(file, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "made_up.py").touch()
    library, made = type(sys)("library"), type(sys)("library.made_up")
    modules = LocalModules()
    modules.cell_begins()
    library.made_up, made.__file__ = made, file
    monkeypatch.setitem(sys.modules, "library", library)
    monkeypatch.setitem(sys.modules, "library.made_up", made)
    modules.cell_ended()
    (tmp_path / "made_up.py").write_text("edited")
    modules.cell_begins()
    assert library.made_up is sys.modules["library.made_up"] is made


def test_it_is_imported_anew_after_each_of_many_edits(module):
    modules = LocalModules()
    for value in range(1, 6):
        module.write(value)
        modules.cell_begins()
        assert value == module.imported().VALUE
        modules.cell_ended()
