"""State machines over real files, threads and time, each example with a directory of its own."""

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine

from tests.support.discovery import descriptors
from tests.support.loops import until

T = TypeVar("T")
STEP_S = 30

SHORT = settings(max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck))
LONG = settings(SHORT, max_examples=300, stateful_step_count=60)  # half a minute each

by_length = pytest.mark.parametrize(
    "profile",
    [
        pytest.param(SHORT, id="short"),
        pytest.param(LONG, id="long", marks=[pytest.mark.thorough, pytest.mark.timeout(1800)]),
    ],
)


class DiskMachine(RuleBasedStateMachine):
    """One loop for all steps. In the end no task lives, and no more descriptors than before."""

    def __init__(self) -> None:
        super().__init__()
        self._runner = asyncio.Runner()
        self._runner.get_loop()
        self._descriptors = descriptors()
        self.root = Path(tempfile.mkdtemp())

    def run(self, step: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(asyncio.wait_for(step, STEP_S))

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
