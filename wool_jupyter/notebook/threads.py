"""Whether the system's limits leave room for a pool. gRPC aborts a process that can't have its threads: they are tried out first.

Imports nothing that starts any.
"""

import os
import threading

from wool_jupyter.errors import StartFailed

# The kernel and the first worker have gRPC's (its pool has one per CPU, from 4 to 16, and a few more: 1.85) and some of ours.
_NEEDED = 2 * (6 + min(16, max(4, os.cpu_count() or 1)))


def try_out() -> None:
    """Starts as many and ends them at once, within milliseconds. `StartFailed` if they can't be had."""
    enough = threading.Event()
    started: list[threading.Thread] = []
    try:
        for _ in range(_NEEDED):
            thread = threading.Thread(target=enough.wait, daemon=True)
            thread.start()
            started.append(thread)
    except RuntimeError as error:
        raise StartFailed(
            f"A pool needs {_NEEDED} threads and processes, and only {len(started)} more can be started:"
            " the system limits them, or has no memory left (`%wool doctor` shows both)"
        ) from error
    finally:
        enough.set()
        for thread in started:
            thread.join()
