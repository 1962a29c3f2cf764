import pytest

from wool_jupyter.wire.code_names import function_reads, identifiers, nested_codes, own_names


def module(source):
    return compile(source, "<test>", "exec")


def function(source):
    namespace = {}
    exec(module(source), namespace)
    return namespace["f"].__code__


def names(text):
    return set(text.split())


@pytest.mark.parametrize(
    ("source", "reads", "stores", "deletes"),
    [
        pytest.param("y = x", "x", "y", "", id="plain"),
        pytest.param("x += 1", "x", "x", "", id="augmented"),
        pytest.param("x = 1; y = x", "", "x y", "", id="read-after-store"),
        pytest.param("if a: x = 1\ny = x", "a x", "x y", "", id="read-after-branch"),
        pytest.param("try: x = f()\nexcept E: pass\nx", "f E x", "x", "", id="read-after-handler"),
        pytest.param("x = 1; del x; x", "x", "x", "x", id="read-after-delete"),
        pytest.param("def f(): return g", "", "f", "", id="nested-code-is-left-out"),
        pytest.param("import a.b as c", "", "c", "", id="import"),
    ],
)
def test_own_names_of_a_module(source, reads, stores, deletes):
    own = own_names(module(source))
    assert own.module == (names(reads), names(stores), names(deletes))
    assert own.class_body == (set(), set(), set())


def test_own_names_of_a_class_body_are_apart():
    _, body = nested_codes(module("class A:\n  global g\n  x = y\n  g = x\n  del x"))
    own = own_names(body)
    assert own.class_body.reads - {"__name__"} == {"y"}
    assert {"x"} <= own.class_body.stores
    assert own.class_body.deletes == {"x"}
    assert own.module == (set(), {"g"}, set())


def test_own_names_of_a_function_are_its_globals():
    _, body = nested_codes(module("def f(a):\n  global g, d\n  b = a + h\n  g = b\n  del d"))
    assert own_names(body).module == ({"h"}, {"g"}, {"d"})


def test_nested_codes_come_outermost_first():
    code = module("def f():\n  class A:\n    def g(self): return lambda: 1\n")
    assert [each.co_name for each in nested_codes(code)] == ["<module>", "f", "A", "g", "<lambda>"]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("def f(a): return a + g", "g", id="global"),
        pytest.param("def f():\n  def h(): return [deep for _ in seq]\n  return h", "deep seq", id="nested"),
        pytest.param("def f():\n  global c\n  c += 1", "c", id="counter"),
        pytest.param("def f():\n  global c\n  c = 1\n  return c", "", id="only-stored"),
        pytest.param("def f():\n  global c\n  del c", "c", id="deleted"),
        pytest.param("def f():\n  class A(B):\n    x = 1\n    y = x + z\n  return A", "B z", id="class-inside"),
        pytest.param("def f(): return f", "f", id="recursion"),
        pytest.param("def f():\n  import os\n  return os", "", id="import-inside"),
        pytest.param("def f():\n  yield from source", "source", id="generator"),
        pytest.param("async def f():\n  async with s as t: await t.get(url)", "s url", id="async"),
    ],
)
def test_names_that_a_function_reads(source, expected):
    found = function_reads(function(source))
    assert found.names - {"__name__"} == names(expected)
    assert not found.whole_namespace


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("def f(d): return d.query('a > @limit')", "a limit", id="query"),
        pytest.param("def f(d):\n  'all about data'\n  return d", "", id="docstring"),
        pytest.param("def f():\n  'data'\n  return 'data'", "data", id="docstring-used-as-a-string-too"),
        pytest.param("f = lambda: 'word'", "word", id="lambda"),
        pytest.param("def f(x): return f'{x} of total'", "of total", id="f-string"),
        pytest.param("def f(x): return x in ('one', 'two')", "one two", id="folded-tuple"),
        pytest.param("def f(x): return x in {'one', 'two'}", "one two", id="folded-set"),
        pytest.param("def f(d): return [d.eval('inner') for _ in d]", "inner", id="comprehension"),
        pytest.param("def f():\n  def g():\n    'prose'\n    return 'code'\n  return g", "code", id="nested-docstring"),
        pytest.param("def f():\n  from os import path as p\n  return p", "", id="import-list"),
        pytest.param("def f(g): return g(key=1)", "", id="keyword-arguments"),
        pytest.param("def f(): return g('g')", "", id="already-a-name"),
        pytest.param("def f(): return 'a' 'b', b'bytes'", "ab", id="bytes"),
    ],
)
def test_text_of_a_function(source, expected):
    assert function_reads(function(source)).text == names(expected)


def test_class_docstring_and_names_of_the_compiler_are_not_text():
    found = function_reads(function("def f():\n  class A:\n    'prose'\n    k = 'code'\n    def m(self): self.z = 1"))
    assert found.text - {"A"} == {"code"}


def test_attributes_of_a_function():
    found = function_reads(function("def f(a):\n  a.x.y()\n  a.z = lambda: b.deep\n  del a.w\n  return super().m"))
    assert {"x", "y", "z", "deep", "w"} <= found.attributes
    assert "a" not in found.attributes
    assert "b" not in found.attributes


@pytest.mark.parametrize(
    ("source", "whole"),
    [
        pytest.param("def f(): return globals()['x']", True, id="globals"),
        pytest.param("def f(c): exec(c)", True, id="exec"),
        pytest.param("def f(c): return eval(c + '1')", True, id="eval-of-an-expression"),
        pytest.param("def f(): return eval('x + 1')", False, id="eval-of-a-constant"),
        pytest.param("def f(cs): return map(eval, cs)", True, id="eval-passed-on"),
        pytest.param("def f():\n  def g(c): exec(c)\n  return g", True, id="nested"),
        pytest.param("def f(): return locals()", False, id="locals"),
        pytest.param("def f(m): return m.eval(), m.globals", False, id="attributes"),
    ],
)
def test_function_that_looks_at_its_whole_namespace(source, whole):
    assert function_reads(function(source)).whole_namespace is whole


def test_equal_code_is_read_once():
    code = function("def f(): return g")
    assert function_reads(code) is function_reads(code)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("a > @limit and b.c < 1e5", "a limit b c", id="query"),
        pytest.param("ls {path} $HOME", "ls path HOME", id="shell"),
        pytest.param("größe + x_1 - _y", "größe x_1 _y", id="unicode-and-underscores"),
        pytest.param("for if None", "", id="keywords"),
        pytest.param("3 4.5 10px", "", id="numbers"),
        pytest.param("", "", id="empty"),
    ],
)
def test_identifiers(text, expected):
    assert identifiers(text) == names(expected)
