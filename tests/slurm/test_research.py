"""A research on Slurm: its runs go to the queue, with the GPUs that their items want;
the calls of its agent stay beside the engine."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from autoexp_tui.model.states import JobState
from tests.e2e.research_place import Place
from tests.slurm.cluster import Cluster, counted

pytestmark = pytest.mark.slurm

WANTED = {"one": 1, "two": 2, "three": 2}
AGENT = """
import json
from pathlib import Path

WANTED = GPUS

def answer(role, prompt, directory):
    made = {"list_unchanged": True, "reflection": "", "reasoning": ""}
    if directory.name == "1":
        del made["list_unchanged"]
        made["experiment_list"] = [
            {"id": name, "gpu_requirement": gpus} for name, gpus in WANTED.items()
        ]
    Path("_research_output.json").write_text(json.dumps(made))
""".replace("GPUS", str(WANTED))
ON_SLURM = (
    "research.gpus=4",
    "slurm.client.poll_seconds=1",
    "slurm.sbatch.gpus_per_node=1",
)


def test_runs_are_queued_with_the_gpus_of_their_items_and_calls_stay_here(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in cluster.env.items():
        monkeypatch.setenv(name, value)
    (sent := tmp_path / "sent").touch()
    place = Place(tmp_path, ON_SLURM)
    place.make(AGENT, executor="generic")
    with cluster.shim("sbatch", counted(sent)):
        engine = place.start("--approve", "all")
        assert engine.wait(240.0) == 0, place.read_errors()
    assert {job.state for job in place.load().jobs.values()} == {JobState.COMPLETED}
    assert [run["run_id"] for run in place.state_file["runs"]] == [*WANTED]
    told = " ".join(sorted(sent.read_text().splitlines()))
    assert re.findall(r"(\w+)_run-.*?--gpus(?:-per-node)?=(\d)", told) == [
        (name, str(gpus)) for name, gpus in sorted(WANTED.items())
    ]
