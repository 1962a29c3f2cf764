import asyncio
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.loops import run, settle
from wool_jupyter.wire.frames import (
    Ack,
    Cancel,
    Close,
    Failed,
    Idle,
    IdleFor,
    Interrupt,
    Nack,
    Next,
    Refused,
    Returned,
    Send,
    Stop,
    Stopped,
    Task,
    Throw,
    Yielded,
)
from wool_jupyter.worker.admission import Admission
from wool_jupyter.worker.session import Flaw, Session


class Promised(asyncio.Future):
    """A step that needs no task of the session's: what it waits for settles it, also after it was cancelled."""

    def __init__(self, step):
        super().__init__()
        self._step = asyncio.ensure_future(step)
        self._step.add_done_callback(self._settle)

    def cancel(self, msg=None):
        return self._step.cancel(msg)

    def _settle(self, step):
        if step.cancelled():
            super().cancel()
        elif step.exception() is not None:
            self.set_exception(step.exception())
        else:
            self.set_result(step.result())


@pytest.fixture(params=["coroutine", "future"])
def kind(request):
    """Of what a body's `step` gives."""
    return {"coroutine": lambda step: step, "future": lambda step: lambda command: Promised(step(command))}[
        request.param
    ]


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
    await settle()
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


def test_cancelling_a_call_that_waits_closes_the_routine_and_says_failed():
    """It has not returned: a client would take that for the end of a whole stream."""

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
        assert answers[2:] == [Failed(1, "it was cancelled between two steps")]
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
        assert answers == [Refused(1, "cancelled", transient=True)]
        it.receive(Task(1, "echo", b""))
        await settle()
        assert answers[1:] == [Ack(1)], "the number is free again"
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


class Scripted:
    """A body that waits at each gate, and keeps what it was told."""

    def __init__(self, kind, flaw=None, *, gated_begin=False):
        self.flaw = flaw
        self.step = kind(self.step)
        self.commands, self.interrupts, self.cancels, self.closed = [], 0, 0, 0
        self.may_begin, self.go_on = asyncio.Event(), asyncio.Event()
        self.begin_error = None
        if not gated_begin:
            self.may_begin.set()

    async def begin(self):
        await self.may_begin.wait()
        if self.begin_error is not None:
            raise self.begin_error
        return self.flaw

    async def step(self, command):
        self.commands.append(command)
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.cancels += 1
            return b"cancelled", False
        self.go_on.clear()
        return b"value", False

    def interrupt(self):
        self.interrupts += 1
        self.go_on.set()

    def stopping(self):
        pass

    async def close(self):
        self.closed += 1


def scripted(kind, **options):
    body, admission = Scripted(kind, **options), Admission()
    answers = []
    return Session({"scripted": lambda _: body}, answers.append, admission=admission), body, admission, answers


def test_what_comes_while_a_task_is_looked_at_is_held_and_not_lost(kind):
    async def main():
        it, body, _, answers = scripted(kind, gated_begin=True)
        it.receive(Task(1, "scripted", b""))
        it.receive(Next(1))
        it.receive(Interrupt(1))
        await settle()
        assert (answers, body.commands) == ([], [])
        body.may_begin.set()
        await settle()
        assert answers == [Yielded(1, b"value", False)]
        assert (body.commands, body.interrupts) == ([Next(1)], 1)
        await it.close()

    run(main())


@pytest.mark.parametrize("first", [Next(1), Cancel(1), Interrupt(1)])
def test_a_call_that_came_with_its_first_step_is_noted_before_it_begins(first, kind):
    async def main():
        noted, body = [], Scripted(kind, gated_begin=True)
        it = Session(
            {"scripted": lambda _: body}, lambda _: None, begins=lambda number: noted.append((number, *body.commands))
        )
        it.receive(Task(1, "scripted", b""))
        it.receive(first)
        await settle()
        assert noted == []
        body.may_begin.set()
        await settle()
        assert noted == ([(1,)] if isinstance(first, Next) else [])
        it.receive(Next(1))
        await settle()
        assert len(noted) == isinstance(first, Next), "it could still be sent elsewhere"
        await it.close()

    run(main())


@pytest.mark.parametrize("error", [LookupError("odd"), KeyboardInterrupt(), SystemExit(3), GeneratorExit()])
def test_a_task_that_can_not_be_read_is_answered_whatever_it_raises(error, kind):
    async def main():
        it, body, admission, answers = scripted(kind)
        body.begin_error = error
        await begun(it, routine="scripted")
        assert [type(answer) for answer in answers] == [Nack]
        assert type(error).__name__ in answers[0].reason
        assert (body.commands, body.closed, admission.active) == ([], 1, 0)
        await it.close()

    run(main())


def test_a_flaw_is_answered_with_the_error_and_nothing_runs(kind):
    async def main():
        it, body, admission, answers = scripted(kind, flaw=Flaw("it names nothing", b"pickled"))
        await begun(it, routine="scripted")
        assert answers == [Nack(1, "it names nothing", b"pickled")]
        assert (body.commands, body.closed, admission.active) == ([], 1, 0)
        await it.close()

    run(main())


def test_a_cancel_while_a_task_is_looked_at_ends_it_before_it_begins(kind):
    async def main():
        it, body, admission, answers = scripted(kind, gated_begin=True)
        it.receive(Task(1, "scripted", b""))
        it.receive(Next(1))
        await settle()
        it.receive(Cancel(1))
        await settle()
        assert answers == [Refused(1, "cancelled", transient=True)]
        assert (body.commands, body.closed, admission.active) == ([], 1, 0)
        await it.close()

    run(main())


def test_a_cancel_in_the_turn_in_which_a_task_was_found_good_ends_it_all_the_same(kind):
    async def main():
        it, body, admission, answers = scripted(kind)

        async def begin():
            asyncio.get_running_loop().call_soon(it.receive, Cancel(1))

        body.begin = begin
        await begun(it, routine="scripted")
        assert answers == [Refused(1, "cancelled", transient=True)]
        assert (body.commands, body.closed, admission.active) == ([], 1, 0)
        await it.close()

    run(main())


@pytest.mark.parametrize("command", [Next(1), Send(1, b"x"), Throw(1, b"x"), Close(1)], ids=lambda c: type(c).__name__)
def test_every_command_reaches_the_body_as_it_came(command, kind):
    async def main():
        it, body, _, answers = scripted(kind)
        it.receive(Task(1, "scripted", b""))
        await settle()
        it.receive(command)
        body.go_on.set()
        await settle()
        assert body.commands == [command]
        assert answers[1:] == [Yielded(1, b"value", command == Close(1))]
        assert body.closed == (1 if command == Close(1) else 0), "a close is the last command, whatever it yields"
        await it.close()
        assert body.closed == 1

    run(main())


@pytest.mark.parametrize("frame", [Interrupt(1), Cancel(1)], ids=lambda frame: type(frame).__name__)
def test_a_pending_command_answers_an_interrupt_and_a_cancel_of_its_call_alone(frame, kind):
    async def main():
        mine, other = Scripted(kind), Scripted(kind)
        answers = []
        it = Session({"mine": lambda _: mine, "other": lambda _: other}, answers.append)
        await begun(it, call=1, routine="mine")
        await begun(it, call=2, routine="other")
        it.receive(frame)
        await settle()
        assert len(answers) == 3
        assert answers[2].call == 1
        assert (mine.interrupts, mine.cancels) == ((1, 0) if frame == Interrupt(1) else (0, 1))
        assert (other.interrupts, other.cancels) == (0, 0)
        await it.close()

    run(main())


def test_an_interrupt_between_two_commands_is_for_the_body_which_may_run_all_the_same(kind):
    async def main():
        it, body, _, answers = scripted(kind)
        it.receive(Task(1, "scripted", b""))
        await settle()
        it.receive(Interrupt(1))
        await settle()
        assert (body.interrupts, answers) == (1, [Ack(1)])
        await it.close()

    run(main())


def test_a_step_that_fails_before_there_is_anything_to_wait_for_fails_its_call_alone():
    class Refuses(Scripted):
        def step(self, command):
            raise LookupError("no such command")

    async def main():
        answers = []
        it = Session({"it": lambda _: Refuses(lambda step: step), "echo": echo}, answers.append)
        await begun(it, routine="it")
        assert answers == [Ack(1), Failed(1, "LookupError: no such command")]
        await begun(it, routine="echo")
        assert answers[3:] == [Yielded(1, b"hello", False)]
        await it.close()

    run(main())


def test_the_end_of_the_session_waits_for_a_step_that_is_a_future(kind):
    async def main():
        it, body, _, answers = scripted(kind)
        await begun(it, routine="scripted")
        await it.close()
        assert (body.cancels, body.closed) == (1, 1)
        assert answers[1:] == [Yielded(1, b"cancelled", False)]

    run(main())


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), GeneratorExit(), BaseException("bare")])
def test_what_a_routine_raises_ends_its_call_and_never_the_loop(error):
    async def main():
        async def raises(body):
            raise error
            yield

        it, answers = session(raises=raises, echo=echo)
        await begun(it, routine="raises")
        assert [type(answer) for answer in answers] == [Ack, Failed]
        assert type(error).__name__ in answers[1].reason
        await begun(it, routine="echo")
        assert answers[3:] == [Yielded(1, b"hello", False)]
        await it.close()

    run(main())


def test_a_stop_is_answered_when_the_worker_has_stopped_and_idle_at_once():
    class Stops:
        def __init__(self):
            self.asked, self.done = [], asyncio.get_running_loop().create_future()

        def stop(self, timeout_s):
            self.asked.append(timeout_s)
            return self.done

    async def main():
        control, answers = Stops(), []
        it = Session({}, answers.append, control=control)
        it.receive(Stop(1, 2.5))
        it.receive(Idle(2))
        await settle()
        assert control.asked == [2.5]
        assert [type(answer) for answer in answers] == [IdleFor]
        control.done.set_result(None)
        await settle()
        assert answers[1:] == [Stopped(1)]
        await it.close()

    run(main())


@pytest.mark.parametrize("last", [Yielded(1, b"all", True), Returned(1)])
def test_a_call_does_not_count_any_more_when_its_client_hears_of_its_end(last):
    """Who waits for one call before the next is never told that the worker has enough to do."""

    async def main():
        admission, counted = Admission(), []

        async def ends(body):
            if isinstance(last, Yielded):
                yield last.value, True

        def hears(response):
            if response == last:
                counted.append(admission.active)

        it = Session({"ends": ends}, hears, admission=admission)
        await begun(it, routine="ends")
        assert counted == [0]
        await begun(it, call=2, routine="ends")
        await it.close()
        assert admission.active == 0

    run(main())


def test_closing_in_the_turn_in_which_a_task_or_a_step_ends_leaves_nothing(kind):
    """Whatever the turn: what was held would begin a call that nobody ends."""

    async def main():
        for turns in range(8):
            it, body, admission, _ = scripted(kind)
            body.go_on.set()
            it.receive(Task(1, "scripted", b""))
            it.receive(Next(1))
            for _ in range(turns):
                await asyncio.sleep(0)
            await it.close()
            assert (body.closed, admission.active) == (1, 0), turns

    run(main())


def test_a_value_that_answers_the_last_command_is_the_last(kind):
    """An interrupt, say, meets a body that cleans up."""

    async def main():
        it, body, admission, answers = scripted(kind)
        it.receive(Task(1, "scripted", b""))
        it.receive(Close(1))
        await settle()
        it.receive(Interrupt(1))
        await settle()
        assert answers == [Ack(1), Yielded(1, b"value", True)]
        assert (body.closed, admission.active) == (1, 0)

    run(main())


FRAMES = st.sampled_from("task next send throw close interrupt cancel finish fail yield-last begin flaw".split())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # a plain value
@given(script=st.lists(st.tuples(FRAMES, st.integers(1, 2)), max_size=25))
def test_whatever_comes_each_call_is_answered_in_order_and_released_once(kind, script):
    """Beside a model of each call: what it was told, and how many answers that is worth."""

    class Body:
        def __init__(self):
            self.closed, self.told, self.at = 0, 0, None
            self.step = kind(self.step)

        async def begin(self):
            return await self.wait()

        async def step(self, command):
            self.told += 1
            return await self.wait()

        async def wait(self):
            self.at = asyncio.get_running_loop().create_future()
            try:
                return await self.at
            finally:
                self.at = None

        def interrupt(self):
            self.settle((b"interrupted", False))

        def stopping(self):
            pass

        def settle(self, value):
            if self.at is not None and not self.at.done():
                self.at.set_result(value)

        def fail(self):
            if self.at is not None and not self.at.done():
                self.at.set_exception(LookupError())

        async def close(self):
            self.closed += 1

    async def main():
        admission, answers, bodies = Admission(), [], []

        def routine(_):
            bodies.append(Body())
            return bodies[-1]

        it = Session({"it": routine}, answers.append, admission=admission)
        latest = {}
        for word, number in script:
            count = len(bodies)
            body = latest.get(number)
            match word:
                case "task":
                    it.receive(Task(number, "it", b""))
                    if len(bodies) > count:
                        latest[number] = bodies[-1]
                case "next":
                    it.receive(Next(number))
                case "send":
                    it.receive(Send(number, b""))
                case "throw":
                    it.receive(Throw(number, b""))
                case "close":
                    it.receive(Close(number))
                case "interrupt":
                    it.receive(Interrupt(number))
                case "cancel":
                    it.receive(Cancel(number))
                case _ if body is not None:
                    beginning = body.told == 0
                    if word == "fail":
                        body.fail()
                    elif beginning:
                        body.settle(Flaw("no") if word == "flaw" else None)
                    elif word != "flaw":
                        body.settle(None if word == "finish" else (b"", word == "yield-last"))
            await settle()
        await it.close()
        await settle()
        assert admission.active == 0
        assert all(body.closed == 1 for body in bodies)
        for number in (1, 2):
            open_call, silent = (
                False,
                ("next", number) in script,
            )  # a first step that came early has its answer instead of the Ack
            for answer in (a for a in answers if a.call == number):
                match answer:
                    case Nack(_, reason) if "under way already" in reason:
                        continue
                    case Ack():
                        assert not open_call
                        open_call = True
                    case Nack() | Refused():
                        assert not open_call, "only before the Ack"
                    case Yielded(_, _, False):
                        assert open_call or silent
                        open_call = True
                    case _:
                        assert open_call or silent
                        open_call = False
        steps = sum(isinstance(answer, Yielded | Returned | Failed) for answer in answers)
        assert steps >= sum(body.told for body in bodies), "every command has its answer"

    run(main())
