"""The kernel's side of the nursery, for the loop that started it."""

import asyncio
import itertools
import json
import os
import signal as signals
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from wool_jupyter.aio.owned_tasks import OwnedTasks
from wool_jupyter.errors import StartFailed
from wool_jupyter.nursery.exits import Exit

_UP_S = 20.0  # an interpreter's start on a machine that is busy
_PREPARED_S = 5.0  # for some large libraries to be imported; a start that waits longer gains nothing
_STOP_S = 2.0  # Jupyter kills a kernel 5 s after it asked it to stop
_LINE_MAX_BYTES = 8 << 20
_LOG_TAIL_BYTES = 4096
_LOG_TAIL_LINES = 15
_IMPORT_SYSTEM = 'File "<frozen '

_UNKNOWN = Exit(None, None, None)


@dataclass(frozen=True, eq=False, slots=True)
class Child:
    """A worker that reported ready. `report` is what it wrote.

    `exited` has no exception; who may be cancelled shields it (`asyncio.wait` does), for others wait on it too.
    """

    uid: str
    pid: int
    report: dict[str, Any]
    exited: asyncio.Future[Exit]


class Order:
    """For a worker, and what comes of it. Made by `Nursery.order`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, uid: str, log: Path) -> None:
        self.uid = uid
        self.log = log
        self.pid = 0
        self.ready: asyncio.Future[dict[str, Any]] = loop.create_future()
        self.failed: asyncio.Future[str] = loop.create_future()
        self.exited: asyncio.Future[Exit] = loop.create_future()


class Nursery:
    """Made by `launch`; ends by `shutdown`, which whoever started it must call. For one loop's thread only.

    `lost` resolves when the nursery has ended, asked or not; by then every child's `exited` has. Workers call
    `host.die_with_parent(pid)`, so they don't survive it.
    """

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket, log: Path) -> None:
        loop = asyncio.get_running_loop()
        self.pid = process.pid
        self.lost: asyncio.Future[None] = loop.create_future()
        self._up: asyncio.Future[None] = loop.create_future()
        self._loop = loop
        self._process = process
        self._control = control
        self._log = log
        self._writer: asyncio.StreamWriter | None = None
        self._workers: dict[str, Order] = {}
        self._signals: dict[int, asyncio.Future[bool]] = {}
        self._prepared: asyncio.Future[None] | None = None
        self.template_pid: int | None = None  # of the process that workers are forked from; None: they are started
        self._numbers = itertools.count()
        self._tasks = OwnedTasks("nursery")

    @classmethod
    async def launch(cls, generations: Sequence[Path], *, log: Path, environment: Mapping[str, str]) -> "Nursery":
        """Can be asked for workers when this returns, and starts them as soon as it is up; if it does not come up, they tell. It
        sweeps the namespaces of the generations if this process is killed. `StartFailed`; then, and if cancelled, it leaves no
        process."""
        nursery = cls(*_launch(generations, log, environment), log)
        try:
            reader, nursery._writer = await asyncio.open_connection(sock=nursery._control, limit=_LINE_MAX_BYTES)
            nursery._tasks.start(nursery._listen(reader), "listen")
        except BaseException:
            await nursery._end()
            raise
        return nursery

    async def up(self) -> None:
        """Returns when it answers. `StartFailed`, with the log's last lines, if it does not; then it is gone."""
        if self._up.done():
            return
        await asyncio.wait({self._up, self.lost}, timeout=_UP_S, return_when=asyncio.FIRST_COMPLETED)
        if not self._up.done():
            why = self._why_not_up(ended=self.lost.done())
            await self._end()
            raise StartFailed("The process that looks after the workers " + why)

    def prepare(self, command: Sequence[str], *, environment: Mapping[str, str], log: Path) -> None:
        """Workers with this environment are forked from now on, where that is possible, by the process that `command` starts
        (`worker.template`). One that was there before is ended."""
        if self.lost.done():
            return
        _resolve(self._prepared, None)
        self._prepared, self.template_pid = self._loop.create_future(), None
        self._send(do="prepare", command=list(command), environment=dict(environment), log=str(log))

    def unprepare(self) -> None:
        """Ends that process."""
        self._send(do="unprepare")

    async def prepared(self) -> None:
        """Returns when workers can be forked, or it is known that they can't; in time for whoever can wait."""
        if self._prepared is not None:
            await asyncio.wait({self._prepared}, timeout=_PREPARED_S)

    def order(
        self,
        uid: str,
        command: Sequence[str],
        arguments: Sequence[str] = (),
        *,
        environment: Mapping[str, str],
        log: Path,
        directory: Path = Path("/"),
    ) -> Order:
        """A worker, of which `delivered` tells; until then whoever gives it up has to `kill` it. It is forked, with the arguments,
        or else started by the command that these complete. `directory` is where it starts. `StartFailed` if nobody is there to
        ask."""
        if uid in self._workers:
            raise ValueError(f"{uid} runs already")
        if self.lost.done():
            raise StartFailed("A worker can't start: the process that looks after the workers is gone")
        order = self._workers[uid] = Order(self._loop, uid, log)
        how = {"command": list(command), "arguments": list(arguments)}
        where = {"environment": dict(environment), "directory": str(directory), "log": str(log)}
        self._send(do="start", uid=uid, **how, **where)
        return order

    async def delivered(self, order: Order, *, timeout_s: float) -> Child:
        """Returns when the worker has written its report.

        Raises StartFailed, with its end in words and the log's last lines, if it ends first, can't be started or takes
        too long, or if the nursery itself does; then, and if cancelled, it is killed.
        """
        try:
            await self.up()
            outcomes: set[asyncio.Future[Any]] = {order.ready, order.failed, order.exited}
            await asyncio.wait(outcomes, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if order.ready.done():
                return Child(order.uid, order.pid, order.ready.result(), order.exited)
            raise StartFailed(f"A worker {_why_not_ready(order, timeout_s)}{_tail(order.log)}")
        except BaseException:
            self.kill(order.uid)
            raise

    async def signal(self, uid: str, number: int) -> bool:
        """To the worker's group. Returns once it is sent; False if the worker has ended."""
        if self.lost.done():
            return False
        identity = next(self._numbers)
        sent: asyncio.Future[bool] = self._loop.create_future()
        self._signals[identity] = sent
        self._send(do="signal", id=identity, uid=uid, number=int(number))
        try:
            return await sent
        finally:
            del self._signals[identity]

    async def ended(self, uid: str, *, within_s: float) -> None:
        """Returns when no process of that name runs, or after that time: also of one that was killed before it was ready."""
        if (worker := self._workers.get(uid)) is not None:
            await asyncio.wait({worker.exited}, timeout=within_s)

    def kill(self, uid: str) -> None:
        """The worker and its children, now. The child's `exited` tells when it is gone; an unknown uid is fine."""
        self._send(do="kill", uid=uid)

    async def shutdown(self) -> None:
        """No worker remains. Takes two seconds at most to end the nursery, then it is killed.

        Idempotent; also to be called after `lost`. If cancelled, the nursery is killed and its workers with it.
        """
        try:
            self._send(do="stop")
            await asyncio.wait({self.lost}, timeout=_STOP_S)
        finally:
            await self._end()

    def disown(self) -> None:
        """For a forked child of the kernel: closes what it inherited and leaves the nursery and its workers alone.

        The loop is not told: its poll descriptor is shared with the parent.
        """
        self._control.close()

    def _send(self, **request: Any) -> None:
        if self._writer is not None and not self.lost.done():
            self._writer.write(json.dumps(request).encode() + b"\n")

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        try:
            with suppress(ConnectionResetError, BrokenPipeError):
                async for line in reader:
                    self._note(json.loads(line))
        finally:
            self._lose()

    def _note(self, event: dict[str, Any]) -> None:
        match event:
            case {"event": "up"}:
                self._up.set_result(None)
            case {"event": "prepared", "pid": pid}:
                self.template_pid = pid
                _resolve(self._prepared, None)
            case {"event": "signalled", "id": identity, "alive": alive}:
                if (sent := self._signals.get(identity)) is not None and not sent.done():
                    sent.set_result(alive)
            case {"event": kind, "uid": uid} if (worker := self._workers.get(uid)) is not None:
                self._note_worker(worker, kind, event)

    def _note_worker(self, worker: Order, kind: str, event: dict[str, Any]) -> None:
        match kind:
            case "started":
                worker.pid = event["pid"]
            case "ready":
                worker.ready.set_result(event["report"])
            case "failed":
                worker.failed.set_result(event["reason"])
                if not worker.pid:
                    del self._workers[event["uid"]]
                    _resolve(worker.exited, _UNKNOWN)
            case "exited":
                del self._workers[event["uid"]]
                _resolve(worker.exited, Exit(event["code"], event["signal"], event["peak_rss_bytes"]))

    def _lose(self) -> None:
        for worker in self._workers.values():
            _resolve(worker.exited, _UNKNOWN)
        self._workers.clear()
        for sent in self._signals.values():
            _resolve(sent, False)
        self.template_pid = None
        _resolve(self._prepared, None)
        _resolve(self.lost, None)

    def _why_not_up(self, *, ended: bool) -> str:
        code = self._kill()
        if not ended:
            return f"did not come up in {_UP_S:g} s{_tail(self._log)}"
        return _exit_of(code).in_words() + _tail(self._log)

    def _kill(self) -> int:
        """Its exit code, once it is gone: one that closed its socket is about to exit, any other is killed."""
        if self.lost.done():
            with suppress(subprocess.TimeoutExpired):
                return self._process.wait(timeout=1)
        self._process.kill()
        return self._process.wait()

    async def _end(self) -> None:
        self._kill()
        await self._close()

    async def _close(self) -> None:
        await self._tasks.close()
        self._lose()
        if self._writer is not None:
            self._writer.close()
        self._control.close()


def _resolve(future: asyncio.Future[Any] | None, value: object) -> None:
    if future is not None and not future.done():  # whoever awaited it may have cancelled it
        future.set_result(value)


def _launch(
    generations: Sequence[Path], log: Path, environment: Mapping[str, str]
) -> tuple[subprocess.Popen[bytes], socket.socket]:
    ours, theirs = socket.socketpair()
    arguments = [str(theirs.fileno()), str(os.getpid()), *map(str, generations)]
    try:
        with theirs, _appended(log) as output, _interrupts_held():
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "wool_jupyter.nursery", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd="/",
                env=dict(environment),
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
    except OSError as error:
        ours.close()
        raise StartFailed(f"The process that looks after the workers can't be started: {error}") from error
    return process, ours


def _appended(log: Path) -> BinaryIO:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.fdopen(os.open(log, flags, 0o600), "ab")


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """An interrupt of the kernel's group must not end the new process before it has its own session.

    It inherits the mask and keeps it.
    """
    before = signals.pthread_sigmask(signals.SIG_BLOCK, {signals.SIGINT})
    try:
        yield
    finally:
        signals.pthread_sigmask(signals.SIG_SETMASK, before)


def _exit_of(code: int) -> Exit:
    return Exit(code, None, None) if code >= 0 else Exit(None, -code, None)


def _why_not_ready(worker: Order, timeout_s: float) -> str:
    if worker.failed.done():
        return f"can't be started: {worker.failed.result()}"
    if worker.exited.done():
        return f"{worker.exited.result().in_words()} before it was ready"
    return f"was not ready after {timeout_s:g} s"


def _tail(log: Path) -> str:
    """The log's last lines, to be put after a message, without those that say how a module came to be imported."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _LOG_TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    lines = [line for line in text.splitlines() if _IMPORT_SYSTEM not in line][-_LOG_TAIL_LINES:]
    return "".join(f"\n  {line}" for line in lines)
