import io
import json
import linecache
import pickle
import sys
import traceback
from dataclasses import dataclass

import cloudpickle
import numpy as np
import pytest

from wool_jupyter.wire import tracebacks
from wool_jupyter.wire.exceptions import reduce_exception
from wool_jupyter.wire.tracebacks import ReprOnly, frames_of, traceback_from


class Pickler(cloudpickle.Pickler):
    def reducer_override(self, obj):
        if isinstance(obj, BaseException):
            return reduce_exception(obj, portable=is_portable)
        return super().reducer_override(obj)


def dumped(value):
    stream = io.BytesIO()
    Pickler(stream, protocol=5).dump(value)
    return stream.getvalue()


def is_portable(value):
    try:
        dumped(value)
    except Exception:
        return False
    return True


def travelled(value):
    return pickle.loads(dumped(value))


def raised_by(source, **names):
    """What the cell `source` raises, without the frame of this function."""
    name = f"<ipython-input-{hash(source)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    namespace = {"__name__": "__main__", **names}
    try:
        exec(compile(source, name, "exec"), namespace)
    except BaseException as error:
        return error.with_traceback(error.__traceback__.tb_next)
    raise AssertionError("nothing was raised")


def shown(error):
    return "".join(traceback.format_exception(error))


class QuotaError(Exception):
    def __init__(self, who, limit, /, *, unit):
        super().__init__(f"{who} is over {limit} {unit}")
        self.who, self.limit, self.unit = who, limit, unit


class MissingError(FileNotFoundError):
    def __init__(self, path, *, hint):
        super().__init__(2, "nope", path)
        self.hint = hint


@dataclass
class RejectedError(Exception):
    code: int
    reason: str = ""


@dataclass(frozen=True)
class FrozenError(Exception):
    code: int


class BothError(KeyError, AttributeError):
    def __init__(self, key):
        super().__init__(key)
        self.key = key


class SlottedError(Exception):
    __slots__ = ("where",)


class BrokenRepr:
    def __repr__(self):
        raise ZeroDivisionError

    def __reduce__(self):
        raise TypeError("stays here")


BUILT_IN = [
    pytest.param(
        OSError(2, "No such file", "/a", None, "/b"), ["errno", "strerror", "filename", "filename2"], id="OSError"
    ),
    pytest.param(
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
        ["encoding", "object", "start", "end", "reason"],
        id="Unicode",
    ),
    pytest.param(SystemExit(3), ["code"], id="SystemExit"),
    pytest.param(KeyError("k"), [], id="KeyError"),
    pytest.param(StopIteration(7), ["value"], id="StopIteration"),
    pytest.param(ImportError("m", name="mod", path="/p"), ["msg", "name", "path"], id="ImportError"),
    pytest.param(
        SyntaxError("bad", ("f.py", 3, 2, "x = (\n", 3, 5)), ["filename", "lineno", "offset", "text"], id="SyntaxError"
    ),
    pytest.param(NameError("n", name="x"), ["name"], id="NameError"),
    pytest.param(KeyboardInterrupt(), [], id="KeyboardInterrupt"),
]


@pytest.mark.parametrize(("error", "fields"), BUILT_IN)
def test_built_in_errors_keep_args_and_fields(error, fields):
    back = travelled(error)
    assert type(back) is type(error)
    assert back.args == error.args
    assert str(back) == str(error)
    assert [getattr(back, name) for name in fields] == [getattr(error, name) for name in fields]


def test_the_object_of_an_attribute_error_stays_behind():
    error = raised_by("[].nope")
    assert error.obj == []
    assert travelled(error).obj is None
    assert travelled(error).name == "nope"


def test_an_attribute_of_the_same_name_travels():
    error = ValueError()
    error.obj = 5
    assert travelled(error).obj == 5


@pytest.mark.parametrize(
    "error",
    [
        QuotaError("ann", 3, unit="GB"),
        MissingError("/p", hint="h"),
        RejectedError(4, "why"),
        FrozenError(5),
        BothError("k"),
        json.JSONDecodeError("m", "{", 1),
    ],
    ids=lambda error: type(error).__name__,
)
def test_classes_with_required_arguments_travel_without_their_init(error):
    back = travelled(error)
    assert type(back) is type(error)
    assert (back.args, vars(back), str(back)) == (error.args, vars(error), str(error))


def test_slots_travel():
    error = SlottedError("s")
    error.where = "here"
    assert travelled(error).where == "here"


def test_a_slot_that_holds_none_holds_none():
    """`AxisError` of numpy reads all three of its own to say what it is."""
    error = SlottedError("s")
    error.where = None
    assert travelled(error).where is None
    assert not hasattr(travelled(SlottedError("s")), "where")
    axis = np.exceptions.AxisError(1, 1)
    assert str(travelled(axis)) == str(axis) == "axis 1 is out of bounds for array of dimension 1"


def test_a_class_of_the_notebook_is_matched_by_except():
    source = (
        "class Odd(ValueError):\n"
        "    def __init__(self, a, *, b): super().__init__(a); self.b = b\n"
        "try: raise Odd(1, b=2)\n"
        "except Odd as error: caught = error\n"
        "raise caught"
    )
    back = travelled(raised_by(source))
    assert isinstance(back, ValueError)
    assert (type(back).__name__, back.args, back.b) == ("Odd", (1,), 2)


def test_notes_travel():
    error = ValueError("v")
    error.add_note("look here")
    assert travelled(error).__notes__ == ["look here"]


def test_cause_context_and_suppression_travel():
    source = "try:\n    {}['k']\nexcept KeyError as e:\n    raise RuntimeError('outer') from e"
    back = travelled(raised_by(source))
    assert isinstance(back.__cause__, KeyError)
    assert back.__context__ is back.__cause__
    assert back.__suppress_context__

    back = travelled(raised_by("try:\n    {}['k']\nexcept KeyError:\n    raise RuntimeError from None"))
    assert back.__cause__ is None
    assert isinstance(back.__context__, KeyError)
    assert back.__suppress_context__


def test_a_cycle_of_causes_travels():
    first, second = ValueError(1), ValueError(2)
    first.__cause__, second.__cause__ = second, first
    back = travelled(first)
    assert back.__cause__.__cause__ is back


def test_a_cycle_through_an_attribute_travels():
    first, second = ValueError(1), ValueError(2)
    first.others, second.others = [second], [first]
    back = travelled(first)
    assert back.others[0].args == (2,)
    assert back.others[0].others[0] is back


def test_groups_travel_with_what_is_nested():
    error = BaseExceptionGroup(
        "g", [ValueError(1), ExceptionGroup("h", [TypeError(2), RejectedError(3)]), SystemExit(4)]
    )
    error.extra = 5
    back = travelled(error)
    assert type(back) is BaseExceptionGroup
    assert back.message == "g"
    assert back.exceptions[1].exceptions[1].code == 3
    assert back.exceptions[2].code == 4
    assert back.extra == 5


@pytest.mark.parametrize("pick", [lambda child, group: child, lambda child, group: group], ids=["child", "group"])
def test_a_group_in_the_context_of_its_own_child_travels(pick):
    child = raised_by(
        "try:\n    raise ExceptionGroup('g', [ValueError(1)])\nexcept ExceptionGroup as e:\n    raise e.exceptions[0]"
    )
    back = travelled(pick(child, child.__context__))
    assert "ValueError: 1" in shown(back)
    assert "ExceptionGroup: g" in shown(back)


def test_an_attribute_that_cannot_travel_becomes_its_repr():
    error = ValueError(io.StringIO)
    error.args = (1, BrokenRepr())
    error.frame, error.fine = sys._getframe(), 6
    back = travelled(error)
    assert isinstance(back.frame, ReprOnly)
    assert repr(back.frame).startswith("<frame at")
    assert back.fine == 6
    assert back.args[0] == 1
    assert "BrokenRepr" in repr(back.args[1])


def test_a_class_that_cannot_travel_falls_back_to_its_built_in_base():
    class BoundError(OSError):
        frame = sys._getframe()

    back = travelled(BoundError(13, "denied", "/f"))
    assert type(back) is OSError
    assert (back.errno, back.filename) == (13, "/f")
    assert "BoundError: [Errno 13] denied: '/f'" in back.__notes__[0]


def test_how_a_kernel_shows_an_error_never_travels():
    error = ValueError(1)
    error._render_traceback_ = list
    assert not hasattr(travelled(error), "_render_traceback_")


CELLS = [
    pytest.param(
        "def f(a, b=1, /, *c, d, **e):\n    x = a\n    return a / b + (a / (b - 1))\nf(1, d=2, z=3)", id="function"
    ),
    pytest.param("class A:\n    def m(self):\n        return self.x.y\nA().m()", id="method"),
    pytest.param("k = lambda a: a + undefined\nk(1)", id="lambda"),
    pytest.param("x = [1 / n for n in (1, 0)]", id="comprehension"),
    pytest.param("sum(1 / n for n in (1, 0))", id="generator expression"),
    pytest.param("def g():\n    yield 1\n    yield {}['é'] + {}['b']\nlist(g())", id="generator"),
    pytest.param("class A:\n    y = 1\n    z = y.nope", id="class body"),
    pytest.param(
        "def f():\n    def g(n):\n        def h(): return n()\n        return h()\n    return g(3)\nf()", id="nested"
    ),
    pytest.param("def d(f): return lambda *a: f(*a)\n@d\n@d\ndef f(x):\n    return x.upper()\nf(3)", id="decorated"),
    pytest.param("assert (1 +\n    1) == 3, 'long'", id="two lines"),
    pytest.param("é = 'ü'; é.split('ß') + 1", id="wide characters"),
    pytest.param("import json\njson.loads('{')", id="library"),
    pytest.param(
        "import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    {}[3]\nasyncio.run(f())", id="asyncio"
    ),
    pytest.param("exec('x = (')", id="syntax error"),
    pytest.param("def f(n): return f(n - 1)\nf(1)", id="deep recursion"),
    pytest.param("try:\n    {}['k']\nexcept KeyError as e:\n    raise RuntimeError('outer') from e", id="cause"),
    pytest.param("try:\n    {}['k']\nexcept KeyError as e:\n    1 / 0", id="context"),
    pytest.param("raise ExceptionGroup('g', [ValueError(1), ExceptionGroup('h', [TypeError()])])", id="group"),
]


@pytest.mark.parametrize("source", CELLS)
def test_the_traceback_reads_as_the_original_from_the_cell_on(source):
    error = raised_by(source)
    assert shown(travelled(error)) == shown(error)


def test_a_travelled_traceback_can_travel_on():
    error = raised_by("def f(a):\n    return 1 / a\nf(0)")
    once = travelled(error)
    assert shown(travelled(once)) == shown(once)


def test_frames_keep_names_parameters_and_locals():
    error = raised_by("def f(a, /, b, *c, d, **e):\n    x = [a, b]\n    return x[9]\nf(1, 2, 3, d=4, z=5)")
    frame = traceback_from(frames_of(error.__traceback__)).tb_next.tb_frame
    code = frame.f_code
    assert (code.co_name, code.co_qualname, code.co_firstlineno) == ("f", "f", 1)
    assert (code.co_posonlyargcount, code.co_argcount, code.co_kwonlyargcount) == (1, 2, 1)
    assert code.co_varnames[:5] == ("a", "b", "d", "c", "e")
    assert {name: repr(value) for name, value in frame.f_locals.items()} == {
        "a": "1", "b": "2", "c": "(3,)", "d": "4", "e": "{'z': 5}", "x": "[1, 2]",
    }  # fmt: skip


def test_a_local_with_a_broken_repr_is_shown_by_its_type():
    back = travelled(raised_by("def f(a):\n    1 / 0\nf(broken)", broken=BrokenRepr()))
    assert "BrokenRepr" in repr(back.__traceback__.tb_next.tb_frame.f_locals["a"])


def test_reprs_of_locals_are_bounded():
    error = raised_by("def f(a, b):\n    1 / 0\nf('x' * 10_000, list(range(10_000)))")
    (_, record) = frames_of(error.__traceback__)
    assert max(map(len, record.local_reprs)) <= tracebacks.REPR_CHARS_MAX


def test_of_a_very_deep_recursion_both_ends_are_kept():
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + 5000)
    try:
        error = raised_by("def f(n): return f(n - 1) if n else 1 / 0\nf(3000)")
    finally:
        sys.setrecursionlimit(limit)
    records = frames_of(error.__traceback__)
    assert len(records) == tracebacks.FRAMES_MAX
    assert records[0].name == "<module>"
    assert records[-1].local_reprs == ("0",)


def in_package(source, **names):
    """Runs `source` as if it were a file of wool_jupyter."""
    namespace = {"__name__": "wool_jupyter.worker.runner", **names}
    exec(compile(source, tracebacks._PACKAGE + "worker/runner.py", "exec"), namespace)


def test_frames_above_the_cell_are_dropped():
    def run():
        raise raised_by("1 / 0")

    with pytest.raises(ZeroDivisionError) as caught:
        in_package("import asyncio\nasync def f(): run()\nasyncio.run(f())", run=run)
    assert [record.name for record in frames_of(caught.tb)] == ["<module>"]


def test_without_a_frame_of_the_cell_what_is_not_ours_is_kept():
    with pytest.raises(json.JSONDecodeError) as caught:
        in_package("import json\njson.loads('{')")
    files = [record.file for record in frames_of(caught.tb)]
    assert not any(file.startswith(tracebacks._PACKAGE) for file in files)
    assert files[-1] == json.decoder.__file__


def test_a_library_frame_that_calls_back_is_kept_in_a_context():
    source = (
        "import functools\n"
        "def back(a, b): 1 / 0\n"
        "try:\n    functools.reduce(back, [1, 2])\nexcept Exception as e:\n    saved = e\n"
        "raise saved"
    )
    assert [record.name for record in frames_of(raised_by(source).__traceback__)] == ["<module>", "<module>", "back"]
