"""When a user is told that a worker is stopped."""

import pytest

from wool_jupyter import host
from wool_jupyter.notebook.stopped import AFTER_S, EVERY_S, StoppedWorkers


@pytest.fixture
def held(monkeypatch):
    """Pids of processes that are stopped."""
    held = set()
    monkeypatch.setattr(host, "is_stopped", held.__contains__)
    return held


class Watched:
    def __init__(self):
        self.now, self.asked = 0.0, 0  # how often for the pids
        self.workers = StoppedWorkers(clock=lambda: self.now)

    def pids(self):
        self.asked += 1
        return [1, 2]

    def told_within(self, seconds):
        """As whoever waits looks: far more often than the system is to be asked."""
        told, until = [], self.now + seconds
        while self.now < until:
            self.now += 0.0625
            told += self.workers.look(self.pids)
        return told


def test_it_is_told_once_after_some_seconds_and_again_the_next_time(held):
    watched = Watched()
    held.add(2)
    assert watched.told_within(AFTER_S) == []
    (line,) = watched.told_within(20)
    assert "worker pid 2 is stopped" in line
    held.clear()
    assert watched.told_within(2 * EVERY_S) == []
    held.add(2)
    assert len(watched.told_within(20)) == 1


def test_a_moment_is_not_told(held):
    watched = Watched()
    for _ in range(5):
        held.add(1)
        assert watched.told_within(EVERY_S) == []
        held.clear()
        assert watched.told_within(EVERY_S) == []


def test_the_system_is_asked_once_a_second(held):
    watched = Watched()
    watched.told_within(10 * EVERY_S)
    assert watched.asked == 10
