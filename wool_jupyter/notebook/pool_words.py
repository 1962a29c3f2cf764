"""`%wool status`, `start`, `scale`, `stop`, `restart`, `interrupt`, `logs`, `dashboard`, `doctor` and `output`."""

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError

from wool_jupyter import host
from wool_jupyter.notebook import job_words, on_demand

if TYPE_CHECKING:
    from wool_jupyter.notebook.magics import Wool
    from wool_jupyter.notebook.runtime import Runtime
    from wool_jupyter.pool.kernel_pool import KernelPool
    from wool_jupyter.wire.standins import Kept

_MANY = 4  # workers per CPU are worth a word
_SHOWN = {"logs": "a log", "output": "output"}
_NAMES = 8  # are listed
_AT_LEAST_ONE = "a pool needs at least one worker"


def run(arguments: Any, options: "Wool") -> Any:
    """`arguments` as the parser of `%wool` gives them; `options` follow what is asked for."""
    _check(arguments)
    match arguments.action:
        case "status":
            _status()
        case "start":
            _start(options, arguments.number)
        case "scale":
            _scale(options, int(arguments.what))
        case "stop":
            _stop()
        case "restart" if arguments.what:
            _restart_worker(arguments.what)
        case "restart":
            _restart(options, arguments.number)
        case "interrupt":
            _interrupt(arguments.what or "")
        case "logs":
            _logs(options, arguments.number)
        case "output":
            return _output(options, arguments.what, arguments.number)
        case "dashboard":
            return _dashboard()
        case "doctor":
            _doctor()
    return None


def _check(arguments: Any) -> None:
    action, number, what = arguments.action, arguments.number, arguments.what
    if number is not None:
        if action not in ("start", "restart", "logs", "output"):
            hint = f"; `%wool scale {number}` changes the number of workers" if action == "scale" else ""
            raise UsageError(f"%wool {action} takes no -n{hint}")
        if number < 1:
            needs = f"{_SHOWN[action]} is shown by lines, at least one" if action in _SHOWN else _AT_LEAST_ONE
            raise UsageError(f"{needs}, not {number}")
    if action == "scale":
        if what is None or not what.lstrip("-").isdecimal():
            raise UsageError(f"%wool scale takes a number of workers, as in `%wool scale 4`, not {what or 'nothing'}")
        if int(what) < 1:
            raise UsageError(f"{_AT_LEAST_ONE}, not {what}; `%wool stop` ends it")
    elif what is not None and action not in ("restart", "interrupt", "output"):
        hint = f"; `%wool {action} -n {what}` would" if action in ("start", "logs") and what.isdecimal() else ""
        raise UsageError(f"%wool {action} does not take `{what}`{hint}")
    elif what is not None and number is not None and action == "restart":
        raise UsageError(f"%wool restart takes a worker or -n, not both: it was given `{what}` and -n {number}")


def _start(options: "Wool", number: int | None) -> None:
    runtime = on_demand.runtime()
    settings = options.settings() if number is None else replace(options.settings(), workers=number)
    with runtime.beginning():
        from wool_jupyter.notebook import jobs

        pool, just_now = jobs.started_pool(runtime, settings)
    wanted = settings.workers
    if just_now:
        _keep(options, number)
    elif wanted is not None and wanted > pool.crew.size:
        runtime.bridge.enter(pool.crew.grow(wanted)).result()
        _keep(options, number)
        print(f"wool: the pool grows to {pool.crew.size} worker processes")
    else:
        hint = "" if wanted is None or wanted == pool.crew.size else f"; `%wool scale {wanted}` makes it smaller"
        print(f"wool: a pool of {pool.crew.size} runs already{hint}")
    _say_if_many(pool.crew.size)


def _keep(options: "Wool", number: int | None) -> None:
    """A number that has been heeded is that of the pools to come, too."""
    if number is not None:
        options.workers = number


def _say_if_many(workers: int) -> None:
    if workers > _MANY * host.usable_cpus():
        print(f"wool: {workers} worker processes share {host.usable_cpus()} CPUs")


def _scale(options: "Wool", number: int) -> None:
    runtime = on_demand.loaded_runtime()
    pool = None if runtime is None else runtime.running
    if runtime is None or pool is None:
        _start(options, number)
        return
    before = pool.crew.size
    runtime.bridge.enter(pool.crew.scale(number)).result()
    _keep(options, number)
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
    _say_if_many(number)


def _stop() -> None:
    stopped = _stopped()
    print("wool: no pool runs" if stopped is None else f"wool: stopped the pool{stopped}")


def _restart(options: "Wool", number: int | None) -> None:
    if stopped := _stopped():
        print(f"wool: stopped the pool{stopped}")
    _start(options, number)


def _stopped() -> str | None:
    """What has ended with it, in words; None if no pool ran."""
    runtime = on_demand.loaded_runtime()
    if runtime is None:
        return None
    jobs = [] if runtime.background is None else runtime.background.unended()
    kept = runtime.handles.on()
    if not runtime.stop():
        return None
    return (f", and with it {job_words.numbered(jobs)}" if jobs else "") + _lost(kept)


def _restart_worker(prefix: str) -> None:
    runtime, pool = _running()
    from wool_jupyter.notebook import by_hand

    kept = runtime.handles.on()
    worker = runtime.bridge.enter(by_hand.restart(pool, prefix)).result()
    lost = _lost([each for each in kept if each.worker.hex == worker.uid])
    print(f"wool: ended worker {worker.name}, and another takes its place{lost}")


def _lost(kept: "list[Kept]") -> str:
    if not kept:
        return ""
    names = [f"`{each.name}` of In[{each.cell}]" for each in kept[:_NAMES]]
    more = f" and {len(kept) - _NAMES} more" if len(kept) > _NAMES else ""
    return f"; what lived there is gone: {', '.join(names)}{more}"


def _interrupt(prefix: str) -> None:
    runtime, pool = _running()
    from wool_jupyter.notebook import by_hand

    workers = runtime.bridge.enter(by_hand.interrupt(pool, prefix)).result()
    names = ", ".join(worker.name for worker in workers)
    print(f"wool: interrupted {names}" if names else "wool: no worker runs anything")


def _running() -> "tuple[Runtime, KernelPool]":
    runtime = on_demand.loaded_runtime()
    pool = None if runtime is None else runtime.running
    if runtime is None or pool is None:
        from wool_jupyter.notebook import table

        raise UsageError(table.NO_POOL)
    return runtime, pool


def _status() -> None:
    from wool_jupyter.notebook import feed, table

    print(table.as_text(feed.door().take()))
    runtime = on_demand.loaded_runtime()
    if runtime is not None and runtime.running is not None and (use := runtime.store.use()).kept:
        print(f"wool: {table.data_in_words(use)}")


def _dashboard() -> Any:
    from wool_jupyter.notebook import dashboard

    return dashboard.dashboard()


def _logs(options: "Wool", lines: int | None) -> None:
    from wool_jupyter.notebook import logs, tracebacks

    lines = lines or logs.LINES
    runtime = on_demand.loaded_runtime()
    if runtime is not None and runtime.places:
        print(logs.show(runtime.places[0], lines=lines, cells=tracebacks.cells_by_name(options.shell)))
    elif runtime is not None and runtime.failed_log is not None:
        print(logs.show_failed(runtime.failed_log, lines=lines))
    else:
        print("wool: no pool runs, so there is no log")


def _output(options: "Wool", what: str | None, lines: int | None) -> Any:
    cell = None if what is None else _cell_number(what)
    runtime = on_demand.loaded_runtime()
    left_out = None if runtime is None else runtime.left_out.find(cell)
    if runtime is None or left_out is None:
        known = [] if runtime is None else runtime.left_out.cells()
        have = f" (there is some of {', '.join(map(str, known))})" if known else ""
        if cell is not None:
            no_job = "" if str(what).startswith("In[") else f"there is no job {cell}, and "
            raise UsageError(f"%wool output: {no_job}nothing was left out of the output of cell {cell}{have}")
        print(f"wool: nothing was left out of the output of any cell{have}")
        return None
    from wool_jupyter.notebook.left_out import Recalled

    return Recalled(options.shell, left_out, budget_bytes=options.output_budget_bytes, lines=lines)


def _cell_number(what: str) -> int:
    """`In[5]` is the cell also where a job has this number."""
    found = re.fullmatch(r"(?:In\[)?(\d+)\]?", what)
    if found is None:
        raise UsageError(f"%wool output takes numbers of jobs, or that of a cell, as in `In[5]`, and not `{what}`")
    return int(found[1])


def _doctor() -> None:
    from wool_jupyter.notebook import doctor

    print(doctor.render(doctor.gather(on_demand.loaded_runtime())))
