"""When a worker reports what has come of a run's calls."""

import asyncio

import pytest

from tests.support.loops import run_virtual, settle
from wool_jupyter.settings import GATHER_S
from wool_jupyter.wire import batches, frames
from wool_jupyter.worker.batch_routine import batch_routine
from wool_jupyter.worker.lanes import Job

SHORT_S, LONG_S = GATHER_S / 10, 2 * GATHER_S


class MainThread:
    """A `MainLane` and a `CallRunner` whose calls end when the test says so."""

    def __init__(self):
        self.jobs, self.interrupted = [], 0

    def submit(self, run, opening, parts, news):
        self.jobs.append(Job(lambda: None))
        self.parts, self.news = parts, news
        return self.jobs[-1]

    def run(self):
        raise AssertionError("only named")

    def interrupt(self, job):
        self.interrupted += 1

    def ends_one(self, took_s=SHORT_S, *, is_last=False):
        """And the job, if it was the last one."""
        item = self.parts.take()
        self.news.done(batches.Done(item.number, b"", took_s), goes_on=False, is_last=is_last)

    def has_nothing_left(self):
        assert self.parts.take() is None
        self.jobs[-1].run()


def batch(*numbers, last=False):
    return batches.Batch((), tuple(batches.Item(number, -1, b"") for number in numbers), last)


async def begun(*numbers):
    thread = MainThread()
    run = batch_routine(thread, thread)(batches.encode(batches.Opening("/nowhere", (), {}, batch(*numbers), 1)))
    await run.begin()
    return thread, run, run.step(frames.Next(1))


def numbers_of(step):
    report, ended = step.result()
    return [done.number for done in batches.decode_report(report).done], ended


def in_virtual_time(test):
    def run():
        run_virtual(test())

    run.__name__ = test.__name__
    return run


@in_virtual_time
async def test_outcomes_of_short_calls_are_gathered_for_a_moment_and_the_loop_is_woken_once():
    thread, _, step = await begun(1, 2, 3, 4)
    loop, woken = asyncio.get_running_loop(), []
    wake = loop.call_soon_threadsafe
    loop.call_soon_threadsafe = lambda *args, **options: woken.append(args) or wake(*args, **options)
    for _ in range(3):
        thread.ends_one()
        await settle()
    assert not step.done()
    await asyncio.sleep(GATHER_S)
    assert numbers_of(step) == ([1, 2, 3], False)
    assert len(woken) == 1


@in_virtual_time
async def test_the_outcome_of_a_long_call_is_reported_at_once_and_then_nothing_until_there_is_more():
    thread, run, step = await begun(1, 2, 3)
    thread.ends_one(LONG_S)
    await settle()
    assert numbers_of(step) == ([1], False)
    step = run.step(frames.Send(1, batches.encode(batch(4))))
    await asyncio.sleep(10)
    assert not step.done()
    thread.ends_one(LONG_S)
    await settle()
    assert numbers_of(step) == ([2], False)


@in_virtual_time
async def test_a_report_comes_at_once_when_all_calls_are_over():
    thread, run, step = await begun(1, 2)
    thread.ends_one()
    thread.ends_one()
    thread.has_nothing_left()
    await settle()
    assert numbers_of(step) == ([1, 2], False)
    step = run.step(frames.Send(1, batches.encode(batch(3, last=True))))
    assert len(thread.jobs) == 2
    thread.ends_one()
    thread.has_nothing_left()
    await settle()
    assert numbers_of(step) == ([3], True)


@in_virtual_time
async def test_a_run_that_is_told_that_nothing_follows_ends_at_once():
    thread, run, step = await begun(1)
    thread.ends_one()
    thread.has_nothing_left()
    await settle()
    assert numbers_of(step) == ([1], False)
    assert numbers_of(run.step(frames.Send(1, batches.encode(batch(last=True))))) == ([], True)


@in_virtual_time
async def test_the_last_outcome_comes_with_the_end_of_its_job():
    """To wake the loop twice takes the main thread from it while it answers."""
    thread, _, step = await begun(1)
    loop, woken = asyncio.get_running_loop(), []
    wake = loop.call_soon_threadsafe
    loop.call_soon_threadsafe = lambda *args, **options: woken.append(args) or wake(*args, **options)
    thread.ends_one(is_last=True)
    thread.has_nothing_left()
    await settle()
    assert numbers_of(step) == ([1], False)
    assert len(woken) == 1


@pytest.mark.parametrize("way", ["recall", "cancel"])
def test_what_has_not_begun_is_given_back_at_once(way):
    async def main():
        thread, run, step = await begun(1, 2, 3)
        assert thread.parts.take().number == 1
        if way == "recall":
            run.recall()
        else:
            assert step.cancel()
            assert not step.cancelled()
        report, ended = step.result()
        assert batches.decode_report(report).given_back == (2, 3)
        assert (ended, thread.interrupted) == (False, way == "cancel")
        assert not step.cancel()

    run_virtual(main())


@in_virtual_time
async def test_a_run_whose_job_will_not_begin_is_cancelled():
    thread, _, step = await begun(1)
    thread.jobs[-1].interrupt(None)
    await settle()
    assert step.cancelled()


@in_virtual_time
async def test_a_fault_of_the_main_thread_is_the_steps():
    thread, _, step = await begun(1)
    thread.jobs[-1].done.set_exception(LookupError("the runner's"))
    await settle()
    with pytest.raises(LookupError, match="the runner's"):
        step.result()
