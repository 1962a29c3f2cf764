"""`%wool jobs`, `wait`, `cancel` and `output`."""

from typing import TYPE_CHECKING

from IPython.core.error import UsageError

if TYPE_CHECKING:
    from collections.abc import Collection

    from wool_jupyter.notebook.background import Background
    from wool_jupyter.notebook.job import Job

WORDS = ("jobs", "wait", "cancel", "output")


def run(word: str, *given: str, background: "Background | None") -> None:
    """`given`: what follows the word."""
    known = {} if background is None else background.jobs
    numbers = _numbers(word, given)
    for number in numbers:
        if number not in known:
            raise UsageError(f"%wool {word}: there is no job {number} ({_span(known)})")
    if background is None or not known:
        print("wool: no background jobs")
        return
    background.settle_arrived()
    chosen = [known[number] for number in dict.fromkeys(numbers)]
    match word:
        case "jobs":
            print("\n".join(map(_line, known.values())))
        case "wait":
            _wait(background, numbers)
        case "cancel":
            _cancel(_needed(word, chosen, known))
        case "output":
            for job in _needed(word, chosen, known):
                _show(job)


def _numbers(word: str, given: tuple[str, ...]) -> list[int]:
    if word == "jobs" and given:
        raise UsageError(f"%wool jobs takes nothing else: `{' '.join(given)}`")
    for each in given:
        if not each.isdecimal():
            hint = "; without any it waits for all" if word == "wait" else ""
            raise UsageError(f"%wool {word} takes numbers of jobs, as in `%wool {word} 3`, not `{each}`{hint}")
    return [int(each) for each in given]


def _span(known: "Collection[int]") -> str:
    if not known:
        return "no cell has begun with --bg"
    first, last = min(known), max(known)
    return f"there is job {first}" if first == last else f"there are jobs {first} to {last}"


def _needed(word: str, chosen: "list[Job]", known: "dict[int, Job]") -> "list[Job]":
    if not chosen:
        raise UsageError(f"%wool {word} needs the number of a job, as in `%wool {word} {max(known)}` ({_span(known)})")
    return chosen


def _wait(background: "Background", numbers: list[int]) -> None:
    open_before = [number for number in background.unended() if number in numbers or not numbers]
    try:
        if open_before:
            print(f"wool: waits for {numbered(open_before)}", flush=True)
        waited_for = background.wait_for_all(numbers or None)
    except KeyboardInterrupt:
        if going_on := background.unended():
            print(f"wool: the wait has ended, and {numbered(going_on)} go{'es' if len(going_on) == 1 else ''} on")
        raise
    for job in waited_for:
        if not (job.number in open_before and job.has_told_here()):
            print(f"wool: {job.sentence()}")
    if not waited_for and not open_before:
        print("wool: no job is under way")


def _cancel(jobs: "list[Job]") -> None:
    for job in jobs:
        print(f"wool: job {job.number} {'is being cancelled' if job.cancel() else 'has ended already'}")


def _show(job: "Job") -> None:
    job.execution.output.record.replay()
    print(f"wool: {job.sentence()}")
    for line in job.execution.lines:
        print(f"wool: {line}")


def _line(job: "Job") -> str:
    execution = job.execution
    return f"{job.sentence()}  ·  In[{execution.cell_number}] {execution.telling_line}"


def numbered(numbers: list[int]) -> str:
    if len(numbers) == 1:
        return f"job {numbers[0]}"
    return f"jobs {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"
