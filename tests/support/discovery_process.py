"""Local discovery in an interpreter of its own: `python -m tests.support.discovery_process ROLE ROOT`.

The namespace is `n`, unless told otherwise.
It says and hears lines. `Interpreter` is the test's side.
"""

import asyncio
import atexit
import ctypes
import gc
import os
import resource
import select
import signal
import subprocess
import sys
import threading
import time
import traceback
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any, NoReturn, Self

from tests.support.discovery import descriptors, shown, worker
from wool_jupyter.discovery.local import LocalDiscovery
from wool_jupyter.errors import WoolError

PROJECT = Path(__file__).parents[2]


class Interpreter:
    """Killed when the context ends, unless it has ended."""

    def __init__(
        self,
        role: str,
        root: Path,
        *arguments: str,
        prefix: tuple[str, ...] = (),
        module: str = "tests.support.discovery_process",
        **options: Any,
    ) -> None:
        command = [*prefix, sys.executable, "-m", module, role, str(root), *arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=PROJECT, **options)
        self._heard = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()

    def hear(self, timeout_s: float = 30) -> str:
        """The next line; TimeoutError, or EOFError when it has ended."""
        stdout, deadline = self.process.stdout, time.monotonic() + timeout_s
        assert stdout is not None
        while b"\n" not in self._heard:
            if not select.select([stdout], [], [], max(0, deadline - time.monotonic()))[0]:
                raise TimeoutError(f"nothing heard in {timeout_s} s")
            block = os.read(stdout.fileno(), 4096)
            if not block:
                raise EOFError
            self._heard += block
        line, _, self._heard = self._heard.partition(b"\n")
        return line.decode()

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, line: str) -> str:
        self.say(line)
        return self.hear()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def end(self) -> int:
        """Lets it run to its end, and returns its exit status."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(30)


def say(line: str) -> None:
    os.write(1, line.encode() + b"\n")


async def heard() -> str:
    """The next line; empty at the end."""
    return (await asyncio.to_thread(sys.stdin.readline)).strip()


async def own(root: Path, namespace: str = "n") -> None:
    """Enters, and leaves at the end of its input."""
    try:
        async with LocalDiscovery(namespace, root=root):
            say("entered")
            await heard()
    except WoolError as error:
        say(type(error).__name__)
        await heard()


async def race(root: Path) -> None:
    """As `own`, at the moment that it is told, seconds since the epoch."""
    say("ready")
    moment = float(await heard())
    while time.time() < moment:  # noqa: ASYNC110
        await asyncio.sleep(0)
    await own(root)


async def own_without_leaving(root: Path) -> None:
    """Ends with the interpreter, without leaving the context."""
    await LocalDiscovery("n", root=root).__aenter__()
    say("entered")
    await heard()


async def own_and_fork(root: Path) -> None:
    """An owner whose forked children run what they inherited: they `leave` the context, `exit` through atexit, or `linger`.

    `in-c` before it: the fork is one from C, of which Python does not hear.
    """
    entered = LocalDiscovery("n", root=root)
    async with entered:
        say("entered")
        while line := await heard():
            in_c, what = line.startswith("in-c"), line.split()[-1]
            hears, tells = os.pipe()
            pid = ctypes.PyDLL(None).fork() if in_c else os.fork()
            if not pid:
                _be_a_fork(entered, what, tells)
            if what == "linger":
                os.read(hears, 1)  # it has done by now what a fork does first
                say(str(pid))
            else:
                say(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])))  # noqa: ASYNC222


def _be_a_fork(entered: LocalDiscovery, what: str, tells: int) -> NoReturn:
    try:
        if what == "linger":
            os.close(1)
            os.write(tells, b"!")
            signal.pause()
        if what == "leave":
            entered._leave()
        if what == "exit":
            atexit._run_exitfuncs()
        gc.collect()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


async def publish(root: Path) -> None:
    """Takes `added 1` and the like."""
    async with LocalDiscovery.Publisher("n", root=root) as into:
        say("bound")
        while line := await heard():
            kind, number = line.split()
            try:
                await into.publish(f"worker-{kind}", worker(int(number)))  # type: ignore[arg-type]
            except (WoolError, OSError, TimeoutError) as error:
                say(type(error).__name__)
            else:
                say("published")


async def publish_for_ever(root: Path) -> None:
    async with LocalDiscovery.Publisher("n", root=root) as into:
        say("bound")
        number = 0
        while True:
            number += 1
            await into.publish("worker-added", worker(1 + number % 5, extra={"n": str(number)}))
            if number == 50:
                say("busy")


async def follow(root: Path, *options: str) -> None:
    """Tells each event; at the end the error."""
    given = {name: float(value) for name, value in (option.split("=") for option in options)}
    try:
        async for event in LocalDiscovery.Subscriber("n", root=root, **given):
            kind, number = shown(event)
            say(f"{kind} {number}")
    except WoolError as error:
        say(type(error).__name__)


async def follow_and_fork(root: Path, *options: str) -> None:
    """Follows, and so does its forked child, which alone tells."""
    async with aclosing(aiter(LocalDiscovery.Subscriber("n", root=root))) as events:
        waiting = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        while not threading.active_count() > 2:  # noqa: ASYNC110 (until its observer runs)
            await asyncio.sleep(0.01)
        if not os.fork():
            try:
                asyncio.run(follow(root, *options))
            finally:
                os._exit(0)
        await waiting
        await heard()


async def follow_without_descriptors(root: Path) -> None:
    """With as few descriptors as let it bind, and one more until it sees the worker and adds another. Tells what failed before."""
    used = descriptors()
    failed: set[str] = set()
    for room in range(1, 60):
        resource.setrlimit(resource.RLIMIT_NOFILE, (used + room, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        try:
            events = aiter(LocalDiscovery.Subscriber("n", root=root, liveness_interval_s=0.02))
            async with asyncio.timeout(1), aclosing(events):  # what can't be read now is read later
                event = await anext(events)
            async with LocalDiscovery.Publisher("n", root=root) as into:
                await into.publish("worker-added", worker(2))
        except OSError as error:
            failed.add(error.strerror or type(error).__name__)
            continue
        say(" | ".join(sorted(failed)))
        kind, number = shown(event)
        say(f"{kind} {number}")
        return


ROLES = {
    function.__name__: function
    for function in (
        own,
        race,
        own_without_leaving,
        own_and_fork,
        publish,
        publish_for_ever,
        follow,
        follow_and_fork,
        follow_without_descriptors,
    )
}

if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(ROLES[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:]))  # type: ignore[operator]
