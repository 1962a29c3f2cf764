"""State machines over asyncio code: what they share."""

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine

from tests.support.loops import VirtualTimeLoop, settle

_QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
_SHORT = settings(max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=_QUIET)
_LONG = settings(_SHORT, max_examples=400, stateful_step_count=50)

every_profile = pytest.mark.parametrize(
    "profile",
    [
        pytest.param(_SHORT, id="short"),
        pytest.param(_LONG, id="long", marks=[pytest.mark.thorough, pytest.mark.timeout(900)]),
    ],
)


class LoopMachine(RuleBasedStateMachine):
    """One loop with virtual time for each example. A rule starts what it is about and lets the loop settle, so that tasks of one
    rule wait on in the next. In the end nothing may be left."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner(loop_factory=VirtualTimeLoop)

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        async def and_settle():
            result = await coroutine
            await settle()
            return result

        return self.runner.run(and_settle())

    def start(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        async def started():
            return asyncio.ensure_future(coroutine)

        return self.run(started())

    def sleep(self, duration: timedelta) -> None:
        self.run(asyncio.sleep(duration.total_seconds()))

    async def end(self) -> None:
        """Closes what the example made."""

    def teardown(self) -> None:
        async def left():
            await self.end()
            await settle()
            return asyncio.all_tasks() - {asyncio.current_task()}

        try:
            tasks = self.runner.run(left())
            assert not tasks, f"left behind: {tasks}"
        finally:
            self.runner.close()
