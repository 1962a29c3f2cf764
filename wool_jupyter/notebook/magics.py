"""`%%wool` and `%wool`: parse, call, show."""

import keyword
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class, needs_local_scope, no_var_expand
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
from traitlets import Bool, Float, Int

from wool_jupyter import host
from wool_jupyter.errors import WoolError
from wool_jupyter.notebook import comment_form, job_words, threads
from wool_jupyter.settings import PoolSettings

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from wool_jupyter.notebook.background import Background
    from wool_jupyter.notebook.runtime import Runtime
    from wool_jupyter.pool.kernel_pool import KernelPool

COMMANDS = (
    *("status", "start", "scale", "stop", "restart", "interrupt", "logs", "dashboard", "doctor"),
    *job_words.WORDS,
)

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
    @argument(
        "--bg",
        action="store_true",
        help="Return at once with a job: the cell runs in the background, and its output appears here all the same.",
    )
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
        arguments = self._cell_options(options, comment)
        inputs = _renamed("-i", arguments.inputs)
        with _plainly():
            _wait_for(inputs)
        _must_exist("-i", inputs, self.shell.user_ns)
        outputs = _renamed("-o", arguments.outputs)
        with _plainly():
            runtime = _runtime()
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
            %wool output 5

            %wool start -n 4
            %wool status
            %wool dashboard
            %wool scale 2
            %wool restart 5f0c
            %wool logs -n 100
            %wool doctor
            %wool wait 3
            %wool stop
        """
        __tracebackhide__ = True
        namespace = self.shell.user_ns if local_ns is None else local_ns
        word = line.split(maxsplit=1)[0] if line.strip() else ""
        if word and word.partition("#")[0] not in {*COMMANDS, ""}:
            return self._expression(line, namespace)
        if word in namespace or word in self.shell.user_ns:
            print(f"wool: `{word}` is the command here; `%wool ({word})` is the variable of this name", file=sys.stderr)
        return self._command(self.shell.var_expand(line))

    def _expression(self, line: str, namespace: dict[str, Any]) -> Any:
        __tracebackhide__ = True
        from wool_jupyter.notebook import line_form

        line_form.must_be_meant(line, {**self.shell.user_ns, **namespace}, commands=COMMANDS)
        with _plainly():
            runtime = _runtime()
        return line_form.run(self.shell, runtime, line, settings=self.settings(), namespace=namespace)

    def _command(self, line: str) -> Any:
        line = line.partition("#")[0]
        if (words := line.split()) and words[0] in job_words.WORDS and not self._is_about_a_cell(words):
            runtime = _runtime_if_loaded()
            with _plainly():
                job_words.run(*words, background=None if runtime is None else runtime.background)
            return None
        arguments = parse_argstring(self.wool_line, line)
        self._check(arguments)
        with _plainly():
            match arguments.action:
                case "start":
                    self._start(arguments.number)
                case "scale":
                    self._scale(int(arguments.what))
                case "restart" if arguments.what:
                    self._restart_worker(arguments.what)
                case "restart":
                    self._restart(arguments.number)
                case "interrupt":
                    self._interrupt(arguments.what or "")
                case "logs":
                    self._logs(arguments.number)
                case "output":
                    return self._output(arguments.what, arguments.number)
                case "dashboard":
                    return self._dashboard()
                case action:
                    getattr(self, f"_{action}")()
        return None

    def _is_about_a_cell(self, words: list[str]) -> bool:
        """`%wool output N`: of a job if there is one of this number."""
        runtime = _runtime_if_loaded()
        jobs = {} if runtime is None or runtime.background is None else runtime.background.jobs
        return words[0] == "output" and not any(word.isdecimal() and int(word) in jobs for word in words[1:])

    @staticmethod
    def _check(arguments: Any) -> None:
        action, number, what = arguments.action, arguments.number, arguments.what
        if number is not None:
            if action not in ("start", "restart", "logs", "output"):
                hint = f"; `%wool scale {number}` changes the number of workers" if action == "scale" else ""
                raise UsageError(f"%wool {action} takes no -n{hint}")
            if number < 1:
                needs = f"{_SHOWN[action]} is shown by lines, at least one" if action in _SHOWN else _NO_POOL
                raise UsageError(f"{needs}, not {number}")
        if action == "scale":
            if what is None or not what.lstrip("-").isdecimal():
                raise UsageError(
                    f"%wool scale takes a number of workers, as in `%wool scale 4`, not {what or 'nothing'}"
                )
            if int(what) < 1:
                raise UsageError(f"{_NO_POOL}, not {what}; `%wool stop` ends it")
        elif what is not None and action not in ("restart", "interrupt", "output"):
            hint = f"; `%wool {action} -n {what}` would" if action in ("start", "logs") and what.isdecimal() else ""
            raise UsageError(f"%wool {action} does not take `{what}`{hint}")
        elif what is not None and number is not None and action == "restart":
            raise UsageError(f"%wool restart takes a worker or -n, not both: it was given `{what}` and -n {number}")

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

    def _start(self, number: int | None) -> None:
        runtime = _runtime()
        from wool_jupyter.notebook import jobs

        settings = self.settings() if number is None else replace(self.settings(), workers=number)
        pool, just_now = jobs.started_pool(runtime, settings)
        wanted = settings.workers
        if just_now:
            self._keep(number)
        elif wanted is not None and wanted > pool.crew.size:
            runtime.bridge.enter(pool.crew.grow(wanted)).result()
            self._keep(number)
            print(f"wool: the pool grows to {pool.crew.size} worker processes")
        else:
            hint = "" if wanted is None or wanted == pool.crew.size else f"; `%wool scale {wanted}` makes it smaller"
            print(f"wool: a pool of {pool.crew.size} runs already{hint}")
        self._say_if_many(pool.crew.size)

    def _keep(self, number: int | None) -> None:
        """A number that has been heeded is that of the pools to come, too."""
        if number is not None:
            self.workers = number

    @staticmethod
    def _say_if_many(workers: int) -> None:
        if workers > _MANY * host.usable_cpus():
            print(f"wool: {workers} worker processes share {host.usable_cpus()} CPUs")

    def _scale(self, number: int) -> None:
        runtime = _runtime_if_loaded()
        pool = None if runtime is None else runtime.running
        if runtime is None or pool is None:
            self._start(number)
            return
        before = pool.crew.size
        runtime.bridge.enter(pool.crew.scale(number)).result()
        self._keep(number)
        from wool_jupyter.notebook import feed

        pinned = sum(bool(worker.keeps) for worker in feed.door().glance().workers)
        if pinned > number:
            print(f"wool: the pool shrinks to {pinned} worker processes: each of them keeps values of this notebook")
        elif number == before:
            print(f"wool: the pool has {number} already")
        else:
            print(
                f"wool: the pool {'grows' if number > before else 'shrinks'} to {number} worker process{'es' * (number > 1)}"
            )
        self._say_if_many(number)

    def _stop(self) -> None:
        stopped = self._stopped()
        print("wool: no pool runs" if stopped is None else f"wool: stopped the pool{stopped}")

    def _restart(self, number: int | None) -> None:
        if stopped := self._stopped():
            print(f"wool: stopped the pool{stopped}")
        self._start(number)

    @staticmethod
    def _stopped() -> str | None:
        """What has ended with it, in words; None if no pool ran."""
        runtime = _runtime_if_loaded()
        if runtime is None:
            return None
        jobs = [] if runtime.background is None else runtime.background.unended()
        if not runtime.stop():
            return None
        return f", and with it {job_words.listed(jobs)}" if jobs else ""

    def _restart_worker(self, prefix: str) -> None:
        runtime, pool = self._running()
        from wool_jupyter.notebook import by_hand

        worker = runtime.bridge.enter(by_hand.restart(pool, prefix)).result()
        lost = f"; {worker.keeps} values that lived there are gone" if worker.keeps else ""
        print(f"wool: ended worker {worker.uid[: by_hand.SHORT]}, and another takes its place{lost}")

    def _interrupt(self, prefix: str) -> None:
        runtime, pool = self._running()
        from wool_jupyter.notebook import by_hand

        workers = runtime.bridge.enter(by_hand.interrupt(pool, prefix)).result()
        names = ", ".join(worker.uid[: by_hand.SHORT] for worker in workers)
        print(f"wool: interrupted {names}" if names else "wool: no worker runs anything")

    def _running(self) -> "tuple[Runtime, KernelPool]":
        runtime = _runtime_if_loaded()
        pool = None if runtime is None else runtime.running
        if runtime is None or pool is None:
            raise UsageError("no pool runs; the next %%wool cell starts one")
        return runtime, pool

    def _status(self) -> None:
        from wool_jupyter.notebook import feed, table

        print(table.as_text(feed.door().take()))
        runtime = _runtime_if_loaded()
        if runtime is not None and runtime.running is not None and (use := runtime.store.use()).kept:
            print(f"wool: {table.data_in_words(use)}")

    def _dashboard(self) -> Any:
        from wool_jupyter.notebook import dashboard

        return dashboard.dashboard()

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
            raise UsageError(f"%wool output takes numbers of jobs, or that of a cell, and not `{cell}`")
        runtime = _runtime_if_loaded()
        left_out = None if runtime is None else runtime.left_out.find(None if cell is None else int(cell))
        if runtime is None or left_out is None:
            known = [] if runtime is None else runtime.left_out.cells()
            have = f" (there is some of {', '.join(map(str, known))})" if known else ""
            if cell is not None:
                raise UsageError(
                    f"%wool output: there is no job {cell}, and nothing was left out of the output of cell {cell}{have}"
                )
            print(f"wool: nothing was left out of the output of any cell{have}")
            return None
        from wool_jupyter.notebook.left_out import Recalled

        return Recalled(self.shell, left_out, budget_bytes=self.output_budget_bytes, lines=lines)

    def _doctor(self) -> None:
        from wool_jupyter.notebook import doctor

        print(doctor.render(doctor.gather(_runtime_if_loaded())))


def settings_in(shell: "InteractiveShell") -> PoolSettings:
    """Those of `%config Wool`, once the extension is loaded."""
    registered = shell.magics_manager.registry.get(Wool.__name__)
    return PoolSettings() if registered is None else registered.settings()


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


def _wait_for(renamed: Mapping[str, str] | None) -> None:
    """Until those are bound that background jobs are to bind."""
    runtime = _runtime_if_loaded()
    if renamed and runtime is not None and runtime.background is not None:
        runtime.background.about_to_read(renamed.values())


def _must_exist(option: str, renamed: Mapping[str, str] | None, namespace: Mapping[str, Any]) -> None:
    for name in (renamed or {}).values():
        if name not in namespace:
            import difflib

            similar = difflib.get_close_matches(name, namespace, n=1, cutoff=0.8)
            hint = f" (did you mean `{similar[0]}`?)" if similar else ""
            raise UsageError(f"{option}: the notebook has no variable `{name}`{hint}")


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
