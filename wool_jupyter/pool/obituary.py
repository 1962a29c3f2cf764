"""How a worker ended, in words for whoever had a call there."""

import signal
from pathlib import Path

from wool_jupyter import host
from wool_jupyter.nursery.exits import Exit
from wool_jupyter.pool.members import Member
from wool_jupyter.quantities import size

IN_LOGS = "; `%wool logs` shows where"  # it crashed, in a notebook


def obituary(member: Member, *, crashed: str = "") -> str:
    """How it ended, in words, for whoever had a call there; `crashed` ends the sentence if there is a report of a crash."""
    return f"The worker (pid {member.child.pid}) {how_it_ended(member, crashed=crashed)}"


def how_it_ended(member: Member, *, crashed: str = "") -> str:
    """Completes a sentence that begins with the worker."""
    child = member.child
    if not child.exited.done():
        return "was lost: it does not answer any more"
    exited = child.exited.result()
    text = exited.in_words()
    if exited.signal in (signal.SIGKILL, signal.SIGTERM) and member.ended_by_us:
        return f"{text}, {member.ended_by_us}"
    if exited.signal == signal.SIGKILL:
        return text + _why_killed(member, exited)
    if exited.signal is not None and has_crashed(member.crash_report):
        return text + crashed
    return text


def _why_killed(member: Member, exited: Exit) -> str:
    """What is known: whoever kills leaves no name, but the killer of memory hogs is counted."""
    struck = host.oom_kills() > member.oom_kills
    why = ": the system ran out of memory" if struck else ", as the system does when memory runs out"
    peak = exited.peak_rss_bytes
    if not peak:
        return why
    return f"{why}; its peak was {size(peak)}"


def has_crashed(report: Path) -> bool:
    try:
        return report.stat().st_size > 0
    except OSError:
        return False
