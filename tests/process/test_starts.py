"""One worker's start, and what is left of it."""

import asyncio
import os
import signal
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.loops import run, until
from tests.support.pools import names_in, pool_processes
from wool_jupyter.discovery.root import kernel_namespace
from wool_jupyter.errors import StartFailed
from wool_jupyter.pool import events
from wool_jupyter.pool import starts as module
from wool_jupyter.pool.announcer import Announcer
from wool_jupyter.pool.home import Home
from wool_jupyter.pool.processes import Processes
from wool_jupyter.pool.starts import Starts


class Publisher:
    """Says what it is told, or fails at it."""

    def __init__(self, failing=False):
        self.failing = failing
        self.said = []

    async def publish(self, type, metadata):
        self.said.append(type)
        if self.failing and type == "worker-added":
            raise OSError("no room")


@asynccontextmanager
async def home_of_starts(publisher, *, admitted=None, timeout_s=60, environment=os.environ):
    with tempfile.TemporaryDirectory(prefix="w", dir="/tmp") as top:
        home = await Home.enter(kernel_namespace("/run/kernel.json"), within=Path(top))
        try:
            processes = Processes(home, await home.nursery(os.environ), environment=environment)
            yield home, Starts(home, processes, Announcer(publisher), admitted=admitted, timeout_s=timeout_s)
        finally:
            await home.leave()


def files_of_workers(home):
    found = [name for name in names_in(home.directory) if name.startswith(("begun", "crash"))]
    return found + names_in(home.directory / "s") + names_in(home.directory / "d")


@pytest.mark.parametrize("failing", ["it ends", "it is late", "it can't be announced", "it is not admitted"])
def test_a_start_that_fails_leaves_no_file(failing, tmp_path):
    options = {}
    match failing:
        case "it ends":
            (tmp_path / "msgspec.py").write_text("raise SystemExit('no msgspec today')\n")
            options["environment"] = {**os.environ, "PYTHONPATH": str(tmp_path)}
        case "it is late":
            options["timeout_s"] = 0.01
        case "it is not admitted":
            options["admitted"] = lambda uid: asyncio.get_running_loop().create_future()

    async def main():
        publisher, told = Publisher(failing == "it can't be announced"), []
        async with home_of_starts(publisher, **options) as (home, starts):
            starting = asyncio.create_task(starts.worker(told.append, at_once=True))
            if failing == "it is not admitted":
                await until(lambda: publisher.said)
                assert len(files_of_workers(home)) == 4
                starting.cancel()
            with pytest.raises((StartFailed, OSError, asyncio.CancelledError)):
                await starting
            await starts.settled()
            assert files_of_workers(home) == []
            assert [type(event) for event in told] == [events.Starting, events.NotStarted]
            said = [] if failing in ("it ends", "it is late") else ["worker-added", "worker-dropped"]
            assert publisher.said == said

    run(main())


def test_a_worker_that_goes_on_for_a_moment_when_its_start_was_given_up_leaves_no_file(monkeypatch):
    """As the one that kills it has other things to do."""
    monkeypatch.setattr(module, "EXIT_REPORT_S", 60)

    async def main():
        async with home_of_starts(Publisher()) as (home, starts):
            nursery = await home.nursery(os.environ)
            starting = asyncio.create_task(starts.worker(lambda event: None, at_once=True))
            await until(lambda: len(pool_processes(os.getpid())) == 2)
            os.kill(nursery.pid, signal.SIGSTOP)
            try:
                starting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await starting
                await until(lambda: names_in(home.directory / "s"))
            finally:
                os.kill(nursery.pid, signal.SIGCONT)
            await starts.settled()
            assert files_of_workers(home) == []

    run(main())


def test_a_worker_that_serves_has_its_files_until_they_are_tidied_away():
    async def main():
        publisher = Publisher()
        async with home_of_starts(publisher) as (home, starts):
            member = await starts.worker(lambda event: None, at_once=True)
            assert len(files_of_workers(home)) == 4
            _, writer = await asyncio.open_unix_connection(member.metadata.address.removeprefix("unix:"))
            await until(lambda: len(files_of_workers(home)) == 5)  # gRPC's own socket
            writer.close()
            (await home.nursery(os.environ)).kill(member.child.uid)
            await member.child.exited
            starts.tidy(member.metadata.uid)
            assert files_of_workers(home) == []
            assert publisher.said == ["worker-added"]

    run(main())
