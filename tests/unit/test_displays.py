"""However slow a display is, or whatever it does, nobody waits for it."""

import threading

from tests.support.snapshots import SNAPSHOTS
from tests.support.waiting import wait_until
from wool_jupyter.notebook.displays import Displays

FIRST, SECOND, THIRD = SNAPSHOTS["starting"], SNAPSHOTS["two-workers"], SNAPSHOTS["dead"]


def test_a_display_that_is_stuck_holds_nobody_up_and_gets_the_latest_when_it_goes_on():
    displays, seen, inside, goes_on = Displays(), [], threading.Event(), threading.Event()

    def slow(snapshot):
        seen.append(snapshot)
        inside.set()
        assert goes_on.wait(20)

    displays.attach(slow)
    displays.show(FIRST)
    assert inside.wait(20)
    for _ in range(1000):
        displays.show(SECOND)
    displays.show(THIRD)
    goes_on.set()
    wait_until(lambda: len(seen) == 2)
    assert seen == [FIRST, THIRD]
    displays.detach(slow)


def test_one_that_fails_is_let_go_and_says_why_and_the_others_stay(capfd):
    displays, calls, seen = Displays(), [], []

    def broken(snapshot):
        calls.append(snapshot)
        raise ValueError("it does not fit")

    displays.attach(broken)
    displays.attach(seen.append)
    displays.show(FIRST)
    wait_until(lambda: seen == [FIRST])
    displays.show(SECOND)
    wait_until(lambda: seen == [FIRST, SECOND])
    assert calls == [FIRST]
    assert "it does not fit" in capfd.readouterr().err


def test_one_that_was_detached_is_not_called_any_more():
    displays, seen, gone = Displays(), [], []
    displays.attach(gone.append)
    displays.attach(seen.append)
    assert displays.any
    displays.detach(gone.append)
    displays.detach(gone.append)
    displays.show(FIRST)
    wait_until(lambda: seen == [FIRST])
    assert gone == []
    displays.detach(seen.append)
    assert not displays.any
