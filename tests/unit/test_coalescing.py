import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.workers import added, dropped, updated
from wool_jupyter.discovery.coalescing import EventQueue


def merged(events, *, taken=()):
    """What is left for a reader who took the events `taken` one by one before the others came."""
    queue = EventQueue()
    for event in taken:
        queue.append(event)
        queue.popleft()
    for event in events:
        queue.append(event)
    return [queue.popleft() for _ in range(len(queue))]


@pytest.mark.parametrize(
    ("taken", "events", "left"),
    [
        pytest.param([], [added(1), dropped(1)], [], id="came and went"),
        pytest.param([], [added(1), None, updated(1, "a"), added(2)], [added(1, "a"), None, added(2)], id="a mark"),
        pytest.param([], [added(1), updated(1, "new")], [added(1, "new")], id="added, updated"),
        pytest.param([], [added(1), added(1, "new")], [added(1, "new")], id="announced again"),
        pytest.param([added(1)], [updated(1, "a"), updated(1, "b")], [updated(1, "b")], id="updated twice"),
        pytest.param([added(1, "a")], [updated(1, "b"), updated(1, "a")], [], id="updated there and back"),
        pytest.param([added(1)], [updated(1, "a"), dropped(1)], [dropped(1)], id="updated, dropped"),
        pytest.param(
            [added(1)],
            [dropped(1), added(1, "a"), updated(1, "b")],
            [dropped(1), added(1, "b")],
            id="went and came again",
        ),
        pytest.param([added(1)], [dropped(1), added(1), dropped(1)], [dropped(1)], id="went, came, went"),
        pytest.param(
            [added(1)],
            [updated(1), dropped(1), added(2), added(1)],
            [dropped(1), added(2), added(1)],
            id="order of a return",
        ),
        pytest.param([added(1), dropped(1), added(1)], [dropped(1)], [dropped(1)], id="heard of each"),
        pytest.param([added(1)], [added(1), dropped(1)], [dropped(1)], id="announced again, dropped"),
        pytest.param([added(1)], [dropped(1), updated(1, "stale")], [dropped(1)], id="an update after the drop"),
        pytest.param([added(1), dropped(1)], [added(1), dropped(1)], [], id="came again and went again"),
        pytest.param([], [dropped(1)], [dropped(1)], id="a drop of somebody unknown"),
        pytest.param([], [added(1), added(2), updated(1, "new")], [added(1, "new"), added(2)], id="order"),
    ],
)
def test_a_workers_events_become_what_counts(taken, events, left):
    assert merged(events, taken=taken) == left


KINDS = st.sampled_from([added, updated, dropped])
STEPS = st.lists(st.tuples(KINDS, st.integers(1, 3), st.sampled_from("abc")) | st.just("take"), max_size=40)


class Reader:
    """Admits as a proxy does: an update admits nobody."""

    def __init__(self):
        self.members = {}

    def hear(self, event):
        uid = event.metadata.uid
        if event.type == "worker-dropped":
            self.members.pop(uid, None)
        elif event.type == "worker-added" or uid in self.members:
            self.members[uid] = event.metadata


@settings(deadline=None)
@given(STEPS)
def test_a_slow_reader_ends_where_one_does_who_hears_everything(steps):
    queue, slow, prompt = EventQueue(), Reader(), Reader()
    for step in steps:
        if step == "take":
            if queue:
                slow.hear(queue.popleft())
            continue
        kind, number, address = step
        queue.append(kind(number, address))
        prompt.hear(kind(number, address))
        assert len(queue) <= 2 * 3, "more than a drop and another event for a worker"
    while queue:
        slow.hear(queue.popleft())
    assert slow.members == prompt.members
