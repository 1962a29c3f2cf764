"""What a pool's workers write, shown where a library's user looks: on this process's stderr."""

import asyncio
import codecs
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from wool_jupyter.aio.owned_tasks import OwnedTasks

_LOOK_S = 0.1  # reads as live
_BLOCK_BYTES = 1 << 16


@asynccontextmanager
async def echoed(log: Path) -> AsyncIterator[None]:
    """Line by line as it comes; the end shows the rest."""
    fd = os.open(log, os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    tasks, decoder = OwnedTasks("echo"), codecs.getincrementaldecoder("utf-8")("replace")
    line = ""

    def show(*, last: bool = False) -> None:
        nonlocal line
        while block := os.read(fd, _BLOCK_BYTES):
            line += decoder.decode(block)
        whole, _, line = (line, "", "") if last else line.rpartition("\n")
        if whole and sys.stderr is not None:
            with suppress(OSError, ValueError):  # it is closed, or nobody reads it any more
                sys.stderr.write(whole if whole.endswith("\n") else whole + "\n")
                sys.stderr.flush()

    async def follow() -> None:
        while True:
            show()
            await asyncio.sleep(_LOOK_S)  # nobody tells when a file grows

    tasks.start(follow(), "echo")
    try:
        yield
    finally:
        try:
            await tasks.close()
            show(last=True)
        finally:
            os.close(fd)
