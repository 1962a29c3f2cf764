"""Which libraries a worker is to find imported."""

import json
import types

from wool_jupyter.pool.processes import large_modules


def module(name, file):
    made = types.ModuleType(name)
    made.__file__ = file
    return made


def test_large_libraries_and_their_public_parts_are_taken_from_where_they_are_installed():
    installed = json.__file__
    loaded = {
        name: module(name, installed)
        for name in (
            "numpy",
            "numpy.random",
            "numpy._core",
            "numpy.random.mtrand",
            "matplotlib",
            "matplotlib.figure",
            "matplotlib.pyplot",
            "matplotlib.backends",
            "mine",
            "mine.part",
            "sys",
        )
    }
    assert large_modules(loaded) == {"numpy", "numpy.random", "matplotlib", "matplotlib.figure"}


def test_a_library_that_somebody_works_on_is_left_out(tmp_path):
    loaded = {"pandas": module("pandas", str(tmp_path / "pandas" / "__init__.py")), "scipy": types.ModuleType("scipy")}
    loaded["pandas.io"] = module("pandas.io", json.__file__)
    assert large_modules(loaded) == set()
