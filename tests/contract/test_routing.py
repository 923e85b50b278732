"""What runs beside keeps the contract behind the routing, with real processes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from autoexp_tui.engine.executor_port import Executor, Task
from autoexp_tui.executors.local.executor import LocalExecutor
from autoexp_tui.executors.routing import RoutingExecutor
from autoexp_tui.probes.clock import SystemClock
from autoexp_tui.testing.clock import ManualClock
from autoexp_tui.testing.executor_contract import ExecutorContract
from tests.contract.test_local_executor import LocalWorld
from tests.support.fake_executor import FakeExecutor


class BesideWorld(LocalWorld):
    """Every task runs beside an executor that has nothing to do."""

    def engine(self) -> Executor:
        settings = replace(self.settings, foreign_lost_seconds=300.0)
        self.main = FakeExecutor(ManualClock())
        return RoutingExecutor(self.main, LocalExecutor(settings, SystemClock()))

    def command(self, job: str, words: Sequence[str], *, attempt: int = 1) -> Task:
        made = replace(super().command(job, words, attempt=attempt), place="beside")
        self.tasks[-1] = made
        return made


@pytest.fixture
def world(tmp_path: Path) -> Iterator[BesideWorld]:
    made = BesideWorld(tmp_path)
    yield made
    assert not made.main.copies
    made.close()


class TestRoutingExecutor(ExecutorContract):
    """All promises of the contract, beside."""
