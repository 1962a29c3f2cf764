"""Names that background jobs are to bind: who binds which, and who gives way.

A cell's own binding wins over a job's, a later job's over an earlier one's. Jobs are numbered as they were submitted.
"""

import weakref
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_MISSING = object()


@dataclass
class _Claim:
    before: object  # what the name was bound to when the job was submitted, or when another job has bound it since
    waits: bool  # whether who reads it waits
    told: bool  # whether it is a loss, of which the user is told, when it is given up
    given_up: bool = False  # a cell, or a later job, has bound it


class _Held:
    """A value, to be known again. Held weakly if it can be: what a cell deletes is to be gone."""

    def __init__(self, value: object) -> None:
        self._value: object = None
        self._weak: weakref.ref[object] | None = None
        try:
            self._weak = weakref.ref(value)
        except TypeError:
            self._value = value

    def is_(self, value: object) -> bool:
        if self._weak is None:
            return self._value is value
        return value is not None and self._weak() is value


_CHANGED = _Held(object())


class _Claims:
    def __init__(self, by_name: dict[str, _Claim], namespace: Mapping[str, object]) -> None:
        self.by_name = by_name
        # Of all else, for what `exec` may bind is not known before. No number of an object, which may be another's later.
        self._there = {name: _Held(value) for name, value in namespace.items()}

    def was_bound(self, name: str, value: object) -> None:
        """By another job."""
        self._there[name] = _Held(value)

    def cell_ended(self, namespace: Mapping[str, object]) -> None:
        """What it has deleted or bound anew is let go."""
        for name, held in self._there.items():
            if not held.is_(namespace.get(name, _MISSING)):
                self._there[name] = _CHANGED

    def is_as_before(self, name: str, value: object) -> bool:
        held = self._there.get(name)
        return value is _MISSING if held is None else held.is_(value)


class Pending:
    """Main thread only."""

    def __init__(self, namespace: Mapping[str, Any]) -> None:
        self._namespace = namespace
        self._jobs: dict[int, _Claims] = {}
        self._unbound: dict[str, tuple[int, object]] = {}  # of jobs that did not end well, and nobody has said so yet

    def __bool__(self) -> bool:
        return bool(self._jobs or self._unbound)

    def submitted(
        self, job: int, *, binds: Collection[str], imports: Container[str] = (), changes: Iterable[str] = ()
    ) -> list[str]:
        """`imports`: those of `binds` that stay what they are, if they are there. `changes`: names whose objects it changes in
        place. Returns what to tell the user."""
        notices = [
            f"{listed(names)} {_is(names)} pending from job {other}, too: what this one binds will count"
            for other, held in self.holders(binds).items()
            if (names := [name for name in held if name not in imports])
        ]
        claims = {
            name: _Claim(
                self._now(name),
                waits=name not in imports or name not in self._namespace,
                told=name not in imports,
            )
            for name in sorted({*binds, *changes})
        }
        self._jobs[job] = _Claims(claims, self._namespace)
        for name in binds:
            self._unbound.pop(name, None)
        return notices

    def names(self) -> set[str]:
        return {name for claims in self._jobs.values() for name in claims.by_name} | self._unbound.keys()

    def holders(self, names: Container[str] | None) -> dict[int, list[str]]:
        """By job, those of `names` (None: of all) that it is the last one to bind. First submitted first."""
        last = {
            name: job
            for job, claims in self._jobs.items()
            for name, claim in claims.by_name.items()
            if claim.waits and not claim.given_up and (names is None or name in names)
        }
        held: dict[int, list[str]] = {}
        for name, job in last.items():
            held.setdefault(job, []).append(name)
        return {job: sorted(held[job]) for job in sorted(held)}

    def unbound(self, names: Container[str]) -> tuple[int, list[str]] | None:
        """A job that was to bind some of these and did not end well. It is said once: then its names are what they are."""
        for name, (job, _) in self._unbound.items():
            if name in names:
                found = sorted(n for n, (j, _) in self._unbound.items() if j == job and n in names)
                self.forget(job)
                return job, found
        return None

    def forget(self, job: int) -> None:
        """The user knows how it ended."""
        self._unbound = {name: entry for name, entry in self._unbound.items() if entry[0] != job}

    def cell_ended(self, bound: Container[str]) -> list[str]:
        """`bound`: what it has surely bound or deleted; what else it has is seen. Returns what to tell the user."""
        notices = []
        for job, claims in self._jobs.items():
            claims.cell_ended(self._namespace)
            claimed = sorted(name for name, claim in claims.by_name.items() if not claim.given_up)
            lost = [name for name in claimed if self._is_bound(name, claims.by_name[name].before, bound)]
            for name in lost:
                claims.by_name[name].given_up = True
            if told := [name for name in lost if claims.by_name[name].told]:
                notices.append(f"this cell has bound {listed(told)}: what job {job} makes of {_it(told)} is dropped")
        self._unbound = {n: entry for n, entry in self._unbound.items() if not self._is_bound(n, entry[1], bound)}
        return notices

    def takes(self, job: int, name: str) -> bool:
        """Whether what the job has made of it may be bound."""
        claims = self._jobs[job]
        claim = claims.by_name.get(name)
        if claim is None:
            return claims.is_as_before(name, self._now(name))
        return not claim.given_up and self._now(name) is claim.before

    def is_loss(self, job: int, name: str) -> bool:
        """Whether to tell the user that it was not taken."""
        claim = self._jobs[job].by_name.get(name)
        return claim is None or claim.told

    def ended(self, job: int, bound: Collection[str], *, well: bool = True, failed: bool = False) -> None:
        """`bound` has been bound or deleted. Of a job that `failed` that may be half of a work."""
        claims = self._jobs.pop(job)
        for name in bound:
            for other, others in self._jobs.items():
                claim = others.by_name.get(name)
                if claim is not None and other < job:
                    claim.given_up = True
                elif claim is not None and not claim.given_up:
                    claim.before = self._now(name)
                if other > job:
                    others.was_bound(name, self._now(name))
        if not well:
            self._unbound |= {
                name: (job, self._now(name))
                for name, claim in claims.by_name.items()
                if not claim.given_up and (name not in bound or (failed and claim.told))
            }

    def _now(self, name: str) -> object:
        return self._namespace.get(name, _MISSING)

    def _is_bound(self, name: str, before: object, surely: Container[str]) -> bool:
        return name in surely or self._now(name) is not before


def listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _is(names: list[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _it(names: list[str]) -> str:
    return "it" if len(names) == 1 else "them"
