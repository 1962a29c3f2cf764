import ast
import pickle
import re
from pathlib import Path
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wool_jupyter import errors
from wool_jupyter.errors import in_words


class Mute(Exception):
    def __str__(self):
        raise ZeroDivisionError


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (KeyError("k"), "KeyError: 'k'"),
        (ValueError("\udcff"), "ValueError: \\udcff"),
        (Mute(), "Mute: <its text can't be had: ZeroDivisionError>"),
    ],
    ids=["plain", "surrogate", "broken str"],
)
def test_any_error_can_be_said_in_a_message(error, words):
    assert in_words(error) == words
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(in_words(error))) == words


FIELDS = {
    errors.DiscoveryNamespaceInUse: ("namespace", st.text()),
    errors.DiscoveryNamespaceNotFound: ("namespace", st.text()),
    errors.DiscoveryNamespaceContended: ("namespace", st.text()),
    errors.DiscoveryCapacityExhausted: ("capacity", st.integers()),
    errors.DiscoveryBlockExhausted: ("size", st.integers()),
    errors.DiscoveryWorkerNotFound: ("uid", st.uuids()),
}


@pytest.mark.parametrize("kind", FIELDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize(
    "copied", [lambda e: type(e)(*e.args), lambda e: pickle.loads(pickle.dumps(e))], ids=["args", "pickle"]
)
@given(data=st.data())
def test_an_error_of_discovery_is_the_same_when_it_is_rebuilt(kind, copied, data):
    field, values = FIELDS[kind]
    value = data.draw(values)
    error = kind(value)
    rebuilt = copied(error)
    assert type(rebuilt) is kind
    assert isinstance(rebuilt, errors.WoolError)
    assert (rebuilt.args, getattr(rebuilt, field), str(rebuilt)) == ((value,), value, str(error))
    assert type(getattr(rebuilt, field)) is type(value)


@pytest.mark.parametrize("kind", FIELDS, ids=lambda kind: kind.__name__)
def test_an_error_of_discovery_has_one_field_and_needs_it(kind):
    with pytest.raises(TypeError):
        kind()
    with pytest.raises(TypeError):
        kind("one", "two")


def test_an_error_of_discovery_says_what_it_is_about():
    uid = UUID(int=7)
    assert "'mine'" in str(errors.DiscoveryNamespaceNotFound("mine"))
    assert str(uid) in str(errors.DiscoveryWorkerNotFound(uid))
    assert "2000 bytes" in str(errors.DiscoveryBlockExhausted(2000))
    assert "128 places" in str(errors.DiscoveryCapacityExhausted(128))


def said(path):
    """The texts of a module, without its docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docs = {ast.get_docstring(node, clean=False) for node in ast.walk(tree) if isinstance(node, documented)}
    texts = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return [text for text in texts if isinstance(text, str) and text not in docs]


@pytest.mark.parametrize("part", ["aio", "balance", "dispatch", "pool", "worker"])
def test_who_has_no_notebook_is_not_told_of_kernels_and_cells(part):
    """`pool.kernel_pool` and `worker.cell` are a notebook's own."""
    modules = [path for path in (Path(errors.__file__).parent / part).glob("*.py") if path.name != "kernel_pool.py"]
    assert len(modules) > 1
    texts = [text for path in modules for text in said(path)]
    assert [text for text in texts if re.search(r"\b(kernels?|notebooks?|%wool)\b|\b(the|a|next) cells?\b", text)] == []
