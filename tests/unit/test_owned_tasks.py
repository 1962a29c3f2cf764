import asyncio
import io
import sys
from contextvars import ContextVar, copy_context

import pytest

from tests.support.loops import run, settle
from wool_jupyter.aio.owned_tasks import OwnedTasks


async def fails():
    raise LookupError("no such thing")


async def forever(entered=None, left=None):
    if entered is not None:
        entered.set()
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        if left is not None:
            left.append(True)


def recording():
    reports = []
    return OwnedTasks("owner", report=lambda name, error: reports.append((name, repr(error)))), reports


def test_a_task_carries_its_owners_name():
    async def main():
        tasks, _ = recording()
        task = tasks.start(forever(), "waiting")
        assert task.get_name() == "owner: waiting"
        await tasks.close()

    run(main())


def test_a_failure_is_reported_once_with_its_name():
    async def main():
        tasks, reports = recording()
        tasks.start(fails(), "failing")
        await settle()
        assert reports == [("owner: failing", "LookupError('no such thing')")]
        await tasks.close()

    run(main())


def test_a_failure_that_the_caller_takes_is_not_reported():
    async def main():
        tasks, reports = recording()
        with pytest.raises(LookupError):
            await tasks.start(fails(), "failing", awaited=True)
        await tasks.close()
        assert reports == []

    run(main())


def test_a_cancelled_task_is_no_failure():
    async def main():
        tasks, reports = recording()
        tasks.start(forever(), "waiting")
        await settle()
        await tasks.close()
        assert reports == []

    run(main())


def test_close_waits_until_the_tasks_have_cleaned_up():
    async def main():
        tasks, _ = recording()
        entered, left = asyncio.Event(), []
        tasks.start(forever(entered, left), "waiting")
        await entered.wait()
        await tasks.close()
        assert left == [True]

    run(main())


def test_close_cancels_a_future_that_it_owns_and_waits_for_it():
    class Ends(asyncio.Future):
        def cancel(self, msg=None):
            asyncio.get_running_loop().call_later(0.01, super().cancel)
            return True

    async def main():
        tasks, _ = recording()
        over, owned = tasks.own(asyncio.get_running_loop().create_future()), tasks.own(Ends())
        over.set_result(1)
        await settle()
        assert tasks.running == 1
        await tasks.close()
        assert owned.cancelled()
        late = asyncio.get_running_loop().create_future()
        assert tasks.own(late).cancelled()
        await tasks.close()

    run(main())


def test_close_waits_for_a_task_that_takes_its_time_over_a_cancellation():
    async def main():
        tasks, _ = recording()
        left = []

        async def slow():
            try:
                await forever()
            except asyncio.CancelledError:
                await settle()
                left.append(True)

        tasks.start(slow(), "slow")
        await settle()
        await tasks.close()
        assert left == [True]

    run(main())


def test_a_task_may_close_its_own_owner():
    """It is the one that waits: cancelling itself would lose what it was about to do."""

    async def main():
        tasks, reports = recording()
        closed = []

        async def closes():
            await tasks.close()
            closed.append(True)

        other = tasks.start(forever(), "other")
        task = tasks.start(closes(), "closing")
        await task
        assert closed == [True]
        assert other.cancelled()
        assert reports == []

    run(main())


def test_a_closed_owner_refuses_and_closes_the_coroutine():
    """An unclosed one would warn that it was never awaited."""

    async def main():
        tasks, _ = recording()
        await tasks.close()
        with pytest.raises(RuntimeError, match="owner is closed"):
            tasks.start(forever(), "late")

    run(main())


def test_a_task_started_by_a_task_that_is_being_cancelled_is_refused():
    async def main():
        tasks, _ = recording()
        outcome = []

        async def starts_another():
            try:
                await forever()
            finally:
                try:
                    tasks.start(forever(), "another")
                except RuntimeError as error:
                    outcome.append(str(error))

        tasks.start(starts_another(), "first")
        await settle()
        await tasks.close()
        assert outcome == ["owner is closed"]

    run(main())


def test_the_default_report_goes_to_the_processs_own_stderr(monkeypatch):
    """On a worker `sys.stderr` belongs to the running cell."""
    cell = io.StringIO()
    own = io.StringIO()
    monkeypatch.setattr(sys, "stderr", cell)
    monkeypatch.setattr(sys, "__stderr__", own)

    async def main():
        tasks = OwnedTasks("owner")
        tasks.start(fails(), "failing")
        await settle()
        await tasks.close()

    run(main())
    assert "owner: failing failed" in own.getvalue()
    assert "LookupError: no such thing" in own.getvalue()
    assert cell.getvalue() == ""


def test_a_process_without_stderr_reports_nowhere(monkeypatch):
    monkeypatch.setattr(sys, "__stderr__", None)

    async def main():
        tasks = OwnedTasks("owner")
        tasks.start(fails(), "failing")
        await settle()
        await tasks.close()

    run(main())


def test_an_outcome_is_raised_to_each_who_waits_for_it_and_not_reported():
    async def main():
        tasks, reports = recording()
        task = tasks.start(fails(), "failing", awaited=True)
        for _ in range(2):
            with pytest.raises(LookupError):
                await tasks.outcome_of(task)
        assert reports == []

    run(main())


def test_a_failure_is_reported_if_who_waited_for_it_was_cancelled():
    async def main():
        tasks, reports = recording()
        gate = asyncio.Event()

        async def fails_later():
            await gate.wait()
            await fails()

        waiting = asyncio.ensure_future(tasks.outcome_of(tasks.start(fails_later(), "failing", awaited=True)))
        await settle()
        waiting.cancel()
        await settle()
        assert waiting.cancelled()
        assert tasks.running == 1
        gate.set()
        await settle()
        assert reports == [("owner: failing", "LookupError('no such thing')")]

    run(main())


def test_wait_is_for_the_tasks_of_the_moment_and_not_for_who_waits():
    async def main():
        tasks, _ = recording()
        first, later, seen = asyncio.Event(), asyncio.Event(), []

        async def waits():
            await tasks.wait()
            seen.append("waited")
            later.set()

        tasks.start(first.wait(), "first")
        tasks.start(waits(), "waiting")
        await settle()
        tasks.start(later.wait(), "later")
        assert seen == []
        first.set()
        await settle()
        assert seen == ["waited"]
        assert tasks.running == 0

    run(main())


def test_a_task_runs_in_the_context_that_it_is_given():
    variable = ContextVar("variable", default="outside")
    context = copy_context()
    context.run(variable.set, "given")

    async def main():
        tasks, _ = recording()

        async def reads():
            return variable.get()

        assert await tasks.start(reads(), "given", awaited=True, context=context) == "given"
        assert await tasks.start(reads(), "copied", awaited=True) == "outside"

    run(main())
