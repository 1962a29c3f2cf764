"""How many calls a worker is sent ahead of the one that it runs: decided here from what earlier ones took, done elsewhere
(`call_run`)."""

from collections import Counter

from wool_jupyter.settings import RUN_S


class Cost:
    """What calls of one function take on a worker."""

    def __init__(self) -> None:
        self.known = 0  # calls that it was measured on
        self.mean_s = RUN_S

    def took(self, seconds: float) -> None:
        self.known += 1
        self.mean_s += (seconds - self.mean_s) * max(0.2, 1 / self.known)

    def takes_at_least(self, seconds: float) -> None:
        self.mean_s = max(self.mean_s, seconds)


class Ahead:
    """Of one worker: calls that it was sent and that have not ended."""

    def __init__(self) -> None:
        self.calls = 0
        self._of: Counter[Cost] = Counter()

    def sent(self, cost: Cost) -> None:
        self.calls += 1
        self._of[cost] += 1

    def over(self, cost: Cost) -> None:
        """One that was sent, or it came back."""
        self.calls -= 1
        self._of[cost] -= 1
        if not self._of[cost]:
            del self._of[cost]

    @property
    def seconds(self) -> float:
        """If they take what such calls took before."""
        return sum(number * cost.mean_s for cost, number in self._of.items())

    def has_room(self, cost: Cost, *, share: int) -> bool:
        """For one more. `share`: of all calls that are left, those that this worker would have to run.

        One call always; a second one hides the way there and back, unless such calls are long; more while they are short, up to
        twice as many as have been measured."""
        if not self.calls:
            return True
        if self.calls > 2 * cost.known or self.calls >= share:
            return False
        return self.seconds + cost.mean_s <= RUN_S or (self.calls == 1 and cost.mean_s <= RUN_S)
