"""Options of a pool. A unit in every name, a reason for every default; the notebook offers them as traitlets."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PoolSettings:
    workers: int | None = None  # fixes the number; None: one and a spare, more when work waits, up to the usable CPUs
    # A larger result stays on its worker; None: a quarter of the memory that is free.
    result_budget_bytes: int | None = None
    # Of large data that is kept for workers; None: a quarter of the memory that is free.
    data_budget_bytes: int | None = None
    # Of a cell's text at once: a Jupyter server passes on 3 MB in 3 s; None: all.
    output_budget_bytes: int | None = 2_500_000
    status_line: bool = False  # under a cell that runs long; it would stay in saved notebooks as an empty output
    start_timeout_s: float = 30.0  # of one worker; an interpreter with cold files on a slow disk takes 10


FIRST_WORKERS = 2  # one, and a spare: a cell after a crash does not wait for a start
STOP_TIMEOUT_S = 3.0  # of the whole pool: Jupyter kills a kernel 5 s after it asked it to stop
INTERRUPT_GRACE_S = 10.0  # for a ■ to reach a cell: C calls of some seconds are ordinary, and return
ABANDONED_GRACE_S = 2.0  # the same, for what nobody wants any more: whoever comes next waits for its worker
INTERRUPT_NOTICE_S = 2.0  # until a ■ that has not reached the cell is explained
POOL_SHUTDOWN_S = 60.0  # for a pool of routines to end its workers, of which each may be at work
SHUTDOWN_NOTICE_S = 2.0  # of that, until a worker that does not end is named
ANNOUNCE_S = 0.5  # for the end of a worker to be announced, before it goes unannounced
CHANNEL_TTL_S = 60.0  # that a stream to a worker stays open without a call: longer than most pauses between two cells
QUORUM_TIMEOUT_S = 60.0  # for a proxy's quorum: an interpreter's start, several at a time
FIRST_LOOK_S = 5.0  # at a registry, for a call that has no quorum to wait for: it takes milliseconds
AGAIN_S = 0.05  # before a free worker that nobody named is looked for again
PROBE_TIMEOUT_S = 2.0  # for a worker that has failed a call to let a client in again
ACCEPT_TIMEOUT_S = 30.0  # for a worker to take a call that another could run: it does so between two turns of its loop
TERMINATE_S = 2.0  # between SIGTERM and SIGKILL
SIGNAL_S = 1.0  # for the nursery to send a signal; it answers in a millisecond unless it is stopped
EXIT_REPORT_S = 2.0  # a broken connection is explained by an exit within this, or not at all
RUN_S = 0.1  # of calls that a worker has ahead of it: hides a round trip, and is what a cell may have to wait
REST_S = 0.05  # that a worker keeps a run of calls for the next one: longer than a loop's steps between two small calls
GATHER_S = 0.005  # for outcomes of calls to go together, while others run there: each message wakes the kernel
RECALL_S = 0.4  # after which calls that wait behind a longer one are taken back, for whoever is free
CALLS_AHEAD_MAX = 2000  # that a `map` asks for before somebody wants their results
WORKERS_LOST_MAX = 10  # before a call begins that they were sent; then it fails

DATA_IDLE_S = 30.0  # that a file of large data waits to be written again: a cell that is run once more finds it
DATA_UNUSED_S = 600.0  # that large data is kept which no cell or call has read
DATA_TRIM_S = 10.0  # between two looks for what is to be given back

CLAIM_PATIENCE_S = 5.0  # for a namespace that is being swept or staged; each takes milliseconds
CLAIM_ATTEMPTS = 8  # one does, unless somebody replaces the namespace's directory all the time
LOCK_TIMEOUT_S = 30.0  # of a publish for the registry's lock, which is held for microseconds
LOCK_PAUSE_MIN_S = 0.001  # between attempts to take a lock, doubled each time
LOCK_PAUSE_MAX_S = 0.020
LIVENESS_INTERVAL_S = 2.0  # until a subscription notices that its owner was killed, which notifies nobody
COUNTER_POLL_S = 0.1  # where files can't be watched
QUIET_S = 0.5  # for a publish to finish before its owner leaves
CAPACITY = 128  # workers of one namespace
POOL_BLOCK_SIZE_BYTES = 4096  # of a pool's own registry: a page, which a file in memory takes anyway
BLOCK_SIZE_BYTES = 1024  # of a worker's record; one with a few tags takes 300
