"""Cells without inputs, as a worker is asked to run them."""

from pathlib import Path

from wool_jupyter.wire import ambient, cells


def cell_request(source: str, directory: Path) -> bytes:
    """`directory` is the call's own; its text goes there."""
    request = cells.CellRequest(
        source=source,
        transformed=source,
        filename="<cell>",
        number=1,
        compiler_flags=0,
        directory=str(directory),
        places=(str(directory),),
        names=cells.NO_NAMES,
        ambient=ambient.here(),
        budget_bytes=None,
        release=(),
        results=None,
        message="",
        terminal=None,
    )
    return cells.encode(request)
