"""`%%wool` and `%wool`: parse, call, show."""

import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class, needs_local_scope, no_var_expand
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
from traitlets import Bool, Float, Int

from wool_jupyter.errors import WoolError
from wool_jupyter.notebook import comment_form, on_demand, renaming, usage
from wool_jupyter.settings import PoolSettings

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from wool_jupyter.notebook.background import Background
    from wool_jupyter.notebook.runtime import Runtime

COMMANDS = tuple(usage.COMMANDS)

_DEFAULTS = PoolSettings()


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
    data_budget_bytes = Int(
        None,
        min=0,
        allow_none=True,
        help="Of large data that is kept in memory for workers, beside the variables; None: a quarter of what is free.",
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

    status_line = Bool(
        False,
        help="Under a cell that runs for more than 5 s: a line of text with its worker and what that uses. Emptied at its end.",
    ).tag(config=True)

    @magic_arguments("%wool")
    @argument(
        "-i",
        "--input",
        dest="inputs",
        nargs="+",
        action="append",
        metavar="NAMES",
        help=usage.OPTIONS["-i"][1],
    )
    @argument(
        "-o",
        "--output",
        dest="outputs",
        nargs="+",
        action="append",
        metavar="NAMES",
        help=usage.OPTIONS["-o"][1],
    )
    @argument("--bg", action="store_true", help=usage.OPTIONS["--bg"][1])
    @cell_magic
    def wool(self, line: str, cell: str) -> Any:
        """Run this cell in a worker process of this notebook's pool.

        Its output appears here while it runs, and the variables that it assigns are there afterwards. The first such cell
        starts the pool. Other cells wait until it has ended; ■ interrupts it. `%wool?` tells how to look after the pool.

        With `--bg` other cells run meanwhile. What the cell reads is shipped at once; what it assigns is bound when it has ended,
        between two cells, and a cell that reads such a name earlier waits for it. `_` is the job: `_.result()`, `await _`,
        `_.cancel()`.

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

            %%wool --bg
            forest = RandomForestClassifier().fit(X, y)     # the next cell runs at once, unless it reads `forest`
        """
        __tracebackhide__ = True
        options, _, comment = line.partition("#")
        if not usage.ASKS.isdisjoint(options.split()):
            print(usage.of_a_cell(), "The cell has not run. `%wool help` tells of all else.", sep="\n\n")
            return None
        arguments = self._cell_options(options, comment)
        inputs = renaming.renamed("-i", arguments.inputs)
        with _plainly():
            _wait_for(inputs)
        renaming.must_exist("-i", inputs, self.shell.user_ns)
        outputs = renaming.renamed("-o", arguments.outputs)
        with _beginning() as runtime:
            from wool_jupyter.notebook import jobs
            from wool_jupyter.notebook.shipment import Route

            route = Route(inputs, outputs)
            if arguments.bg:
                return self._background(runtime).submit(body=cell, settings=self.settings(), route=route)
            return jobs.run_cell(self.shell, runtime, body=cell, settings=self.settings(), route=route)

    def _background(self, runtime: "Runtime") -> "Background":
        if runtime.background is None:
            from wool_jupyter.notebook.background import Background

            runtime.background = Background(self.shell, runtime)
        return runtime.background

    def _cell_options(self, line: str, comment: str) -> Any:
        try:
            return _parsed(self.wool, line)
        except UsageError as error:
            said = usage.in_words(error)
            if comment_form.is_origin(comment):
                raise UsageError(f"`# wool: …` on the first line takes options of %%wool: {said}") from None
            raise UsageError(f"%%wool: {said}{_hint(line) if 'unrecognized' in said else ''}") from None

    @magic_arguments("wool")
    @argument(
        "action",
        nargs="?",
        default="status",
        choices=COMMANDS,
        help="What to do with the pool, or with background jobs; without one: status.",
    )
    @argument(
        "what",
        nargs="?",
        metavar="N | WORKER | JOB | CELL",
        help="Number of worker processes (with scale), or the worker (with restart and interrupt): the beginning of its name in "
        "`%%wool status` will do. Or numbers of jobs (with wait, cancel and output), or that of a cell (with output).",
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
        """Look at this notebook's pool and look after it. Anything else is Python that is run on a worker, as a cell is.

        `scale` makes it larger or smaller; busy workers end when their cells have. `restart` and `interrupt` take a worker, or all.
        `logs` shows what its processes wrote outside of cells, and crash reports; `doctor` what belongs into a bug report.
        `jobs` lists the cells that run in the background (`%%wool --bg`); `wait` waits for all of them or some, `cancel` ends some,
        `output` shows again what one has shown, or what was too much of a cell's output for the notebook.

        Examples::

            best = %wool search(grid)       # the value of an expression
            %wool output In[5]

            %wool start -n 4
            %wool status
            %wool dashboard
            %wool scale 2
            %wool restart 5f0c
            %wool logs -n 100
            %wool doctor
            %wool help
            %wool wait 3
            %wool stop
        """
        __tracebackhide__ = True
        namespace = self.shell.user_ns if local_ns is None else local_ns
        word = line.split(maxsplit=1)[0] if line.strip() else ""
        if word and word.partition("#")[0] not in {*COMMANDS, *usage.ASKS, ""}:
            return self._expression(line, namespace)
        if word in namespace or word in self.shell.user_ns:
            print(f"wool: `{word}` is the command here; `%wool ({word})` is the variable of this name", file=sys.stderr)
        return self._command(self.shell.var_expand(line))

    def _expression(self, line: str, namespace: dict[str, Any]) -> Any:
        __tracebackhide__ = True
        from wool_jupyter.notebook import line_form

        line_form.must_be_meant(line, {**self.shell.user_ns, **namespace}, commands=COMMANDS)
        with _beginning() as runtime:
            return line_form.run(self.shell, runtime, line, settings=self.settings(), namespace=namespace)

    def _command(self, line: str) -> Any:
        line = line.partition("#")[0]
        from wool_jupyter.notebook import job_words

        words = line.split()
        if words[:1] == ["help"] or not usage.ASKS.isdisjoint(words):
            about = [word for word in words if word in COMMANDS and word != "help"]
            print(usage.of_a_command(about[0]) if about else usage.of_all())
            return None
        if words and words[0] in job_words.WORDS and not self._is_about_a_cell(words):
            loaded = on_demand.loaded_runtime()
            with _plainly():
                job_words.run(*words, background=None if loaded is None else loaded.background)
            return None
        try:
            arguments = parse_argstring(self.wool_line, line)
        except UsageError as error:
            raise UsageError(
                f"{' '.join(['%wool', *words[:1]])}: {usage.in_words(error)}; `%wool help` tells more"
            ) from None
        from wool_jupyter.notebook import pool_words

        with _plainly():
            return pool_words.run(arguments, self)

    def _is_about_a_cell(self, words: list[str]) -> bool:
        """`%wool output N`: of a job if there is one of this number."""
        loaded = on_demand.loaded_runtime()
        jobs = {} if loaded is None or loaded.background is None else loaded.background.jobs
        numbers = [int(word) for word in words[1:] if word.isdecimal()]
        return words[0] == "output" and (any(word.startswith("-") for word in words) or jobs.keys().isdisjoint(numbers))

    @classmethod
    def words(cls) -> list[str]:
        """What `%wool` understands."""
        return [str(word) for action in cls.wool_line.parser._actions for word in action.choices or ()]

    @classmethod
    def options_of_a_cell(cls) -> list[str]:
        return sorted(str(option) for option in cls.wool.parser._option_string_actions)

    def settings(self) -> PoolSettings:
        return PoolSettings(
            workers=self.workers,
            result_budget_bytes=self.result_budget_bytes,
            data_budget_bytes=self.data_budget_bytes,
            output_budget_bytes=self.output_budget_bytes,
            start_timeout_s=self.start_timeout_s,
            status_line=self.status_line,
        )


@functools.lru_cache(64)  # most lines are empty; nobody changes what is parsed
def _parsed(magic: Callable[..., Any], line: str) -> Any:
    return parse_argstring(magic, line)


def settings_in(shell: "InteractiveShell") -> PoolSettings:
    """Those of `%config Wool`, once the extension is loaded."""
    registered = shell.magics_manager.registry.get(Wool.__name__)
    return PoolSettings() if registered is None else registered.settings()


def _wait_for(renamed: Mapping[str, str] | None) -> None:
    """Until those are bound that background jobs are to bind."""
    loaded = on_demand.loaded_runtime()
    if renamed and loaded is not None and loaded.background is not None:
        loaded.background.about_to_read(renamed.values())


@contextmanager
def _beginning() -> Iterator["Runtime"]:
    """Of a pool, unless there is one."""
    __tracebackhide__ = True
    with ExitStack() as begun:
        with _plainly():
            runtime = on_demand.runtime()
            begun.enter_context(runtime.beginning())
        yield runtime


@contextmanager
def _plainly() -> Iterator[None]:
    __tracebackhide__ = True
    try:
        yield
    except WoolError as error:
        from wool_jupyter.notebook import tracebacks

        tracebacks.show_plainly(error)
        raise


def _hint(options: str) -> str:
    if options.startswith("-n"):
        return " (`%wool start -n N` sets the number of workers)"
    return " (its options are `-i NAMES`, `-o NAMES` and `--bg`; `--help` tells more)"
