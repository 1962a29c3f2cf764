"""IPython without a front end: one shell per worker, one namespace per cell, everything that it shows an event.

Private names of IPython 9 used here: `_showtraceback`, `_tee`, `_db`.
"""

import asyncio
import atexit
import builtins
import contextlib
import getpass
import os
import sys
import types
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from IPython.core import interactiveshell
from IPython.core.autocall import ZMQExitAutocall
from IPython.core.compilerop import CachingCompiler
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.error import UsageError
from IPython.core.history import HistoryManager
from IPython.core.interactiveshell import ExecutionResult, InteractiveShell, InteractiveShellABC
from traitlets import Any as AnyTrait
from traitlets import Instance, Type
from traitlets.config import Config

from wool_jupyter.wire.cells import CellRequest
from wool_jupyter.worker.cell.gate import Gate
from wool_jupyter.worker.cell.loops import CellLoop, run_nested


@dataclass
class CellEnd:
    value: Any = None  # of the last expression
    error: BaseException | None = None
    payload: list[Any] = field(default_factory=list)


class CellCompiler(CachingCompiler):  # type: ignore[misc]
    """Files the running cell under the kernel's name for it."""

    request: CellRequest | None = None

    def get_code_name(self, raw_code: str, transformed_code: str, number: int) -> str:
        if self.request is not None and raw_code is self.request.source:
            return self.request.filename
        return str(super().get_code_name(raw_code, transformed_code, number))


class LastValueHook(DisplayHook):  # type: ignore[misc]
    """Keeps the last value for the kernel, which shows it and owns `_` and Out. Earlier ones (`ast_node_interactivity`) are shown
    as they come."""

    def __call__(self, result: Any = None) -> None:
        if result is None or self.semicolon_at_end_of_expression(self.shell.request.source):
            return
        if self.shell.last_value is not None:
            data, metadata = self.shell.display_formatter.format(self.shell.last_value)
            self.shell.show(data, metadata)
        self.shell.last_value = result
        if self.exec_result is not None:
            self.exec_result.result = result


class EventPublisher(DisplayPublisher):  # type: ignore[misc]
    def publish(
        self,
        data: dict[str, Any],
        metadata: dict[str, Any] | None = None,
        *,
        transient: dict[str, Any] | None = None,
        update: bool = False,
        **_: Any,
    ) -> None:
        self._validate_data(data, metadata)
        self.shell.show(data, metadata or {}, transient, update)

    def clear_output(self, wait: bool = False) -> None:
        self.shell.clear(wait)


class ZMQInteractiveShell(InteractiveShell):  # type: ignore[misc]
    """Named like ipykernel's: pandas, rich, tqdm and many others look for that name to know that they are in a notebook."""

    displayhook_class = Type(LastValueHook)
    display_pub_class = Type(EventPublisher)
    compiler_class = Type(CellCompiler)
    exiter = Instance(ZMQExitAutocall)
    gate = Instance(Gate)
    show = AnyTrait()  # (data, metadata, transient, update)
    clear = AnyTrait()  # (wait)
    ask = AnyTrait()  # (prompt, password) -> str; blocks the main thread
    fail = AnyTrait()  # (error, lines of its traceback)

    request: CellRequest
    last_value: Any = None
    notebook_is_elsewhere = True  # `%load_ext wool_jupyter` in a cell is for the kernel
    _db: dict[str, Any] | None = None
    _depth = 0  # of user code: an error inside a nested run_cell is shown where it happens

    def _exiter_default(self) -> ZMQExitAutocall:
        return ZMQExitAutocall(self)

    # What a kernel has, and a worker does without.

    def init_ipython_dir(self, ipython_dir: Any) -> None:
        """No directory is made: the base class creates ~/.ipython/profile_default."""

    def init_profile_dir(self, profile_dir: Any) -> None:
        self.profile_dir = None

    def init_virtualenv(self) -> None:
        """The worker runs the kernel's interpreter."""

    def init_history(self) -> None:
        self.history_manager = HistoryManager(shell=self, parent=self, enabled=False, hist_file=":memory:")

    def init_completer(self) -> None:
        self.Completer = types.SimpleNamespace(namespace={}, global_namespace={})

    def init_magics(self) -> None:
        super().init_magics()
        self.register_magic_function(_wool_elsewhere, "line", "wool")
        self.register_magic_function(_wool_already, "cell", "wool")
        for name in _OF_THE_SESSION:
            self.register_magic_function(partial(_session_elsewhere, name), "line", name)

    def init_hooks(self) -> None:
        super().init_hooks()
        self.set_hook("show_in_pager", _page, 99)

    @property
    def db(self) -> Any:
        """`%cd` and `%store` write here; it ends with the worker."""
        if self._db is None:
            self._db = {}
        return self._db

    @db.setter
    def db(self, value: Any) -> None:
        self._db = value

    def _tee(self, channel: str) -> Any:
        """The base class keeps a copy of all that is printed."""
        return contextlib.nullcontext()

    def enable_gui(self, gui: Any = None) -> None:
        """No event loop of a toolkit runs here."""

    def ask_exit(self) -> None:
        raise SystemExit

    def set_next_input(self, s: str, replace: bool = False) -> None:
        self.payload_manager.write_payload({"source": "set_next_input", "text": s, "replace": replace})

    def raw_input(self, prompt: object = "") -> str:
        __tracebackhide__ = True
        return str(self.ask(str(prompt), False))

    def getpass(self, prompt: object = "Password: ", stream: Any = None) -> str:
        __tracebackhide__ = True
        return str(self.ask(str(prompt), True))

    # One cell.

    def enter(self, request: CellRequest, module: types.ModuleType) -> None:
        self.request = request
        _look_like_the_kernels(self, terminal=request.terminal)
        self._be_in(module)
        self.init_user_ns()
        self.execution_count = request.number
        self.compile.flags = request.compiler_flags
        self.compile.request = request
        self.asks()

    def leave(self, module: types.ModuleType) -> None:
        """For an empty one: what the cell has read or made lives no longer than who needs it."""
        self._be_in(module)

    def _be_in(self, module: types.ModuleType) -> None:
        self.user_module, self.user_ns = module, vars(module)
        self.ns_table = {"user_global": self.user_ns, "user_local": self.user_ns, "builtin": vars(builtins)}

    def asks(self) -> None:
        """Also where a body has put something else in its place."""
        builtins.input, getpass.getpass = self.raw_input, self.getpass

    def run(self, body_ended: Callable[[], object]) -> CellEnd:
        """On the main thread, in the cell's own context. No exception of the cell leaves it. `body_ended` is called before the
        hooks that show open figures."""
        end = CellEnd()
        result = None
        try:
            result = self._run_body()
        except BaseException as error:  # noqa: BLE001 (a transformer's KeyboardInterrupt, InputRejected, ...)
            end.error = error
        if result is not None:
            end.error = result.error_before_exec or result.error_in_exec
            if isinstance(result.error_before_exec, SyntaxError):
                result.error_before_exec.__traceback__ = None  # the compiler's: it is shown without who has called that
        body_ended()
        for event, args in (("post_execute", ()), ("post_run_cell", (result,))):
            with contextlib.suppress(KeyboardInterrupt), self._inside_user_code():
                self.gate.region(self.events.trigger, event, *args)
        end.value = None if end.error is not None else self.last_value
        end.payload = self.payload_manager.read_payload()
        self.payload_manager.clear_payload()
        return end

    def _run_body(self) -> Any:
        request = self.request
        coroutine = self.run_cell_async(request.source, transformed_cell=request.transformed)
        if self.should_run_async(request.source, transformed_cell=request.transformed):
            return self._run_in_loop(coroutine)
        try:
            coroutine.send(None)
        except StopIteration as stop:
            return stop.value
        raise RuntimeError("a cell without top-level await waited")

    def _run_in_loop(self, coroutine: Any) -> Any:
        """A fresh loop, gone at the end of the cell with all that still runs in it. The body has no loop before that."""
        loop = CellLoop()
        asyncio.set_event_loop(loop)
        task = loop.create_task(coroutine)
        self.gate.waits_in(lambda: loop.call_soon_threadsafe(task.cancel))
        try:
            return self.gate.region(loop.run_until_complete, task)
        finally:
            self.gate.waits_in(None)
            for clean_up in (_cancel_all, loop.shutdown_asyncgens, loop.shutdown_default_executor):
                with contextlib.suppress(KeyboardInterrupt):
                    self.gate.region(loop.run_until_complete, clean_up())
            asyncio.set_event_loop(None)
            loop.close()

    async def run_code(self, code_obj: types.CodeType, result: Any = None, *, async_: bool = False) -> bool:
        """The base method, with the interrupt gate around the user's code alone, and nothing rendered: the kernel does that."""
        hook, sys.excepthook = sys.excepthook, self.excepthook
        try:
            with self._inside_user_code():
                if async_:
                    await self._awaited(eval(code_obj, self.user_ns, self.user_ns))
                else:
                    self.gate.region(exec, code_obj, self.user_ns, self.user_ns)
        except BaseException as error:  # noqa: BLE001 (the outcome is data, whatever its class)
            if result is not None:
                result.error_in_exec = error
            if self._depth:
                self.showtraceback(running_compiled_code=True)
            return True
        else:
            return False
        finally:
            sys.excepthook = hook

    async def _awaited(self, awaitable: Awaitable[Any]) -> Any:
        try:
            return await awaitable
        except asyncio.CancelledError as error:
            if not self.gate.cancelled:
                raise
            raise KeyboardInterrupt().with_traceback(error.__traceback__) from None

    @contextlib.contextmanager
    def _inside_user_code(self) -> Iterator[None]:
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    def _showtraceback(self, etype: type, evalue: BaseException, stb: list[str]) -> None:
        if self._depth:  # of a nested run_cell, a script, a callback: shown, not raised
            self.fail(evalue, stb)

    def get_parent(self) -> dict[str, Any]:
        return {"header": {"msg_id": self.request.message}} if self.request.message else {}

    def forget(self) -> None:
        """Hold on to no object of the cell."""
        self.last_value = self.displayhook.exec_result = None
        self.last_execution_result = ExecutionResult(None)  # not None: `%xdel` looks into it
        for name in ("last_type", "last_value", "last_traceback", "last_exc"):
            vars(sys).pop(name, None)
        for formatter in (self.InteractiveTB, self.SyntaxTB):
            formatter.tb = formatter.etype = formatter.value = None
        self.history_manager.output_hist.clear()
        if sys.version_info < (3, 14):
            asyncio.set_event_loop_policy(None)  # get_event_loop() works again in the next cell


class TerminalInteractiveShell(ZMQInteractiveShell):
    """What it is for a kernel that is IPython in a terminal."""

    system = ZMQInteractiveShell.system_raw


InteractiveShellABC.register(ZMQInteractiveShell)

_terminal_size = os.get_terminal_size


def _look_like_the_kernels(shell: ZMQInteractiveShell, *, terminal: tuple[int, int] | None) -> None:
    """To those who ask where they are: by the name of the shell's class, by modules (tqdm.auto), by options (older tqdm), by the
    terminal's size. A worker serves one kernel, but may be started before it is known which."""
    if terminal is not None:
        shell.__class__ = TerminalInteractiveShell
        shell.config.pop("IPKernelApp", None)
        if sys.modules.get("ipykernel.zmqshell") is _NOTEBOOK:
            del sys.modules["ipykernel.zmqshell"]
        os.get_terminal_size = lambda fd=1: os.terminal_size(terminal) if fd in (0, 1, 2) else _terminal_size(fd)


_NOTEBOOK: Any = types.ModuleType("ipykernel.zmqshell")
_NOTEBOOK.ZMQInteractiveShell = ZMQInteractiveShell


async def _cancel_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _wool_elsewhere(line: str) -> None:
    """The pool is looked after where the notebook is."""
    raise UsageError(
        f"`%wool {line}` looks after the pool from the notebook, and this cell runs on a worker: put it into a cell without %%wool"
    )


# They look at the cells that have run, or at what the user keeps between notebooks: here they would find nothing, without a word.
_OF_THE_SESSION = tuple("hist history macro notebook pastebin recall rep rerun save store".split())


def _session_elsewhere(name: str, line: str) -> None:
    del line
    raise UsageError(
        f"`%{name}` is about the notebook's session, and this cell runs on a worker: put it into a cell without %%wool"
    )


def _wool_already(line: str, cell: str) -> None:
    del line, cell
    raise UsageError("this cell runs on a worker already: it needs one `%%wool` (or `# wool`), on top")


def _system(command: str) -> int:
    from wool_jupyter.worker.cell import commands  # pexpect, which few cells need

    return commands.system(command)


def _page(shell: ZMQInteractiveShell, strg: Any, start: int = 0, screen_lines: int = 0, pager_cmd: Any = None) -> None:
    data = strg if isinstance(strg, dict) else {"text/plain": strg}
    shell.payload_manager.write_payload({"source": "page", "data": data, "start": max(0, start)})


def make_shell(gate: Gate, **events: Any) -> ZMQInteractiveShell:
    """`events` are `show`, `clear`, `ask` and `fail`."""
    config = Config()
    config.IPKernelApp = Config()
    config.HistoryManager.enabled = False
    shell: ZMQInteractiveShell = ZMQInteractiveShell.instance(config=config, gate=gate, **events)
    atexit.unregister(shell.atexit_operations)
    sys.modules.setdefault("ipykernel.zmqshell", _NOTEBOOK)
    asyncio.run = run_nested
    interactiveshell.system = _system
    return shell
