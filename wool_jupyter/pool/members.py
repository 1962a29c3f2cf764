"""A pool's own workers, as its crew keeps them and as others see them."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from wool_jupyter.nursery.client import Child
from wool_jupyter.records import WorkerMetadata
from wool_jupyter.wire.start_ledger import StartLedger

if TYPE_CHECKING:
    import asyncio


@dataclass(slots=True)
class Member:
    """A worker of this process's own, from the moment that it serves until its end."""

    metadata: WorkerMetadata
    child: Child
    started: float
    oom_kills: int  # of the system, when it started
    crash_report: Path
    ledger: StartLedger
    last_used: float = 0.0  # loop's time of its last call; 0: it has run nothing
    calls: int = 0  # under way; the first has its slot
    care: "asyncio.Task[None] | None" = None  # since it failed a call, until it answers: no slot is given for it
    drains: bool = False  # takes no more calls, and is let go when the last one is over
    leaves: bool = False  # it has been let go
    asked_to_end: bool = False  # by the user: no sign that its start is in doubt
    ended_by_us: str = ""  # why, if so

    @property
    def age_s(self) -> float:
        return time.time() - self.started


@dataclass(frozen=True, slots=True)
class WorkerSnapshot:
    uid: UUID
    pid: int
    busy: bool
    started: float  # seconds since the epoch

    def __str__(self) -> str:
        return f"pid {self.pid}  {'busy' if self.busy else 'idle'}  {time.time() - self.started:,.0f} s old"
