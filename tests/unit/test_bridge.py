import asyncio
import contextvars
import gc
import threading
from concurrent.futures import CancelledError

import pytest

from wool_jupyter.notebook.bridge import Bridge

DEADLINE_S = 20

spoken_under = contextvars.ContextVar("spoken_under", default="nobody")


@pytest.fixture(scope="module")
def bridge():
    return Bridge()


class Unusual(BaseException):
    pass


async def gives(value):
    return value


async def raises(error):
    raise error


def test_it_gives_the_coroutines_value(bridge):
    assert bridge.enter(gives(3)).result(DEADLINE_S) == 3


def test_everything_runs_on_one_thread_that_does_not_keep_the_process_alive(bridge):
    async def where():
        return threading.current_thread()

    first, second = (bridge.enter(where()).result(DEADLINE_S) for _ in range(2))
    assert first is second
    assert first is not threading.current_thread()
    assert first.daemon


def test_the_context_is_empty(bridge):
    """With the caller's, later output would appear under the cell that started the pool."""

    async def speak():
        return spoken_under.get(), await asyncio.get_running_loop().create_task(spoken())

    async def spoken():
        return spoken_under.get()

    token = spoken_under.set("cell 1")
    try:
        assert bridge.enter(speak()).result(DEADLINE_S) == ("nobody", "nobody")
    finally:
        spoken_under.reset(token)


@pytest.mark.parametrize("error", [LookupError("no such thing"), Unusual("of its own kind")], ids=repr)
def test_an_error_arrives_as_it_is(bridge, error):
    with pytest.raises(type(error)) as caught:
        bridge.enter(raises(error)).result(DEADLINE_S)
    assert caught.value is error


def test_a_timeout_of_the_coroutine_is_told_from_one_of_the_wait(bridge):
    future = bridge.enter(raises(TimeoutError("inside")))
    with pytest.raises(TimeoutError, match="inside"):
        future.result(DEADLINE_S)
    assert future.done()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()], ids=repr)
def test_an_error_that_would_end_the_loop_arrives_and_the_loop_goes_on(error):
    """asyncio raises these two out of the loop; every later cell would wait for ever."""
    bridge = Bridge()
    with pytest.raises(type(error)):
        bridge.enter(raises(error)).result(3)
    assert bridge.enter(gives(3)).result(3) == 3


def test_cancelling_the_future_cancels_the_coroutine(bridge):
    entered, left = threading.Event(), threading.Event()

    async def waits():
        entered.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            left.set()

    future = bridge.enter(waits())
    assert entered.wait(DEADLINE_S)
    assert future.cancel()
    assert left.wait(DEADLINE_S)
    assert bridge.enter(gives(3)).result(DEADLINE_S) == 3


def test_cancelling_a_coroutine_that_has_not_begun_cancels_it(bridge):
    ran = []
    blocked, go_on = threading.Event(), threading.Event()

    async def blocks():
        blocked.set()
        go_on.wait()

    async def runs():
        await asyncio.sleep(0)
        ran.append(True)

    first = bridge.enter(blocks())
    assert blocked.wait(DEADLINE_S)
    second = bridge.enter(runs())
    second.cancel()
    go_on.set()
    first.result(DEADLINE_S)
    bridge.enter(gives(3)).result(DEADLINE_S)
    assert ran == []


def test_a_coroutine_that_fails_after_it_was_cancelled_is_nobodys_business(bridge, caplog):
    entered, left = threading.Event(), threading.Event()

    async def waits():
        entered.set()
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            left.set()
            raise LookupError("while cancelled") from None

    future = bridge.enter(waits())
    assert entered.wait(DEADLINE_S)
    future.cancel()
    assert left.wait(DEADLINE_S)
    bridge.enter(gives(3)).result(DEADLINE_S)
    gc.collect()
    assert caplog.records == []


def test_a_coroutine_that_is_cancelled_on_the_loop_cancels_the_future(bridge):
    with pytest.raises(CancelledError):
        bridge.enter(raises(asyncio.CancelledError())).result(DEADLINE_S)


def test_what_nobody_waits_for_is_reported_when_it_fails(bridge, capfd):
    bridge.start(raises(LookupError("on its way")), "something")
    bridge.enter(gives(3)).result(DEADLINE_S)
    said = capfd.readouterr().err
    assert "bridge: something failed" in said
    assert "LookupError: on its way" in said


def test_a_result_that_nobody_wants_is_reported_when_its_end_fails(bridge, capfd):
    outcome = bridge.enter(gives(LookupError("on its way")))
    outcome.result(DEADLINE_S)
    bridge.abandon(outcome, raises)
    bridge.enter(gives(3)).result(DEADLINE_S)
    assert "LookupError: on its way" in capfd.readouterr().err
