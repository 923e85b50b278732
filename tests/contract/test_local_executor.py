"""The local executor keeps the contract, with real processes."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from autoexp_tui.engine.executor_port import Executor
from autoexp_tui.executors.local.executor import LocalExecutor
from autoexp_tui.executors.local.start import LocalSettings, install_wrapper
from autoexp_tui.executors.supervisors import kill_left_behind
from autoexp_tui.probes.clock import SystemClock
from autoexp_tui.storage.attempt_records import read_attempt
from autoexp_tui.storage.processes import Alive, Identity
from autoexp_tui.testing.executor_contract import ExecutorContract
from tests.contract.real_world import RealWorld


class LocalWorld(RealWorld):
    def __init__(self, root: Path) -> None:
        self.settings = LocalSettings(
            wrapper=install_wrapper(root / "session"),
            python=sys.executable,
            slots=2,
            slots_dir=root / "slots",
            grace_seconds=0.4,
            settle_seconds=0.2,
            cancel_poll_seconds=0.2,
        )
        super().__init__(root)

    def engine(self) -> Executor:
        return LocalExecutor(self.settings, SystemClock())

    def close(self) -> None:
        """End what lives, and what would start."""
        me = Identity.get_own()
        for task in self.tasks:
            directory = Path(task.attempt_dir)
            directory.mkdir(parents=True, exist_ok=True)
            (directory / "cancel").touch()
            supervisor = read_attempt(task.attempt_dir).supervisor
            alive = supervisor and supervisor.check_alive(me) is Alive.YES
            if supervisor and alive and supervisor.pid != me.pid:
                os.kill(supervisor.pid, signal.SIGKILL)
            kill_left_behind(task.attempt_dir)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LocalWorld]:
    made = LocalWorld(tmp_path)
    yield made
    made.close()


class TestLocalExecutor(ExecutorContract):
    """All promises of the contract, with real processes."""
