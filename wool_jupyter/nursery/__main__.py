"""The parent of a pool's workers: `python -P -m wool_jupyter.nursery CONTROL_FD KERNEL_PID GENERATION...`.

    kernel ── (un)prepare, start, ────────▶ one thread, ── posix_spawn or template, ─▶ workers
              signal, kill, stop            one selector   kill
           ◀─ up, prepared, started, ready, ─             ◀─ SIGCHLD, report ───────
              exited, failed, signalled
              (a line of JSON each)

It ends with the kernel, however that ends, and leaves no worker then; and nothing of the namespaces of its GENERATIONs, which a
kernel that was killed could not sweep itself. It has one thread because the workers' PR_SET_PDEATHSIG is tied to the thread
that started them.
"""

import contextlib
import importlib
import json
import os
import select
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from wool_jupyter import host
from wool_jupyter.nursery.children import Children, spawn
from wool_jupyter.nursery.template import Template

_LOOK_FOR_PARENT_S = 1.0  # only where there is no descriptor for the kernel's process
# Between the end of the kernel's descriptors and that of its process: it may have much memory to give back.
_NEWS_S = 1.0
_PAUSE_S = 0.02  # between two looks whether that process has ended
_REAP_S = 1.5  # a killed process that holds much memory takes long to go; files must not wait for it

# Not sooner than a worker serves, whose start would wait for it; and not later, when files of the package may be gone.
_SWEEPING = "wool_jupyter.nursery.sweeping"


class _Nursery:
    def __init__(self, control: socket.socket, kernel_pid: int) -> None:
        self._control = control
        self._kernel_pid = kernel_pid
        self._children = Children()
        self._template: Template | None = None
        self._adopts = host.adopt_orphans()
        self._selector = selectors.DefaultSelector()
        self._woken = _signals_as_bytes()
        self._incoming = b""
        self._outgoing = b""
        self._over = False
        self._was_terminated = self._was_told_to_stop = False

    def serve(self) -> None:
        """Until the kernel is gone or says stop."""
        self._control.setblocking(False)
        self._watch(self._control.fileno(), self._on_control)
        self._watch(self._woken.fileno(), self._on_signals)
        look_s = self._watch_kernel()
        self._send(event="up", pid=os.getpid())
        while not self._over:
            for key, mask in self._selector.select(look_s):
                if mask & selectors.EVENT_WRITE:
                    self._flush()
                if mask & selectors.EVENT_READ:
                    key.data()
            if os.getppid() != self._kernel_pid:
                self._over = True

    def finish(self) -> None:
        """Kills the workers and reaps them, within a bound."""
        self._drop_template()
        self._children.kill_all()
        deadline = time.monotonic() + _REAP_S
        self._reap()
        while self._children and (left_s := deadline - time.monotonic()) > 0:
            if select.select([self._woken], [], [], left_s)[0]:
                self._on_signals()

    def kernel_is_gone(self) -> bool:
        """Asked when this has ended. The kernel's socket ends a moment before its process does."""
        deadline = time.monotonic() + _NEWS_S
        while os.getppid() == self._kernel_pid:
            if self._was_told_to_stop or self._was_terminated or time.monotonic() >= deadline:
                return False
            select.select([], [], [], _PAUSE_S)
        return True

    def _watch(self, fd: int, on_readable: Callable[[], None]) -> None:
        self._selector.register(fd, selectors.EVENT_READ, on_readable)

    def _watch_kernel(self) -> float | None:
        """A fork of the kernel may hold the control socket open, so its end alone does not tell.

        Returns how long to wait before looking who the parent is.
        """
        try:
            fd = host.process_descriptor(self._kernel_pid)
        except ProcessLookupError:
            self._over = True
            return 0
        if fd is None:
            return _LOOK_FOR_PARENT_S
        self._watch(fd, self._on_kernel_gone)
        return None

    def _on_kernel_gone(self) -> None:
        self._over = True

    def _on_control(self) -> None:
        try:
            block = self._control.recv(1 << 16)
        except BlockingIOError:
            return
        except ConnectionResetError:
            block = b""
        if not block:
            self._over = True
            return
        *lines, self._incoming = (self._incoming + block).split(b"\n")
        for line in lines:
            self._obey(json.loads(line))

    def _obey(self, message: dict[str, Any]) -> None:
        match message:
            case {"do": "prepare"}:
                self._prepare(message)
            case {"do": "unprepare"}:
                self._end_template()
            case {"do": "start", "uid": uid}:
                self._start(uid, message)
            case {"do": "signal", "id": number, "uid": uid, "number": signal_number}:
                self._send(event="signalled", id=number, alive=self._children.signal(uid, signal_number))
            case {"do": "kill", "uid": uid}:
                self._children.kill(uid)
            case {"do": "stop"}:
                self._over = self._was_told_to_stop = True
            case _:
                raise ValueError(f"not a request: {message}")

    def _start(self, uid: str, message: dict[str, Any]) -> None:
        try:
            pid = self._children.start(uid, partial(self._worker, message))
        except (OSError, ValueError) as error:
            self._send(event="failed", uid=uid, reason=str(error))
            return
        self._send(event="started", uid=uid, pid=pid)
        fd = self._children.ready_fd(uid)
        assert fd is not None
        self._watch(fd, lambda: self._on_report(uid, fd))

    def _worker(self, message: dict[str, Any], ready_fd: int) -> int:
        environment, directory, arguments = message["environment"], message["directory"], message["arguments"]
        if self._template is not None and self._template.suits(environment, directory):
            if pid := self._template.fork(arguments, ready_fd):
                return pid
            self._end_template()
        command = [*message["command"], *arguments]
        return spawn(command, environment, log=message["log"], fd=ready_fd, directory=directory)

    def _prepare(self, message: dict[str, Any]) -> None:
        self._drop_template()
        if self._adopts:
            with contextlib.suppress(OSError, ValueError):
                self._template = Template(message["command"], message["environment"], log=message["log"])
        if self._template is None:
            self._send(event="prepared", pid=None)
        else:
            self._watch(self._template.fileno(), self._on_template)

    def _on_template(self) -> None:
        template = self._template
        if template is not None and template.takes_news():
            self._send(event="prepared", pid=template.pid)
        else:
            self._end_template()

    def _end_template(self) -> None:
        self._drop_template()
        self._send(event="prepared", pid=None)

    def _drop_template(self) -> None:
        if self._template is not None:
            self._selector.unregister(self._template.fileno())
            self._template.end()
            self._template = None

    def _on_report(self, uid: str, fd: int) -> None:
        if self._children.ready_fd(uid) != fd:  # reaped within this round of the selector
            return
        line = self._children.read_report(uid)
        if self._children.ready_fd(uid) is None:
            self._selector.unregister(fd)
        if line is None:
            return
        try:
            report = json.loads(line)
        except ValueError:
            self._children.kill(uid)
            self._send(event="failed", uid=uid, reason="it reported something that is not JSON")
        else:
            self._send(event="ready", uid=uid, report=report)
            _get_ready_to_sweep()

    def _on_signals(self) -> None:
        if signal.SIGTERM in self._woken.recv(4096):
            self._over = self._was_terminated = True
        self._reap()

    def _reap(self) -> None:
        for uid in self._children.ended():
            if (fd := self._children.ready_fd(uid)) is not None:
                self._on_report(uid, fd)
            if (fd := self._children.ready_fd(uid)) is not None:
                self._selector.unregister(fd)
            # Those that it takes along did not end by themselves: the kernel hears of one end, its own.
            if (outcome := self._children.reap(uid)) and not self._was_terminated:
                self._send(event="exited", uid=uid, **outcome)
        if self._adopts:
            self._reap_others()

    def _reap_others(self) -> None:
        """The template, what templates have left on their way to a worker, and what a worker's children have left."""
        mine = self._children.pids
        while (pid := host.ended_child()) and pid not in mine:
            os.waitpid(pid, 0)
            if self._template is not None and self._template.pid == pid:
                self._template.was_reaped()
                self._end_template()

    def _send(self, **event: Any) -> None:
        self._outgoing += json.dumps(event).encode() + b"\n"
        self._flush()

    def _flush(self) -> None:
        """Never blocks: a kernel that is stopped reads nothing, and must still be seen to die."""
        try:
            while self._outgoing:
                self._outgoing = self._outgoing[self._control.send(self._outgoing) :]
        except BlockingIOError:
            pass
        except (BrokenPipeError, ConnectionResetError):
            self._outgoing = b""
            self._over = True
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._outgoing else 0)
        self._selector.modify(self._control.fileno(), events, self._on_control)


def _get_ready_to_sweep() -> None:
    """An installation that is broken, or just being replaced, costs no worker: whoever comes next sweeps, too."""
    try:
        importlib.import_module(_SWEEPING)
    except Exception as error:  # noqa: BLE001 (whatever an import raises)
        sys.stderr.write(f"the files of a kernel that is killed will stay: {type(error).__name__}: {error}\n")


def _signals_as_bytes() -> socket.socket:
    """SIGTERM is the end, in good order: left alone it would leave the files.

    SIGINT and SIGHUP mean nothing here: an interrupt is about a cell, and reaches its worker by request; a terminal
    that closes is about the kernel, whose end is watched.
    """
    woken, wakes = socket.socketpair()
    woken.setblocking(False)
    wakes.setblocking(False)
    signal.set_wakeup_fd(wakes.detach(), warn_on_full_buffer=False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda _number, _frame: None)
    return woken


def main(control_fd: str, kernel_pid: str, *generations: str) -> None:
    host.name_process("wool nursery")
    os.set_inheritable(int(control_fd), False)
    with socket.socket(fileno=int(control_fd)) as control:
        nursery = _Nursery(control, int(kernel_pid))
        try:
            nursery.serve()
        finally:
            nursery.finish()
            if nursery.kernel_is_gone():
                from wool_jupyter.nursery.sweeping import sweep

                for generation in generations:
                    sweep(Path(generation))


if __name__ == "__main__":
    main(*sys.argv[1:])
