"""One call and a balancer: its candidates are asked one after the other, and it hears what came of each."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import TypeAlias
from uuid import UUID

from wool_jupyter.balance.context import LoadBalancerContextView
from wool_jupyter.balance.protocol import LoadBalancerLike, Task
from wool_jupyter.dispatch.call import Call
from wool_jupyter.errors import RpcError

Failures: TypeAlias = dict[UUID, RpcError]


async def place(
    task: Task,
    balancer: LoadBalancerLike,
    context: LoadBalancerContextView,
    ask: Callable[[UUID], Awaitable[Call | None]],
    *,
    failures: Failures,
) -> Call | None:
    """Of the first candidate that takes it; None when there is nobody else, and `failures` says why not of each.

    `ask` returns None for one that is not asked, as it has left since it was named, or has no room. A call that was taken is closed
    if the balancer errs, or a cancellation leaves nobody to take it over.
    """
    candidates = balancer.delegate(task, context=context)
    call: Call | None = None
    try:
        async with aclosing(candidates):
            uid = await _next(candidates.asend(None))
            while uid is not None:
                try:
                    call = await ask(uid)
                except RpcError as error:
                    failures[uid] = error
                    uid = await _next(candidates.athrow(error), failed=error)
                    continue
                following = await _next(candidates.asend(uid if call is not None else None))
                if call is None:
                    uid = following
                elif following is None:
                    break
                else:
                    raise RuntimeError(f"{type(balancer).__name__} goes on after {uid} has taken the call")
    except BaseException:
        if call is not None:
            call.close()
        raise
    return call


class Only:
    """That worker or nobody."""

    def __init__(self, uid: UUID) -> None:
        self._uid = uid

    async def delegate(self, task: Task, *, context: LoadBalancerContextView) -> AsyncGenerator[UUID, UUID | None]:  # noqa: ARG002
        yield self._uid


async def _next(step: Awaitable[UUID], *, failed: RpcError | None = None) -> UUID | None:
    try:
        return await step
    except StopAsyncIteration:
        return None
    except RpcError as error:
        if error is not failed:
            raise
        return None  # it has let the failure pass, and so has nobody else
