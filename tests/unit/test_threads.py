import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.loops import run, settle
from wool_jupyter.aio.threads import run_to_end


def test_its_outcome_is_the_function_s():
    async def main():
        assert await run_to_end(threading.get_ident) != threading.get_ident()
        with pytest.raises(ZeroDivisionError):
            await run_to_end(lambda: 1 / 0)

    run(main())


@pytest.mark.parametrize("fails", [False, True])
def test_a_cancellation_is_raised_when_the_function_has_ended(fails):
    async def main():
        may_end, hurried, ended = threading.Event(), [], []

        def function():
            assert may_end.wait(10)
            ended.append(True)
            if fails:
                raise ZeroDivisionError

        task = asyncio.ensure_future(run_to_end(function, cancelled=lambda: hurried.append(True)))
        await settle()
        for _ in range(3):
            task.cancel()
            await settle()
            assert not task.done()
        assert hurried == [True]
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended == [True]

    run(main())


def test_it_runs_where_the_loop_s_executor_takes_nothing_any_more():
    """As from the moment on when the interpreter begins to end."""

    async def main():
        executor = ThreadPoolExecutor()
        executor.shutdown()
        asyncio.get_running_loop().set_default_executor(executor)
        assert await run_to_end(lambda: 42) == 42

    run(main())
