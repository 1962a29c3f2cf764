"""Background jobs of this kernel: submitted by a cell, settled on the main thread when it is idle or before the next cell runs.

loop's thread   a job's end arrives ─▶ between two cells: settle ───────────┐
main thread     a cell begins (`CellWatch`) ─▶ settle what has arrived ─────┼─▶ names, result, error, one line
                                            ─▶ wait for names that it reads ┘
"""

import ast
import asyncio
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any

from wool_jupyter.errors import JobFailed, WoolError
from wool_jupyter.notebook import job_words, jobs, reads, results, tracebacks
from wool_jupyter.notebook.capture import Capture
from wool_jupyter.notebook.cell_run import CellRun, Sending
from wool_jupyter.notebook.cell_watch import CellWatch
from wool_jupyter.notebook.execution import Execution
from wool_jupyter.notebook.interrupts import Interrupts, on_main_thread
from wool_jupyter.notebook.job import Job
from wool_jupyter.notebook.jobs import notice
from wool_jupyter.notebook.pending import Pending, listed
from wool_jupyter.notebook.places import place_of_this_cell
from wool_jupyter.notebook.shipment import Route
from wool_jupyter.settings import PoolSettings
from wool_jupyter.wire import cells

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from wool_jupyter.notebook.runtime import Runtime

_KEPT = 100  # ended jobs, whose output can be shown again


class Background:
    """Main thread only, but for `_told`. `close` takes the hooks away."""

    def __init__(self, shell: "InteractiveShell", runtime: "Runtime") -> None:
        self._shell = shell
        self._runtime = runtime
        self.jobs: dict[int, Job] = {}
        self._open: dict[int, Execution] = {}  # not settled yet
        self._count = 0
        self._pending = Pending(shell.user_ns)
        self._loop = asyncio.get_running_loop() if getattr(shell, "kernel", None) is not None else None
        self._unseen: set[int] = set()  # jobs whose news came when no cell ran
        self._untold: set[int] = set()  # failed, and nobody has been told where it stops a run
        self._settling: int | None = None
        self._is_over = False
        self._watch = CellWatch(shell, self, self._pending)

    def close(self) -> None:
        self._watch.close()

    def submit(self, *, body: str, settings: PoolSettings, route: Route) -> Job:
        """Returns when its inputs are shipped. Raises what keeps them from that, and shows it as a cell's."""
        __tracebackhide__ = True
        with jobs.shown_as_by_a_cell(self._shell):
            if not on_main_thread():
                raise WoolError("A cell in the background is submitted by the main thread, which binds its names")
            run = CellRun(
                self._shell,
                self._runtime,
                body=body,
                settings=settings,
                route=route,
                before_shipping=self.cell_is_about_to_read,
            )
            for text in run.notices:
                notice(text)
            pool, _ = jobs.started_pool(self._runtime, settings)
            interrupts = Interrupts()
            with interrupts:
                execution = self._execution(run)
                sending = Sending(run, unshippable=notice, press=execution.cancel, kind="job")
                job = self._registered(execution, run)
                execution.start(pool, sending)
            if interrupts.pressed:
                job.cancel()
                raise KeyboardInterrupt
            return job

    def _execution(self, run: CellRun) -> Execution:
        self._count += 1
        place, bridge = place_of_this_cell(self._shell), self._runtime.bridge
        return Execution(self._count, run, bridge=bridge, place=place, news=self._told)

    def _registered(self, execution: Execution, run: CellRun) -> Job:
        job = self.jobs[execution.number] = Job(execution, self)
        self._open[execution.number] = execution
        tree, route = ast.parse(run.source.source), run.route
        binds = reads.names_bound(run.capture) if route.outputs is None else set(route.outputs)
        changes = reads.names_changed(tree, self._shell.user_ns) if route.inputs is None else set[str]()
        imports = reads.names_imported(tree)
        for text in self._pending.submitted(execution.number, binds=binds, imports=imports, changes=changes):
            notice(text)
        ended = [number for number in self.jobs if number not in self._open]
        for number in ended[: max(0, len(ended) - _KEPT)]:
            del self.jobs[number]
        return job

    # A job's end.

    def _told(self, execution: Execution) -> None:
        """On any thread."""
        job = self.jobs[execution.number]
        if self._is_over or self._loop is None:  # a terminal says it when the next cell begins
            return
        self._show_news(job)
        if execution.arrived.is_set():
            self._loop.call_soon_threadsafe(self._between_cells)

    def _show_news(self, job: Job) -> None:
        job.show_news()
        if not self._watch.cell_runs:
            self._unseen.add(job.number)

    def show_news_again(self) -> None:
        """On any thread: a page was loaded that has missed some."""
        for job in list(self.jobs.values()):
            job.show_news()

    def _between_cells(self) -> None:
        """A callback of the main thread's loop: in the midst of a cell, if that awaits."""
        if not self._watch.cell_runs:
            self.settle_arrived()

    def settle_arrived(self) -> None:
        for execution in [each for each in self._open.values() if each.arrived.is_set()]:
            self._settle(execution)

    def _settle(self, execution: Execution) -> None:
        """An interrupt is held back: half of the names would be worse than either."""
        if execution.settled.is_set() or not execution.arrived.is_set():
            return
        if self._settling is not None:  # a value that is being loaded, or shown, asks for a job
            raise WoolError(f"job {self._settling} is being taken in: no other can be until that is done")
        interrupts = Interrupts()
        with interrupts, self._taking_in(execution):
            refused = execution.context.copy().run(results.take_in, execution, self._shell, self._pending)
            if refused is not None and self._sent_again(execution, refused):
                return
            del self._open[execution.number]
            well, failed = execution.error is None, execution.state == "failed"
            self._pending.ended(execution.number, execution.bound, well=well, failed=failed)
            if failed:
                self._untold.add(execution.number)
            execution.let_go()
            self._show_news(self.jobs[execution.number])
        if interrupts.pressed and self._watch.cell_runs:
            raise KeyboardInterrupt

    @contextmanager
    def _taking_in(self, execution: Execution) -> Iterator[None]:
        self._settling = execution.number
        try:
            yield
        finally:
            self._settling = None

    def _sent_again(self, execution: Execution, refused: cells.Refused) -> bool:
        """Without a variable that no worker could load: what is shipped now has the values of now."""
        run, sending = execution.run, execution.sending
        assert run is not None
        assert sending is not None
        before = execution.digests
        try:
            run.without(refused)
            pool, _ = self._runtime.pool(run.settings)
            sending.close()
            again = Sending(run, unshippable=execution.lines.append, press=execution.cancel, kind="job")
        except BaseException as error:  # noqa: BLE001 (the job's end)
            results.refuse(execution, error, self._shell)
            return False
        execution.digests = run.shipment.digests()
        if changed := sorted(name for name, digest in execution.digests.items() if before.get(name) != digest):
            execution.lines.append(
                f"{listed(changed)}: changed since the job was submitted, which has the values of now"
            )
        execution.start(pool, again)
        return True

    # Who waits for it.

    def is_settled(self, execution: Execution) -> bool:
        """Settles what has arrived, on the main thread."""
        if on_main_thread():
            self._settle(execution)
        return execution.settled.is_set()

    def wait_for(self, execution: Execution, timeout: float | None = None) -> None:
        """`TimeoutError`. ■ ends the wait, not the job."""
        deadline_s = None if timeout is None else monotonic() + timeout
        while not self.is_settled(execution):
            left_s = None if deadline_s is None else deadline_s - monotonic()
            if left_s is not None and left_s <= 0:
                raise TimeoutError(f"job {execution.number} has not ended")
            (execution.arrived if on_main_thread() else execution.settled).wait(left_s)

    def result_of(self, execution: Execution) -> Any:
        """Of a settled one."""
        __tracebackhide__ = True
        error = execution.error
        if error is None:
            return execution.value
        self._is_told_of(execution.number)
        if on_main_thread():
            tracebacks.show_plainly(error) if isinstance(error, WoolError) else tracebacks.show_natively(
                error, self._shell
            )
        raise error

    def _is_told_of(self, number: int) -> None:
        """The user, where it stops a run: the next cell takes the names as they are."""
        self._untold.discard(number)
        if on_main_thread():
            self._pending.forget(number)

    def wait_for_all(self, numbers: Iterable[int] | None = None) -> list[Job]:
        """Of those, or of all that have not ended. `JobFailed` afterwards, for those that failed and nobody has been told of."""
        waited_for = [self.jobs[number] for number in numbers or list(self._open)]
        for job in waited_for:
            self.wait_for(job.execution)
        failed = sorted(self._untold if numbers is None else self._untold & set(numbers))
        for number in failed:
            self._is_told_of(number)
        if failed:
            raise JobFailed("; ".join(self.jobs[number].sentence() for number in failed if number in self.jobs))
        return waited_for

    def cell_is_about_to_read(self, source: str, capture: Capture) -> None:
        """Waits for the jobs that bind what the cell reads. `JobFailed`; ■ as KeyboardInterrupt: the cell must not run."""
        tree = ast.parse(source)
        self._wait_until_bound(lambda wanted: reads.names_read(tree, capture, self._shell.user_ns, wanted))

    def about_to_read(self, names: Iterable[str]) -> None:
        """As `cell_is_about_to_read`, for a cell that gets these names, with what their functions read, and no others."""
        first = set(names)
        self._wait_until_bound(lambda wanted: reads.names_reached(first, self._shell.user_ns, wanted))

    def _wait_until_bound(self, read: Callable[[set[str]], set[str] | None]) -> None:
        """`read` is asked again after each job, which may bring functions that read more."""
        if not on_main_thread():  # which alone binds names: another thread takes what is there
            return
        self.settle_arrived()
        while self._pending:
            names = read(self._pending.names())
            # Who only looks around (`dir()`, `globals()`) meets what is there.
            if names is not None and (failed := self._pending.unbound(names)) is not None:
                self._is_told_of(failed[0])
                raise JobFailed(self._why_not(*failed))
            if not (held := self._pending.holders(names)):
                return
            number, waited_for = next(iter(held.items()))
            self._wait_visibly(self._open[number], waited_for)

    def _wait_visibly(self, execution: Execution, names: list[str]) -> None:
        who = f"job {execution.number} (In[{execution.cell_number}])"
        try:  # around the line, too: ■ may be pressed as soon as it can be read
            notice(f"waits for {who}, which is to bind {listed(names)}; ■ ends the wait, not the job")
            self.wait_for(execution)
        except KeyboardInterrupt:
            notice(f"{who} goes on; this cell has not run")
            raise

    def _why_not(self, number: int, names: list[str]) -> str:
        job = self.jobs.get(number)
        ended = "has not ended well" if job is None else job.sentence().partition(f"job {number} ")[2]
        were, they_are = ("was", "it is") if len(names) == 1 else ("were", "they are")
        return (
            f"{listed(names)} {were} to be bound by job {number}, which {ended}. This cell has not run; the next one finds "
            f"{listed(names)} as {they_are}. `%wool output {number}` shows what the job has shown"
        )

    # Cells, plain ones and those of magics.

    def cell_begins(self) -> None:
        """News are shown again, now that a cell runs: nbclient listens to it alone."""
        while self._unseen:
            if (job := self.jobs.get(self._unseen.pop())) is not None:
                job.show_news()
        self.settle_arrived()

    def cell_has_ended(self) -> None:
        if self._loop is not None:
            self._loop.call_soon(self._between_cells)

    def cell_has_bound(self, names: frozenset[str]) -> None:
        """`names`, and what else can be seen."""
        if not on_main_thread():
            return
        for text in self._pending.cell_ended(names):
            notice(text)

    # The end of all.

    def unended(self) -> list[int]:
        return [execution.number for execution in list(self._open.values()) if not execution.arrived.is_set()]

    def pool_stops(self) -> None:
        """On any thread."""
        for number in self.unended():
            self._open[number].has_lost_pool = True

    def process_ends(self) -> None:
        """Jobs are not cut without a word, where somebody reads what the process writes: a run without a front end."""
        if (cut := self.unended()) and sys.__stderr__ is not None:
            who = job_words.numbered(cut)
            print(f"wool: {who} had not ended: `%wool wait` in the last cell waits", file=sys.__stderr__)
        self._is_over = True
