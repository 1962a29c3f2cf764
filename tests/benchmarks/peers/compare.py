"""Runs the works of all peers, one peer after the other, again and again, so that what changes on the machine meets them all."""

import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from statistics import median

from tests.benchmarks.peers.session import ANSWER_S, Cannot, Session, session
from tests.benchmarks.peers.works import GROUPS, WORKS, Aim, Figure, Row, Work
from tests.support.kernel import CellFailed

OURS = "wool_jupyter"
PACKAGES = {  # by the names of the modules beside this one
    OURS: "wool_jupyter",
    "stdlib": None,
    "loky": "loky",
    "ray": "ray",
    "ipyparallel": "ipyparallel",
    "dask": "distributed",
    "wool": "wool",
}


class Comparison:
    """Of each round the figures by row and peer. Ctrl-C ends it with the rounds that are complete."""

    def __init__(self, group: str | None, rounds: int) -> None:
        self._groups = {
            name: [work for work in WORKS if work.group == name] for name in GROUPS if group in (None, name)
        }
        self.rows = [row for works in self._groups.values() for work in works for row in work.rows]
        self.versions = {name: _version(package) for name, package in PACKAGES.items()}
        self.rounds: list[dict[str, dict[str, Figure]]] = []
        try:
            for number in range(rounds):
                self.rounds.append(self._round(number))
        except KeyboardInterrupt:
            if not self.rounds:
                raise

    def _round(self, number: int) -> dict[str, dict[str, Figure]]:
        names = list(PACKAGES)
        turn = number % len(names)
        found: dict[str, dict[str, Figure]] = {name: {} for name in names}
        for works in self._groups.values():
            for name in names[turn:] + names[:turn]:
                found[name] |= self._of(name, works)
                print(".", end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)
        return found

    def _of(self, name: str, works: Sequence[Work]) -> dict[str, Figure]:
        if self.versions[name] is None:
            return {row.name: "not installed" for work in works for row in work.rows}
        return dict(_figures(name, works))

    def figures(self, row: Row, peer: str) -> list[Figure]:
        return [each[peer][row.name] for each in self.rounds]

    def median(self, row: Row, peer: str) -> Figure:
        figures = self.figures(row, peer)
        numbers = [figure for figure in figures if not isinstance(figure, str)]
        return median(numbers) if numbers else figures[0]

    def against(self, row: Row, aim: Aim) -> float | None:
        """Median of the rounds' own ratios, or of our figures where the aim is one by itself."""
        ours = self.figures(row, OURS)
        theirs: Sequence[Figure] = [1.0] * len(ours) if aim.of is None else self.figures(row, aim.of)
        pairs = zip(ours, theirs, strict=True)
        ratios = [a / b for a, b in pairs if not isinstance(a, str) and not isinstance(b, str)]
        return median(ratios) if ratios else None


def _figures(name: str, works: Sequence[Work]) -> Iterator[tuple[str, Figure]]:
    left = list(works)
    try:
        with session(name) as opened:
            while left:
                yield from zip((row.name for row in left[0].rows), _measured(left[0], opened), strict=True)
                left.pop(0)
    except AssertionError as error:
        print(f"{name}: {error}", file=sys.stderr)
        why = "failed" if isinstance(error, CellFailed) else f"> {ANSWER_S} s"
        for work in left:
            reason = why if work is left[0] else "not reached"
            yield from ((row.name, reason) for row in work.rows)


def _measured(work: Work, opened: Session) -> Sequence[Figure]:
    try:
        return work.measure(opened)
    except Cannot as reason:
        return [str(reason)] * len(work.rows)
    except CellFailed as error:
        print(f"{work.rows[0].name}: {error}", file=sys.stderr)
        return ["failed"] * len(work.rows)


def _version(package: str | None) -> str | None:
    if package is None:
        return "in Python"
    try:
        return version(package)
    except PackageNotFoundError:
        return None
