"""The workers that one kernel owns.

run ─▶ slots (a free main thread) ─▶ proxy (balancer names uids) ─▶ connection ─▶ worker
nursery ─▶ a worker's exit ─▶ evict, replace
"""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID, uuid4

from wool_jupyter import host
from wool_jupyter.aio.owned_tasks import OwnedTasks
from wool_jupyter.balance.sticky import Sticky
from wool_jupyter.dispatch.call import Call
from wool_jupyter.dispatch.proxy import WorkerProxy
from wool_jupyter.errors import CallFailed, KeptOnWorker, NoWorkersAvailable, StartFailed, WorkerDied, WorkerRefused
from wool_jupyter.nursery.client import Child, Nursery
from wool_jupyter.nursery.exits import Exit
from wool_jupyter.pool.slots import Slots
from wool_jupyter.records import WorkerMetadata
from wool_jupyter.settings import EXIT_REPORT_S, FIRST_WORKERS, INTERRUPT_GRACE_S, SIGNAL_S, TERMINATE_S, PoolSettings
from wool_jupyter.wire import layout
from wool_jupyter.wire.credentials import read_token


@dataclass(slots=True)
class _Member:
    metadata: WorkerMetadata
    child: Child
    started: float
    oom_kills: int  # of the system, when it started
    crash_report: Path
    used: bool = False
    calls: int = 0  # under way; the first has its slot
    ended_by_us: str = ""  # why, if so


@dataclass(frozen=True, slots=True)
class WorkerSnapshot:
    uid: UUID
    pid: int
    busy: bool
    started: float  # seconds since the epoch

    def __str__(self) -> str:
        return f"pid {self.pid}  {'busy' if self.busy else 'idle'}  {time.time() - self.started:,.0f} s old"


class WorkerPool:
    """Made by `start`, ended by `stop`, which sweeps the directories; on one loop.

    A worker that dies is replaced at once if it had run something, and otherwise when work waits: what dies of its own start
    would be replaced for ever.
    """

    def __init__(
        self, nursery: Nursery, settings: PoolSettings, *, directory: Path, environment: Mapping[str, str], version: str
    ) -> None:
        self._nursery = nursery
        self._settings = settings
        self._directory = directory
        self._environment = dict(environment)
        self._version = version
        self._proxy = WorkerProxy(Sticky(), token=read_token(str(directory)))
        self._slots = Slots()
        self._members: dict[UUID, _Member] = {}
        self._starting = 0
        self._tasks = OwnedTasks("pool")
        self._most = settings.workers or host.usable_cpus()
        self._stopped = False

    @classmethod
    async def start(
        cls, settings: PoolSettings, *, directories: Sequence[Path], environment: Mapping[str, str], version: str
    ) -> "WorkerPool":
        """Returns when the first worker serves; others are on their way. `StartFailed` leaves no process and no file."""
        nursery = await Nursery.start(directories, log=layout.log(directories[0]), environment=environment)
        pool = cls(nursery, settings, directory=directories[0], environment=environment, version=version)
        try:
            pool._begin_worker()  # the first alone: it is there sooner, and if all fail alike, that is said once
            await pool._slots.take()
            pool._slots.add()
            await pool.grow(settings.workers or min(FIRST_WORKERS, pool._most))
        except BaseException:
            await pool.stop()
            raise
        return pool

    @property
    def lost(self) -> bool:
        """The nursery is gone, and its workers with it: only `stop` makes sense."""
        return self._nursery.lost.done()

    @property
    def size(self) -> int:
        """Workers, with those that are starting."""
        return len(self._members) + self._starting

    @property
    def starting(self) -> int:
        return self._starting

    @property
    def log(self) -> Path:
        return layout.log(self._directory)

    @property
    def nursery_pid(self) -> int:
        return self._nursery.pid

    def snapshot(self) -> list[WorkerSnapshot]:
        """Oldest first."""
        found = [WorkerSnapshot(uid, m.metadata.pid, m.calls > 0, m.started) for uid, m in self._members.items()]
        return sorted(found, key=lambda worker: worker.started)

    async def run(self, routine: str, body: bytes, *, only: UUID | None = None) -> "PoolCall":
        """Waits for a free main thread, as long as workers are there or on their way, and returns once it is sent to a worker.
        `StartFailed` when none can be started; `KeptOnWorker` when `only`, the worker that it needs, is gone."""
        while True:
            if self._stopped:
                raise NoWorkersAvailable("the pool was stopped")
            if not self._slots.free and self.size < self._most:
                self._begin_worker()
            await self._slots.take()
            try:
                call = await self._proxy.dispatch(routine, body, only=only)
            except NoWorkersAvailable:
                self._slots.add()  # its worker has just left, or does not answer any more
                await self._end_broken()
                if only is not None:
                    raise KeptOnWorker(
                        "the worker that kept a value of this cell is gone: run the cell again that made it"
                    ) from None
                continue
            except BaseException:
                self._slots.add()
                raise
            member = self._members.get(call.worker.uid)
            if member is None:
                self._slots.add()
                raise WorkerDied("The worker died when the call began")
            member.used = True
            member.calls += 1
            if member.calls > 1:
                self._slots.add()  # it waits behind another call there: no further main thread is taken
            return PoolCall(self, call, member)

    async def _end_broken(self) -> None:
        """A process whose connection broke can't be asked again."""
        broken = [self._members[uid] for uid in self._proxy.broken() if uid in self._members]
        await asyncio.gather(*(self._kill(member, "as it did not answer any more") for member in broken))

    async def grow(self, workers: int) -> None:
        """To that many; a larger pool stays as it is. Does not wait for those that it starts."""
        self._most = max(self._most, workers)
        while self.size < workers:
            self._begin_worker()

    async def interrupt(self, uid: UUID) -> None:
        """SIGINT, to the worker and its children, as Jupyter does with a kernel. Returns once it is sent, so that one sent for a
        call can't reach the next."""
        await self._signal(uid, signal.SIGINT)

    async def end(self, uid: UUID) -> None:
        """SIGTERM, then SIGKILL. Returns when the worker has ended."""
        member = self._members.get(uid)
        if member is None:
            return
        await self._signal(uid, signal.SIGTERM)
        await asyncio.wait({member.child.exited}, timeout=TERMINATE_S)
        await self.kill(uid)

    async def kill(self, uid: UUID) -> None:
        """Returns when the worker has ended."""
        if (member := self._members.get(uid)) is not None:
            await self._kill(member, "as was asked")

    async def _kill(self, member: _Member, why: str) -> None:
        member.ended_by_us = member.ended_by_us or why
        self._nursery.kill(member.child.uid)
        done, _ = await asyncio.wait({member.child.exited}, timeout=SIGNAL_S)
        if not done:
            _signal_group(member, signal.SIGKILL)
            await asyncio.wait({member.child.exited}, timeout=EXIT_REPORT_S)

    async def _signal(self, uid: UUID, number: int) -> None:
        member = self._members.get(uid)
        if member is None:
            return
        try:
            await asyncio.wait_for(self._nursery.signal(str(uid), number), SIGNAL_S)
        except TimeoutError:
            _signal_group(member, number)

    def _release(self, member: _Member) -> None:
        member.calls -= 1
        if member.calls == 0 and member.metadata.uid in self._members:
            self._slots.add()

    async def _wind_down(self, call: Call, member: _Member) -> None:
        """Of a call that nobody waits for any more: its worker is free when its body has ended, and not before."""
        try:
            async with asyncio.timeout(INTERRUPT_GRACE_S):
                await self.interrupt(member.metadata.uid)
                while not call.ended:
                    await call.step()
        except TimeoutError:
            await self.kill(member.metadata.uid)
        except (CallFailed, WorkerDied, WorkerRefused):
            pass  # it has ended, too
        finally:
            call.close()
            self._release(member)

    def closed(self, call: Call, member: _Member) -> None:
        if call.ended or self._stopped:
            call.close()
            self._release(member)
        else:
            self._tasks.start(self._wind_down(call, member), "end of a call")

    def _begin_worker(self) -> None:
        self._starting += 1
        self._tasks.start(self._start_worker(), "start of a worker")

    async def _start_worker(self) -> None:
        uid = uuid4()
        failure: Exception | None = None
        try:
            # The nursery's pid, so that the worker can tell that its parent has died before it asked to die with it.
            command = [
                sys.executable,
                "-P",
                "-X",
                "faulthandler",  # a library that crashes when it is imported is named in the log
                "-m",
                "wool_jupyter.worker",
                str(uid),
                str(self._directory),
                str(self._nursery.pid),
            ]
            child = await self._nursery.spawn(
                str(uid), command, environment=self._environment, log=self.log, timeout_s=self._settings.start_timeout_s
            )
            # Before anything runs there.
            oom_kills, crash_report = host.oom_kills(), layout.crash_report(self._directory, child.uid)
            metadata = WorkerMetadata(uid, child.report["address"], child.pid, self._version)
            await self._proxy.admit(metadata)
            self._members[uid] = _Member(metadata, child, time.time(), oom_kills, crash_report)
            self._tasks.start(self._watch(self._members[uid]), f"watch over {uid}")
            self._slots.add()
        except StartFailed as error:
            failure = error
        except Exception as error:  # noqa: BLE001 (whoever waits in the line must hear of it)
            failure = StartFailed(f"A worker can't start: {type(error).__name__}: {error}")
        finally:
            self._starting -= 1
        if failure is not None and not self._members and not self._starting:
            self._slots.fail(failure)

    async def _watch(self, member: _Member) -> None:
        await asyncio.wait({member.child.exited})
        uid = member.metadata.uid
        if member.calls == 0:
            self._slots.remove()
        del self._members[uid]
        if member.used and not self.lost:
            self._begin_worker()  # at once: who asks meanwhile would start one more
        await self._proxy.evict(uid)
        if self.lost:
            self._slots.fail(
                StartFailed("The process that looks after the workers has ended. The next cell starts a new pool.")
            )

    def disown(self) -> None:
        """In a forked child of the owner: closes what it inherited, and touches nothing of the parent's."""
        self._nursery.disown()

    async def stop(self) -> None:
        """Calls under way end with `WorkerDied`. Idempotent."""
        self._stopped = True
        for member in self._members.values():
            member.ended_by_us = member.ended_by_us or "as the pool was stopped"
        self._slots.fail(NoWorkersAvailable("the pool was stopped"))
        await self._tasks.close()
        await self._proxy.close()
        await self._nursery.shutdown()


def _signal_group(member: _Member, number: int) -> None:
    """Past a nursery that is stopped: it has not reaped the worker, so the number is still the worker's."""
    with suppress(ProcessLookupError):
        os.killpg(member.child.pid, number)


class PoolCall:
    """A call that holds a slot; `close`, idempotent, gives it back, once a body that still runs has been interrupted. One `step`
    at a time."""

    def __init__(self, pool: WorkerPool, call: Call, member: _Member) -> None:
        self._pool = pool
        self._call = call
        self._member = member
        self._closed = False
        self.worker = call.worker

    @property
    def ended(self) -> bool:
        return self._call.ended

    async def step(self, answer: bytes | None = None) -> bytes | None:
        """As `Call.step`; a `WorkerDied` says how it ended. A worker that fails at a call by a fault of its own is ended: whatever
        broke it (descriptors that ran out, a patched module) would meet the next call."""
        try:
            return await self._call.step(answer)
        except CallFailed as error:
            await self._pool.kill(self.worker.uid)
            raise CallFailed(f"{error}. It is replaced, and what lived on it is gone") from None
        except WorkerDied:
            await asyncio.wait({self._member.child.exited}, timeout=EXIT_REPORT_S)
            raise WorkerDied(_obituary(self._member)) from None

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._pool.closed(self._call, self._member)


def _obituary(member: _Member) -> str:
    child = member.child
    if not child.exited.done():
        return f"The worker (pid {child.pid}) was lost: it does not answer any more"
    exited = child.exited.result()
    text = f"The worker (pid {child.pid}) {exited.in_words()}"
    if exited.signal == signal.SIGKILL:
        return text + (f", {member.ended_by_us}" if member.ended_by_us else _why_killed(member, exited))
    if exited.signal is not None and _is_there(member.crash_report):
        return f"{text}; `%wool logs` shows where"
    return text


def _why_killed(member: _Member, exited: Exit) -> str:
    """What is known: whoever kills leaves no name, but the killer of memory hogs is counted."""
    struck = host.oom_kills() > member.oom_kills
    why = ": the system ran out of memory" if struck else ", as the system does when memory runs out"
    peak = exited.peak_rss_bytes
    if not peak:
        return why
    return f"{why}; its peak was {f'{peak / 1e9:.1f} GB' if peak >= 1e9 else f'{peak / 1e6:.0f} MB'}"


def _is_there(report: Path) -> bool:
    try:
        return report.stat().st_size > 0
    except OSError:
        return False
