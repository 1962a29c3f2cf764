"""What blocking calls are packed into, and what a worker's ledger says of them."""

import operator
import os
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support.loops import run, settle
from wool_jupyter.errors import CannotLoad, CannotShip, PayloadTooLarge
from wool_jupyter.pool.futures import Callbacks, Future
from wool_jupyter.pool.intake import Intake
from wool_jupyter.pool.pacing import Cost
from wool_jupyter.pool.slots import Slots
from wool_jupyter.wire import batches, calls, pickling
from wool_jupyter.worker.cell.call_runner import CallRunner, Parts

DATA = calls.Data(())


def item(number):
    return batches.Item(number, -1, b"")


def test_the_ledger_says_what_has_begun_last(tmp_path):
    assert batches.last_begun(str(tmp_path)) == 0
    ledger = batches.ItemLedger(str(tmp_path))
    assert batches.last_begun(str(tmp_path)) == 0
    for number in (3, 1 << 40):
        ledger.begins(number)
        assert batches.last_begun(str(tmp_path)) == number


def test_parts_have_one_taker_until_there_are_none():
    parts = Parts()
    assert not parts.add([])
    assert parts.add([item(1), item(2)])
    assert not parts.add([item(3)])  # somebody takes them already
    assert [parts.take().number for _ in range(3)] == [1, 2, 3]
    assert parts.take() is None
    assert parts.add([item(4)])


def test_a_run_whose_calls_were_all_given_back_leaves_no_file(tmp_path):
    """Its submitter may have removed the directory by now."""
    parts = Parts()
    parts.add([item(1)])
    parts.recall()
    opening = batches.Opening(str(tmp_path / "gone"), (), {}, batches.Batch((), (), True), 1)
    CallRunner(None, "worker").run(opening, parts, None)
    assert list(tmp_path.iterdir()) == []


def test_what_is_recalled_is_not_taken():
    parts = Parts()
    parts.add([item(1), item(2), item(3)])
    assert parts.take().number == 1
    assert parts.recall() == [2, 3]
    assert parts.recall() == []
    assert parts.take() is None


def test_a_function_is_packed_once_for_many_arguments(tmp_path):
    function = calls.PackedFunction(operator.add, calls.Data((str(tmp_path),)))
    for args in ((1, 2), ("a", "b")):
        packed = function.pack_arguments(calls.Invocation(operator.add, args, {}), DATA)
        assert calls.unpack_arguments(packed.body) == (args, {})
    unpacked = calls.unpack_call(calls.decode_request(function.body))
    assert unpacked.function is operator.add
    with pytest.raises(CannotShip, match=r"`argument 2` \(generator\) of `add` can't be shipped"):
        function.pack_arguments(calls.Invocation(operator.add, (1, (n for n in ())), {}), DATA)


class Number(int):
    pass


@pytest.mark.parametrize("value", [1, 1 << 80, -0.5, 1j, True, "x", b"x", None, "x" * 200_000])
def test_scalars_travel_without_a_notebook_s_pickler(value, tmp_path, monkeypatch):
    function = calls.PackedFunction(operator.add, calls.Data((str(tmp_path),)))
    with monkeypatch.context() as patched:
        patched.setattr(pickling, "NotebookPickler", None)
        arguments = function.pack_arguments(calls.Invocation(function, (value, value), {}), DATA).body
        outcome = calls.pack_outcome(value, places=(str(tmp_path),))
    assert calls.unpack_arguments(arguments) == ((value, value), {})
    found = calls.unpack_outcome(outcome)
    assert (found, type(found)) == (value, type(value))


def test_what_only_looks_like_a_scalar_travels_as_what_it_is(tmp_path):
    function = calls.PackedFunction(operator.add, calls.Data((str(tmp_path),)))
    (found,), _ = calls.unpack_arguments(
        function.pack_arguments(calls.Invocation(function, (Number(1),), {}), DATA).body
    )
    assert type(found) is Number
    assert type(calls.unpack_outcome(calls.pack_outcome(Number(2), places=()))) is Number


def test_large_arguments_lie_beside_the_message_and_a_packed_function_takes_its_file_along(tmp_path):
    large = bytearray(1 << 20)
    packed = calls.pack_blocking(calls.Invocation(len, (large,), {}), calls.Data((str(tmp_path),)))
    assert packed.file
    assert len(packed.body) < 10_000
    function = calls.PackedFunction(large.count, calls.Data((str(tmp_path),)))
    assert len(list(tmp_path.iterdir())) == 2
    del function
    assert [str(path) for path in tmp_path.iterdir()] == [packed.file]


def test_an_outcome_is_loaded_by_who_asks_and_its_file_is_gone_before(tmp_path):
    arrived = calls.Arrived(calls.pack_outcome(bytearray(b"x" * (1 << 20)), places=(str(tmp_path),)))
    assert not arrived.raised
    assert list(tmp_path.iterdir()) == []
    value, error = arrived.loaded()
    assert (len(value), error) == (1 << 20, None)
    arrived = calls.Arrived(calls.pack_raised(LookupError("why")))
    assert arrived.raised
    _, error = arrived.loaded()
    assert (type(error), error.args) == (LookupError, ("why",))


class Loads:
    def __reduce__(self):
        return _fails, ()


def _fails():
    raise LookupError("not here")


def test_an_outcome_that_can_not_be_loaded_is_an_error_in_words():
    value, error = calls.Arrived(calls.pack_outcome(Loads(), places=())).loaded()
    assert value is None
    assert isinstance(error, CannotLoad)
    assert "the call has returned, and its result can't be loaded here: LookupError: not here" in str(error)


@pytest.mark.parametrize(
    ("spoil", "error"),
    [(Path.unlink, "FileNotFoundError"), (lambda file: os.truncate(file, 5000), "ValueError")],
    ids=["gone", "cut"],
)
def test_an_outcome_whose_data_can_not_be_had_is_an_error_in_words(tmp_path, spoil, error):
    """There may be no descriptor left. Whatever it is, the outcomes that came with it are settled, too."""
    outcome = calls.pack_outcome(bytearray(b"x" * (1 << 20)), places=(str(tmp_path),))
    (file,) = tmp_path.iterdir()
    spoil(file)
    future = Future(Callbacks())
    future.set_running_or_notify_cancel()
    future.arrive(outcome)
    with pytest.raises(CannotLoad, match=f"the call has returned, and its result can't be loaded here: {error}"):
        future.result(0)


def test_calls_that_come_after_an_interrupted_one_are_delivered():
    posted, interrupts = [], [KeyboardInterrupt()]

    def post(function, *args):
        if interrupts:
            raise interrupts.pop()
        posted.append(partial(function, *args))

    put = []
    intake = Intake(SimpleNamespace(put=put.extend), post, main_threads=lambda: 1)
    with pytest.raises(KeyboardInterrupt):
        intake.put([SimpleNamespace(is_put=False)])
    after = SimpleNamespace(is_put=False)
    intake.put([after])
    for function in posted:
        function()
    assert put == [after]
    assert after.is_put


def test_a_cost_follows_what_was_measured():
    cost = Cost()
    for _ in range(20):
        cost.took(0.001)
    assert cost.mean_s == pytest.approx(0.001, rel=0.05)
    cost.takes_at_least(0.4)
    assert cost.mean_s == 0.4
    for _ in range(40):
        cost.took(0.01)
    assert cost.mean_s == pytest.approx(0.01, rel=0.1)


def test_slots_tell_who_stands_in_the_line():
    async def main():
        import asyncio

        slots, mine, other = Slots(), object(), object()
        assert not slots.waits_beside(mine)
        assert not slots.is_last(mine)
        turns = []
        for who, beside, last in ((mine, False, True), (other, True, False), (mine, True, True)):
            turns.append(asyncio.create_task(slots.take(who)))
            await settle()
            assert (slots.waits_beside(mine), slots.is_last(mine)) == (beside, last)
        turns[1].cancel()
        await settle()
        assert not slots.waits_beside(mine)
        slots.add()
        slots.add()
        await asyncio.gather(turns[0], turns[2])

    run(main())


def test_an_exception_that_no_message_holds_goes_beside_it_and_without_a_place_says_so(tmp_path):
    error = LookupError("x" * (20 << 20))
    data = calls.pack_raised(error, places=(str(tmp_path),))
    assert len(data) < 10_000
    with pytest.raises(LookupError) as found:
        calls.unpack_outcome(data)
    assert found.value.args == error.args
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(PayloadTooLarge, match="an exception is too large for a message: LookupError: x"):
        calls.unpack_outcome(calls.pack_raised(error))
