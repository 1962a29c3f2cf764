"""What carries the frames of a test: gRPC, or a socket without it."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wool_jupyter.wire import layout

CARRIERS = ("grpc", "direct")


@contextmanager
def sockets_of(carrier: str) -> Iterator[Path]:
    """A short directory for the addresses of workers; a client takes the way that its worker has a socket for."""
    with tempfile.TemporaryDirectory(prefix="w", dir="/tmp") as made:
        addresses = Path(made) / "s"
        addresses.mkdir()
        if carrier == "direct":
            layout.direct(addresses / "x").parent.mkdir()
        yield addresses


def direct_of(address: str) -> Path | None:
    """Where a worker with that address shall listen, too."""
    path = layout.direct(Path(address.removeprefix("unix:")))
    return path if path.parent.is_dir() else None
