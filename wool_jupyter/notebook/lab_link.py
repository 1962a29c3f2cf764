"""Between the kernel and the panel in JupyterLab.

words, snapshots, answers ─▶ iopub, messages of a comm that nobody opened: other front ends pass over them
requests                  ◀─ the control channel: heard while the main thread is busy, also from a page that was loaded meanwhile

A comm would have to wait in both cases until JupyterLab knows the kernel, which it asks by the main thread.
"""

from typing import TYPE_CHECKING, Any

from wool_jupyter.notebook import on_demand

if TYPE_CHECKING:
    from ipykernel.ipkernel import IPythonKernel

    from wool_jupyter.notebook.magics import Wool
    from wool_jupyter.notebook.snapshot import Snapshot

REQUEST = "wool_request"
FEED = "wool-jupyter-feed"


class LabLink:
    """Says on construction that it is there, so that the panel knows whom to talk to. Then nothing is sent before a panel has said
    hello. `close` takes all of it away."""

    def __init__(self, kernel: "IPythonKernel", options: "Wool") -> None:
        self._kernel = kernel
        self._options = options
        self._broadcasts = False
        kernel.control_handlers[REQUEST] = self._heard
        self._send({"word": "loaded"})

    def _heard(self, _stream: object, _ident: object, message: dict[str, Any]) -> None:
        """On the control channel's thread, where nothing may block: interrupts and shutdowns come by it."""
        from wool_jupyter.notebook.commands import Commands

        request = message["content"]
        if request.get("do") == "hello":
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
        if self._kernel.control_handlers.get(REQUEST) == self._heard:
            del self._kernel.control_handlers[REQUEST]
        self._send({"word": "unloaded"})
