"""What a panel in JupyterLab does, without the browser: listens on iopub, and asks by the control channel."""

import json
from time import monotonic
from typing import Any

from tests.support.kernel import TIMEOUT_S, Kernel
from wool_jupyter.notebook import snapshot
from wool_jupyter.notebook.lab_link import FEED, REQUEST, TARGET
from wool_jupyter.notebook.snapshot import Snapshot


class Panel:
    """One for a kernel at a time: it takes what the kernel publishes, and leaves what belongs to cells to the `strays`."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.words: list[str] = []
        self.snapshots: list[Snapshot] = []
        self.answers: list[dict[str, Any]] = []
        self.answered_to: set[str] = set()  # kinds of messages

    def say(self, **request: Any) -> None:
        client = self.kernel.client
        client.control_channel.send(client.session.msg(REQUEST, {"target_name": TARGET, "request": request}))

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
        self.say(do="hello", id="hello")
        self.until(lambda: len(self.snapshots) > seen and any(answer.get("id") == "hello" for answer in self.answers))

    def take_in(self) -> None:
        strays, self.kernel.strays = self.kernel.strays, []
        strays += [message for channel, message in self.kernel.messages() if channel != "shell"]
        for message in strays:
            self._take(message)

    def _take(self, message: dict[str, Any]) -> None:
        content = message["content"]
        if message["msg_type"] != "comm_msg" or content["comm_id"] != FEED:
            self.kernel.strays.append(message)
            return
        match content["data"]:
            case {"word": word}:
                self.words.append(word)
            case {"answer": answer}:
                self.answers.append(answer)
                self.answered_to.add(message["parent_header"]["msg_type"])
            case {"snapshot": taken}:
                assert message["parent_header"] == {}
                self.snapshots.append(snapshot.decode(json.dumps(taken)))

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
