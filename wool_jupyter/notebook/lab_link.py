"""Between the kernel and the panel in JupyterLab.

words, snapshots, answers ─▶ iopub, messages of a comm that nobody opened: other front ends pass over them
requests                  ◀─ the control channel: heard while the main thread is busy, also from a page that was loaded meanwhile

A comm would have to wait in both cases until JupyterLab knows the kernel, which it asks by the main thread.

A kernel says "busy" and "idle" with each request, and front ends believe it, in the midst of a cell, too. JupyterLab and its server
do not with the kinds of messages that they send unasked, nor does the server take those for a user's activity (its setting
`untracked_message_types`). So a request is of one of these kinds: it asks for the comms of a target which is ours, and says what
else is wanted. A kernel without wool answers that it has none.
"""

from typing import TYPE_CHECKING, Any

from wool_jupyter.notebook import on_demand

if TYPE_CHECKING:
    from ipykernel.ipkernel import IPythonKernel

    from wool_jupyter.notebook.magics import Wool
    from wool_jupyter.notebook.snapshot import Snapshot

REQUEST = "comm_info_request"
TARGET = "wool-jupyter"
FEED = "wool-jupyter-feed"


class LabLink:
    """Says on construction that it is there, so that the panel knows whom to talk to. Then nothing is sent before a panel has said
    hello. `close` takes all of it away."""

    def __init__(self, kernel: "IPythonKernel", options: "Wool") -> None:
        self._kernel = kernel
        self._options = options
        self._broadcasts = False
        self._is_closed = False
        self._heard_before = kernel.control_handlers[REQUEST]
        kernel.control_handlers[REQUEST] = self._heard
        self._send({"word": "loaded"})

    def _heard(self, stream: Any, ident: Any, message: dict[str, Any]) -> Any:
        """On the control channel's thread, where nothing may block: interrupts and shutdowns come by it."""
        if self._is_closed or message["content"].get("target_name") != TARGET:
            return self._heard_before(stream, ident, message)
        self._obey(message)
        return None

    def _obey(self, message: dict[str, Any]) -> None:
        from wool_jupyter.notebook.commands import Commands

        request = message["content"].get("request")
        if isinstance(request, dict) and request.get("do") == "hello":
            self._greeted()

        def answer(content: dict[str, Any]) -> None:
            self._send({"answer": content}, parent=message)  # by its parent a page knows that it is meant

        Commands(self._options).obey(request, answer, deaf=False)

    def _greeted(self) -> None:
        from wool_jupyter.notebook.feed import door

        if not self._broadcasts:
            self._broadcasts = True
            door().attach(self._broadcast)
        door().show_soon()
        runtime = on_demand.loaded_runtime()
        if runtime is not None and runtime.background is not None:
            runtime.background.show_news_again()

    def _broadcast(self, snapshot: "Snapshot") -> None:
        from wool_jupyter.notebook.snapshot import as_builtins

        self._send({"snapshot": as_builtins(snapshot)})

    def _send(self, data: dict[str, Any], *, parent: dict[str, Any] | None = None) -> None:
        """On any thread: ipykernel's socket takes messages from all. No key `state` at the top: nbclient would take it for a
        widget's."""
        kernel, content = self._kernel, {"comm_id": FEED, "data": data}
        kernel.session.send(kernel.iopub_socket, "comm_msg", content, parent=parent, ident=f"comm-{FEED}".encode())

    def close(self) -> None:
        if self._broadcasts:
            from wool_jupyter.notebook.feed import door

            door().detach(self._broadcast)
        self._is_closed = True  # for those who have put a handler of their own before this one
        if self._kernel.control_handlers[REQUEST] == self._heard:
            self._kernel.control_handlers[REQUEST] = self._heard_before
        self._send({"word": "unloaded"})
