"""By which line `%wool jobs` tells of a cell."""

import pytest

from wool_jupyter.notebook.source import telling_line


@pytest.mark.parametrize(
    ("cell", "line"),
    [
        ("x = 1\ny = 2", "x = 1"),
        ("\n# fit the model\nmodel.fit(X, y)", "model.fit(X, y)"),
        ("import os\nfrom a.b import c as d\nfor n in range(9):\n    f(n)", "for n in range(9):"),
        ("from a import (\n    b,  # one\n    c,\n)\nb(c)", "b(c)"),
        ("from a import b, \\\n    c\nb(c)", "b(c)"),
        ("%matplotlib inline\nimport os\nplot()", "plot()"),
        ("!sleep 9", "!sleep 9"),
        ("important = 1", "important = 1"),
        ("# only this", "# only this"),
        ("# why\nimport os", "import os"),
        ("# why\nimport os\n%time f()", "%time f()"),
        ("", ""),
    ],
)
def test_no_comment_magic_or_import_if_there_is_another_line(cell, line):
    assert telling_line(cell) == line
