"""Snapshots of pools in every state. `python -m tests.support.snapshots` writes them as files, which both languages' tests read."""

import json
from pathlib import Path
from uuid import UUID, uuid5

from wool_jupyter.notebook.snapshot import EMPTY_POOL, Cell, Pool, Running, Snapshot, Worker, as_builtins

FOLDER = Path(__file__).parents[1] / "golden" / "snapshots"

NOW = 1764450551.25
NAMESPACE = "k-3f2a9c0d1e4b5a67"
MIB = 1 << 20

_WORKERS = UUID("5f0c8f0a-64a5-4f4e-8c3e-0d7b7a1c9e21")


def uid(number: int) -> str:
    return uuid5(_WORKERS, str(number)).hex


def pool(state="running", **changes) -> Pool:
    found = {"why": "", "namespace": NAMESPACE, "since": NOW - 551.25, "size": 2, "most": 4, "waiting": 0}
    return Pool(**{**found, "state": state, **changes})


def worker(number: int, state="idle", **changes) -> Worker:
    found = {
        "uid": uid(number), "pid": 4710 + number, "own": True, "tags": (NAMESPACE,), "state": state, "why": "",
        "since": NOW - 550 + number, "running": None, "done": 0, "keeps": 0, "bytes_in": 0, "bytes_out": 0,
        "cpu": None, "rss": None, "peak": None,
    }  # fmt: skip
    return Worker(**{**found, **changes})


def seen(cpu: float, rss: float, peak: float) -> dict:
    return {"cpu": cpu, "rss": int(rss * MIB), "peak": int(peak * MIB)}


CELL_IDS = ("6a1f0c4e", "b2d93e77", "0f8f6a10")

IDLE_CELL = Cell(CELL_IDS[0], "In[3]", uid(1), "ok", NOW - 400, NOW - 380.5, 1 * MIB, 2048)
BUSY_CELL = Cell(CELL_IDS[1], "In[5]", uid(1), "running", NOW - 51.25, None, 52 * MIB, 0)
BUSY = worker(
    1,
    "busy",
    running=Running("cell", "In[5]", CELL_IDS[1], NOW - 51.25),
    done=12,
    bytes_in=53 * MIB,
    bytes_out=2048,
    **seen(0.97, 175, 184.5),
)
IDLE = worker(2, done=3, bytes_in=4096, bytes_out=512, **seen(0.0, 96.5, 101))


def _of_sixty_four(number: int) -> Worker:
    match number % 8:
        case 0:
            return worker(number, "starting", pid=None)
        case 1:
            what = Running("call", f"score_{number}", "", NOW - number)
            return worker(number, "busy", running=what, done=number * 3, **seen(1.6, 900 + number, 1200 + number))
        case 2:
            what = Running("job", f"In[{number}]", "", NOW - 60 * number)
            return worker(number, "busy", running=what, keeps=2, **seen(0.03, 4096 + number, 5000))
        case 3:
            what = Running("cell", f"In[{number}]", "", NOW - 3700)
            return worker(number, "draining", running=what, done=1, **seen(1.0, 300, 301))
        case 4:
            return worker(number, "dead", why="exited with code 3", since=NOW - 1)
        case _:
            return worker(number, done=number, bytes_in=number << 20, bytes_out=number << 10, **seen(0.0, 90, 95))


SNAPSHOTS = {
    "empty": Snapshot(NOW, EMPTY_POOL, (), ()),
    "failed": Snapshot(
        NOW,
        Pool("none", "A worker exited with code 1 before it was ready", "", None, 0, 0, 0),
        (),
        (Cell(CELL_IDS[0], "In[1]", "", "error", NOW - 3, NOW - 1, 0, 0),),
    ),
    "starting": Snapshot(
        NOW,
        pool("starting", since=NOW - 0.5, waiting=1),
        (worker(1, "starting", since=NOW - 0.4), worker(2, "starting", pid=None, since=NOW - 0.1)),
        (Cell(CELL_IDS[1], "In[5]", "", "waiting", NOW - 0.5, None, 0, 0),),
    ),
    "two-workers": Snapshot(NOW, pool(), (BUSY, IDLE), (IDLE_CELL, BUSY_CELL)),
    "unseen": Snapshot(
        NOW,
        pool(),
        (worker(1, "busy", running=BUSY.running, done=12), worker(2, done=3)),
        (IDLE_CELL, BUSY_CELL),
    ),
    "dead": Snapshot(
        NOW,
        pool(),
        (
            worker(
                1,
                "dead",
                why="was killed by SIGKILL, as the system does when memory runs out; its peak was 7.9 GB",
                since=NOW - 2.5,
                done=12,
                bytes_in=53 * MIB,
                bytes_out=2048,
                peak=7534 * MIB,
            ),
            IDLE,
            worker(3, "starting", since=NOW - 2.4),
        ),
        (IDLE_CELL, Cell(CELL_IDS[1], "In[5]", uid(1), "died", NOW - 51.25, NOW - 2.5, 52 * MIB, 0)),
    ),
    "draining": Snapshot(
        NOW,
        pool(size=1, most=1),
        (
            worker(1, "draining", running=BUSY.running, done=12, **seen(0.97, 175, 184.5)),
            worker(2, keeps=1, done=3, **seen(0.0, 96.5, 101)),
        ),
        (BUSY_CELL,),
    ),
    "borrowed": Snapshot(
        NOW,
        pool(size=1),
        (
            worker(1, done=2, **seen(0.01, 96.5, 101)),
            worker(9, own=False, tags=("gpu", "host <b>& co</b>", "Größe"), **seen(0.4, 512, 600)),
        ),
        (
            Cell(CELL_IDS[0], "In[3]", uid(1), "interrupted", NOW - 400, NOW - 380.5, 1024, 2048),
            Cell(CELL_IDS[2], "In[4]", uid(1), "error", NOW - 300, NOW - 299, 1024, 128),
        ),
    ),
    "lost": Snapshot(
        NOW,
        pool("lost", why="The process that looks after the workers has ended, and they with it", size=0),
        (
            worker(
                1,
                "dead",
                why="ended with the process that looks after the workers",
                since=NOW - 1,
            ),
        ),
        (),
    ),
    "sixty-four": Snapshot(NOW, pool(size=48, most=64, waiting=3), tuple(_of_sixty_four(n) for n in range(1, 65)), ()),
}


def as_file(snapshot: Snapshot) -> str:
    return json.dumps(as_builtins(snapshot), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for name, snapshot in SNAPSHOTS.items():
        (FOLDER / f"{name}.json").write_text(as_file(snapshot), encoding="utf-8")
