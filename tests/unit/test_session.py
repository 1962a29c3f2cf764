import asyncio
from contextlib import suppress

import pytest

from tests.support.loops import run, settle
from wool_jupyter.wire.frames import Ack, Cancel, Failed, Nack, Next, Returned, Send, Task, Yielded
from wool_jupyter.worker.session import Session


class Gates:
    """What the routines here wait for, and what they have said."""

    def __init__(self):
        self.entered, self.go_on = asyncio.Event(), asyncio.Event()
        self.said = []


def session(**routines):
    answers = []
    return Session(routines, answers.append), answers


async def echo(body):
    """Yields its body, then whatever it is sent, until it is sent nothing."""
    answer = yield body, False
    while answer is not None:
        answer = yield answer, False


async def begun(session, call=1, routine="echo", body=b"hello"):
    session.receive(Task(call, routine, body))
    session.receive(Next(call))
    await settle()


def test_a_call_is_acknowledged_and_begins_with_its_first_step():
    async def main():
        gates = Gates()

        async def tells(body):
            gates.said.append(body)
            yield b"", True

        it, answers = session(tells=tells)
        it.receive(Task(7, "tells", b"hello"))
        await settle()
        assert answers == [Ack(7)]
        assert gates.said == []
        it.receive(Next(7))
        await settle()
        assert gates.said == [b"hello"]
        await it.close()

    run(main())


def test_a_routine_gets_what_it_is_sent_and_says_when_it_has_returned():
    async def main():
        it, answers = session(echo=echo)
        await begun(it)
        it.receive(Send(1, b"more"))
        await settle()
        it.receive(Next(1))
        await settle()
        assert answers == [Ack(1), Yielded(1, b"hello", False), Yielded(1, b"more", False), Returned(1)]
        await it.close()

    run(main())


def test_a_last_value_is_answered_at_once_and_the_routine_cleans_up():
    async def main():
        gates = Gates()

        async def one(body):
            try:
                yield b"only", True
            finally:
                gates.said.append(list(answers))

        it, answers = session(one=one)
        await begun(it, routine="one")
        assert answers == [Ack(1), Yielded(1, b"only", True)]
        assert gates.said == [answers]
        it.receive(Next(1))
        await settle()
        assert answers[2:] == []
        await begun(it, routine="one")
        assert answers[2:] == [Ack(1), Yielded(1, b"only", True)], "the number is free again"
        await it.close()

    run(main())


@pytest.mark.parametrize("broken", ["raises", "yields"])
def test_a_routine_that_fails_to_clean_up_still_answers(broken):
    """Its client would wait for ever."""

    async def main():
        async def routine(body):
            try:
                yield b"only", True
            finally:
                if broken == "raises":
                    raise LookupError("while cleaning up")
                yield b"again", True

        it, answers = session(routine=routine)
        it._tasks._report = lambda *_: None
        await begun(it, routine="routine")
        assert len(answers) == 2
        await it.close()

    run(main())


def test_an_unknown_routine_is_refused_by_name():
    async def main():
        it, answers = session(echo=echo)
        it.receive(Task(1, "sing", b""))
        it.receive(Next(1))
        await settle()
        assert answers == [Nack(1, "this worker knows no routine 'sing'")]
        await it.close()

    run(main())


def test_a_number_in_use_is_refused_and_the_call_that_has_it_goes_on():
    async def main():
        it, answers = session(echo=echo)
        await begun(it)
        it.receive(Task(1, "echo", b"other"))
        assert answers[2:] == [Nack(1, "call 1 is under way already")]
        it.receive(Send(1, b"more"))
        await settle()
        assert answers[3:] == [Yielded(1, b"more", False)]
        await it.close()

    run(main())


def test_a_failing_routine_ends_its_call_with_the_reason_and_no_other():
    async def main():
        async def fails(body):
            raise LookupError("no such thing")
            yield

        it, answers = session(fails=fails, echo=echo)
        await begun(it, call=1)
        await begun(it, call=2, routine="fails")
        it.receive(Next(2))
        it.receive(Send(1, b"more"))
        await settle()
        assert answers[2:] == [Ack(2), Failed(2, "LookupError: no such thing"), Yielded(1, b"more", False)]
        await it.close()

    run(main())


def test_cancelling_a_call_that_waits_closes_the_routine_and_says_returned():
    async def main():
        gates = Gates()

        async def waits(body):
            try:
                yield b"", False
            finally:
                gates.said.append("closed")

        it, answers = session(waits=waits)
        await begun(it, routine="waits")
        it.receive(Cancel(1))
        it.receive(Cancel(1))
        await settle()
        assert gates.said == ["closed"]
        assert answers[2:] == [Returned(1)]
        await it.close()

    run(main())


async def blocks(gates, reaction):
    gates.entered.set()
    try:
        await gates.go_on.wait()
    except asyncio.CancelledError:
        if reaction == "raises":
            raise
        if reaction == "fails":
            raise LookupError("cancelled at a bad moment") from None
    if reaction != "returns":
        yield b"saved", False
        yield b"after", True


@pytest.mark.parametrize(
    ("reaction", "answer"),
    [
        pytest.param("raises", Failed(1, "cancelled"), id="lets it through"),
        pytest.param("yields", Yielded(1, b"saved", False), id="handles it"),
        pytest.param("returns", Returned(1), id="ends"),
        pytest.param("fails", Failed(1, "LookupError: cancelled at a bad moment"), id="fails"),
    ],
)
def test_the_step_that_was_pending_answers_a_cancel_with_what_the_body_made_of_it(reaction, answer):
    async def main():
        gates = Gates()
        it, answers = session(blocks=lambda body: blocks(gates, reaction))
        await begun(it, routine="blocks")
        await gates.entered.wait()
        it.receive(Cancel(1))
        await settle()
        assert answers[1:] == [answer]
        if reaction == "yields":
            it.receive(Next(1))
            await settle()
            assert answers[2:] == [Yielded(1, b"after", True)]
        await it.close()

    run(main())


def test_a_cancel_before_the_first_step_has_begun_is_answered_and_ends_the_call():
    """All three frames may arrive in one turn of the loop."""

    async def main():
        it, answers = session(echo=echo)
        it.receive(Task(1, "echo", b""))
        it.receive(Next(1))
        it.receive(Cancel(1))
        await settle()
        assert [type(answer) for answer in answers] in ([Ack, Failed], [Ack, Returned])
        it.receive(Task(1, "echo", b""))
        assert answers[2:] == [Ack(1)], "the number is free again"
        await it.close()

    run(main())


def test_a_step_while_one_is_pending_is_ignored():
    async def main():
        gates = Gates()
        it, answers = session(blocks=lambda body: blocks(gates, "yields"))
        await begun(it, routine="blocks")
        it.receive(Next(1))
        gates.go_on.set()
        await settle()
        assert answers[1:] == [Yielded(1, b"saved", False)]
        await it.close()

    run(main())


@pytest.mark.parametrize("frame", [Next(9), Send(9, b""), Cancel(9)], ids=lambda frame: type(frame).__name__)
def test_a_frame_for_a_call_that_has_ended_is_ignored(frame):
    async def main():
        it, answers = session(echo=echo)
        it.receive(frame)
        await settle()
        assert answers == []
        await it.close()

    run(main())


def test_calls_of_one_session_interleave():
    async def main():
        one, other = Gates(), Gates()
        it, answers = session(one=lambda body: blocks(one, "yields"), other=lambda body: blocks(other, "yields"))
        await begun(it, call=1, routine="one")
        await begun(it, call=2, routine="other")
        other.go_on.set()
        await settle()
        one.go_on.set()
        await settle()
        assert answers[2:] == [Yielded(2, b"saved", False), Yielded(1, b"saved", False)]
        await it.close()

    run(main())


def test_close_ends_routines_whether_they_run_wait_or_have_not_begun():
    async def main():
        gates = Gates()

        async def runs(body):
            try:
                gates.entered.set()
                await gates.go_on.wait()
                yield b"", True
            finally:
                await settle()
                gates.said.append("runs")

        async def waits(body):
            try:
                yield b"", False
            finally:
                await settle()
                gates.said.append("waits")

        it, _ = session(runs=runs, waits=waits)
        await begun(it, call=1, routine="runs")
        await begun(it, call=2, routine="waits")
        it.receive(Task(3, "waits", b""))
        await it.close()
        assert sorted(gates.said) == ["runs", "waits"]

    run(main())


def test_close_goes_on_when_a_routine_fails_to_clean_up():
    """The others hold the client's resources, too."""

    async def main():
        gates = Gates()

        async def bad(body):
            try:
                yield b"", False
            finally:
                raise LookupError("while cleaning up")

        async def good(body):
            try:
                yield b"", False
            finally:
                gates.said.append("closed")

        it, _ = session(bad=bad, good=good)
        await begun(it, call=1, routine="bad")
        await begun(it, call=2, routine="good")
        with suppress(LookupError):
            await it.close()
        assert gates.said == ["closed"]

    run(main())
