"""A pool of routines in an interpreter of its own: `python -m tests.support.pool_process ROLE NAMESPACE`.

It says and hears lines; `Interpreter` is the test's side.
"""

import asyncio
import sys
from contextlib import suppress
from functools import partial

from tests.support.discovery_process import Interpreter, heard, say
from tests.support.pool_routines import waits, worker_pid
from wool_jupyter.discovery.local import LocalDiscovery
from wool_jupyter.pool.worker_pool import WorkerPool

PoolProcess = partial(Interpreter, module=__name__)


async def own(namespace: str) -> None:
    """Owns the namespace and its only worker, whose pid it says; until the end of its input."""
    async with WorkerPool(spawn=1, discovery=LocalDiscovery(namespace)):
        say(str(await worker_pid()))
        await heard()


async def borrow(namespace: str) -> None:
    """Says who answers, or which error, each time that it is told to `ask`, and when `hold` with a directory has ended. An error
    comes with its cause."""
    async with WorkerPool(discovery=LocalDiscovery.borrow(namespace)):
        while line := await heard():
            _, *directory = line.split()
            try:
                say(str(await (waits(*directory) if directory else worker_pid())))
            except Exception as error:
                say(" from ".join(type(each).__name__ for each in (error, error.__cause__) if each is not None))


async def be_interrupted(namespace: str) -> None:
    """Inside a pool of two until it is interrupted; then asks once more, and leaves."""
    async with WorkerPool(spawn=2):
        say(str(await worker_pid()))
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            say(str(await worker_pid()))


ROLES = {function.__name__: function for function in (own, borrow, be_interrupted)}

if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(ROLES[sys.argv[1]](sys.argv[2]))
        raise SystemExit(0)
    say("interrupted")
