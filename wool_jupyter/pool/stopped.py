"""A worker that is stopped, by a signal or a debugger: a call that is sent there all the same waits, and can't be taken back."""

from wool_jupyter import host
from wool_jupyter.errors import NotReached


def check_not_stopped(pid: int) -> None:
    """`NotReached` if it is."""
    if host.is_stopped(pid):
        raise NotReached(f"worker pid {pid} is stopped, by a signal or a debugger")
