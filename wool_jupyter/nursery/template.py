"""The nursery's side of a process from which workers are forked (`worker.template`)."""

import contextlib
import json
import os
import select
import signal
import socket

from wool_jupyter.nursery.children import spawn

_FORK_S = 2.0  # for a worker's pid: it takes 3 ms; meanwhile the nursery does nothing else


class Template:
    """Its process runs once it is made, and is killed by `end`."""

    def __init__(self, command: list[str], environment: dict[str, str], *, log: str) -> None:
        """OSError or ValueError if it can't be started."""
        self._environment = environment
        self._is_up = False
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                self.pid = spawn(command, environment, log=log, fd=theirs.fileno())
        except BaseException:
            self._control.close()
            raise

    def fileno(self) -> int:
        """Readable when there are news."""
        return self._control.fileno()

    def takes_news(self) -> bool:
        """Whether it can be asked for workers from now on; if not, it has ended."""
        try:
            self._is_up = self._control.recv(64) == b"up"
        except OSError:
            self._is_up = False
        return self._is_up

    def suits(self, environment: dict[str, str], directory: str) -> bool:
        """Whether a worker that it forks is like one that is started: libraries have read the environment when they were
        imported."""
        return self._is_up and environment == self._environment and directory == "/"

    def fork(self, arguments: list[str], ready_fd: int) -> int | None:
        """The pid of a worker, which is this process's child and leads a session of its own; None if it could not be had, which
        is the end of the template."""
        try:
            socket.send_fds(self._control, [json.dumps(arguments).encode()], [ready_fd])
            if select.select([self._control], [], [], _FORK_S)[0] and (pid := int(self._control.recv(64) or 0)):
                return pid
        except OSError:
            pass
        self._kill()
        return None

    def was_reaped(self) -> None:
        """Its number may be another's from now on."""
        self.pid = 0

    def end(self) -> None:
        """Its process remains to be reaped."""
        self._kill()
        self._control.close()

    def _kill(self) -> None:
        self._is_up = False
        if self.pid:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
