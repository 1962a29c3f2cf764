"""Cells without inputs, as a worker is asked to run them."""

from pathlib import Path

from wool_jupyter.wire import ambient, cells


def cell_request(source: str, directory: Path, state: ambient.State | None = None) -> bytes:
    """`directory` is the call's own; its text goes there. `state`: of the process that asks; None: this one's."""
    request = cells.CellRequest(
        source=source,
        transformed=source,
        filename="<cell>",
        number=1,
        compiler_flags=0,
        directory=str(directory),
        places=(str(directory),),
        names=cells.NO_NAMES,
        ambient=ambient.here() if state is None else state,
        budget_bytes=None,
        release=(),
        results=None,
        message="",
        terminal=None,
    )
    return cells.encode(request)
