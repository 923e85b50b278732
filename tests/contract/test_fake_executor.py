"""The fake executor keeps the contract of the real ones."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from autoexp_tui.engine.executor_port import Task
from autoexp_tui.testing.clock import ManualClock
from autoexp_tui.testing.executor_contract import Does, ExecutorContract
from tests.contract.fake_slurm_world import make_run_script
from tests.support.fake_executor import FakeExecutor
from tests.support.fake_script import RunScript
from tests.support.tasks import make_task

STEP = 0.05
"""Seconds of made-up time between two looks."""


class FakeWorld:
    """An `ExecutorWorld` on a manual clock."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.does: dict[str, Does] = {}
        self.executor = FakeExecutor(self.clock, self._script, slots=2)

    def _script(self, task: Task) -> tuple[RunScript, ...]:
        return (make_run_script(self.does[f"{task.job}/{task.attempt}"]),)

    def task(self, job: str, does: Does, *, attempt: int = 1) -> Task:
        self.does[f"{job}/{attempt}"] = does
        return make_task("", job, attempt)

    def until(self, holds: Callable[[], bool]) -> bool:
        for _ in range(1200):
            if holds():
                return True
            self.clock.advance(STEP)
        return False

    def begun(self, task: Task) -> int:
        self.executor.settle()
        return sum(begun.task == task.id for begun in self.executor.begun)

    def living(self, task: Task) -> int:
        if task.id not in self.executor.living():
            return 0
        return 1 + self.does[f"{task.job}/{task.attempt}"].leaves_behind

    def current_log(self, task: Task) -> str:
        run = self.executor.claims[task.id].runs[-1]
        return self.executor.files.get(run.begin.log_path, b"").decode()

    def kill_supervisor(self, task: Task) -> None:
        self.executor.kill_supervisor(task.id)

    def new_engine(self) -> None:
        """The fake outlives engines, as a cluster does."""


@pytest.fixture
def world() -> FakeWorld:
    return FakeWorld()


class TestFakeExecutor(ExecutorContract):
    """All promises of the contract, on the fake."""
