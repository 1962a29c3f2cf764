"""The dashboard as a widget. Imported only where anywidget is there."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import anywidget
import traitlets
from IPython import get_ipython

from wool_jupyter.notebook.commands import Commands
from wool_jupyter.notebook.feed import door
from wool_jupyter.notebook.snapshot import Snapshot, as_builtins
from wool_jupyter.notebook.table import as_text, mimebundle

if TYPE_CHECKING:
    from wool_jupyter.notebook.magics import Wool

_STATIC = Path(__file__).parent / "static"


class Dashboard(anywidget.AnyWidget):
    """The pool of this notebook, live until `close`. Its `snapshot` is changed on the displays' thread.

    Made by `of_this_kernel`: one has as many views as there are cells that show it; for each further one all would be sent anew."""

    _esm = _STATIC / "widget.js"
    _css = _STATIC / "widget.css"

    snapshot = traitlets.Dict().tag(sync=True)

    def __init__(self, options: "Wool") -> None:
        self._latest = door().glance()
        super().__init__(snapshot=as_builtins(self._latest))
        self._commands = Commands(options)
        self.on_msg(self._heard)
        self._stay_on_its_subshell()

    def follow(self) -> None:
        """Idempotent; also after an observer's failure."""
        door().attach(self._show)
        door().looked(deaf=_is_deaf())

    def _stay_on_its_subshell(self) -> None:
        """ipykernel 7.4 hands what the front end says to the shell that spoke last to it, here the main one, which may be busy. The
        front end's own choice is right."""
        if hasattr(self.comm, "_reply_subshell_for"):
            self.comm._reply_subshell_for = lambda _data, default: default

    def _show(self, snapshot: Snapshot) -> None:
        if self.comm is None:  # closed by somebody else: `Widget.close_all`
            door().detach(self._show)
            return
        self._latest = snapshot
        self.snapshot = as_builtins(snapshot)

    def _heard(self, _widget: object, request: object, _buffers: object) -> None:
        self._commands.obey(request, self.send, deaf=_is_deaf())

    def close(self) -> None:
        """Idempotent."""
        door().detach(self._show)
        super().close()

    def __repr__(self) -> str:
        return as_text(self._latest)

    def _repr_mimebundle_(self, **options: Any) -> Any:
        """With what is shown where no front end runs widgets: in a terminal, on GitHub, in a saved notebook."""
        found = super()._repr_mimebundle_(**options)
        data, metadata = found if isinstance(found, tuple) else (found or {}, {})
        return {**data, **mimebundle(door().glance())}, metadata


_dashboard: Dashboard | None = None


def of_this_kernel(options: "Wool") -> Dashboard:
    """The one that there is, or a new one once that was closed."""
    global _dashboard
    if _dashboard is None or _dashboard.comm is None:
        _dashboard = Dashboard(options)
    _dashboard.follow()
    return _dashboard


def _is_deaf() -> bool:
    """Whether who speaks now can't be heard while the main thread is busy: it has no subshell."""
    kernel = getattr(get_ipython(), "kernel", None)
    return kernel is None or not kernel.get_parent().get("header", {}).get("subshell_id")
