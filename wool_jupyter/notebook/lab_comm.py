"""Between the kernel and the panel in JupyterLab.

snapshots ─▶ iopub, a message of a comm that nobody opened: other front ends pass over it, and a page that was loaded anew has it
commands  ◀─ comm target, opened by the panel on a subshell: heard while the main thread is busy (ipykernel 7)
"""

import contextvars
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from wool_jupyter.notebook.snapshot import EMPTY_POOL, Snapshot, as_builtins

if TYPE_CHECKING:
    from ipykernel.ipkernel import IPythonKernel

    from wool_jupyter.notebook.magics import Wool

TARGET = "wool-jupyter"
FEED = "wool-jupyter-feed"


class LabComm:
    """Registered on construction, which sends one snapshot: by it the panel knows that there is somebody to talk to. Then nothing
    is sent before a panel has said hello. `close` takes all of it away."""

    def __init__(self, kernel: "IPythonKernel", options: "Wool") -> None:
        self._kernel = kernel
        self._options = options
        self._comms: dict[str, Any] = {}
        self._broadcasts = False
        kernel.comm_manager.register_target(TARGET, self._opened)
        self._broadcast(Snapshot(time.time(), EMPTY_POOL, (), ()))

    def _opened(self, comm: Any, message: dict[str, Any]) -> None:
        # What is sent in this callback's context is answered on the subshell on which the comm was opened. ipykernel 7.4 sends
        # the front end's messages to the shell that sent last, which else is that of the busy main thread.
        context = contextvars.copy_context()
        self._comms[comm.comm_id] = comm
        comm.on_msg(partial(self._heard, comm, context))
        comm.on_close(lambda _: self._comms.pop(comm.comm_id, None))
        if message["content"].get("data"):  # it may say hello right away
            self._heard(comm, context, message)

    def _heard(self, comm: Any, context: contextvars.Context, message: dict[str, Any]) -> None:
        """On the subshell's thread, where nothing may block: the kernel waits for it when the subshell is deleted."""
        from wool_jupyter.notebook.commands import Commands
        from wool_jupyter.notebook.feed import door

        request = message["content"]["data"]
        if isinstance(request, dict) and request.get("do") == "hello":
            if not self._broadcasts:
                self._broadcasts = True
                door().attach(self._broadcast)
            door().show_soon()
        answer = partial(context.copy().run, comm.send)
        Commands(self._options).obey(request, answer, deaf=not message["header"].get("subshell_id"))

    def _broadcast(self, snapshot: Snapshot) -> None:
        """On any thread: ipykernel's socket takes messages from all. No key `state` at the top: nbclient would take it for a
        widget's."""
        content = {"comm_id": FEED, "data": {"snapshot": as_builtins(snapshot)}}
        kernel = self._kernel
        kernel.session.send(kernel.iopub_socket, "comm_msg", content, parent=None, ident=f"comm-{FEED}".encode())

    def close(self) -> None:
        if self._broadcasts:
            from wool_jupyter.notebook.feed import door

            door().detach(self._broadcast)
        targets = self._kernel.comm_manager.targets
        if targets.get(TARGET) == self._opened:
            del targets[TARGET]
        for comm in list(self._comms.values()):
            comm.close()
        self._comms.clear()
