"""Workers that are stopped, as by SIGSTOP or in a debugger, say nothing: whoever waits for one is told."""

from collections.abc import Callable, Iterable
from time import monotonic

from wool_jupyter import host

EVERY_S = 1.0  # between two looks at the system
AFTER_S = 3.0  # profilers hold a process for a moment, too


class StoppedWorkers:
    """Of those that somebody waits for, on one thread at a time."""

    def __init__(self, *, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._next_s = clock() + EVERY_S
        self._since: dict[int, float] = {}
        self._told: set[int] = set()

    def look(self, pids: Callable[[], Iterable[int]]) -> list[str]:
        """To be called again and again. What to tell the user: once for each time that one is stopped."""
        now = self._clock()
        if now < self._next_s:
            return []
        self._next_s = now + EVERY_S
        self._since = {pid: self._since.get(pid, now) for pid in pids() if host.is_stopped(pid)}
        due = {pid for pid, since in self._since.items() if now - since >= AFTER_S} - self._told
        self._told = (self._told & self._since.keys()) | due
        return [in_words([pid]) for pid in sorted(due)]

    def why(self) -> str:
        """Somebody waits, as far as they are to blame; "" if they are not."""
        return in_words(sorted(self._told)) if self._told else ""


def in_words(pids: list[int]) -> str:
    who, them = ", ".join(map(str, pids)), " ".join(map(str, pids))
    if len(pids) == 1:
        return f"worker pid {who} is stopped, by a signal or a debugger, until it is continued (`kill -CONT {them}`)"
    return f"workers pid {who} are stopped, by signals or a debugger, until they are continued (`kill -CONT {them}`)"
