import dataclasses
from dataclasses import dataclass
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wool_jupyter.pool.supervisor import (
    PROBES,
    RETRIES,
    Candidate,
    Standing,
    pause_before_probe,
    pause_in_doubt,
    workers_to_part,
    workers_to_start,
)

IDLE = Standing(keep=2, most=4, present=2, starting=0, free=2, waiting=0, in_doubt=False)


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        pytest.param({}, 0, id="all that are kept are there"),
        pytest.param({"present": 0, "free": 0}, 2, id="none is there"),
        pytest.param({"present": 1, "free": 1}, 1, id="one is missing"),
        pytest.param({"present": 0, "free": 0, "starting": 2}, 0, id="they are on their way"),
        pytest.param({"free": 0, "waiting": 1}, 1, id="one waits and all are busy"),
        pytest.param({"free": 0, "waiting": 1, "starting": 1}, 0, id="who waits has one on its way"),
        pytest.param({"free": 1, "waiting": 1}, 0, id="who waits has a free one"),
        pytest.param({"free": 0, "waiting": 9}, 2, id="no more than the most"),
        pytest.param({"present": 4, "free": 0, "waiting": 9}, 0, id="the most are there"),
        pytest.param({"present": 5, "free": 0, "waiting": 1}, 0, id="there are too many"),
        pytest.param({"present": 0, "free": 0, "in_doubt": True}, 0, id="the start is in doubt and nothing waits"),
        pytest.param({"present": 0, "free": 0, "in_doubt": True, "waiting": 1}, 1, id="in doubt, and one waits"),
        pytest.param({"present": 0, "free": 0, "waiting": 1}, 2, id="one waits and two are kept"),
    ],
)
def test_workers_to_start(change, wanted):
    assert workers_to_start(dataclasses.replace(IDLE, **change)) == wanted


def test_a_worker_that_fails_is_asked_a_few_times_ever_more_rarely_and_given_up():
    pauses = [pause_before_probe(failed) for failed in range(PROBES + 2)]
    assert pauses[PROBES:] == [None, None]
    assert pauses[:PROBES] == sorted(set(pauses[:PROBES]))
    assert sum(pauses[:PROBES]) < 5


def test_what_dies_of_its_own_start_is_started_a_few_times_ever_more_rarely_until_work_waits():
    pauses = [pause_in_doubt(retried) for retried in range(RETRIES + 2)]
    assert pauses[RETRIES:] == [None, None]
    assert pauses[:RETRIES] == sorted(set(pauses[:RETRIES]))
    assert 0 < pauses[0] <= 2


@dataclass
class Crew:
    """What `workers_to_start` decides about, without processes: workers that start, serve and die."""

    keep: int
    most: int
    starting: int = 0
    idle: int = 0  # unused
    used: int = 0  # idle again
    busy: int = 0
    waiting: int = 0
    in_doubt: bool = False
    started: int = 0

    def decide(self):
        standing = Standing(
            keep=self.keep,
            most=self.most,
            present=self.idle + self.used + self.busy,
            starting=self.starting,
            free=self.idle + self.used,
            waiting=self.waiting,
            in_doubt=self.in_doubt,
        )
        count = workers_to_start(standing)
        self.starting += count
        self.started += count
        assert self.starting + standing.present <= max(self.most, standing.present)
        # Somebody who waits has a worker on the way, or all that there may be are at work.
        assert not self.waiting or self.starting or standing.present >= self.most or standing.free

    def step(self, event):
        match event:
            case "a call comes":
                self.waiting += 1
            case "a start succeeds" if self.starting:
                self.starting, self.idle = self.starting - 1, self.idle + 1
            case "a start fails" if self.starting:
                self.starting, self.in_doubt = self.starting - 1, True
                if not (self.idle + self.used + self.busy + self.starting):
                    self.waiting = 0  # they are told
            case "an unused one dies" if self.idle:
                self.idle, self.in_doubt = self.idle - 1, True
            case "the pause is over":
                self.in_doubt = False
            case "a used one dies" if self.used:
                self.used -= 1
            case "a busy one dies" if self.busy:
                self.busy -= 1
            case "a call ends" if self.busy:
                self.busy, self.used = self.busy - 1, self.used + 1
        while self.waiting and (self.idle or self.used):
            if self.used:
                self.used -= 1
            else:
                self.idle -= 1
            self.busy, self.waiting, self.in_doubt = self.busy + 1, self.waiting - 1, False
        self.decide()


EVENTS = [
    "a call comes",
    "a start succeeds",
    "a start fails",
    "an unused one dies",
    "the pause is over",
    "a used one dies",
    "a busy one dies",
    "a call ends",
]


@given(st.integers(0, 4), st.integers(1, 5), st.lists(st.sampled_from(EVENTS), max_size=60))
def test_there_are_never_too_many_and_nobody_who_waits_is_forgotten(keep, most, events):
    crew = Crew(min(keep, most), most)
    crew.decide()
    for event in events:
        crew.step(event)


@given(
    st.integers(1, 4),
    st.lists(st.sampled_from(["a start fails", "a start succeeds", "an unused one dies"]), min_size=50),
)
def test_workers_that_die_of_their_own_start_are_not_started_for_ever(keep, events):
    """Without any work."""
    crew = Crew(keep, keep)
    crew.decide()
    for event in events:
        crew.step(event)
    assert crew.started == keep


def candidate(number, *, busy=False, pinned=False, last_used=0.0, started=0.0):
    return Candidate(UUID(int=number), busy, pinned, last_used, started)


@pytest.mark.parametrize(
    ("present", "most", "parts"),
    [
        pytest.param([candidate(1), candidate(2)], 2, [], id="as many as may be"),
        pytest.param([candidate(1, busy=True), candidate(2)], 1, [2], id="an idle one before a busy one"),
        pytest.param([candidate(1, last_used=9), candidate(2, last_used=5)], 1, [2], id="the one used longest ago"),
        pytest.param([candidate(1, last_used=9), candidate(2)], 1, [2], id="one that was never used"),
        pytest.param([candidate(1, started=5), candidate(2, started=9)], 1, [2], id="of the unused the youngest"),
        pytest.param(
            [candidate(1, busy=True, pinned=True), candidate(2, pinned=True)], 1, [], id="none that is pinned"
        ),
        pytest.param([candidate(1, pinned=True), candidate(2), candidate(3)], 1, [2, 3], id="all but the pinned one"),
        pytest.param([candidate(1, pinned=True), candidate(2, busy=True)], 1, [2], id="a busy one before a pinned one"),
    ],
)
def test_workers_to_part(present, most, parts):
    assert [uid.int for uid in workers_to_part(present, most)] == parts
