"""A job of a real cluster is looked at from beside it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from autoexp_tui.engine.executor_port import Task
from autoexp_tui.engine.ports import Kept, TerminationContext
from autoexp_tui.executors.diagnostics import Evidence, SlurmReach, install_probe
from autoexp_tui.executors.slurm.commands import ClusterCommands
from autoexp_tui.probes.clock import SystemClock
from tests.slurm.cluster import Cluster

pytestmark = pytest.mark.slurm


def look(cluster: Cluster, place: Path, job: str) -> Kept:
    commands = ClusterCommands(cluster.env)
    reach = SlurmReach(install_probe(place / "scripts"), sys.executable, commands)
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
    return Evidence(reach, SystemClock()).capture(termination)


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
