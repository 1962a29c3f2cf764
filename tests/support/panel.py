"""What a panel in JupyterLab does, without the browser: listens on iopub, and asks over a comm on a subshell."""

import json
from time import monotonic
from typing import Any
from uuid import uuid4

from tests.support.kernel import TIMEOUT_S, Kernel
from wool_jupyter.notebook import snapshot
from wool_jupyter.notebook.lab_comm import FEED, TARGET
from wool_jupyter.notebook.snapshot import Snapshot


class Panel:
    """One for a kernel at a time: it takes what the kernel publishes, and leaves what belongs to cells to the `strays`."""

    def __init__(self, kernel: Kernel, *, subshell: bool = True) -> None:
        self.kernel = kernel
        self.comm = uuid4().hex
        self.snapshots: list[Snapshot] = []
        self.answers: list[dict[str, Any]] = []
        self.answered_to: set[str] = set()  # kinds of messages
        self.is_closed = False  # by the kernel
        self.subshell = self._new_subshell() if subshell else None

    def _new_subshell(self) -> str:
        client = self.kernel.client
        asked = client.session.msg("create_subshell_request")
        client.control_channel.send(asked)
        while True:
            reply = client.control_channel.get_msg(timeout=TIMEOUT_S)
            if reply["parent_header"].get("msg_id") == asked["header"]["msg_id"]:
                return reply["content"]["subshell_id"]

    def _send(self, kind: str, content: dict[str, Any]) -> None:
        client = self.kernel.client
        message = client.session.msg(kind, content)
        if self.subshell is not None:
            message["header"]["subshell_id"] = self.subshell
        client.shell_channel.send(message)

    def open(self, **request: Any) -> None:
        self._send("comm_open", {"comm_id": self.comm, "target_name": TARGET, "data": request})

    def say(self, **request: Any) -> None:
        self._send("comm_msg", {"comm_id": self.comm, "data": request})

    def ask(self, do: str, **rest: Any) -> str:
        """Its error, or "" when it has been done."""
        number = len(self.answers)
        self.say(do=do, id=number, **rest)
        found = self.answer(number)
        assert found["did"] == do
        return found["error"]

    def answer(self, number: int) -> dict[str, Any]:
        self.until(lambda: any(answer.get("id") == number for answer in self.answers))
        return next(answer for answer in self.answers if answer.get("id") == number)

    def hello(self) -> None:
        self.take_in()
        seen = len(self.snapshots)
        self.open(do="hello", id="hello")
        self.until(lambda: len(self.snapshots) > seen and any(answer.get("id") == "hello" for answer in self.answers))

    def take_in(self) -> None:
        strays, self.kernel.strays = self.kernel.strays, []
        strays += [message for channel, message in self.kernel.messages() if channel != "shell"]
        for message in strays:
            self._take(message)

    def _take(self, message: dict[str, Any]) -> None:
        content = message["content"]
        match message["msg_type"], content.get("comm_id"):
            case "comm_msg", comm if comm == FEED:
                assert message["parent_header"] == {}
                self.snapshots.append(snapshot.decode(json.dumps(content["data"]["snapshot"])))
            case "comm_msg", comm if comm == self.comm:
                self.answers.append(content["data"])
                self.answered_to.add(message["parent_header"].get("msg_type", ""))
            case "comm_close", comm if comm == self.comm:
                self.is_closed = True
            case _:
                self.kernel.strays.append(message)

    def until(self, condition: Any, timeout: float = TIMEOUT_S) -> None:
        deadline = monotonic() + timeout
        while not condition():
            assert monotonic() < deadline, f"not within {timeout:g} s; {self.answers}, at last {self.snapshots[-1:]}"
            self.take_in()

    def shows(self, condition: Any, timeout: float = TIMEOUT_S) -> Snapshot:
        """The first snapshot from now on for which that holds."""
        seen = len(self.snapshots)
        self.until(lambda: any(map(condition, self.snapshots[seen:])), timeout)
        return next(filter(condition, self.snapshots[seen:]))

    @property
    def latest(self) -> Snapshot:
        self.take_in()
        return self.snapshots[-1]
