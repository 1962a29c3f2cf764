"""What asyncio is done with: tasks and futures, coroutines and asynchronous generators, closed loops (`finished`).

A task or future arrives as a done one. Its loop is another process's: here it stands for whichever runs when it is asked.
Of tasks and futures this takes private names (of Python 3.11).
"""

import types
from contextlib import suppress
from typing import Any

Reduced = tuple[Any, ...]
_GATHERED = ("_children", "_cancel_requested")


# ---- coroutines


def _coroutine(coroutine: Any) -> Reduced | None:
    if coroutine.cr_frame is not None:
        return None
    code = coroutine.cr_code
    return ended_coroutine, (coroutine.__name__, coroutine.__qualname__, code.co_filename, code.co_firstlineno)


async def _nothing() -> None:
    pass


def ended_coroutine(name: str, qualname: str, file: str, line: int) -> Any:
    """Shown as what it was: by its name, and where it stands."""
    code = _nothing.__code__.replace(co_filename=file, co_firstlineno=line)
    coroutine: Any = types.FunctionType(code, {})()
    coroutine.close()
    coroutine.__name__, coroutine.__qualname__ = name, qualname
    return coroutine


def _generator(generator: Any) -> Reduced | None:
    if generator.ag_frame is not None or generator.ag_running:
        return None
    return ended_generator, (generator.__name__, generator.__qualname__)


def ended_generator(name: str, qualname: str) -> Any:
    nothing: tuple[Any, ...] = ()

    async def yields_nothing() -> Any:
        for each in nothing:
            yield each

    generator: Any = yields_nothing()
    with suppress(StopAsyncIteration):
        generator.__anext__().send(None)
    generator.__name__, generator.__qualname__ = name, qualname
    return generator


# ---- tasks and futures


def _future(future: Any) -> Reduced | None:
    import asyncio

    kind = type(future)
    if not future.done() or kind not in (asyncio.Task, asyncio.Future, _gathering()):
        return None
    of_a_task = (future.get_name(), future.get_coro()) if kind is asyncio.Task else None
    attributes = {name: getattr(future, name) for name in _GATHERED} if kind is _gathering() else {}
    if future.cancelled():
        end = "cancel", future._cancel_message
    elif future._exception is not None:  # to ask for it by its method would count as having seen it
        end = "set_exception", future._exception
    else:
        end = "set_result", future._result
    return done_future, (kind, of_a_task), (*end, attributes), None, None, _end


def done_future(kind: Any, of_a_task: tuple[str, Any] | None) -> Any:
    """Done when `_end` has been called."""
    import asyncio

    loop: Any = _Whichever()
    if of_a_task is None:
        future = kind.__new__(kind)
        asyncio.Future.__init__(future, loop=loop)
        return future
    loop.is_deaf = True  # to the task, which wants to take its first step
    task = kind(of_a_task[1], name=of_a_task[0], loop=loop)
    loop.is_deaf = False
    return task


def _gathering() -> Any:
    """Of what `asyncio.gather` returns."""
    import asyncio.tasks

    return getattr(asyncio.tasks, "_GatheringFuture", None)


def _end(future: Any, state: tuple[str, Any, dict[str, Any]]) -> None:
    import asyncio

    way, value, attributes = state
    for name, attribute in attributes.items():
        setattr(future, name, attribute)
    getattr(asyncio.Future, way)(future, value)  # a task's own methods refuse
    if way == "set_exception":
        future._log_traceback = False  # the original says it, if nobody has looked


# ---- loops


class _Whichever:
    """In place of the loop of what is done: that which runs where it is asked."""

    is_deaf = False

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> Any:
        import asyncio

        return None if self.is_deaf else asyncio.get_running_loop().call_soon(callback, *args, context=context)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Of what was never made whole."""

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return False

    def is_closed(self) -> bool:
        return True


def _loop(loop: Any) -> Reduced | None:
    if not loop.is_closed() or not type(loop).__module__.startswith("asyncio."):
        return None
    return closed_loop, (type(loop),)


def closed_loop(cls: Any) -> Any:
    loop = cls()
    loop.close()
    return loop


REDUCERS = {
    ("builtins", "coroutine"): _coroutine,
    ("builtins", "async_generator"): _generator,
    ("_asyncio", "Future"): _future,
    ("_asyncio", "Task"): _future,
    ("asyncio.base_events", "BaseEventLoop"): _loop,
}
