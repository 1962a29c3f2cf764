"""How the workers of a pool ended, in words, where its other workers can read it: one of them may have had a call there.

A line of a file for each, which goes with the pool's directory.
"""

import asyncio
import logging
from pathlib import Path
from uuid import UUID

from wool_jupyter.settings import EXIT_REPORT_S
from wool_jupyter.wire import layout

_AGAIN_S = 0.05

_log = logging.getLogger(__name__)


def write(pool: Path, uid: UUID, words: str) -> None:
    """By the process that has started it. `words` have one line."""
    try:
        with layout.ended(pool).open("a", encoding="utf-8") as file:
            file.write(f"{uid} {words}\n")
    except OSError as error:
        _log.warning("workers are not told how worker %s ended: %s", uid, error)


async def read(pool: Path, uid: UUID) -> str | None:
    """By a worker. It waits for a moment, as the end of a connection is seen first. None if nobody tells."""
    loop = asyncio.get_running_loop()
    until = loop.time() + EXIT_REPORT_S
    while True:
        words = _found(layout.ended(pool), str(uid))
        if words is not None or loop.time() > until:
            return words
        await asyncio.sleep(_AGAIN_S)


def _found(file: Path, uid: str) -> str | None:
    try:
        lines = file.read_text(encoding="utf-8").split("\n")[:-1]  # the last one may be half of it
    except OSError:
        return None
    return next((line.removeprefix(f"{uid} ") for line in lines if line.startswith(uid)), None)
