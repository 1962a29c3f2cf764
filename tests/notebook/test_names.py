"""Names that a cell binds, deletes and reads."""

import pytest

BINDINGS = [
    pytest.param("x = 1", "x", id="assignment"),
    pytest.param("a = b = [1]", "(a, a is b)", id="two targets"),
    pytest.param("n += 1", "n", id="augmented"),
    pytest.param("s += ' more'", "s", id="augmented text"),
    pytest.param("x: int = 3", "(x, __annotations__)", id="annotated"),
    pytest.param("a, (b, *c) = 1, (2, 3, 4)", "(a, b, c)", id="unpacking"),
    pytest.param("[a, *b] = 'abc'", "(a, b)", id="star"),
    pytest.param("print((x := 5) + 1)", "x", id="walrus"),
    pytest.param("ys = [y for v in range(3) if (y := v) > 0]", "(ys, y)", id="walrus in a comprehension"),
    pytest.param("for i in range(3): last = i", "(i, last)", id="for"),
    pytest.param("for d['k'] in range(3): pass", "d", id="for into an item"),
    pytest.param("while n < 100: n *= 2", "n", id="while"),
    pytest.param("import tempfile\nwith tempfile.TemporaryDirectory() as f: t = f", "t == f", id="with"),
    pytest.param("import contextlib\nwith contextlib.nullcontext((1, 2)) as (a, b): pass", "(a, b)", id="with tuple"),
    pytest.param("import colorsys", "colorsys.__name__", id="import"),
    pytest.param("import colorsys as c", "c.__name__", id="import as"),
    pytest.param(
        "import xml.dom.minidom", "xml.dom.minidom.parseString('<a/>').documentElement.tagName", id="submodule"
    ),
    pytest.param("import os.path as p", "p.basename('a/b')", id="submodule as"),
    pytest.param("from math import tau, pi as p", "(tau, p)", id="from import"),
    pytest.param("from fractions import *", "Fraction(1, 2) + 1 == Fraction(3, 2)", id="star import"),
    pytest.param("def f(a): return a + 1", "f(1)", id="def"),
    pytest.param("f = lambda a: a + n", "f(1)", id="lambda"),
    pytest.param("class C:\n    k = 3\n    def m(self): return self.k", "C().m()", id="class"),
    pytest.param("match [1, 2, 3]:\n    case [a, *rest]: pass", "(a, rest)", id="match"),
    pytest.param("match {'k': 1, 'l': 2}:\n    case {'k': v, **others}: pass", "(v, others)", id="match mapping"),
    pytest.param(
        "try: 1/0\nexcept ZeroDivisionError as e: text = str(e)", "(text, 'e' in globals())", id="except name"
    ),
    pytest.param("e = 1\ntry: 1/0\nexcept ZeroDivisionError as e: pass", "'e' in globals()", id="except name unbinds"),
    pytest.param("def f():\n    global g\n    g = 7\nf()", "g", id="global in a function"),
    pytest.param("class C:\n    global g\n    g = 7", "g", id="global in a class"),
    pytest.param("exec('x = 8; y = x + n')", "(x, y)", id="exec"),
    pytest.param("code = 'x' + ' = n'\nexec(code)", "x", id="exec of computed code"),
    pytest.param("globals()['x'] = 9", "x", id="globals()"),
    pytest.param("globals().update(x=9, y=10)", "(x, y)", id="globals().update"),
    pytest.param("setattr(__import__('sys').modules['__main__'], 'x', 3)", "x", id="setattr on __main__"),
    pytest.param("get_ipython().user_ns['x'] = 3", "x", id="user_ns"),
    pytest.param("get_ipython().push({'x': 3})", "x", id="push"),
    pytest.param("if True: x = 1\nelse: y = 2", "(x, 'y' in globals())", id="if"),
    pytest.param("n = n", "n", id="to itself"),
    pytest.param("d2 = d; d2['new'] = 1", "(d, d2 is d)", id="an alias of an input"),
    pytest.param("_private = 1; __dunder = 2", "(_private, __dunder)", id="underscores"),
    pytest.param("x = None", "x", id="None"),
    pytest.param("x = ...; y = NotImplemented", "(x is ..., y is NotImplemented)", id="singletons"),
    pytest.param("print = 3", "print if isinstance(print, int) else 'builtin'", id="over a builtin"),
    pytest.param("größe = 1; 変数 = 2", "größe + 変数", id="not ASCII"),
    pytest.param("r = !echo hi", "list(r)", id="from a shell"),
    pytest.param("r = %timeit -o -q -n1 -r1 pass", "r.loops", id="from a magic"),
    pytest.param("_ = 4", "_", id="underscore"),
    pytest.param("for _ in range(3): pass", "_", id="underscore as loop variable"),
    pytest.param("_, y = 1, 2", "(_, y)", id="underscore in unpacking"),
    pytest.param("__name__", "__name__", id="__name__ stays"),
    pytest.param("__doc__ = 'mine'", "__doc__", id="__doc__"),
    pytest.param("type = 'a'; list = 'b'", "type + list", id="over type and list"),
]


@pytest.mark.parametrize(("cell", "check"), BINDINGS)
def test_what_a_cell_binds_is_there_afterwards(same, cell, check):
    before = ["n = 41; s = 'text'; d = {'k': 0}"]
    same(cell, before=before, after=[f"import builtins; builtins.print(repr({check}))"])


DELETIONS = [
    pytest.param("del x", id="del"),
    pytest.param("del x, y", id="del two"),
    pytest.param("x = 2\ndel x", id="bound before"),
    pytest.param("del globals()['x']", id="globals()"),
    pytest.param("def f():\n    global x\n    del x\nf()", id="global in a function"),
    pytest.param("exec('del x')", id="exec"),
    pytest.param("%xdel x", id="%xdel"),
    pytest.param("del y[0]", id="item"),
    pytest.param("%reset_selective -f ^x$", id="%reset_selective"),
    pytest.param("del x\nx = 5", id="bound anew"),
    pytest.param("globals().pop('x')", id="pop"),
    pytest.param("for x in (): pass\ndel x\nfor x in (): pass", id="not bound by an empty loop"),
]


@pytest.mark.parametrize("cell", DELETIONS)
def test_what_a_cell_deletes_is_gone(same, cell):
    same(cell, before=["x = 1; y = [1, 2]"], after=["[name for name in ('x', 'y') if name in globals()], y"])


def test_a_name_deleted_in_the_kernel_is_unknown_to_the_next_cell(kernel):
    kernel.ok("x = 1")
    kernel.wool("y = x")
    kernel.ok("del x")
    error = kernel.wool_error("x")
    assert (error.ename, error.evalue) == ("NameError", "name 'x' is not defined")


def test_a_name_of_an_earlier_cell_does_not_linger_on_the_worker(kernel):
    kernel.wool("left = 1")
    kernel.ok("del left")
    assert kernel.wool("print('left' in globals())").stdout == "False\n"


def test_names_bound_before_an_error_come_back(kernel):
    error = kernel.wool_error("a = 1\nb = [a]\n1 / 0\nc = 2")
    assert error.ename == "ZeroDivisionError"
    assert kernel.value("(a, b, 'c' in globals())") == (1, [1], False)


def test_an_unpicklable_global_that_the_cell_does_not_use_is_harmless(kernel):
    kernel.ok("import threading; lock = threading.Lock(); gen = (i for i in range(3)); f = open('/dev/null'); x = 1")
    assert kernel.wool("y = x + 1; print(y)").outputs == kernel.ok("print(2)").outputs


READS = [
    pytest.param("!echo {x}", id="shell with braces"),
    pytest.param("!echo $x", id="shell with dollar"),
    pytest.param("!echo {x + 1} $$HOME_", id="shell expression"),
    pytest.param("out = !echo $x\nprint(out)", id="captured shell"),
    pytest.param("%timeit -n1 -r1 -q f(x)", id="%timeit"),
    pytest.param("print(f'{x=} {x:>5} {f(x)!r} {words[0]}')", id="f-string"),
    pytest.param("print('{x}'.format(**globals()))", id="format with globals()"),
    pytest.param("print(eval('x + ' + '1'))", id="eval"),
    pytest.param("print(sorted(n for n in globals() if n in ('x', 'words', 'f')))", id="globals()"),
    pytest.param("print(sorted(n for n in dir() if n in ('x', 'words', 'f')))", id="dir()"),
    pytest.param("print(vars()['x'], locals()['words'])", id="vars() and locals()"),
    pytest.param("import sys; print(sys.modules['__main__'].x)", id="attribute of __main__"),
    pytest.param("import __main__; print(__main__.x)", id="import __main__"),
    pytest.param("print(get_ipython().user_ns['x'])", id="user_ns"),
    pytest.param("print([x * i for i in range(3)], {x for _ in 'ab'})", id="comprehension"),
    pytest.param(
        "class C:\n    y = x\n    z = [y for _ in range(2)] if False else x\nprint(C.y, C.z)", id="class body"
    ),
    pytest.param("def g(a=x): return a\nprint(g())", id="default"),
    pytest.param("print((lambda: x)())", id="lambda"),
    pytest.param("for words[1] in [x]: pass\nprint(words)", id="target item"),
    pytest.param("d['a'] = x\nprint(d)", id="item assignment"),
    pytest.param("print(h(1))", id="function that reads a global"),
    pytest.param("print(via['h'](1))", id="function in a dict"),
    pytest.param("x and print(x) or words", id="boolean"),
    pytest.param("assert x == 41, words", id="assert"),
    pytest.param(
        "import pandas as pd\nt = 1\ndf = pd.DataFrame({'a': [1, 2]})\nprint(df.query('a > @t'))", id="query, own"
    ),
    pytest.param("print(frame.query('a > @limit'))", id="query"),
    pytest.param("print(frame.eval('a + @limit'))", id="frame.eval"),
    pytest.param("%who_ls int", id="%who_ls"),
    pytest.param("from string import Template\nprint(Template('$x').substitute(globals()))", id="template"),
    pytest.param("from operator import attrgetter\nprint(attrgetter('real')(x))", id="attrgetter"),
    pytest.param("x?", id="help"),
]


@pytest.mark.parametrize("cell", READS)
def test_what_a_cell_reads_is_there(same, cell):
    before = [
        "x = 41; words = ['a', 'b']; d = {}\ndef f(a): return a + 1",
        "def h(a): return f(a) + x\nvia = {'h': h}",
        "import pandas as pd\nframe = pd.DataFrame({'a': [1, 2, 3]}); limit = 1",
    ]
    same(cell, before=before, after=["words, d"])


def test_a_word_in_a_text_that_is_only_printed_ships_nothing(kernel):
    kernel.ok("""
        class Counted:
            shipped = 0
            def __getstate__(self): Counted.shipped += 1; return {}
        frame = Counted()
    """)
    kernel.wool("print('the frame', f'{1 + 1} of the frame')\n'the frame'")
    assert kernel.value("Counted.shipped") == 0
    kernel.wool("query = 'the frame'")
    assert kernel.value("Counted.shipped") > 0


def test_time_above_and_inside_a_cell_shows_the_times_and_binds(kernel):
    above = kernel.ok("%%time\n%%wool\nx = 1\nprint(x)")
    inside = kernel.ok("%%wool\n%%time\ny = 2\nprint(y)")
    for result, shown in ((above, "1\n"), (inside, "2\n")):
        assert result.stdout.startswith(shown)
        assert "Wall time" in result.stdout
        assert result.stderr == ""
    assert kernel.value("(x, y)") == (1, 2)


RESULTS = [
    pytest.param("1 + 1", id="number"),
    pytest.param("1 + 1;", id="silenced"),
    pytest.param("1 + 1; # comment", id="silenced with a comment"),
    pytest.param("'a;'", id="semicolon in text"),
    pytest.param("None", id="None"),
    pytest.param("x = 3", id="no expression"),
    pytest.param("1\n2", id="last of two"),
    pytest.param("if True:\n    3", id="in a block"),
    pytest.param("[1, 2, 3]", id="list"),
    pytest.param("import pandas as pd; pd.DataFrame({'a': [1]})", id="frame"),
    pytest.param("from IPython.display import HTML; HTML('<b>x</b>')", id="html"),
    pytest.param("import numpy as np; np.arange(2000).reshape(2, -1)", id="array"),
    pytest.param(
        "class R:\n    def _repr_html_(self): return '<i>r</i>'\n    def __repr__(self): return 'R'\nR()", id="class"
    ),
    pytest.param("(i for i in ())", id="generator"),
    pytest.param("import threading; threading.Lock()", id="lock"),
    pytest.param("print('a'); 'b'", id="after a print"),
    pytest.param("...", id="ellipsis"),
    pytest.param(
        "class Quiet:\n    def __repr__(self): raise ValueError('no')\nprint('made')", id="bad repr, not shown"
    ),
    pytest.param("%%time\n5", id="%%time"),
    pytest.param("f = lambda: 1\nf", id="function"),
    pytest.param("int", id="type"),
    pytest.param("import math; math", id="module"),
    pytest.param("_ + 1", id="previous result"),
    pytest.param("_1", id="numbered result"),
    pytest.param("Out[1]", id="Out[1]"),
    pytest.param("In[1]", id="In[1]"),
    pytest.param("_i1", id="_i1"),
    pytest.param("_i", id="_i"),
    pytest.param("len(In)", id="len(In)"),
]


@pytest.mark.parametrize("cell", RESULTS)
def test_the_last_expression_is_shown_and_kept(kernel, same, cell):
    import re

    if "%%time" in cell:
        result = kernel.wool(cell)
        assert re.search("Wall time", result.stdout)
        assert result.value == "5"
        return
    same(cell, before=["7"], after=["_", "sorted(Out)", "__"])


def test_time_of_one_line_shows_its_value(kernel):
    kernel.ok("x = 41\ndef f(a): return a + 1")
    assert kernel.wool("%time f(x)").value == "42"


def test_capture_inside_a_cell_binds_what_was_captured(kernel):
    kernel.ok("x = 41")
    assert kernel.wool("%%capture c\nprint(x)").outputs == []
    assert kernel.ok("c.show()").stdout == "41\n"


def test_a_result_is_the_same_object_as_the_name(kernel):
    kernel.wool("x = [1]\nx")
    assert kernel.value("_ is x")


def test_the_result_of_a_cell_is_passed_on_by_run_cell_magic(kernel):
    assert kernel.ok("v = get_ipython().run_cell_magic('wool', '', '6 * 7')").outputs == []
    assert kernel.value("v") == 42


def test_inputs_that_are_aliases_of_each_other_arrive_as_one_object(kernel):
    kernel.ok("a = [1]; b = a; c = {'a': a}")
    assert kernel.wool("print(a is b, c['a'] is a)").stdout == "True True\n"


def test_outputs_that_are_aliases_of_each_other_arrive_as_one_object(kernel):
    kernel.wool("a = [1]; b = a; c = {'a': a}; t = (a, c)")
    assert kernel.value("(a is b, c['a'] is a, t[1] is c)") == (True, True, True)


def test_unchanged_inputs_keep_their_identity(kernel):
    kernel.ok(
        "import numpy as np, pandas as pd\n"
        "xs = [[1], {'k': (2,)}]; arr = np.arange(100_000); df = pd.DataFrame({'a': [1]}); f = lambda: xs\n"
        "class K: pass\n"
        "k = K(); k.xs = xs; s = {1, 2}; t = (xs, arr)\n"
        "names = 'xs arr df f K k s t'.split(); before = [id(globals()[n]) for n in names]"
    )
    kernel.wool("print(len(xs), arr.sum(), df.shape, f(), k.xs, s, t[0]); K")
    assert kernel.value("[n for n, i in zip(names, before) if id(globals()[n]) != i]") == []


def test_an_input_that_is_bound_to_another_name_is_the_same_object(kernel):
    kernel.ok("import numpy as np\nxs = [1]; arr = np.arange(100_000); t = (1, xs)\nclass K: pass\nk = K()")
    kernel.wool("ys = xs; arr2 = arr; k2 = k; pair = (k, xs); t2 = t; L = K")
    assert kernel.value("(ys is xs, arr2 is arr, k2 is k, pair[0] is k, pair[1] is xs, t2 is t, L is K)") == (True,) * 7
