"""A cell's displays within its budget. Of those that are too many the last one is shown in the end, as a flood's last lines are."""

from collections.abc import Callable
from typing import Any

from wool_jupyter.notebook.flow import Flow


class DisplayBudget:
    """Of one cell, and of the thread that shows what it shows."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._held: dict[str, Callable[[], object]] = {}  # the last of those that were too many, by id

    def show(self, content: dict[str, Any], nbytes: int, show: Callable[[], object]) -> None:
        """Now, or not: then `content`, which takes `nbytes`, is kept."""
        if self._flow.allows_display():
            self._held.pop(_display_id(content), None)
            show()
        else:
            self._flow.leave_out(content, nbytes)
            self._held[_display_id(content)] = show

    def cleared(self) -> None:
        """Nothing of the cell stands in the notebook any more."""
        self._flow.cleared()
        self._held.clear()

    def end(self) -> None:
        for show in self._held.values():
            show()
        self._held.clear()


def _display_id(content: dict[str, Any]) -> str:
    return str((content["transient"] or {}).get("display_id", "")) if content["update"] else ""
