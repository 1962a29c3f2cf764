"""What lies where in a pool's directory.

token          32 random bytes, as hex: what a call shows
setup          what its workers are to know before they serve (`dispatch.setups`)
log            what the nursery and the workers write outside of cells
crash-<uid>    faulthandler's report of a worker
ended          how workers have ended, a line for each (`pool.ended`)
begun-<uid>    the number of the call that a worker has begun last (`wire.start_ledger`)
s/<uid>        a worker's socket, for gRPC; s/<uid>+ is the one behind it (`worker.grpc_door`)
d/<uid>        and without it, for processes of this host (`wire.direct`)
calls/<n>/     one call's: its text, and buffers that are too large for a message
data           large buffers that cells and calls read, each in a file of its own (`wire.store`)
idle           such files that nobody is told of any more; who maps one still needs it, else it is written again (`wire.segments`)
"""

from pathlib import Path

FOLDERS = ("s", "d", "calls", "data", "idle")

_UNIX = "unix:"  # in gRPC's words


def token(pool: Path) -> Path:
    return pool / "token"


def setup(pool: Path) -> Path:
    return pool / "setup"


def log(pool: Path) -> Path:
    return pool / "log"


def socket(pool: Path, uid: str) -> Path:
    """Short: a Unix socket's path may have 107 bytes, 103 on macOS."""
    return pool / "s" / uid[:8]


def direct(socket: Path) -> Path:
    """The other one of the same worker."""
    return socket.parent.with_name("d") / socket.name


def behind_door(socket: Path) -> Path:
    """Where gRPC itself listens, once it is loaded."""
    return socket.with_name(f"{socket.name}+")


def address(socket: Path) -> str:
    """By which a worker is announced."""
    return f"{_UNIX}{socket}"


def socket_at(address: str) -> Path | None:
    """None for a worker that listens on a port."""
    return Path(address.removeprefix(_UNIX)) if address.startswith(_UNIX) else None


def holds(pool: str, address: str) -> bool:
    """Whether the worker with that address was started for this pool: others may announce theirs in the same namespace."""
    return address.startswith(f"{_UNIX}{pool}/")


def pool_of(socket: Path) -> Path:
    return socket.parent.parent


def crash_report(pool: Path, uid: str) -> Path:
    return pool / f"crash-{uid[:8]}"


def ended(pool: Path) -> Path:
    return pool / "ended"


def ledger(pool: Path, uid: str) -> Path:
    return pool / f"begun-{uid[:8]}"


def crash_reports(pool: Path) -> list[Path]:
    return list(pool.glob("crash-*"))


def call(pool: Path, number: int) -> Path:
    return pool / "calls" / str(number)


def data(pool: Path) -> Path:
    return pool / "data"


def idle(pool: Path) -> Path:
    return pool / "idle"


def idle_beside(folder: str) -> str:
    """`folder` has large data: a call's directory, or one of such files; "" if it is another."""
    above, _, name = folder.rpartition("/")
    if name in {"data", "idle"}:
        return f"{above}/idle"
    return f"{above.removesuffix('/calls')}/idle" if above.endswith("/calls") else ""
