"""The instrument that compares cells is red when it should be."""

from types import SimpleNamespace

import numpy as np
import pytest

from tests.support import cases, differential, graph

README = "**What can't be pickled\n  can't be shipped**: an open file."
CELLS = (cases.Cell("x = 1", True),)
FOUND = {"after 1.names.x[0]": ("int 1", "int 2")}


def verdict(found, *, notices=(), **case):
    return differential.verdict(cases.Case("a case", CELLS, **case), found, list(notices), README)


def test_no_difference_is_no_word():
    assert verdict({}) == ""


def test_a_difference_is_told_with_its_place():
    assert verdict(FOUND) == "after 1.names.x[0]\n    plain   int 1\n    %%wool  int 2"


def test_a_known_difference_with_the_sentence_of_the_readme_is_fine():
    assert verdict(FOUND, known=("after 1.names.x*",), says="What can't be pickled can't be shipped") == ""


def test_brackets_in_a_pattern_are_brackets():
    assert verdict(FOUND, known=("after 1.names.x[0]",), says="an open file") == ""
    assert "int 2" in verdict(FOUND, known=("after 1.names.x[1]",), says="an open file")


def test_a_known_difference_that_does_not_happen_any_more_is_told():
    assert "`after 1.names.x*` does not happen any more" in verdict(
        {}, known=("after 1.names.x*",), says="an open file"
    )


def test_a_known_difference_needs_a_sentence_that_users_read():
    assert "needs the sentence" in verdict(FOUND, known=("*",))
    assert "the README does not say 'a closed file'" in verdict(FOUND, known=("*",), says="a closed file")


def test_notices_are_those_of_the_case():
    assert verdict({}, notices=["`x` is new"]) == "said: `x` is new"
    case = cases.Case("a case", CELLS, notices=("`x` is",))
    assert differential.verdict(case, {}, ["`x` is new"], README) == ""
    assert differential.verdict(case, {}, [], README) == "not said: `x` is"


def test_what_only_one_side_has_is_a_difference():
    assert differential.difference({"a": "1"}, {"b": "1"}) == {
        "a": ("1", differential.NOTHING),
        "b": (differential.NOTHING, "1"),
    }


FILE = """
import sys

# === the first
# known: names.x, cell 1.*
# says: a sentence
# notice: one, with a comma
x = 1
# %%wool
x += 1  # %%
# %%
x

# === the second
# %%wool
y = 1
"""


def read(tmp_path, text):
    (tmp_path / "theme.cells").write_text(text, encoding="utf-8")
    return cases.read(tmp_path / "theme.cells")


def test_a_file_is_read_as_cases(tmp_path):
    first, second = read(tmp_path, FILE)
    assert [(cell.source.strip(), cell.is_wool) for cell in first.cells] == [
        ("import sys", False),
        ("x = 1", False),
        ("x += 1  # %%", True),
        ("x", False),
    ]
    assert (first.known, first.says, first.notices) == (("names.x", "cell 1.*"), "a sentence", ("one, with a comma",))
    assert [cell.source.strip() for cell in second.cells] == ["import sys", "y = 1"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("# === one\nx = 1\n", "no cell of it is marked"),
        ("# === one\n# %%wool\n1\n# === one\n# %%wool\n1\n", "of one name"),
    ],
)
def test_a_file_that_compares_nothing_is_refused(tmp_path, text, says):
    with pytest.raises(ValueError, match=says):
        read(tmp_path, text)


# ---- descriptions of objects


def alike(one, other):
    return graph.describe(one) == graph.describe(other)


SHARED, AGAIN = [1], [1]
BASE = np.arange(4)
DIFFERENT = [
    pytest.param({"a": SHARED, "b": SHARED}, {"a": SHARED, "b": AGAIN}, id="alias of names"),
    pytest.param({"a": [SHARED, SHARED]}, {"a": [SHARED, AGAIN]}, id="alias in a list"),
    pytest.param({"a": (SHARED, SHARED)}, {"a": (SHARED, AGAIN)}, id="alias in a tuple"),
    pytest.param({"a": 1}, {"a": True}, id="type of a value"),
    pytest.param({"a": 0.0}, {"a": -0.0}, id="sign of zero"),
    pytest.param({"a": {"x": 1, "y": 2}}, {"a": {"y": 2, "x": 1}}, id="order of keys"),
    pytest.param({"a": SimpleNamespace(x=1)}, {"a": SimpleNamespace(x=1, y=2)}, id="an attribute"),
    pytest.param({"a": BASE, "b": BASE[1:]}, {"a": BASE, "b": BASE[1:].copy()}, id="memory of arrays"),
    pytest.param({"a": np.zeros(2)}, {"a": np.zeros(2, "f4")}, id="type of an array"),
    pytest.param({"a": list(range(999))}, {"a": [*range(998), 0]}, id="end of a long list"),
    pytest.param({"a": "x" * 999 + "a"}, {"a": "x" * 999 + "b"}, id="end of a long text"),
    pytest.param({"a": ValueError(1)}, {"a": ValueError(2)}, id="arguments of an exception"),
    pytest.param({"a": lambda: 1}, {"a": lambda: 2}, id="code"),
]


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_what_differs_has_another_description(one, other):
    assert alike(one, one)
    assert not alike(one, other)


def test_a_cycle_has_an_end():
    loop = []
    loop.append(loop)
    assert graph.describe({"loop": loop}) == {"loop": "list of 1", "loop[0]": "is loop"}


def test_equal_constants_have_no_identity():
    """Whether two equal tuples of a program are one object is the compiler's choice."""
    one = tuple([1, 2])  # noqa: C409
    assert alike({"a": one, "b": one}, {"a": one, "b": tuple([1, 2])})  # noqa: C409
