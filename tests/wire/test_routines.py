"""Routines over a real socket: a call elsewhere means what it means here."""

import asyncio
import contextlib
import inspect
import tempfile
import threading

import pytest

from tests.support.loops import run, until
from tests.support.routine_workers import pool_directory, routines_on
from wool_jupyter.dispatch import channels
from wool_jupyter.dispatch.connection import WorkerConnection
from wool_jupyter.dispatch.proxy import WorkerProxy
from wool_jupyter.dispatch.routine import routine, use
from wool_jupyter.errors import CallFailed, CannotShip, NoWorkersAvailable, PayloadTooLarge
from wool_jupyter.records import ChannelOptions
from wool_jupyter.wire import frames

HERE = threading.get_ident()


@pytest.fixture
def sockets():
    with pool_directory() as directory:
        yield directory


said = []  # what bodies leave behind: they run in this process, and their arguments are copies


@pytest.fixture
def offered(monkeypatch):
    """Each (worker, bytes) that a proxy of this process offers."""
    seen = []
    dispatch = WorkerConnection.dispatch

    async def noted(connection, routine, body, **options):
        seen.append((connection.metadata.uid, body))
        return await dispatch(connection, routine, body, **options)

    monkeypatch.setattr(WorkerConnection, "dispatch", noted)
    return seen


@pytest.fixture(autouse=True)
def notes():
    said.clear()
    return said


def note(word):
    said.append(word)


class TwoArguments(Exception):
    def __init__(self, first, second):
        super().__init__(f"{first} and {second}")
        self.first, self.second = first, second


@routine
async def add(a, b=1, *, c=0):
    """Adds."""
    return a + b + c


@routine
async def thread():
    return threading.get_ident()


@routine
async def raises(error):
    raise error


@routine
async def waits(reaction="lets it through"):
    note("waits")
    try:
        await asyncio.get_running_loop().create_future()
    except asyncio.CancelledError:
        note("cancelled")
        if reaction == "returns":
            return "saved"
        if reaction == "raises":
            raise LookupError("at a bad moment") from None
        raise


@routine
async def counts(to):
    try:
        for n in range(to):
            note(n)
            yield n
    finally:
        note("closed")


@routine
async def echoes():
    answer = None
    while True:
        try:
            answer = yield answer
        except LookupError as error:
            answer = repr(error)


class Account:
    def __init__(self, balance):
        self.balance = balance

    @routine
    async def plus(self, amount):
        return self.balance + amount

    @classmethod
    @routine
    async def named(cls, name):
        return f"{cls.__name__} {name}"

    @staticmethod
    @routine
    async def doubled(x):
        return 2 * x

    @routine
    async def history(self):
        yield self.balance
        yield self.balance + 1


class Savings(Account):
    @routine
    async def plus(self, amount):
        return 10 * await super().plus(amount)


def test_a_coroutine_runs_on_the_routine_loop_of_a_worker(sockets):
    async def main():
        async with routines_on(sockets):
            assert await add(1, 2, c=3) == 6
            assert await add(1) == 2
            assert await thread() != HERE

    run(main())


def test_a_routine_looks_like_its_function():
    assert inspect.iscoroutinefunction(add)
    assert inspect.isasyncgenfunction(counts)
    assert (add.__name__, add.__doc__) == ("add", "Adds.")
    assert str(inspect.signature(add)) == "(a, b=1, *, c=0)"
    assert asyncio.run(add.__wrapped__(1, 1)) == 2


@pytest.mark.parametrize(
    "other", [len, lambda: 0, staticmethod(add), Account], ids=["builtin", "plain", "static", "class"]
)
def test_what_is_not_asynchronous_is_no_routine(other):
    with pytest.raises(TypeError, match="@routine"):
        routine(other)


def test_without_a_pool_it_says_what_to_do(sockets):
    async def main():
        with pytest.raises(NoWorkersAvailable, match=r"`add` is a routine.*`add.__wrapped__`"):
            await add(1)
        async with routines_on(sockets):
            pass
        with pytest.raises(NoWorkersAvailable):
            await anext(counts(1))

    run(main())


def test_a_pool_of_another_loop_is_said_at_once(sockets):
    """The answer would never come."""

    async def main():
        async with routines_on(sockets):
            with pytest.raises(RuntimeError, match="another event loop"):
                await asyncio.to_thread(lambda: asyncio.run(_awaited(add(1))))

    run(main())


async def _awaited(coroutine):
    return await coroutine


async def _error_of(coroutine):
    try:
        return await coroutine
    except BaseException as error:
        return error


def test_methods_of_every_kind_are_routines(sockets):
    async def main():
        async with routines_on(sockets):
            account = Account(5)
            assert await account.plus(2) == 7
            assert await Account.named("x") == "Account x"
            assert await Account.doubled(4) == 8
            assert [value async for value in account.history()] == [5, 6]
            assert await Savings(1).plus(1) == 20

    run(main())


def test_wrong_arguments_are_the_type_error_that_they_are_here(sockets):
    async def main():
        async with routines_on(sockets) as (proxy, [service]):
            with pytest.raises(TypeError, match=r"add\(\) missing 1 required positional argument: 'a'"):
                await add()
            assert len(proxy.workers.workers) == 1, "the worker is not at fault"
            await until(lambda: service.active == 0)

    run(main())


@pytest.mark.parametrize(
    "error",
    [
        LookupError("no such thing"),
        TwoArguments("this", "that"),
        SystemExit(3),
        KeyboardInterrupt("pressed"),
        GeneratorExit("odd"),
        StopAsyncIteration("the end"),
        asyncio.CancelledError("by the body"),
        BaseExceptionGroup("many", (SystemExit(1), ValueError("two"))),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_the_body_raises_is_raised_here_whatever_it_is(sockets, error):
    async def main():
        async with routines_on(sockets) as (_, [service]):
            with pytest.raises(type(error)) as caught:
                await raises(error)
            assert repr(caught.value) == repr(error)
            assert vars(caught.value).keys() >= vars(error).keys()
            assert await add(1) == 2, "the worker goes on"
            await until(lambda: service.active == 0)

    run(main())


def test_the_cause_of_what_the_body_raises_comes_along_even_if_the_body_was_not_begun(sockets):
    class Bad:
        def __reduce__(self):
            return _fail_to_load, ()

    async def main():
        async with routines_on(sockets):
            with pytest.raises(LookupError, match="can't be loaded") as caught:
                await add(Bad())
            assert type(caught.value.__cause__) is ZeroDivisionError

    run(main())


def _fail_to_load():
    raise LookupError("can't be loaded") from ZeroDivisionError()


def test_a_system_exit_in_a_task_of_the_body_leaves_the_lane_running(sockets):
    """asyncio raises it out of the loop as well."""

    async def main():
        async with routines_on(sockets):
            with pytest.raises(SystemExit):
                await exits_in_a_task()
            assert await add(1) == 2

    run(main())


@routine
async def exits_in_a_task():
    async def child():
        raise SystemExit(4)

    await asyncio.create_task(child())


@pytest.mark.parametrize(
    ("reaction", "outcome"),
    [("lets it through", asyncio.CancelledError), ("returns", "saved"), ("raises", LookupError)],
)
def test_cancelling_who_waits_cancels_the_body_and_its_answer_counts(sockets, notes, reaction, outcome):
    async def main():
        async with routines_on(sockets) as (_, [service]):
            waiting = asyncio.create_task(waits(reaction))
            await until(lambda: "waits" in notes)
            waiting.cancel()
            [found] = await asyncio.gather(waiting, return_exceptions=True)
            assert found == outcome or type(found) is outcome
            assert notes == ["waits", "cancelled"]
            await until(lambda: service.active == 0)

    run(main())


def test_a_time_out_here_is_a_time_out_of_the_routine(sockets, notes):
    async def main():
        async with routines_on(sockets):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await waits()
            assert notes == ["waits", "cancelled"]

    run(main())


def test_a_call_that_is_cancelled_at_any_moment_leaves_nothing(sockets, notes):
    async def main():
        async with routines_on(sockets) as (proxy, [service]):
            await add(1)
            [candidate] = proxy.workers.workers.values()
            for turns in range(0, 60, 3):
                waiting = asyncio.create_task(waits())
                for _ in range(turns):
                    await asyncio.sleep(0)
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
                assert candidate.connection.load == 0
            await until(lambda: service.active == 0)
            assert notes.count("waits") == notes.count("cancelled")

    run(main())


def test_an_interrupt_is_a_keyboard_interrupt_of_that_call_alone(sockets, notes):
    async def main():
        async with routines_on(sockets):
            # As the outcome of a task it would end this loop, as everywhere.
            first, other = asyncio.create_task(_error_of(waits())), asyncio.create_task(waits())
            await until(lambda: notes.count("waits") == 2)
            [entry] = channels.of_this_loop()._pool._entries.values()
            entry.value.send(frames.Interrupt(min(entry.value._calls)))
            assert type(await first) is KeyboardInterrupt
            assert notes.count("cancelled") == 1
            assert not other.done()
            other.cancel()
            await asyncio.gather(other, return_exceptions=True)

    run(main())


def test_the_end_of_the_client_cancels_the_body(sockets, notes):
    async def main():
        async with routines_on(sockets) as (_, [service]):
            waiting = asyncio.create_task(waits())
            await until(lambda: "waits" in notes)
            await channels.of_this_loop().clear()
            await until(lambda: service.active == 0)
            assert notes == ["waits", "cancelled"]
            await asyncio.gather(waiting, return_exceptions=True)

    run(main())


# Generators.


def test_a_generator_yields_one_value_for_each_step_and_computes_none_ahead(sockets, notes):
    async def main():
        async with routines_on(sockets) as (_, [service]):
            found = counts(3)
            assert notes == []
            assert await anext(found) == 0
            assert await anext(found) == 1
            await add(1)
            assert notes == [0, 1]
            assert [n async for n in found] == [2]
            assert notes == [0, 1, 2, "closed"]
            await until(lambda: service.active == 0)

    run(main())


def test_a_generator_gets_what_it_is_sent_and_what_is_thrown(sockets):
    async def main():
        async with routines_on(sockets), contextlib.aclosing(echoes()) as talking:
            assert await talking.asend(None) is None
            assert await talking.asend([1, 2]) == [1, 2]
            assert await talking.athrow(LookupError("thrown")) == "LookupError('thrown')"
            assert await talking.asend("on") == "on"
            with pytest.raises(TwoArguments) as caught:
                await talking.athrow(TwoArguments(1, 2))
            assert caught.value.second == 2
            with pytest.raises(StopAsyncIteration):
                await anext(talking)

    run(main())


def test_what_can_not_be_loaded_there_ends_a_generator_that_was_to_be_sent_it(sockets, notes):
    class Bad:
        def __reduce__(self):
            return _fail_to_load, ()

    async def main():
        async with routines_on(sockets) as (_, [service]):
            found = takes_its_time_to_end()
            await anext(found)
            with pytest.raises(LookupError, match="can't be loaded"):
                await found.asend(Bad())
            assert notes == ["closed"]
            await until(lambda: service.active == 0)

    run(main())


@routine
async def takes_its_time_to_end():
    try:
        yield 1
    finally:
        await asyncio.sleep(0.05)
        note("closed")


def test_closing_a_generator_waits_for_its_clean_up(sockets, notes):
    async def main():
        async with routines_on(sockets) as (_, [service]):
            found = counts(3)
            await anext(found)
            await found.aclose()
            assert notes == [0, "closed"]
            with pytest.raises(StopAsyncIteration):
                await anext(found)
            await until(lambda: service.active == 0)

    run(main())


def test_a_generator_that_ignores_its_end_is_told_as_here(sockets):
    async def main():
        async with routines_on(sockets) as (_, [service]):
            stubborn = ignores_its_end()
            await anext(stubborn)
            with pytest.raises(RuntimeError, match="async generator ignored GeneratorExit"):
                await stubborn.aclose()
            await until(lambda: service.active == 0)

    run(main())


@routine
async def ignores_its_end():
    try:
        yield 1
    finally:
        yield 2


def test_what_a_clean_up_raises_is_raised_by_the_close(sockets):
    async def main():
        async with routines_on(sockets):
            found = fails_to_clean_up()
            await anext(found)
            with pytest.raises(LookupError, match="while cleaning up"):
                await found.aclose()

    run(main())


@routine
async def fails_to_clean_up():
    try:
        yield 1
    finally:
        raise LookupError("while cleaning up")


def test_a_generator_that_is_dropped_is_closed_on_its_worker(sockets, notes):
    async def main():
        async with routines_on(sockets) as (_, [service]):
            async for n in counts(5):
                if n == 1:
                    break
            await until(lambda: service.active == 0)
            assert notes == [0, 1, "closed"]

    run(main())


def test_a_generator_keeps_its_task_and_its_context_from_step_to_step(sockets):
    """A time-out around a `yield`, and a context variable, belong to them."""

    async def main():
        async with routines_on(sockets):
            names = [name async for name in task_names()]
            assert len(set(names)) == 1

    run(main())


@routine
async def task_names():
    async with asyncio.timeout(20):
        for _ in range(3):
            yield asyncio.current_task().get_name()


def test_a_cancelled_step_reaches_the_generator_which_may_go_on(sockets, notes):
    async def main():
        async with routines_on(sockets), contextlib.aclosing(survives()) as found:
            assert await anext(found) == "first"
            step = asyncio.create_task(anext(found))
            await until(lambda: "waits" in notes)
            step.cancel()
            assert await step == "survived"
            assert await anext(found) == "last 0", "it would show in a TaskGroup"

    run(main())


@routine
async def survives():
    yield "first"
    note("waits")
    try:
        await asyncio.get_running_loop().create_future()
    except asyncio.CancelledError:
        yield "survived"
    yield f"last {asyncio.current_task().cancelling()}"


# What travels.


def test_an_argument_that_can_not_travel_is_named(sockets, offered):
    async def main():
        async with routines_on(sockets):
            with pytest.raises(CannotShip, match=r"argument `b\['f'\]` \(memoryview\) of `add`"):
                await add(1, {"f": memoryview(b"x")})
            assert offered == []

    run(main())


def test_a_result_that_can_not_travel_is_an_error_that_names_it(sockets):
    async def main():
        async with routines_on(sockets) as (_, [service]):
            with pytest.raises(CannotShip, match="memoryview"):
                await views()
            values = views_each()
            with pytest.raises(CannotShip, match="memoryview"):
                await anext(values)
            await until(lambda: service.active == 0)

    run(main())


@routine
async def views():
    return {"file": memoryview(b"x")}


@routine
async def views_each():
    yield memoryview(b"x")


class Rude(Exception):
    """What it does when it is pickled, or shown, is none of its business."""

    def __reduce__(self):
        raise SystemExit(5)

    def __str__(self):
        raise SystemExit(6)


@routine
async def rude(how):
    if how == "returns":
        return {"it": [RudeObject()]}
    raise Rude


class RudeObject:
    def __reduce__(self):
        raise SystemExit(5)


@pytest.mark.parametrize(("how", "error"), [("returns", SystemExit), ("raises", CallFailed)])
def test_an_outcome_that_ends_whoever_packs_it_is_still_answered(sockets, how, error):
    async def main():
        async with routines_on(sockets) as (_, [service]):
            with pytest.raises(error):
                await rude(how)
            assert await add(1) == 2
            await until(lambda: service.active == 0)

    run(main())


LARGE = 20 << 20


def test_what_fits_into_no_message_and_has_no_directory_is_said_with_its_size(sockets):
    async def main():
        async with routines_on(sockets) as (proxy, _):
            with pytest.raises(PayloadTooLarge, match=r"20\.0 MiB"):
                await length(bytes(LARGE))
            with pytest.raises(PayloadTooLarge, match=r"20\.0 MiB"):
                await zeros(LARGE)
            with pytest.raises(PayloadTooLarge, match="an exception is too large for a message: LookupError: x"):
                await raises_much(LARGE)
            assert len(proxy.workers.workers) == 1, "the worker stays"
            assert await add(1) == 2

    run(main())


@routine
async def length(data):
    return len(data)


@routine
async def zeros(n):
    return bytearray(n)


@routine
async def raises_much(n):
    raise LookupError("x" * n)


@routine
async def many_zeros(n):
    for _ in range(3):
        yield bytearray(n)


def test_an_argument_of_110_mib_and_a_result_as_large_travel_beside_the_message(sockets, tmp_path):
    @contextlib.contextmanager
    def places():
        with tempfile.TemporaryDirectory(dir=tmp_path) as place:
            yield (place,)

    async def main():
        async with routines_on(sockets, places=places):
            assert await length(bytearray(110 << 20)) == 110 << 20
            assert len(await zeros(110 << 20)) == 110 << 20
            async for value in many_zeros(1 << 20):
                assert len(value) == 1 << 20
                left = [path for path in tmp_path.rglob("*") if path.is_file()]
                assert left == [], "a stream of large values does not pile up"
            assert list(tmp_path.iterdir()) == []

    run(main())


# Several workers, and calls of calls.


@routine
async def deep(levels):
    return levels if levels == 0 else 1 + await deep(levels - 1)


def test_a_routine_that_calls_routines_three_deep_finishes_on_one_worker(sockets):
    async def main():
        async with routines_on(sockets):
            assert await deep(3) == 3

    run(main())


@routine
async def fans_out(n):
    return sum(await asyncio.gather(*(deep(2) for _ in range(n))))


def test_many_at_a_time_call_many_on_one_worker(sockets):
    async def main():
        async with routines_on(sockets) as (_, [service]):
            assert await asyncio.gather(*(fans_out(5) for _ in range(5))) == [10] * 5
            await until(lambda: service.active == 0)

    run(main())


def test_more_calls_than_a_worker_has_permits_for_may_each_call_others_there(sockets):
    """They would hold all permits, and wait for calls that wait for one."""

    async def main():
        async with routines_on(sockets) as (_, [service]):
            many = ChannelOptions().max_concurrent_streams + 30
            assert await asyncio.gather(*(deep(2) for _ in range(many))) == [2] * many
            await until(lambda: service.active == 0)

    run(main())


def test_the_callers_proxy_is_rebuilt_once_for_a_worker_and_only_when_it_is_asked(sockets, monkeypatch):
    made = []
    init = WorkerProxy.__init__
    monkeypatch.setattr(WorkerProxy, "__init__", lambda *args, **options: [made.append(1), init(*args, **options)][1])

    async def main():
        async with routines_on(sockets):
            await add(1)
            assert len(made) == 1
            for _ in range(3):
                await deep(3)
            assert len(made) == 2

    run(main())


def test_the_same_bytes_are_offered_to_the_next_worker(sockets, offered):
    pickled = []

    class Counted:
        def __reduce__(self):
            pickled.append(1)
            return int, (5,)

    async def main():
        async with routines_on(sockets, workers=2) as (_, services):
            services[0].stop(-1)
            assert await add(Counted()) == 6
            assert len(pickled) == 1
            assert len({uid for uid, _ in offered}) == 2
            assert offered[0][1] is offered[1][1]

    run(main())


def test_a_generator_of_a_routine_streams_through_another(sockets, notes):
    async def main():
        async with routines_on(sockets) as (_, [service]):
            async with contextlib.aclosing(doubles(4)) as found:
                assert [await anext(found), await anext(found)] == [0, 2]
            await until(lambda: service.active == 0)
            assert notes == [0, 1, "closed"]

    run(main())


@routine
async def doubles(to):
    async with contextlib.aclosing(counts(to)) as found:
        async for n in found:
            yield 2 * n


def test_a_cancellation_goes_all_the_way_down(sockets, notes):
    async def main():
        async with routines_on(sockets) as (_, [service]):
            waiting = asyncio.create_task(calls_waits())
            await until(lambda: "waits" in notes)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert notes == ["waits", "cancelled"]
            await until(lambda: service.active == 0)

    run(main())


@routine
async def calls_waits():
    await waits()


def test_the_proxy_in_use_is_the_contexts_own(sockets, offered):
    async def main():
        async with routines_on(sockets):

            class Nobody:
                def __reduce__(self):
                    return Nobody, ()

                async def dispatch(self, routine, body):
                    raise NoWorkersAvailable("nobody")

            async def other_task():
                with use(Nobody()), pytest.raises(NoWorkersAvailable, match="nobody"):
                    await add(1)

            await asyncio.gather(other_task(), _awaited(add(1)))
            assert len(offered) == 1

    run(main())
