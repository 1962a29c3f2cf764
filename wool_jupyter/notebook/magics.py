"""`%%wool` and `%wool`: parse, call, show."""

import builtins
import keyword
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class, needs_local_scope, no_var_expand
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
from traitlets import Float, Int

from wool_jupyter import host
from wool_jupyter.errors import WoolError
from wool_jupyter.notebook import comment_form, threads
from wool_jupyter.settings import PoolSettings

if TYPE_CHECKING:
    from wool_jupyter.notebook.runtime import Runtime

COMMANDS = ("start", "stop", "restart", "status", "output", "logs", "doctor")

_DEFAULTS = PoolSettings()
_MANY = 4  # workers per CPU are worth a word
_SHOWN = {"logs": "a log", "output": "output"}
_NO_POOL = "a pool needs at least one worker"


@magics_class
class Wool(Magics):  # type: ignore[misc]
    """Options by `%config Wool.workers = 4`."""

    workers = Int(
        None,
        min=1,
        allow_none=True,
        help="Number of worker processes; None: one and a spare, more when work waits, up to the usable CPUs.",
    ).tag(config=True)
    result_budget_bytes = Int(
        None,
        min=0,
        allow_none=True,
        help="A larger result stays on its worker; None: a quarter of the memory that is free.",
    ).tag(config=True)
    output_budget_bytes = Int(
        _DEFAULTS.output_budget_bytes,
        min=1,
        allow_none=True,
        help="A cell's text beyond this is left out of the notebook, and `%wool output` has it; None: all is shown.",
    ).tag(config=True)
    start_timeout_s = Float(_DEFAULTS.start_timeout_s, min=0, help="How long one worker may take to start.").tag(
        config=True
    )

    @magic_arguments("%wool")
    @argument(
        "-i",
        "--input",
        dest="inputs",
        nargs="+",
        action="append",
        metavar="NAMES",
        help="Variables that the cell gets, separated by commas, instead of those that it reads; `new=old` renames one.",
    )
    @argument(
        "-o",
        "--output",
        dest="outputs",
        nargs="+",
        action="append",
        metavar="NAMES",
        help="Variables that come back, separated by commas and whatever their size, instead of all that the cell assigns; "
        "`new=old` renames one.",
    )
    @cell_magic
    def wool(self, line: str, cell: str) -> Any:
        """Run this cell in a worker process of this notebook's pool.

        Its output appears here while it runs, and the variables that it assigns are there afterwards. The first such cell
        starts the pool. Other cells wait until it has ended; ■ interrupts it. `%wool?` tells how to look after the pool.

        Examples::

            %%wool
            model.fit(X, y)                 # model is fitted here, too

            %%wool
            scores = {c: cross_val_score(SVC(C=c), X, y).mean() for c in (0.1, 1, 10)}

            %%wool
            import matplotlib.pyplot as plt
            plt.plot(history)               # the figure appears under the cell

            %%wool -i frame=small -o result
            result = summary(frame)         # of `small`, and all else that is assigned stays away
        """
        __tracebackhide__ = True
        options, _, comment = line.partition("#")
        arguments = self._cell_options(options, comment)
        inputs = _renamed("-i", arguments.inputs)
        _must_exist("-i", inputs, self.shell.user_ns)
        outputs = _renamed("-o", arguments.outputs)
        with _plainly():
            runtime = _runtime()
        from wool_jupyter.notebook import exchange, jobs

        route = exchange.Route(inputs, outputs)
        return jobs.run_cell(self.shell, runtime, body=cell, settings=self._settings(), route=route)

    def _cell_options(self, line: str, comment: str) -> Any:
        try:
            return parse_argstring(self.wool, line)
        except UsageError as error:
            if comment_form.is_origin(comment):
                raise UsageError(f"`# wool: …` on the first line takes options of %%wool: {error}") from None
            hint = " (`%wool start -n N` sets the number of workers)" if "unrecognized" in str(error) else ""
            raise UsageError(f"%%wool: {error}{hint}") from None

    @magic_arguments("wool")
    @argument(
        "action",
        nargs="?",
        default="status",
        choices=COMMANDS,
        help="What to do with the pool; without one: status.",
    )
    @argument(
        "what",
        nargs="?",
        metavar="CELL",
        help="The number of a cell (with output); without one: the last whose output was too much.",
    )
    @argument(
        "-n",
        "--workers",
        "--lines",
        dest="number",
        type=int,
        metavar="N",
        help="Number of worker processes (with start and restart), or of lines (with logs and output).",
    )
    @no_var_expand
    @needs_local_scope
    @line_magic("wool")
    def wool_line(self, line: str, local_ns: dict[str, Any] | None = None) -> Any:
        """Start, stop, restart or look at this notebook's pool. Anything else is Python that is run on a worker, as a cell is.

        `output` shows what was too much of a cell's output for the notebook, `logs` what the pool's processes wrote outside of
        cells, and crash reports; `doctor` what belongs into a bug report.

        Examples::

            best = %wool search(grid)       # the value of an expression
            %wool output 5

            %wool start -n 4
            %wool status
            %wool logs -n 100
            %wool doctor
            %wool stop
        """
        __tracebackhide__ = True
        word = line.split(maxsplit=1)[0] if line.strip() else ""
        namespace = self.shell.user_ns if local_ns is None else local_ns
        if word and word not in COMMANDS:
            return self._expression(line, namespace)
        if word in namespace or word in self.shell.user_ns:
            print(f"wool: `{word}` is the command here; `%wool ({word})` is the variable of this name", file=sys.stderr)
        return self._command(self.shell.var_expand(line))

    def _command(self, line: str) -> Any:
        arguments = parse_argstring(self.wool_line, line)
        action, number = arguments.action, arguments.number
        if arguments.what is not None and action != "output":
            raise UsageError(f"%wool {action} takes no `{arguments.what}`")
        if number is not None:
            if action not in ("start", "restart", "logs", "output"):
                raise UsageError(f"%wool {action} takes no -n")
            if number < 1:
                what = (
                    _NO_POOL if action in ("start", "restart") else f"{_SHOWN[action]} is shown by lines, at least one"
                )
                raise UsageError(f"{what}, not {number}")
            if action in ("start", "restart"):
                self.workers = number
        with _plainly():
            match action:
                case "logs":
                    return self._logs(number)
                case "output":
                    return self._output(arguments.what, number)
                case _:
                    return getattr(self, f"_{action}")()

    def _expression(self, line: str, namespace: dict[str, Any]) -> Any:
        __tracebackhide__ = True
        _must_be_meant(line, {**vars(builtins), **self.shell.user_ns, **namespace})
        with _plainly():
            runtime = _runtime()
        from wool_jupyter.notebook import jobs, source

        value = jobs.run_cell(
            self.shell,
            runtime,
            body=source.without_semicolon(line),
            settings=self._settings(),
            prepare=source.prepare_line,
            namespace=None if namespace is self.shell.user_ns else {**self.shell.user_ns, **namespace},
        )
        return None if source.is_silenced(self.shell, line) else value

    def _settings(self) -> PoolSettings:
        return PoolSettings(
            workers=self.workers,
            result_budget_bytes=self.result_budget_bytes,
            output_budget_bytes=self.output_budget_bytes,
            start_timeout_s=self.start_timeout_s,
        )

    def _start(self) -> None:
        runtime = _runtime()
        from wool_jupyter.notebook import jobs

        pool, just_now = jobs.started_pool(runtime, self._settings())
        if pool.crew.size > _MANY * host.usable_cpus():
            print(f"wool: {pool.crew.size} worker processes share {host.usable_cpus()} CPUs")
        if just_now:
            return
        if self.workers is not None and self.workers > pool.crew.size:
            runtime.bridge.enter(pool.crew.grow(self.workers)).result()
            print(f"wool: the pool grows to {pool.crew.size} worker processes")
        else:
            print(f"wool: a pool of {pool.crew.size} runs already; `%wool restart -n N` makes it smaller")

    def _stop(self) -> None:
        runtime = _runtime_if_loaded()
        print("wool: stopped the pool" if runtime is not None and runtime.stop() else "wool: no pool runs")

    def _restart(self) -> None:
        if (runtime := _runtime_if_loaded()) is not None:
            runtime.stop()
        self._start()

    def _status(self) -> None:
        runtime = _runtime_if_loaded()
        pool = None if runtime is None else runtime.running
        if runtime is None or pool is None:
            print("wool: no pool runs; the next %%wool cell starts one")
            return
        for worker in runtime.workers():
            print(f"worker {worker.uid.hex[:8]}  {worker}")
        if pool.crew.starting:
            print(f"{pool.crew.starting} more on the way")

    def _logs(self, lines: int | None) -> None:
        from wool_jupyter.notebook import logs

        lines = lines or logs.LINES
        runtime = _runtime_if_loaded()
        if runtime is not None and runtime.places:
            print(logs.show(runtime.places[0], lines=lines))
        elif runtime is not None and runtime.failed_log is not None:
            print(logs.show_failed(runtime.failed_log, lines=lines))
        else:
            print("wool: no pool runs, so there is no log")

    def _output(self, cell: str | None, lines: int | None) -> Any:
        if cell is not None and not cell.isdecimal():
            raise UsageError(
                f"%wool output takes the number of a cell, the one in brackets beside it, and not `{cell}`"
            )
        runtime = _runtime_if_loaded()
        left_out = None if runtime is None else runtime.left_out.find(None if cell is None else int(cell))
        if runtime is None or left_out is None:
            known = [] if runtime is None else runtime.left_out.cells()
            have = f"; there is some of {', '.join(map(str, known))}" if known else ""
            print(f"wool: nothing was left out of the output of {'any cell' if cell is None else f'cell {cell}'}{have}")
            return None
        from wool_jupyter.notebook.left_out import Recalled

        return Recalled(self.shell, left_out, budget_bytes=self.output_budget_bytes, lines=lines)

    def _doctor(self) -> None:
        from wool_jupyter.notebook import doctor

        print(doctor.render(doctor.gather(_runtime_if_loaded())))


def _renamed(option: str, given: list[list[str]] | None) -> dict[str, str] | None:
    """`a, b=c` as {"a": "a", "b": "c"}; the option may be given more than once."""
    if given is None:
        return None
    renamed: dict[str, str] = {}
    for part in (part for words in given for part in "".join(words).split(",")):
        new, _, old = part.partition("=")
        for name in (new, old or new):
            if not name.isidentifier() or keyword.iskeyword(name):
                raise UsageError(f"{option} takes names of variables, separated by commas, and `{part}` is none")
        if new in renamed:
            raise UsageError(f"{option} names `{new}` twice")
        renamed[new] = old or new
    return renamed


def _must_exist(option: str, renamed: Mapping[str, str] | None, namespace: Mapping[str, Any]) -> None:
    for name in (renamed or {}).values():
        if name not in namespace:
            import difflib

            similar = difflib.get_close_matches(name, namespace, n=1, cutoff=0.8)
            hint = f" (did you mean `{similar[0]}`?)" if similar else ""
            raise UsageError(f"{option}: the notebook has no variable `{name}`{hint}")


def _must_be_meant(line: str, names: Mapping[str, Any]) -> None:
    """A command with a slip in it is no expression."""
    import difflib

    word = line.split(maxsplit=1)[0]
    if not word.isidentifier() or keyword.iskeyword(word) or word in names:
        return
    similar = difflib.get_close_matches(word, COMMANDS, n=1, cutoff=0.7)
    if similar or line.strip() == word:
        hint = f": did you mean `%wool {similar[0]}`?" if similar else f" ({', '.join(COMMANDS)})"
        raise UsageError(f"%wool: `{word}` is neither a variable nor a command{hint}")


def _runtime_if_loaded() -> "Runtime | None":
    """For what only looks: it has to work, too, where grpc can't be imported."""
    loaded = sys.modules.get("wool_jupyter.notebook.runtime")
    return None if loaded is None else cast("Runtime", loaded.runtime())


@contextmanager
def _plainly() -> Iterator[None]:
    __tracebackhide__ = True
    try:
        yield
    except WoolError as error:
        from wool_jupyter.notebook import tracebacks

        tracebacks.show_plainly(error)
        raise


def _runtime() -> "Runtime":
    """grpc and the rest of the pool's side are imported by the first cell that needs them, and start threads then."""
    if "wool_jupyter.notebook.runtime" not in sys.modules:
        threads.try_out()
    from wool_jupyter.notebook.runtime import runtime

    return runtime()
