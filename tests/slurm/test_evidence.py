"""A job of a real cluster is looked at from beside it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from autoexp_tui.engine.executor_port import Task
from autoexp_tui.engine.ports import Kept, Parting
from autoexp_tui.executors.diagnostics import Evidence, SlurmReach, install_probe
from autoexp_tui.executors.slurm.commands import ClusterCommands
from autoexp_tui.probes.clock import SystemClock
from tests.slurm.cluster import Cluster

pytestmark = pytest.mark.slurm


def look(cluster: Cluster, place: Path, job: str, seconds: float = 20.0) -> Kept:
    reach = SlurmReach(
        install_probe(place / "scripts"), sys.executable, ClusterCommands(cluster.env)
    )
    task = Task(
        job="a",
        attempt=1,
        command=("sleep",),
        output_dir=str(place),
        log_dir=str(place),
        attempt_dir=str(place / "attempt"),
        executor_id=job,
    )
    parting = Parting(
        task=task,
        run=0,
        node="n1",
        log_path="",
        directory=str(place / "attempt" / "evidence" / "1-stall"),
        reason="no step",
        log_only=False,
        seconds=seconds,
    )
    return Evidence(reach, SystemClock()).capture(parting)


def begun(cluster: Cluster, place: Path, *options: str, task: str = "") -> str:
    """A running job whose processes bear the attempt's mark."""
    mark = f"AUTOEXP_ATTEMPT_DIR={place / 'attempt'}"
    job = cluster.submit(f"exec env {mark} sleep 300", *options) + task
    cluster.wait_for_state(job, "RUNNING")
    return job


def tables(kept: Kept) -> list[str]:
    return [path.read_text() for path in Path(kept.directory).glob("*/processes.txt")]


def test_a_job_s_processes_are_seen(cluster: Cluster, tmp_path: Path) -> None:
    kept = look(cluster, tmp_path, begun(cluster, tmp_path))
    assert "processes: 1 in processes.txt" in kept.summary, kept
    assert "sleep 300" in tables(kept)[0]


def test_so_are_those_of_a_task_of_an_array(cluster: Cluster, tmp_path: Path) -> None:
    job = begun(cluster, tmp_path, "--array=3", task="_3")
    kept = look(cluster, tmp_path, job)
    assert "processes: 1 in processes.txt" in kept.summary, kept


def test_a_job_that_takes_all_of_its_node_is_looked_at_too(
    cluster: Cluster, tmp_path: Path
) -> None:
    job = begun(cluster, tmp_path, "--exclusive", "--nodes=2", "--mem=0")
    kept = look(cluster, tmp_path, job)
    assert len(tables(kept)) == 2, kept
    assert "sleep 300" in "".join(tables(kept))
    assert "UP" in cluster.run("scontrol", "ping").stdout


def test_a_job_that_is_gone_is_told(cluster: Cluster, tmp_path: Path) -> None:
    kept = look(cluster, tmp_path, "999999")
    assert "processes: not looked at: squeue" in kept.summary
