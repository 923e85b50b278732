"""The Slurm executor on a real cluster: its contract, and looks from beside a job."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest

from autoexp_tui.engine.executor_port import Executor, Task
from autoexp_tui.engine.ports import Kept, TerminationContext
from autoexp_tui.executors.diagnostics import Evidence, install_probe, look_by_srun
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


# ------------------------------------------------------------------ looked at
def look(cluster: Cluster, place: Path, job: str) -> Kept:
    commands = ClusterCommands(cluster.env)
    probe = install_probe(place / "scripts")
    beside = partial(look_by_srun, probe, sys.executable, commands)
    attempt = str(place / "attempt")
    task = Task(
        job="a",
        attempt=1,
        command=("sleep",),
        output_dir=str(place),
        log_dir=str(place),
        attempt_dir=attempt,
        executor_id=job,
    )
    termination = TerminationContext(
        task=task,
        run=0,
        node="n1",
        log_path="",
        directory=f"{attempt}/evidence/1-stall",
        reason="no step",
        log_only=False,
        seconds=20.0,
    )
    return Evidence(beside).capture(termination)


@pytest.mark.parametrize(
    ("options", "task", "nodes"),
    [
        ((), "", 1),
        (("--array=3",), "_3", 1),
        (("--exclusive", "--nodes=2", "--mem=0"), "", 2),  # it takes all of its nodes
    ],
)
def test_the_processes_of_a_job_or_of_a_task_are_seen_on_each_node(
    cluster: Cluster, tmp_path: Path, options: tuple[str, ...], task: str, nodes: int
) -> None:
    mark = f"AUTOEXP_ATTEMPT_DIR={tmp_path / 'attempt'}"
    job = cluster.submit(f"exec env {mark} sleep 300", *options) + task
    cluster.wait_for_state(job, "RUNNING")
    kept = look(cluster, tmp_path, job)
    tables = list(Path(kept.directory).glob("*/processes.txt"))
    assert len(tables) == nodes, kept
    assert "sleep 300" in "".join(table.read_text() for table in tables)
    assert nodes > 1 or "processes: 1 in processes.txt" in kept.summary, kept
    assert "UP" in cluster.run("scontrol", "ping").stdout


def test_a_job_that_is_gone_is_told(cluster: Cluster, tmp_path: Path) -> None:
    kept = look(cluster, tmp_path, "999999")
    assert "processes: not looked at: squeue" in kept.summary
