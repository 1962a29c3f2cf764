"""Routines of a notebook: its functions and classes have no module that a worker could import."""

import sys

import pytest

from tests.support.loops import run
from tests.support.routine_workers import pool_directory, routines_on
from tests.support.sides import Side
from wool_jupyter.errors import StaysInKernel

IMPORTS = """
import asyncio, math, sys
from wool_jupyter.dispatch.routine import routine
"""


@pytest.fixture
def sockets():
    with pool_directory() as directory:
        yield directory


def notebook(sockets, *cells, workers=1, **options):
    """What the last cell's `main` returns, awaited beside workers."""
    kernel = Side()
    kernel.run(IMPORTS)
    for cell in cells:
        kernel.run(cell)

    async def main():
        with kernel:
            async with routines_on(sockets, workers=workers, **options) as (proxy, _):
                return await kernel.names["main"](proxy)

    return run(main()), kernel


def test_a_function_finds_the_globals_that_it_reads_however_deep(sockets):
    found, _ = notebook(
        sockets,
        """
        FACTOR, unrelated = 7, memoryview(b"can't travel")

        def scaled(x):
            return x * FACTOR + len(math.__name__)

        @routine
        async def through(x):
            return [scaled(each) for each in x]

        async def main(proxy):
            return await through([1, 2])
        """,
    )
    assert found == [11, 18]


def test_two_calls_share_nothing_and_neither_shares_with_the_notebook(sockets):
    found, kernel = notebook(
        sockets,
        """
        count = 0

        @routine
        async def up():
            global count
            count += 1
            await asyncio.sleep(0)
            return count

        async def main(proxy):
            return await asyncio.gather(up(), up(), up())
        """,
    )
    assert found == [1, 1, 1]
    assert kernel.names["count"] == 0


def test_a_routine_of_a_notebook_never_meets_the_main_module_of_its_worker(sockets):
    """There a cell may be running."""
    found, _ = notebook(
        sockets,
        """
        here = "the notebook's"

        @routine
        async def looks():
            globals()["left"] = 1
            return here, sys.modules["__main__"].__dict__ is globals(), __name__

        async def main(proxy):
            return await looks()
        """,
    )
    assert found == ("the notebook's", False, "__main__")
    assert not hasattr(sys.modules["__main__"], "left")


def test_classes_keep_their_identity_there_and_back(sockets):
    found, kernel = notebook(
        sockets,
        """
        class Point:
            made = 0

            def __init__(self, x):
                self.x = x
                Point.made += 1

            def __eq__(self, other):
                return isinstance(other, Point) and self.x == other.x

            @routine
            async def moved(self, by):
                return Point(self.x + by), type(self) is Point, Point.made

            @routine
            async def track(self):
                received = yield self
                while received is not None:
                    received = yield isinstance(received, Point), Point(received.x + 1)

        async def main(proxy):
            start = Point(1)
            moved, same, made = await start.moved(4)
            track = start.track()
            first = await anext(track)
            second = await track.asend(Point(5))
            await track.aclose()
            return moved, same, made, first, second
        """,
    )
    moved, same, made, first, second = found
    point = kernel.names["Point"]
    assert (type(moved), moved.x, same, made) == (point, 5, True, 2)
    assert (type(first), first.x) == (point, 1)
    assert (second[0], type(second[1]), second[1].x) == (True, point, 6)
    assert point.made == 2, "what is made there is counted there"


def test_a_method_that_runs_while_objects_are_loaded_finds_its_globals(sockets):
    found, _ = notebook(
        sockets,
        """
        OFFSET = 100

        def shifted(x):
            return x + OFFSET

        class Loaded:
            def __init__(self, x):
                self.x = x

            def __getstate__(self):
                return self.x

            def __setstate__(self, x):
                self.x = shifted(x)

        @routine
        async def value(of):
            return of.x

        async def main(proxy):
            return await value(Loaded(1))
        """,
    )
    assert found == 101


def test_functions_and_closures_come_home_bound_to_the_notebook(sockets):
    found, kernel = notebook(
        sockets,
        """
        base = 10

        @routine
        async def adder(n):
            def add(x):
                return base + n + x
            return add

        async def main(proxy):
            return await adder(1)
        """,
    )
    kernel.names["base"] = 20
    assert found.__globals__ is kernel.names
    assert found(1) == 22


def test_an_exception_of_the_notebook_arrives_as_its_class_with_its_lines(sockets):
    found, kernel = notebook(
        sockets,
        """
        class Odd(Exception):
            def __init__(self, first, second):
                super().__init__(f"{first}, {second}")
                self.first, self.second = first, second

        @routine
        async def odd():
            raise Odd(1, 2)

        async def main(proxy):
            try:
                await odd()
            except Odd as error:
                return error
        """,
    )
    assert (type(found), found.first, found.second) == (kernel.names["Odd"], 1, 2)
    names = []
    traceback = found.__traceback__
    while traceback is not None:
        names.append(traceback.tb_frame.f_code.co_name)
        traceback = traceback.tb_next
    assert names[0] == "main"
    assert names[-1] == "odd"


def test_notebook_routines_call_each_other_and_themselves_three_deep_on_one_worker(sockets):
    found, _ = notebook(
        sockets,
        """
        STEP = 2

        @routine
        async def leaf(n):
            return n * STEP

        @routine
        async def deep(n):
            if n == 0:
                return await leaf(5)
            return STEP + await deep(n - 1)

        @routine
        async def numbers(n):
            for k in range(n):
                yield await leaf(k)

        @routine
        async def total(n):
            return sum([k async for k in numbers(n)])

        async def main(proxy):
            return await asyncio.gather(deep(3), total(4), *(deep(2) for _ in range(5)))
        """,
    )
    assert found == [16, 12, *[14] * 5]


def test_a_global_that_can_not_travel_says_so_where_it_is_used(sockets):
    found, _ = notebook(
        sockets,
        """
        view = memoryview(b"x")

        @routine
        async def uses(really):
            return len(view) if really else "not needed"

        async def main(proxy):
            return [await uses(False), (await asyncio.gather(uses(True), return_exceptions=True))[0]]
        """,
    )
    assert found[0] == "not needed"
    assert type(found[1]) is StaysInKernel
    assert "`view` (memoryview) can't be shipped" in str(found[1])


def test_a_notebooks_classes_of_two_calls_are_two(sockets):
    """Were they one, methods of the second call would run with the globals of the first."""
    found, _ = notebook(
        sockets,
        """
        setting = 1

        class Reads:
            def setting(self):
                return setting

        @routine
        async def read(obj):
            await asyncio.sleep(0.01)
            return obj.setting()

        async def main(proxy):
            global setting
            first = asyncio.create_task(read(Reads()))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            setting = 2
            return await asyncio.gather(first, read(Reads()))
        """,
    )
    assert found[1] == 2
    assert found[0] in (1, 2)


def test_what_is_pickled_by_name_is_not_looked_for_in_the_main_module_of_the_worker(sockets):
    """There may be another of that name."""
    with pytest.raises(AttributeError, match="`ONLY` has not come along"):
        notebook(
            sockets,
            """
            class Only:
                def __reduce__(self):
                    return "ONLY"

            ONLY = Only()

            @routine
            async def takes(it):
                return 1

            async def main(proxy):
                return await takes(ONLY)
            """,
        )
