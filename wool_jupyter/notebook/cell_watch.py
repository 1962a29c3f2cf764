"""The notebook's cells, as they begin and end, for the sake of names that background jobs are to bind.

pre_run_cell   ─▶ jobs are taken in, and those waited for that bind what the cell reads: or the cell is refused
post_run_cell  ─▶ which pending names has it bound itself?
"""

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from IPython.core.error import InputRejected

from wool_jupyter.errors import JobFailed
from wool_jupyter.notebook import reads, tracebacks
from wool_jupyter.notebook.capture import analyze
from wool_jupyter.notebook.interrupts import on_main_thread
from wool_jupyter.notebook.jobs import notice
from wool_jupyter.notebook.pending import Pending

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from wool_jupyter.notebook.background import Background


@dataclass(frozen=True)
class _Cell:
    """One that runs now. Cells may be nested (%%capture)."""

    settles: frozenset[str] = frozenset()  # names that it has bound or deleted when it has ended well
    placeholders: frozenset[str] = frozenset()  # pending names that it deletes, and that were not there


class _Placeholder:
    """Lets `del` find a name that is pending."""


class CellWatch:
    """Main thread only. `close` takes the hooks away."""

    def __init__(self, shell: "InteractiveShell", jobs: "Background", pending: Pending) -> None:
        self._shell = shell
        self._jobs = jobs
        self._pending = pending
        self._cells = [_Cell()]  # the one that submits the first job runs already
        self._gate = _Gate()
        shell.events.register("pre_run_cell", self._cell_begins)
        shell.events.register("post_run_cell", self._cell_ended)
        shell.ast_transformers.append(self._gate)

    def close(self) -> None:
        self._shell.events.unregister("pre_run_cell", self._cell_begins)
        self._shell.events.unregister("post_run_cell", self._cell_ended)
        self._shell.ast_transformers.remove(self._gate)

    @property
    def cell_runs(self) -> bool:
        return bool(self._cells)

    def _cell_begins(self, info: Any) -> None:
        if not on_main_thread():
            return
        self._cells.append(_Cell())
        try:
            self._jobs.cell_begins()
            if self._pending:
                self._cells[-1] = self._about_to_run(info)
        except (KeyboardInterrupt, JobFailed) as error:
            self._gate.reject(error)

    def _about_to_run(self, info: Any) -> _Cell:
        source = getattr(info, "transformed_cell", None)  # IPython 9.16
        try:
            source = source or self._shell.transform_cell(info.raw_cell)
            capture = analyze(source, self._shell.compile.flags)
            tree = ast.parse(source)
        except Exception:  # noqa: BLE001 (whatever a transformer raises: IPython shows it, and the cell does not run)
            return _Cell()
        self._jobs.cell_is_about_to_read(source, capture)
        pending, namespace = self._pending.names(), self._shell.user_ns
        missing = frozenset(
            name for name in reads.only_deleted(tree, capture) if name in pending and name not in namespace
        )
        namespace.update({name: _Placeholder() for name in missing})
        return _Cell(capture.settles, missing)

    def _cell_ended(self, result: Any) -> None:
        if not on_main_thread():
            return
        self._gate.open()
        cell = self._cells.pop() if self._cells else _Cell()
        namespace = self._shell.user_ns
        for name in cell.placeholders:
            if isinstance(namespace.get(name), _Placeholder):
                del namespace[name]
        self._jobs.cell_has_bound(cell.settles if getattr(result, "success", False) else frozenset())
        error = getattr(result, "error_in_exec", None)
        if isinstance(error, NameError) and error.name and (held := self._pending.holders({error.name})):
            notice(f"`{error.name}` is not bound yet: job {next(iter(held))} is to bind it (`%wool wait` waits for it)")
        if not self._cells:
            self._jobs.cell_has_ended()


class _Gate(ast.NodeTransformer):
    """Where IPython lets a cell be refused: a hook before it can't."""

    def __init__(self) -> None:
        self._rejection: BaseException | None = None

    def reject(self, error: BaseException) -> None:
        self._rejection = error

    def open(self) -> None:
        self._rejection = None

    def visit(self, node: ast.AST) -> ast.AST:
        error, self._rejection = self._rejection, None
        if error is None:
            return node
        rejected = _rejecting(error)
        tracebacks.show_plainly(rejected)
        raise rejected


def _rejecting(error: BaseException) -> Any:
    """The same for who sees it, and of the class that IPython wants."""
    kind = type(error)
    return type(kind.__name__, (InputRejected, kind), {"__module__": kind.__module__})(*error.args)
