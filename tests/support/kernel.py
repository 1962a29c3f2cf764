"""A real kernel on this interpreter, and what its cells show."""

import ast
import re
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

import zmq
from ipykernel.kernelspec import get_kernel_dict
from jupyter_client import KernelManager
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager

TIMEOUT_S = 30

_ANSI = re.compile(r"\x1b\[[0-9;]*m")

_HERE = Path(__file__).parent

# Modules of their own, which a reset of the notebook does not reach.
_INSIDE = f"""
def load(name, file):
    import importlib.util, sys
    spec = importlib.util.spec_from_file_location(name, file)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
load("suite_state", {str(_HERE / "state.py")!r}); load("suite_graph", {str(_HERE / "graph.py")!r})
del load
"""


def wool(body: str, *, above: str = "") -> str:
    return _stacked(above, "%%wool", body)


def plain(body: str, *, above: str = "") -> str:
    """The same cell without the magic, on the same lines. One that begins with a magic has nothing but a blank line above it."""
    return _stacked(above, "" if body.lstrip().startswith("%%") else "#", body)


def _stacked(above: str, magic: str, body: str) -> str:
    return "\n".join([*filter(None, [above]), magic, textwrap.dedent(body).lstrip("\n")])


class CellFailed(AssertionError):
    pass


@dataclass(frozen=True)
class Output:
    """`kind`: stdout, stderr, display, update, result, clear or error."""

    kind: str
    text: str = ""  # of a stream, or the plain form of what is shown
    data: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    transient: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class CellError:
    ename: str
    evalue: str
    traceback: str


@dataclass(frozen=True)
class CommMessage:
    """`kind`: comm_open, comm_msg or comm_close."""

    kind: str
    comm: str
    target: str
    data: dict[str, Any]


@dataclass
class Result:
    status: str = ""
    outputs: list[Output] = field(default_factory=list)
    error: CellError | None = None
    payload: list[dict[str, Any]] = field(default_factory=list)
    execution_count: int = 0
    comms: list[CommMessage] = field(default_factory=list)

    def text(self, *kinds: str) -> str:
        return "".join(output.text for output in self.outputs if output.kind in kinds)

    @property
    def stdout(self) -> str:
        return self.text("stdout")

    @property
    def stderr(self) -> str:
        return self.text("stderr")

    @property
    def kinds(self) -> list[str]:
        return [output.kind for output in self.outputs]

    @property
    def data(self) -> dict[str, Any] | None:
        """Of the execution result."""
        return next((output.data for output in self.outputs if output.kind == "result"), None)

    @property
    def value(self) -> str | None:
        return None if self.data is None else self.data["text/plain"]

    def as_seen(self) -> tuple[Any, ...]:
        """All that a reader of the notebook sees, to be compared with that of another run."""
        shown = [(o.kind, o.text, sorted(o.data), o.metadata) for o in self.outputs]
        error = None if self.error is None else (self.error.ename, self.error.evalue, self.error.traceback)
        return self.status, shown, error

    def add(self, output: Output) -> None:
        last = self.outputs[-1] if self.outputs else None
        if last is not None and last.kind == output.kind and output.kind in ("stdout", "stderr"):
            self.outputs[-1] = Output(output.kind, last.text + output.text)
        else:
            self.outputs.append(output)


class Running:
    """A cell that was sent. Its messages are taken in when somebody waits for them."""

    def __init__(self, kernel: "Kernel", message: str, answers: Iterable[str]) -> None:
        self._kernel = kernel
        self._message = message
        self._answers = list(answers)
        self._idle = self._replied = False
        self._result = Result()
        self.streamed: list[int] = []  # how much text each message had

    def wait_for(self, text: str, timeout: float = TIMEOUT_S) -> Result:
        """Until the cell has shown `text`."""
        self._pump(lambda: text in "".join(output.text for output in self._result.outputs), timeout)
        return self._result

    def result(self, timeout: float = TIMEOUT_S) -> Result:
        self._pump(lambda: self._idle and self._replied, timeout)
        return self._result

    def late(self, enough: Callable[[Result], object], timeout: float = TIMEOUT_S) -> Result:
        """All that it has shown, also while others ran or none did, when that is `enough`."""
        deadline = monotonic() + timeout
        while True:
            self._take_strays()
            if enough(self._result):
                return self._result
            if monotonic() > deadline:
                raise AssertionError(f"not within {timeout:g} s; so far {self._result}")
            self._kernel.take_strays()

    def _take_strays(self) -> None:
        strays, self._kernel.strays = self._kernel.strays, []
        for message in strays:
            if message["parent_header"].get("msg_id") == self._message:
                self._on_iopub(message["msg_type"], message["content"])
            else:
                self._kernel.strays.append(message)

    def late_text(self, until: str = "", timeout: float = TIMEOUT_S) -> str:
        """What came for this cell while others ran or none did, up to `until`."""
        deadline = monotonic() + timeout
        while until not in (late := "".join(self._late_parts())):
            if monotonic() > deadline:
                raise AssertionError(f"not within {timeout:g} s; so far {late!r}")
            self._kernel.take_strays()
        return late

    def _late_parts(self) -> Iterable[str]:
        for message in self._kernel.strays:
            if message["msg_type"] == "stream" and message["parent_header"].get("msg_id") == self._message:
                yield message["content"]["text"]

    def _pump(self, enough, timeout: float) -> None:
        deadline = monotonic() + timeout
        while not enough():
            if self._idle and self._replied:
                raise AssertionError(f"the cell has ended: {self._result}")
            if monotonic() > deadline:
                raise AssertionError(f"not within {timeout:g} s; so far {self._result}")
            for channel, message in self._kernel.messages():
                if message["parent_header"].get("msg_id") != self._message:
                    self._kernel.strays.append(message)
                else:
                    getattr(self, f"_on_{channel}")(message["msg_type"], message["content"])

    def _on_stdin(self, _kind: str, content: dict[str, Any]) -> None:
        self._result.add(Output("stdin", content["prompt"], metadata={"password": content["password"]}))
        if not self._answers:
            raise AssertionError(f"the cell asked {content['prompt']!r}")
        self._kernel.client.input(self._answers.pop(0))

    def _on_shell(self, _kind: str, content: dict[str, Any]) -> None:
        self._replied = True
        self._result.status = content["status"]
        self._result.payload = content.get("payload", [])
        self._result.execution_count = content.get("execution_count", 0)

    def _on_iopub(self, kind: str, content: dict[str, Any]) -> None:
        result = self._result
        match kind:
            case "status":
                self._idle |= content["execution_state"] == "idle"
            case "stream":
                self.streamed.append(len(content["text"]))
                result.add(Output(content["name"], content["text"]))
            case "display_data" | "update_display_data" | "execute_result":
                name = {"display_data": "display", "update_display_data": "update", "execute_result": "result"}[kind]
                data = content["data"]
                transient = content.get("transient", {})
                result.add(Output(name, data.get("text/plain", ""), data, content["metadata"], transient))
            case "clear_output":
                result.add(Output("clear", metadata={"wait": content["wait"]}))
            case "comm_open" | "comm_msg" | "comm_close":
                target = content.get("target_name", "")
                result.comms.append(CommMessage(kind, content["comm_id"], target, content.get("data", {})))
            case "error":
                traceback = _ANSI.sub("", "\n".join(content["traceback"]))
                result.error = CellError(content["ename"], _ANSI.sub("", content["evalue"]), traceback)
                result.add(Output("error"))


class _ThisInterpreter(KernelSpecManager):
    """Every kernel name means ipykernel on this very interpreter, whatever kernels the machine has registered."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        return KernelSpec(name=kernel_name, **get_kernel_dict())


class Kernel:
    """Started on construction; `shutdown` is idempotent."""

    def __init__(self, **options: Any) -> None:
        self.strays: list[dict[str, Any]] = []  # output of cells that have ended
        self.manager = KernelManager(kernel_spec_manager=_ThisInterpreter())
        self.manager.start_kernel(extra_arguments=["--log-level=ERROR"], **options)
        self._connect()
        self.pid = self.value("__import__('os').getpid()")

    def _connect(self) -> None:
        self.client = self.manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=TIMEOUT_S)
        self._channels = {
            channel.socket: name
            for name in ("iopub", "shell", "stdin")
            for channel in [getattr(self.client, f"{name}_channel")]
        }
        self._poller = zmq.Poller()
        for socket in self._channels:
            self._poller.register(socket, zmq.POLLIN)
        self.ok(_INSIDE, store_history=False)

    def messages(self) -> list[tuple[str, dict[str, Any]]]:
        """What has come, at least one unless nothing comes for a moment."""
        return [
            (name, getattr(self.client, f"{name}_channel").get_msg(timeout=0))
            for name in (self._channels[socket] for socket, _ in self._poller.poll(100))
        ]

    def take_strays(self) -> None:
        """Messages of cells that have ended."""
        self.strays += [message for _, message in self.messages()]

    def begin(
        self, code: str, *, allow_stdin: bool = False, answers: Iterable[str] = (), store_history: bool = True
    ) -> Running:
        message = self.client.execute(code, allow_stdin=allow_stdin or bool(answers), store_history=store_history)
        return Running(self, message, answers)

    def run(self, code: str, *, timeout: float = TIMEOUT_S, **options: Any) -> Result:
        return self.begin(textwrap.dedent(code), **options).result(timeout)

    def ok(self, code: str, **options: Any) -> Result:
        """`run`, where an error is the test's failure."""
        result = self.run(code, **options)
        if result.status != "ok":
            raise CellFailed(result.error.traceback if result.error else result)
        return result

    def wool(self, body: str, **options: Any) -> Result:
        return self.ok(wool(body), **options)

    def wool_error(self, body: str, **options: Any) -> CellError:
        result = self.run(wool(body), **options)
        assert result.error is not None, result
        return result.error

    def value(self, expression: str) -> Any:
        """Of an expression in a plain cell; a literal."""
        return ast.literal_eval(self.ok(f"print(repr({expression}))", store_history=False).stdout)

    def reset(self, timeout: float = TIMEOUT_S) -> None:
        self.strays.clear()
        self.ok("__import__('suite_state').reset()", store_history=False, timeout=timeout)

    def interrupt(self) -> None:
        self.manager.interrupt_kernel()

    def restart(self, *, now: bool = False) -> None:
        self.client.stop_channels()
        self.manager.restart_kernel(now=now)
        self._connect()

    def shutdown(self, *, now: bool = False) -> None:
        if self.manager.has_kernel:
            self.client.stop_channels()
            self.manager.shutdown_kernel(now=now)
        self.manager.cleanup_resources()
