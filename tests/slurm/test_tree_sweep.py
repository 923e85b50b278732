"""A search on Slurm whose candidates are measured by a plan of ours."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.campaign import wait_until
from tests.e2e.test_config_sweep import FILES, find_tree, read_rows, search
from tests.slurm.cluster import Cluster, counted

pytestmark = pytest.mark.slurm

SWEEP = """
# @package _global_
defaults: [{/backend: command}, {/slurm: generic}, _self_]
project: {name: "part_${part}", base_output_dir: outputs}
part: 1
backend: {command: [python, run.py, "${part}"]}
sweep:
  type: product
  groups: [params: {part: [1, 2, 3, 4]}]
"""
RUN = """
import json, os, sys, time
gain = float(open("gain.txt").read())
is_first = os.environ["AUTOEXP_ATTEMPT"] == "1"
is_first = is_first and "SLURM_RESTART_COUNT" not in os.environ
if gain == 2 and sys.argv[1] == "1" and is_first:
    print("waits", flush=True)
    time.sleep(300)
print(json.dumps({"step": 1, "score": gain}), flush=True)
"""
SEARCH = FILES["config/search.yaml"].replace("stage: judge", "stage: ''")
REPOSITORY = {
    "config/measure.yaml": SWEEP,
    "config/search.yaml": SEARCH.replace("limit: 2", "limit: 4"),
    "run.py": RUN,
    **{name: FILES[name] for name in ("gain.txt", ".gitignore", "ideas/1.md")},
}
WORDS = ("+slurm=generic", "slurm.client.poll_seconds=1")


def list_live(cluster: Cluster) -> Iterator[Mapping[str, str]]:
    told = cluster.run("squeue", "-h", "-r", "-o", "%j %N %T").stdout
    for line in told.splitlines():
        name, *node, state = line.split()
        yield {"name": name, "node": "".join(node), "state": state}


def test_each_sweep_is_one_array_and_a_lost_node_costs_an_attempt_alone(
    forgetful: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in forgetful.env.items():
        monkeypatch.setenv(name, value)
    calls = tmp_path / "calls"
    calls.touch()
    place = tmp_path / "repository"
    place.mkdir()
    with (
        forgetful.shim("sbatch", counted(calls)),
        ThreadPoolExecutor(1) as pool,
    ):
        ended = pool.submit(search, place, *WORDS, files=REPOSITORY)

        def find_waiting() -> str:
            logs = [*place.glob("outputs/.autoexp/*/tree/logs/e1_part_1/current.log")]
            is_there = logs and "waits" in logs[0].read_text()
            live = [one["node"] for one in list_live(forgetful)] if is_there else []
            return live[0] if live else ""

        wait_until(lambda: bool(find_waiting()), "a job that waits", 120.0)
        node = find_waiting()
        forgetful.node_stop(node)
        told: dict[str, Any] = ended.result(240.0)
        forgetful.node_start(node)
    began = '"type":"RunBegan","job":"e1_part_1"'
    (journal,) = place.glob("outputs/.autoexp/*/journal.jsonl")
    assert journal.read_text().count(began) == 2
    arrays = [line for line in calls.read_text().splitlines() if "--array=0-3" in line]
    assert len(arrays) == 2  # of the root, and of the candidate
    assert told["evaluations"] == 1
    tree = find_tree(place)
    assert [row["status"] for row in read_rows(tree / "artifacts/e1.csv")] == ["ok"] * 4
    manifest = json.loads((tree / "manifest.json").read_text())["search"]
    assert manifest["evaluations"]["e1"]["decision"]["gate_reason"] == "gate_passed"
