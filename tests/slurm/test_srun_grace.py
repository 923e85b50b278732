"""Tasks that srun started, when their job is asked to end on a real cluster."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from autoexp_tui.executors.slurm.script import with_grace
from tests.slurm.campaign import until
from tests.slurm.cluster import Cluster

pytestmark = pytest.mark.slurm

TASK = """\
trap 'sleep 0.5; touch "$PLACE/saved.$me"; exit 0' TERM
touch "$PLACE/up.$me"
while :; do sleep 0.2; done"""
"""Saves when it is asked, which takes its time."""
OF_A_NODE = f"me=$SLURM_PROCID\n{TASK}"
OF_AN_ARRAY = f"me=$SLURM_ARRAY_TASK_ID.$SLURM_JOB_ID\n{TASK}"


def submitted(cluster: Cluster, place: Path, task: str, *options: str) -> str:
    """A job whose script became srun, as it does behind a user's launcher; its id."""
    command = with_grace(("srun", "sh", "-c", task))
    given = {"PLACE": str(place), "PATH": os.environ["PATH"]}
    lines = [f"export {name}={shlex.quote(text)}" for name, text in given.items()]
    script = "\n".join([*lines, f"exec {shlex.join(command)}"])
    return cluster.submit(script, *options)


def told(place: Path, word: str) -> list[str]:
    """Who said `word`."""
    return sorted(file.name.partition(".")[2] for file in place.glob(f"{word}.*"))


def test_all_tasks_have_time_to_save(bare_cluster: Cluster, tmp_path: Path) -> None:
    job = submitted(bare_cluster, tmp_path, OF_A_NODE, "--nodes=2", "--ntasks=2")
    until(lambda: told(tmp_path, "up") == ["0", "1"], "both tasks run")

    bare_cluster.run("scancel", "--batch", "--signal=TERM", job)

    bare_cluster.wait_for_state(job, "COMPLETED")
    assert told(tmp_path, "saved") == ["0", "1"]


def test_of_an_array_only_the_one_is_asked(
    bare_cluster: Cluster, tmp_path: Path
) -> None:
    array = submitted(bare_cluster, tmp_path, OF_AN_ARRAY, "--array=0-1")
    until(lambda: len(told(tmp_path, "up")) == 2, "both tasks run")
    # One task of an array goes by the array's own id.
    (named_alike,) = [me for me in told(tmp_path, "up") if me.endswith(f".{array}")]
    index = named_alike.partition(".")[0]

    bare_cluster.run("scancel", "--batch", "--signal=TERM", f"{array}_{index}")

    bare_cluster.wait_for_state(f"{array}_{index}", "COMPLETED")
    assert told(tmp_path, "saved") == [named_alike]
    other = f"{array}_{1 - int(index)}"
    assert bare_cluster.state_of(other) == "RUNNING"
