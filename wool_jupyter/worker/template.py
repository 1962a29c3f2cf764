"""A process that has imported what workers need, and from which they are forked:
`python -P -m wool_jupyter.worker.template NURSERY_PID MODULE...`, with its socket on descriptor 3.

nursery ── arguments, ready pipe ─▶ template ── fork ─▶ go-between ── fork ─▶ worker
        ◀──── "up", pids ──────────                     (ends at once)        (the nursery's child from then on)

No code of the user runs here and no thread: a fork of that would hang.
"""

import gc
import importlib
import json
import logging
import os
import signal
import socket
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from wool_jupyter import host
from wool_jupyter.wire import ambient
from wool_jupyter.worker import process

_CONTROL_FD = 3
_READY_FD = 3  # of a worker
_REQUEST_MAX_BYTES = 1 << 16

# What IPython imports when it is first used, for most of the time that a worker takes after the fork.
_FIRST_USED = (
    "IPython.core.application",
    "IPython.core.magics",
    "IPython.core.oinspect",
    "comm",
)

# What starts threads when it is imported, unless it is told not to.
_WITHOUT_THREADS = {
    "OPENBLAS_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",  # pyarrow's own allocator, and so pandas
}


_log = logging.getLogger(__name__)


def main(nursery_pid: str, *modules: str) -> None:
    host.die_with_parent(int(nursery_pid))
    host.name_process("wool template")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with socket.socket(fileno=_CONTROL_FD) as control:
        control.set_inheritable(False)
        if not _import(control, modules):
            return
        gc.collect()
        gc.freeze()  # a collection would write to every object, and end the sharing of its page
        single = _blas_libraries()
        control.send(b"up")
        arguments = _serve(control)
    if arguments is not None:
        _become_as_new(single)
        host.rename_arguments(b"wool_jupyter.worker.template\0", f"wool_jupyter.worker\0{arguments[0][:8]}\0".encode())
        process.main(*arguments)


def _import(control: socket.socket, modules: tuple[str, ...]) -> bool:
    """Begins anew without a module that starts a thread. False if no worker can be forked for all that."""
    before = dict(os.environ)
    if host.threads() > 1:
        return False
    with _environment(_WITHOUT_THREADS):
        for name in (*_FIRST_USED, *modules):
            try:
                importlib.import_module(name)
            except Exception as error:  # noqa: BLE001 (said in the log: a worker that needs it meets it by itself)
                _log.warning("%s is not preloaded: %s: %s", name, type(error).__name__, error)
            if host.threads() > 1:
                _log.warning("%s is not preloaded: its import starts threads", name)
                if name in _FIRST_USED:
                    return False
                control.set_inheritable(True)
                os.execve(sys.executable, [sys.executable, *_without(name)], before)
    return True


def _without(name: str) -> list[str]:
    """This process's own arguments."""
    return [argument for argument in sys.orig_argv[1:] if argument != name]


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _serve(control: socket.socket) -> list[str] | None:
    """Returns in each worker, with its arguments; and with None here, when the nursery has ended."""
    while True:
        try:
            request, descriptors, _, _ = socket.recv_fds(control, _REQUEST_MAX_BYTES, 1)
        except ConnectionResetError:
            return None
        if not request:
            return None
        (ready_fd,) = descriptors
        if host.threads() > 1:
            return None  # a late one
        pid = _forked(control)
        if pid is None:
            os.dup2(ready_fd, _READY_FD, inheritable=False)  # the template's socket was there
            os.close(ready_fd)
            arguments: list[str] = json.loads(request)
            return arguments
        os.close(ready_fd)
        control.send(str(pid).encode())


def _forked(control: socket.socket) -> int | None:
    """The worker's pid, 0 if there is none; None in the worker, which by then is the nursery's child and leads a session."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        try:
            between = os.fork()
        except OSError as error:
            _log.warning("a worker can't be forked: %s", error)
            return 0
        if between == 0:
            try:
                worker_pid = os.fork()
            except OSError:
                os._exit(1)
            if worker_pid:
                os._exit(0)
            os.setsid()
            control.detach()
            ours.close()
            theirs.send(str(os.getpid()).encode())
            if not theirs.recv(1):  # the template has ended, so nobody knows of this process
                os._exit(1)
            return None
        theirs.close()
        said = ours.recv(32)
        os.waitpid(between, 0)  # from here on the worker's parent is the nursery
        if said:
            ours.send(b"!")
        return int(said or 0)


def _blas_libraries() -> list[Any]:
    """Those that were told to start no thread. They are looked for here, as that takes 20 ms."""
    if "numpy" not in sys.modules:
        return []
    from threadpoolctl import ThreadpoolController

    return list(ThreadpoolController().select(internal_api="openblas").lib_controllers)


def _become_as_new(single: list[Any]) -> None:
    """As a process that has just begun, and has imported some modules."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.modules["__main__"] = types.ModuleType("__main__")
    ambient.draw_other_numbers()
    for library in single:
        library.set_num_threads(_blas_threads())


def _blas_threads() -> int:
    """As many as OpenBLAS takes by itself."""
    for name in ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_DEFAULT_NUM_THREADS"):
        value = os.environ.get(name, "")
        if value.isdecimal() and int(value) > 0:
            return int(value)
    return host.affine_cpus()


if __name__ == "__main__":
    main(*sys.argv[1:])
