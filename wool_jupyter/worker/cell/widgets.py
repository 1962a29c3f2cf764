"""Widgets that a cell makes: what they say goes to the browser by way of the kernel. Nothing comes back.

    ipywidgets ──▶ comm.create_comm ──▶ CarriedComm ──▶ an event ──▶ the kernel's comm of the same id

One that is there to be clicked or typed into would look alive and be deaf: it is shown as text.
"""

import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

VIEW = "application/vnd.jupyter.widget-view+json"

_JUPYTER = "@jupyter-widgets/"
_SHOW_ONLY = frozenset(
    "Accordion Audio Box FloatProgress GridBox HBox HTML HTMLMath Image IntProgress Label Output Stack Tab VBox Valid Video".split()
)
_REFERENCE = "IPY_MODEL_"

Carry = Callable[[str, str, dict[str, Any]], object]  # (kind of message, comm's id, content)


class Widgets:
    """What is known of the models made here. `message` is the front end's, of the running cell; "" where no browser is."""

    def __init__(self, carry: Carry) -> None:
        self.message = ""
        self._carry = carry
        self._models: dict[str, _Model] = {}
        self._taking: set[str] = set()  # output widgets that nobody sees, and that would take now what is printed

    def install(self) -> None:
        """Once per process; without `comm` no widgets are installed either."""
        try:
            import comm
            from comm.base_comm import BaseComm
        except ImportError:
            return
        widgets = self

        class CarriedComm(BaseComm):  # type: ignore[misc]
            kernel = types.SimpleNamespace(get_parent=lambda: {"header": {"msg_id": widgets.message}})

            def publish_msg(
                self, msg_type: str, data: Any = None, metadata: Any = None, buffers: Any = None, **keys: Any
            ) -> None:
                content = {"data": data or {}, "metadata": metadata or {}, "buffers": buffers or [], **keys}
                widgets.said(msg_type, self.comm_id, content)

        plain = comm.create_comm

        def create_comm(*args: Any, **options: Any) -> Any:
            return (CarriedComm if widgets.message else plain)(*args, **options)

        comm.create_comm = create_comm

    def said(self, kind: str, comm: str, content: dict[str, Any]) -> None:
        if kind == "comm_close":
            self._models.pop(comm, None)
        else:
            content = self._noted(comm, content)
        self._carry(kind, comm, content)

    def _noted(self, comm: str, content: dict[str, Any]) -> dict[str, Any]:
        state = content["data"].get("state") if isinstance(content["data"], dict) else None
        if not isinstance(state, dict):
            return content
        self._models.setdefault(comm, _Model()).learn(state)
        if "msg_id" in state and (comm in self._taking or self._is_unseen(comm)):
            (self._taking.add if state["msg_id"] else self._taking.discard)(comm)
            state = {key: value for key, value in state.items() if key != "msg_id"}
            content = {**content, "data": {**content["data"], "state": state}}
        return content

    def deaf(self, data: Mapping[str, Any]) -> str:
        """The name of a widget in this bundle that would have to hear the user, and does not; "" if there is none."""
        view = data.get(VIEW)
        shown = view.get("model_id") if isinstance(view, dict) else None
        if shown not in self._models:
            return ""
        return next((model.name for model in self._inside(shown) if not model.only_shows), "")

    def keeps_from_clearing(self) -> bool:
        """What is to be cleared is that of an output widget that nobody sees."""
        return bool(self._taking)

    def _is_unseen(self, comm: str) -> bool:
        """It is part of something that is shown as text: what it would take stays under the cell."""
        seen, pending = {comm}, [comm]
        while pending:
            comm = pending.pop()
            if any(not model.only_shows for model in self._inside(comm)):
                return True
            above = {other for other, model in self._models.items() if model.names(comm)} - seen
            pending += above
            seen |= above
        return False

    def _inside(self, shown: str) -> Iterator["_Model"]:
        """The models to be seen with this one; layouts and styles are not seen."""
        seen, pending = {shown}, [shown]
        while pending:
            comm = pending.pop()
            model = self._models.get(comm)
            if model is None or model.name.endswith(("Layout", "Style")):
                continue
            yield model
            found = {each for references in model.references.values() for each in references} - seen
            pending += found
            seen |= found


class _Model:
    def __init__(self) -> None:
        self.name = ""
        self._is_of_jupyter = False
        self.references: dict[str, list[str]] = {}  # by trait: the models that it names

    @property
    def only_shows(self) -> bool:
        return self._is_of_jupyter and self.name in _SHOW_ONLY

    def names(self, comm: str) -> bool:
        return any(comm in references for references in self.references.values())

    def learn(self, state: Mapping[str, Any]) -> None:
        if "_model_name" in state:
            name = state.get("_anywidget_id") or state["_model_name"]
            self.name = str(name).rpartition(".")[2].removesuffix("Model")
            self._is_of_jupyter = str(state.get("_model_module", "")).startswith(_JUPYTER)
        for trait, value in state.items():
            if found := list(_references(value)):
                self.references[trait] = found
            else:
                self.references.pop(trait, None)


def _references(value: object) -> Iterator[str]:
    match value:
        case str() if value.startswith(_REFERENCE):
            yield value.removeprefix(_REFERENCE)
        case list() | tuple():
            for each in value:
                yield from _references(each)
        case dict():
            for each in value.values():
                yield from _references(each)
