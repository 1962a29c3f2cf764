"""Whether the system's limits leave room for a pool: in the midst of a start a thread that can't be had would be met anywhere."""

import _thread

from wool_jupyter.errors import StartFailed

# The kernel has up to a dozen (its loop's, that loop's executor, those that watch files); of processes there are the nursery, the
# first workers with three threads each, and the one that workers are forked from.
_NEEDED = 20


def try_out() -> None:
    """Starts as many and ends them at once, within a millisecond. `StartFailed` if they can't be had."""
    may_end = _thread.allocate_lock()
    may_end.acquire()
    running: list[_thread.LockType] = []
    try:
        for _ in range(_NEEDED):
            runs = _thread.allocate_lock()
            runs.acquire()
            _thread.start_new_thread(_wait, (may_end, runs))  # `threading` waits for each to have begun
            running.append(runs)
    except RuntimeError as error:
        raise StartFailed(
            f"A pool needs {_NEEDED} threads and processes, and only {len(running)} more can be started:"
            " the system limits them, or has no memory left (`%wool doctor` shows both)"
        ) from error
    finally:
        may_end.release()
        for runs in running:
            runs.acquire()


def _wait(may_end: "_thread.LockType", runs: "_thread.LockType") -> None:
    with may_end:
        pass
    runs.release()
