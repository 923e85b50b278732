"""A research on Slurm: its runs go to the queue, with the GPUs that their items want;
the calls of its agent stay beside the engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoexp_tui.model.states import JobState
from tests.e2e.campaign import wait_until
from tests.e2e.research_place import Place
from tests.slurm.cluster import Cluster, counted

pytestmark = pytest.mark.slurm

AGENT = """
import json
from pathlib import Path

def answer(role, prompt, directory):
    made = {"list_unchanged": True, "reflection": "", "reasoning": ""}
    if directory.name == "1":
        del made["list_unchanged"]
        wanted = {"one": 1, "two": 2, "three": 2}
        made["experiment_list"] = [
            {"id": name, "gpu_requirement": gpus, "overrides": ["seconds=5"]}
            for name, gpus in wanted.items()
        ]
    Path("_research_output.json").write_text(json.dumps(made))
"""
ON_SLURM = (
    "research.gpus=4",
    "slurm.client.poll_seconds=1",
    "slurm.sbatch.gpus_per_node=1",
)


def test_runs_are_queued_with_the_gpus_of_their_items_and_a_lost_node_ends_none(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in cluster.env.items():
        monkeypatch.setenv(name, value)
    (sent := tmp_path / "sent").touch()
    place = Place(tmp_path, ON_SLURM)
    place.make(AGENT, executor="generic")
    with cluster.shim("sbatch", counted(sent)):
        engine = place.start("--approve", "all")

        def find_node() -> str:
            if not place.is_begun or "two_run 1" not in place.read_runs():
                return ""
            attempt = place.load().jobs["two_run"].attempt
            return attempt.node if attempt else ""

        wait_until(lambda: bool(find_node()), "a run on a node", 120.0)
        node = find_node()
        cluster.node_stop(node)
        assert engine.wait(240.0) == 0, place.read_errors()
        cluster.node_start(node)
    assert {job.state for job in place.load().jobs.values()} == {JobState.COMPLETED}
    assert [run["run_id"] for run in place.state_file["runs"]] == [
        "one",
        "two",
        "three",
    ]
    assert place.read_runs()["two_run 1"] == 2  # its first node was lost
    assert len(sent.read_text().splitlines()) == 3  # no call is sent there
    scripts = place.top.glob("outputs/scripts/**/*")
    told = [path.read_text() for path in scripts if path.is_file()]
    assert sum("#SBATCH --gpus=2" in text for text in told) == 2
