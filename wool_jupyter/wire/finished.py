"""What is over and only tells of it: joined threads and processes, closed pools, used-up generators, matches.

Each arrives as one that has ended in the same way, and says the same when it is used. What still goes on does not travel; threads,
processes and context managers that have not begun do. Others are in `awaited` (of asyncio), `closed`, `closed_files`,
`delimited`, `shared` and `sqlite`.
Of `Pool`, the executor and processes this takes private names (of Python 3.11): where one is missing, the object stays where it is.
Nothing here may count up what the standard library numbers threads and processes by.
"""

import inspect
import os
import threading
from collections.abc import Callable, Collection
from typing import Any

from wool_jupyter.wire import awaited, closed, closed_files, delimited, rebuilding, shared, sqlite, type_facts

_SEARCHED_AGAIN = 10_000  # characters before a match
_OURS = "_wool_"  # attributes of a worker's threads

Reduced = tuple[Any, ...]


def may_be(t: type) -> bool:
    return _reducer_of(t) is not None


def reduced(obj: Any) -> Reduced | None:
    """None for what is not over."""
    reduce = _reducer_of(type(obj))
    assert reduce is not None
    try:
        return reduce(obj)
    except (AttributeError, AssertionError, ValueError):  # half made, of another process, or closed
        return None


def _reducer_of(t: type) -> Callable[[Any], Reduced | None] | None:
    """None where a class knows better how it is pickled."""
    for c in t.__mro__:
        if (reduce := _REDUCERS.get((c.__module__, c.__qualname__))) is not None:
            return reduce
        if not type_facts.HOOKS.isdisjoint(vars(c)):
            return None
    return None


def _attributes(obj: Any, own: Collection[str]) -> dict[str, Any]:
    """What a subclass or a user has put there, beside what all of them have."""
    return {name: value for name, value in vars(obj).items() if name not in own and not name.startswith(_OURS)}


def _base(cls: type, name: str) -> Any:
    return next(c for c in cls.__mro__ if c.__name__ == name)


# ---- threads


def _thread(thread: threading.Thread) -> Reduced | None:
    attributes = _attributes(thread, vars(threading.Thread(name="fresh")))
    if thread.ident is None and thread not in threading._limbo:  # type: ignore[attr-defined]
        attributes.update({name: getattr(thread, name) for name in _TO_RUN})
        known = type(thread), thread.name, thread.daemon
        return fresh_thread, known, attributes, None, None, rebuilding.set_attributes
    if thread.ident is None or thread.is_alive():
        return None
    return ended_thread, (type(thread), thread.name, thread.daemon), attributes, None, None, rebuilding.set_attributes


_TO_RUN = ("_target", "_args", "_kwargs")


def fresh_thread(cls: type[threading.Thread], name: str, daemon: bool) -> threading.Thread:
    thread = cls.__new__(cls)
    threading.Thread.__init__(thread, name=name, daemon=daemon)
    return thread


def ended_thread(cls: type[threading.Thread], name: str, daemon: bool) -> threading.Thread:
    thread = cls.__new__(cls)
    threading.Thread.__init__(thread, name=name, daemon=daemon)
    thread.run = _nothing  # type: ignore[method-assign]
    threading.Thread.start(thread)  # a user's own may need what is not there yet
    threading.Thread.join(thread)
    del thread.run
    return thread


def _nothing(*_: Any) -> None:
    pass


# ---- pools


def _pool(pool: Any) -> Reduced | None:
    """A terminated one, or a closed one that owes no results."""
    if pool._state == "TERMINATE" or (pool._state == "CLOSE" and not pool._cache):
        return ended_pool, (type(pool), pool._state, len(pool._pool))
    return None


def ended_pool(cls: Any, state: str, size: int) -> Any:
    pool = cls.__new__(cls)
    over = ended_thread(threading.Thread, "pool", daemon=True)
    handlers = dict.fromkeys(("_worker_handler", "_task_handler", "_result_handler"), over)
    vars(pool).update(handlers, _state=state, _pool=[over] * size, _processes=size, _cache={}, _terminate=_nothing)
    return pool


def _executor(executor: Any) -> Reduced | None:
    if not executor._shutdown or any(thread.is_alive() for thread in executor._threads):
        return None
    fresh = _base(type(executor), "ThreadPoolExecutor")(thread_name_prefix="fresh")
    attributes = _attributes(executor, vars(fresh))
    arguments = type(executor), executor._max_workers, executor._thread_name_prefix
    return ended_executor, arguments, attributes, None, None, rebuilding.set_attributes


def ended_executor(cls: Any, workers: int, prefix: str) -> Any:
    executor = cls.__new__(cls)
    base = _base(cls, "ThreadPoolExecutor")
    base.__init__(executor, workers, prefix)
    base.shutdown(executor)
    return executor


# ---- processes


def _process(process: Any) -> Reduced | None:
    attributes = _attributes(process, _OF_A_PROCESS)
    if process._popen is None:  # not started, or closed
        attributes.update({name: getattr(process, name) for name in _TO_RUN if hasattr(process, name)})
        known = type(process), process._name, process._config.get("daemon"), process._identity, process._closed
        return fresh_process, known, attributes, None, None, rebuilding.set_attributes
    if process.exitcode is None:
        return None
    arguments = type(process), process.name, process.daemon, process._identity, process.pid, process.exitcode
    return ended_process, arguments, attributes, None, None, rebuilding.set_attributes


_OF_A_PROCESS = frozenset(
    f"_{name}"
    for name in "identity config parent_pid parent_name popen closed name sentinel target args kwargs".split()
)


def fresh_process(cls: Any, name: str, daemon: bool | None, identity: tuple[int, ...], is_closed: bool) -> Any:
    from multiprocessing import current_process

    process, parent = cls.__new__(cls), current_process()
    config = {**parent._config, **({} if daemon is None else {"daemon": daemon})}  # type: ignore[attr-defined]
    known = {"_parent_pid": os.getpid(), "_parent_name": parent.name, "_popen": None, "_config": config}
    vars(process).update(known, _name=name, _identity=identity, _closed=is_closed)
    return process


def ended_process(cls: Any, name: str, daemon: bool, identity: tuple[int, ...], pid: int, code: int) -> Any:
    process = cls.__new__(cls)
    parent = {"_parent_pid": os.getpid(), "_parent_name": "", "_sentinel": -1, "_closed": False}
    vars(process).update(parent, _name=name, _identity=identity, _config={"daemon": daemon}, _popen=_Ended(pid, code))
    return process


class _Ended:
    """In place of what looks after a child."""

    def __init__(self, pid: int, code: int) -> None:
        self.pid, self.returncode = pid, code

    def poll(self, *_: Any) -> int:
        return self.returncode

    wait = poll
    terminate = kill = close = _nothing


# ---- generators


def _generator(generator: Any) -> Reduced | None:
    if generator.gi_frame is not None:
        return None
    return ended_generator, (generator.__name__, generator.__qualname__)


def ended_generator(name: str, qualname: str) -> Any:
    nothing: tuple[Any, ...] = ()
    generator: Any = (each for each in nothing)
    next(generator, None)
    generator.__name__, generator.__qualname__ = name, qualname
    return generator


# ---- context managers


def _manager(manager: Any) -> Reduced | None:
    """That `contextlib.contextmanager` has made, and nobody has entered: a function that it decorates holds it."""
    if inspect.getgeneratorstate(manager.gen) != inspect.GEN_CREATED:
        return None
    return type(manager), (manager.func, manager.args, manager.kwds)


# ---- matches


def _match(match: Any) -> Reduced | None:
    """By looking again, which may find another one: then it stays."""
    pattern, text, start, end = match.re, match.string, match.start(), match.endpos
    ways = [("match", start), ("fullmatch", start)]
    if match.pos < start <= match.pos + _SEARCHED_AGAIN:
        ways.insert(0, ("search", match.pos))
    for way, at in ways:
        if _is_same(getattr(pattern, way)(text, at, end), match):
            return matched, (pattern, way, text, at, end)
    return None


def _is_same(found: Any, match: Any) -> bool:
    return found is not None and (found.regs, found.lastindex) == (match.regs, match.lastindex)


def matched(pattern: Any, way: str, text: Any, at: int, end: int) -> Any:
    return getattr(pattern, way)(text, at, end)


_REDUCERS: dict[tuple[str, str], Callable[[Any], Reduced | None]] = {
    ("threading", "Thread"): _thread,
    ("multiprocessing.pool", "Pool"): _pool,
    ("concurrent.futures.thread", "ThreadPoolExecutor"): _executor,
    ("multiprocessing.process", "BaseProcess"): _process,
    ("builtins", "generator"): _generator,
    ("contextlib", "_GeneratorContextManager"): _manager,
    ("re", "Match"): _match,
    **awaited.REDUCERS,
    **closed.REDUCERS,
    **closed_files.REDUCERS,
    **delimited.REDUCERS,
    **shared.REDUCERS,
    **sqlite.REDUCERS,
}
