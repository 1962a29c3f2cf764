"""State machines over asyncio code: what they share."""

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine

from tests.support.discovery import descriptors
from tests.support.loops import VirtualTimeLoop, settle, until

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


class FileMachine(RuleBasedStateMachine):
    """One loop for all steps, and a directory. In the end no task lives, no file, and no more descriptors than before."""

    STEP_S = 30

    def __init__(self) -> None:
        super().__init__()
        self._runner = asyncio.Runner()
        self._runner.get_loop()
        self._descriptors = descriptors()
        self.root = Path(tempfile.mkdtemp())

    def run(self, step: Coroutine[Any, Any, Any]) -> Any:
        return self._runner.run(asyncio.wait_for(step, self.STEP_S))

    async def end(self) -> None:
        """Gives back what the steps have taken."""

    def teardown(self) -> None:
        async def ending() -> None:
            await self.end()
            await until(lambda: descriptors() <= self._descriptors)

        try:
            self.run(ending())
            assert not asyncio.all_tasks(self._runner.get_loop())
            assert not list(self.root.iterdir())
        finally:
            self._runner.close()
            shutil.rmtree(self.root)
