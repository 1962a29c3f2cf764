"""The errors of the package form one tree, in one file."""

import ast
import importlib
import inspect
from pathlib import Path

import pytest

import wool_jupyter
from wool_jupyter import errors

PACKAGE = Path(wool_jupyter.__file__).parent
# Importing an entry point may change the process, so these are read and not imported.
ENTRY_POINT = "__main__"


def module_names():
    parts = [path.relative_to(PACKAGE.parent).with_suffix("").parts for path in sorted(PACKAGE.rglob("*.py"))]
    return [".".join(each).removesuffix(".__init__") for each in parts if each[-1] != ENTRY_POINT]


def exceptions_of(module_name):
    """The exception classes that the module itself defines."""
    classes = inspect.getmembers(importlib.import_module(module_name), inspect.isclass)
    return [each for _, each in classes if issubclass(each, BaseException) and each.__module__ == module_name]


@pytest.mark.parametrize("name", module_names())
def test_public_errors_are_in_the_tree(name):
    for error in exceptions_of(name):
        if not error.__name__.startswith("_"):
            assert name == errors.__name__, error
            assert issubclass(error, errors.WoolError), error


@pytest.mark.parametrize("name", module_names())
def test_errors_say_in_their_own_docstring_what_they_mean(name):
    for error in exceptions_of(name):
        assert (vars(error).get("__doc__") or "").strip(), error


def test_the_walk_finds_the_tree():
    assert errors.__name__ in module_names()
    assert errors.WoolError in exceptions_of(errors.__name__)


def test_root_is_an_ordinary_exception():
    assert errors.WoolError.__bases__ == (Exception,)


def test_entry_points_define_no_errors():
    for path in PACKAGE.rglob(f"{ENTRY_POINT}.py"):
        classes = [
            node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.ClassDef)
        ]
        bases = [ast.unparse(base) for node in classes for base in node.bases]
        assert not [base for base in bases if base.endswith(("Error", "Exception"))], path
