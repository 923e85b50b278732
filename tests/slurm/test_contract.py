"""The Slurm executor keeps the contract, on a real cluster."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from autoexp_tui.engine.executor_port import Executor, Task
from autoexp_tui.executors.local.start import install_wrapper
from autoexp_tui.executors.slurm.commands import ClusterCommands
from autoexp_tui.executors.slurm.executor import SlurmExecutor, SlurmSettings
from autoexp_tui.executors.slurm.submit import SubmitSettings
from autoexp_tui.executors.slurm.watch import Rhythm
from autoexp_tui.model.effect import TaskId
from autoexp_tui.model.specs import Resources, Scalar
from autoexp_tui.probes.clock import SystemClock
from autoexp_tui.testing.executor_contract import ExecutorContract
from tests.contract.real_world import RealWorld
from tests.slurm.cluster import Cluster
from tests.support.remembering import Remembering

pytestmark = pytest.mark.slurm
HALF: Mapping[str, Scalar] = {"nodes": 2, "exclusive": True, "time": 60}
"""Half of a cluster of four nodes: two such jobs run at a time."""


class SlurmWorld(RealWorld):
    """A throw-away cluster of four nodes."""

    patience = 60.0
    pause = 0.1

    def __init__(self, root: Path, environment: Mapping[str, str]) -> None:
        self.known: dict[TaskId, Task] = {}
        self.commands = ClusterCommands(environment)
        submit = SubmitSettings(
            wrapper=install_wrapper(root / "session"),
            python=sys.executable,
            scripts=root / "scripts",
            array_logs=root / "log" / ".arrays",
            grace_seconds=1.0,
            submit_seconds=20.0,
        )
        self.settings = SlurmSettings(
            submit=submit,
            rhythm=Rhythm(first=0.3, latest=0.3, soonest=0.2),
            ask_seconds=20.0,
            settle_seconds=1.0,
            lost_seconds=3.0,
        )
        super().__init__(root, Resources(options=HALF))

    def engine(self) -> Executor:
        executor = SlurmExecutor(self.settings, self.commands, SystemClock())
        return Remembering(executor, self.known)


@pytest.fixture
def world(forgetful: Cluster, tmp_path: Path) -> SlurmWorld:
    return SlurmWorld(tmp_path, forgetful.env)


class TestSlurmExecutor(ExecutorContract):
    """All promises of the contract, with real jobs."""
