"""What a cell reads, binds and changes, as far as background jobs are concerned."""

import ast
import functools
import logging
import types

import pytest
from IPython.core.inputtransformer2 import TransformerManager

from wool_jupyter.notebook import reads
from wool_jupyter.notebook.capture import analyze


def python(cell):
    return TransformerManager().transform_cell(cell)


def read(cell, namespace=None, wanted=("x",)):
    source = python(cell)
    return reads.names_read(ast.parse(source), analyze(source), namespace or {}, set(wanted))


def namespace_of(code):
    namespace = {"__name__": "__main__"}
    exec(code, namespace)
    return namespace


@pytest.mark.parametrize(
    "cell",
    [
        "print(x)",
        "x += 1",
        "x.append(1)",
        "print(x); del x",
        "def f(): return x\nf()",
        "def f(): return x\nregister(f)",
        "def f(): return x\n%timeit f()",
        "def f(): return x\nexec('f()')",
        "def f(): return x\ndef g(): return f()\ng()",
        "def f(): return x\nx",
        "def f(): return 1\nx += 1",
        "def f(a=x): return a",
        "def f(a: x): return a",
        "@register\ndef f(): return x",
        "@cache(x)\ndef f(): return 1",
        "f = lambda: x\nprint(f())",
        "f = [lambda: x]",
        "class C:\n    def get(self): return x\nC().get()",
        "class C:\n    kept = x",
        "class C(x): pass",
        "class C(metaclass=x): pass",
        "async def f(): return x\nawait f()",
        "if a:\n    def f(): return x\n    f()",
        "def f():\n    exec('x')\nf()",
        "!ls {x}",
        "!ls $x",
        "%store x",
        "%time print(x)",
        "%timeit x + 1",
        "%%bash\necho $x",
        "df.query('a > @x')",
        "duckdb.sql('select * from x')",
        "eval('x')",
        "if a:\n    x",
        "await x",
    ],
)
def test_it_is_read(cell):
    assert "x" in read(cell)


@pytest.mark.parametrize(
    "cell",
    [
        "x = 1",
        "x = 1\nprint(x)",
        "del x",
        "print('x')",
        "[x for x in range(3)]",
        "a.x",
        "f(x=1)",
        "def f(x): return x",
        "lambda x: x",
        "def f(): return x",
        "def f(): return f() + x",
        "def f(): return x\ndef g(): return f()",
        "def f():\n    return x\nprint('f is there')",
        "async def f(): return x",
        "f = lambda: x",
        "class C:\n    def get(self): return x",
        "class C(Base):\n    @property\n    def p(self): return x",
        "from dataclasses import dataclass\n@dataclass\nclass C:\n    a: int = 0\n    def get(self): return x",
        "import functools\n@functools.lru_cache(maxsize=None)\ndef f(): return x",
        "def f():\n    def g(): return x\n    return g()",
        "if a:\n    def f(): return x",
        "def f(): exec('x')",
        "!ls x",
        "%%bash\necho x",
        "%%wool --bg\nprint(x)",
        "%wool cancel x",
        "%%writefile file\nx",
    ],
)
def test_it_is_not_read(cell):
    assert "x" not in read(cell)


@pytest.mark.parametrize("cell", ["globals()", "dir()", "exec(code)", "%who", "%run -i script.py"])
def test_anything_may_be_read(cell):
    assert read(cell) is None


@pytest.mark.parametrize(
    ("before", "cell"),
    [
        ("def f(): return x", "f()"),
        ("def g(): return x\ndef f(): return g()", "f()"),
        ("class C:\n    def get(self): return x\nc = C()", "c.get()"),
        ("class B:\n    def get(self): return x\nclass C(B): pass", "C().get()"),
        ("class C:\n    @property\n    def p(self): return x\nc = C()", "c.p"),
        ("class C:\n    @staticmethod\n    def s(): return x", "C.s()"),
        ("f = [lambda: x]", "f[0]()"),
        ("f = {'a': lambda: x}", "f['a']()"),
        ("def outer():\n    def g(): return x\n    return lambda: g()\nf = outer()", "f()"),
        ("import functools\ndef g(a): return x\nf = functools.partial(g, 1)", "f()"),
        ("import functools\n@functools.lru_cache\ndef f(): return x", "f()"),
        ("from functools import wraps\ndef d(f):\n    return wraps(f)(lambda: f())\n@d\ndef f(): return x", "f()"),
        ("class C:\n    def get(self): return x\nm = C().get", "m()"),
        ("class C: pass\nc = C()\nc.f = lambda: x", "c.f()"),
    ],
)  # fmt: skip
def test_it_is_read_by_what_the_cell_uses(before, cell):
    assert "x" in read(cell, namespace_of(before))


def test_a_function_that_reads_anything():
    assert read("f()", namespace_of("def f(): return globals()")) is None


def test_the_old_value_of_a_pending_name_is_not_asked():
    namespace = namespace_of("def x(): return y")
    assert read("x()", namespace) == {"x"}


def test_large_data_is_not_searched_to_its_end():
    """What is first in it is looked at last."""
    for rows, found in ((20, True), (99, False)):
        namespace = namespace_of("f = lambda: x")
        namespace["data"] = [namespace["f"], *([[object()] for _ in range(100)] for _ in range(rows))]
        assert ("x" in read("data", namespace)) is found


def test_no_method_of_the_user_is_called():
    namespace = namespace_of(
        "class Bad(list):\n    def __iter__(self): raise AssertionError\n    __len__ = __getattribute__ = __iter__\nbad = Bad()"
    )
    assert "bad" in read("bad", namespace)


def test_a_container_that_holds_itself():
    namespace = {"a": []}
    namespace["a"].append(namespace["a"])
    assert read("a", namespace) == {"a"}


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("x = 1\nfor i in x: y = i", {"x", "i", "y"}),
        ("import a.b\nfrom c import d as e", {"a", "e"}),
        ("del old", {"old"}),
        ("for _ in range(3): pass", set()),
        ("def f(): local = 1", {"f"}),
        ("def f():\n    global g\n    g = 1", {"f", "g"}),
    ],
)
def test_names_bound(cell, expected):
    assert reads.names_bound(analyze(cell)) == expected


def test_names_imported():
    assert reads.names_imported(ast.parse("import a.b, c as d\nif x:\n    from e import f, g as h")) == {
        "a",
        "d",
        "f",
        "h",
    }


class Model:
    def fit(self): ...


@pytest.mark.parametrize(
    ("cell", "changes"),
    [
        ("model.fit(1)", {"model"}),
        ("if a:\n    model.fit(1)", {"model"}),
        ("items.append(1)", {"items"}),
        ("items[0] = 1", {"items"}),
        ("items[0] += 1", {"items"}),
        ("del items[0]", {"items"}),
        ("model.a.b = 1", {"model"}),
        ("model.parts['a'].append(1)", {"model"}),
        ("fitted = model.fit(1)", set()),
        ("len(items)", set()),
        ("print(model.a)", set()),
        ("function.cache_clear()", set()),
        ("module.dedent('')", set()),
        ("log.info('')", set()),
        ("text.upper()", set()),
        ("def f(): items.append(1)", set()),
        ("unknown.append(1)", set()),
    ],
)
def test_names_changed(cell, changes):
    namespace = {
        "model": Model(), "items": [1], "function": functools.lru_cache(len), "module": types.ModuleType("m"),
        "log": logging.getLogger("a"), "text": "a",
    }  # fmt: skip
    assert reads.names_changed(ast.parse(cell), namespace) == changes


def test_a_frame_is_changed_by_a_method_only_if_it_says_so():
    pandas = pytest.importorskip("pandas")
    namespace = {"frame": pandas.DataFrame({"a": [1]})}
    assert reads.names_changed(ast.parse("frame.head()"), namespace) == set()
    assert reads.names_changed(ast.parse("frame.drop(columns='a', inplace=True)"), namespace) == {"frame"}
    assert reads.names_changed(ast.parse("frame['b'] = 1"), namespace) == {"frame"}
